//! Starts of a program whose tree is on a slow file system: as it is, and by `becalm run`; beside them the
//! same program with the tree on the local disk, in an image of the tree, on the local disk or the slow
//! file system, and in a copy that the start makes first.
//!
//! The tree is mounted anew for each start, so that the kernel knows no names. Its files should not have
//! changed for an hour, because becalm copies no others.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;

use super::machine::write_raw;
use super::spread;

/// Maximum number of starts that becalm learns from, and the pauses after starts, in which it makes the
/// index, records and copies.
const MOST_LEARNED: usize = 20;
const PAUSE: Duration = Duration::from_secs(8);

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct TreesBench {
    /// The becalm to measure
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// The tree, which is mounted on itself
    #[arg(long)]
    tree: PathBuf,
    /// Number of rounds; each runs every variant once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// File for the raw times, one JSON object
    #[arg(long)]
    raw: Option<PathBuf>,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Learns, measures, and prints a table.
///
/// # Errors
/// Returns an error if the program, becalm or the mount fails.
pub(super) fn run(args: &TreesBench) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let becalm = args.becalm.canonicalize().context(args.becalm.display().to_string())?;
    let tree = args.tree.canonicalize().context(args.tree.display().to_string())?;
    let by_becalm: Vec<OsString> = [becalm.into(), "run".into(), "--".into()]
        .into_iter()
        .chain(args.command.clone())
        .collect();
    let own = std::env::current_exe()?;
    // The words before a command that sees a directory as a slow file system has it.
    let below = |forgetful: bool, directory: &Path| {
        let words = [own.as_os_str(), "slowfs".as_ref()];
        let directory = [directory.as_os_str(); 2];
        let words = words.into_iter().chain(forgetful.then_some("--forgetful".as_ref()));
        words.chain(directory).chain(["--".as_ref()]).map(ToOwned::to_owned).collect()
    };
    let copies = scratch.path().join("copies");
    let at_home = |line: &[OsString]| {
        let mut command = started(line);
        command.env("HOME", scratch.path()).env_remove("XDG_CACHE_HOME");
        command.env("BECALM_CACHE", &copies);
        command
    };
    let slow = |forgetful: bool, line: &[OsString]| {
        let words: Vec<OsString> = below(forgetful, &tree);
        timed(at_home(&[&words, line].concat()).env("BECALM_TRUST_TIMES", &tree))
    };
    let mut learned = 0;
    while !has_copies(&copies) {
        ensure!(learned < MOST_LEARNED, "becalm copies nothing in {learned} starts");
        slow(false, &by_becalm)?;
        sleep(PAUSE);
        learned += 1;
    }
    let local = |line: &[OsString]| timed(&mut at_home(line));
    // The index of the program as it is on the local disk.
    local(&by_becalm)?;
    sleep(PAUSE);
    let images = scratch.path().join("images");
    fs::create_dir(&images)?;
    let image = images.join("tree.squashfs");
    make_image(&tree, &image)?;
    let (plain, mount) = (args.command.as_slice(), "mount -o loop,ro");
    let on_slow = |mount: &str| {
        timed(&mut started(&[below(false, &images), on_tree(mount, &image, &tree, plain)].concat()))
    };
    let on_disk = |mount: &str| timed(&mut started(&on_tree(mount, &image, &tree, plain)));
    let copied = || {
        let copy = scratch.path().join("copy");
        let words = ["rsync".into(), "-a".into(), tree.join("").into(), copy.join("").into()];
        let made = timed(&mut started(&[below(false, &tree), words.to_vec()].concat()))?;
        let start = timed(&mut started(&on_tree("mount --bind", &copy, &tree, plain)))?;
        fs::remove_dir_all(copy)?;
        Ok(made + start)
    };
    type Start<'a> = Box<dyn Fn() -> Result<f64> + 'a>;
    let starts: [(&str, Start<'_>); 11] = [
        ("local disk", Box::new(|| local(plain))),
        ("local disk, becalm run", Box::new(|| local(&by_becalm))),
        ("plain", Box::new(|| slow(false, plain))),
        ("becalm run", Box::new(|| slow(false, &by_becalm))),
        ("plain, nothing cached", Box::new(|| slow(true, plain))),
        ("becalm run, nothing cached", Box::new(|| slow(true, &by_becalm))),
        ("squashfuse, image on local disk", Box::new(|| on_disk("squashfuse"))),
        ("squashfs, image on local disk", Box::new(|| on_disk(mount))),
        ("squashfuse, image on slow disk", Box::new(|| on_slow("squashfuse"))),
        ("squashfs, image on slow disk", Box::new(|| on_slow(mount))),
        ("copied by rsync in this start", Box::new(copied)),
    ];
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); starts.len()];
    for _ in 0..args.rounds {
        for (all, (name, start)) in times.iter_mut().zip(&starts) {
            all.push(start().with_context(|| (*name).to_owned())?);
            if name.contains("becalm") {
                // It may be learned from.
                sleep(PAUSE);
            }
        }
    }
    let raw =
        starts.iter().zip(&times).map(|((name, _), all)| json!({ "way": name, "seconds": all }));
    let command: Vec<_> = plain.iter().map(|word| word.to_string_lossy()).collect();
    let data = json!({ "command": command, "times": raw.collect::<Vec<_>>() });
    write_raw(args.raw.as_deref(), &tree, data)?;
    for ((name, _), all) in starts.iter().zip(&times) {
        let ms = spread(all.iter().map(|time| time * 1e3));
        let pairs = all.iter().zip(&times[0]);
        let ratio = spread(pairs.map(|(time, local)| time / local));
        println!("{name:31} {ms} ms, {ratio} of the local disk");
    }
    Ok(())
}

/// Packs the tree into an image, as computing centres tell their users to do.
fn make_image(tree: &Path, image: &Path) -> Result<()> {
    let options = ["-comp", "zstd", "-no-progress", "-quiet"];
    timed(Command::new("mksquashfs").args([tree, image]).args(options))
        .context("mksquashfs (Debian's package squashfs-tools)")
        .map(drop)
}

/// Returns the words that start a command with an image or a directory on the tree, mounted by this command; the
/// time includes the mount.
fn on_tree(mount: &str, image: &Path, tree: &Path, line: &[OsString]) -> Vec<OsString> {
    let script = format!("{mount} \"$0\" \"$1\" && shift || exit 99; \"$@\"");
    let script = format!("tree=$1; {script}; status=$?; umount \"$tree\"; exit $status");
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script];
    let words = words.into_iter().map(OsString::from);
    words.chain([image.into(), tree.into()]).chain(line.iter().cloned()).collect()
}

fn started(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// True if a record names copies.
fn has_copies(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut records = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    records.any(|record| record.contains("\"copy\""))
}

fn timed(command: &mut Command) -> Result<f64> {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().context("a start")?;
    ensure!(status.success(), "a start fails: {status}");
    Ok(began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ways of a stored run with their times.
    fn stored(program: &str) -> Vec<(String, Vec<f64>)> {
        let file = format!("{}/runs/trees-{program}.json", env!("CARGO_MANIFEST_DIR"));
        let run: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let seconds = |row: &serde_json::Value| {
            row["seconds"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect()
        };
        let rows = run["times"].as_array().unwrap().iter();
        rows.map(|row| (row["way"].as_str().unwrap().to_owned(), seconds(row))).collect()
    }

    #[test]
    fn the_page_has_the_stored_times() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/network-file-systems.md");
        let page = fs::read_to_string(page).unwrap();
        let runs = ["python", "node", "perl", "ruby"].map(stored);
        for at in 2..runs[0].len() {
            let ratio = |run: &Vec<(String, Vec<f64>)>| {
                let ratios = run[at].1.iter().zip(&run[0].1).map(|(time, local)| time / local);
                spread(ratios).split(' ').next().unwrap().to_owned()
            };
            let row =
                format!("| {} | {} |\n", runs[0][at].0, runs.each_ref().map(ratio).join(" | "));
            assert!(page.contains(&row), "{row}");
        }
    }
}
