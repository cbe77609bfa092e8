//! A damaged index file: the program starts as without one.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use becalm_core::index::{Condition, Directory, Table, embed, encode, split};
use bstr::BString;

use crate::support::{Ran, SHOW, Scene, skip, start};

/// Flips tried, of 10,000 in the long run; `BECALM_FLIPS` sets another number.
fn flips() -> u64 {
    let set = std::env::var("BECALM_FLIPS").ok().and_then(|n| n.parse().ok());
    set.unwrap_or(300)
}

fn scene() -> Scene {
    let scene = Scene::new();
    for (file, function, value) in [("a/liba.so", "a", 1), ("b/libb.so", "b", 2)] {
        scene.library(&format!("store/{file}"), function, value, &[]);
    }
    let source = format!("{SHOW} int a(void), b(void); int main(void) {{ show(a() + b()); }}");
    let libraries = ["@/store/a/liba.so", "@/store/b/libb.so"];
    let rpath = "-Wl,-rpath,@/store/none:@/store/a:@/store/b";
    scene.cc("store/p/prog", &source, &[libraries[0], libraries[1], rpath]);
    scene.index(&[]);
    scene
}

fn run(scene: &Scene, file: &[u8]) -> Ran {
    let index = scene.path("damaged.so");
    // A new file each time: a running process may still have the old one mapped.
    let _ = std::fs::remove_file(&index);
    std::fs::write(&index, file).unwrap();
    let program = scene.text("store/p/prog");
    let line = ["timeout", "-s", "KILL", "20", &program];
    let path = scene.text("damaged.so");
    start(&line, &[("LD_AUDIT", &path), ("PATH", "/usr/bin:/bin")])
}

/// A number drawn from a seed (splitmix64).
fn draw(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// An index to damage, and what its program does without one.
struct Whole {
    scene: Scene,
    plain: Ran,
    file: Vec<u8>,
    /// Offset of the table.
    table: usize,
}

impl Whole {
    /// `None` where the tests cannot run.
    fn new() -> Option<Self> {
        if skip() {
            return None;
        }
        let scene = scene();
        let plain = scene.start("store/p/prog", &[]);
        let file = std::fs::read(scene.path("index.so")).unwrap();
        let table = split(&file).unwrap().0.len();
        Some(Self { scene, plain, file, table })
    }

    /// Starts with bits flipped at random in a part of the file, each time another one.
    fn flip(&self, part: Range<usize>, mut judge: impl FnMut(usize, Ran)) {
        let mut seed = 1;
        let begun = Instant::now();
        for count in 0..flips() {
            let bit = draw(&mut seed) as usize % (8 * part.len());
            let at = part.start + bit / 8;
            let mut damaged = self.file.clone();
            damaged[at] ^= 1 << (bit % 8);
            judge(at, run(&self.scene, &damaged));
            if begun.elapsed() > Duration::from_secs(900) {
                eprintln!("stopped after {count} flips");
                return;
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_the_table_changes_nothing() {
    let Some(whole) = Whole::new() else { return };
    whole.flip(whole.table..whole.file.len(), |at, ran| {
        assert_eq!(ran, whole.plain, "a bit of byte {at}, the table begins at {}", whole.table);
    });
}

/// The loader itself uses the headers, the symbols and the dynamic section, and the few
/// instructions that check the rest are not checked: there a flipped bit has the effects of any
/// damaged shared object. The module detects all other flips.
#[test]
fn a_flipped_bit_of_the_module_makes_it_decline() {
    let Some(whole) = Whole::new() else { return };
    let (mut same, mut refused, mut ended) = (0_usize, 0_usize, Vec::new());
    whole.flip(0..whole.table, |at, ran| {
        let stderr_of_ours = ran.stderr.contains("damaged.so");
        assert_ne!(ran.code, 137, "a hang with a bit of byte {at} flipped");
        if ran == whole.plain {
            same += 1;
        } else if ran.code == whole.plain.code && ran.stdout == whole.plain.stdout && stderr_of_ours
        {
            refused += 1;
        } else {
            ended.push(at);
        }
    });
    eprintln!("same {same}, refused by the loader {refused}, ended at bytes {ended:?}");
    assert!(ended.len() * 20 < same, "{ended:?}");
}

#[test]
fn an_index_cut_short_anywhere_in_its_table_changes_nothing() {
    let Some(Whole { scene, plain, file, table }) = Whole::new() else { return };
    for cut in (table..file.len()).step_by(509) {
        assert_eq!(run(&scene, &file[..cut]), plain, "cut to {cut} of {}", file.len());
    }
}

/// The kernel reads the path at the end of the table; if it ends before the table does, the last
/// page may still be missing.
#[test]
fn an_index_whose_last_page_is_missing_changes_nothing() {
    const PAGE: usize = 4096;
    let Some(Whole { scene, plain, file, .. }) = Whole::new() else { return };
    let (module, table) = split(&file).unwrap();
    let table = Table::read(table).unwrap();
    let (mut index, target) = (table.index().unwrap(), table.target());
    // Until the last 256 bytes cross a page boundary.
    let spanning = (0..PAGE).find_map(|n| {
        let path = BString::from(format!("/none/{n}"));
        let condition = Arc::new(Condition::Absent(path.clone()));
        index.directories.push(Directory { path, condition, names: None });
        let file = embed(&module, &encode(&index, target).unwrap()).unwrap();
        (1..200).contains(&(file.len() % PAGE)).then_some(file)
    });
    let file = spanning.expect("an index of that length");
    assert_eq!(run(&scene, &file), plain);
    let page = file.len() / PAGE * PAGE;
    for cut in [page, page - 1, page - 57, page - 200, page - PAGE + 1] {
        assert_eq!(run(&scene, &file[..cut]), plain, "cut to {cut} of {}", file.len());
    }
}

#[test]
fn a_table_of_another_version_or_machine_is_left_alone() {
    let Some(Whole { scene, plain, file, .. }) = Whole::new() else { return };
    let (module, table) = split(&file).unwrap();
    for (at, value) in [(12, 1), (12, 3), (16, 183), (17, 1), (18, 1)] {
        let mut other = file.clone();
        other[module.len() + at] = value;
        assert_eq!(run(&scene, &other), plain, "byte {at}");
    }
    // Undamaged, but for another machine.
    let mut target = Table::read(table).unwrap().target();
    let index = Table::read(table).unwrap().index().unwrap();
    target.machine ^= 1;
    let other = encode(&index, target).unwrap();
    assert_eq!(other.len(), table.len());
    let mut whole = module.clone();
    whole.extend_from_slice(&other);
    whole[..64].copy_from_slice(&file[..64]);
    let headers = 64 + 4 * 56;
    whole[64..headers].copy_from_slice(&file[64..headers]);
    assert_eq!(run(&scene, &whole), plain);
}
