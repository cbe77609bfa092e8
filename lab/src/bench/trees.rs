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

/// The starts, each as the line of a shell whose arguments are the command. `LAB`, `BECALM`, `TREE` and `IMAGES` name
/// the programs, the tree and the folder with its image; `ON_TREE` is a script that starts a command with an image or
/// a directory on the tree, mounted by its first argument: the time includes the mount.
const STARTS: [(&str, &str); 11] = [
    ("local disk", r#""$@""#),
    ("local disk, becalm run", r#""$BECALM" run -- "$@""#),
    ("plain", r#""$LAB" slowfs "$TREE" "$TREE" -- "$@""#),
    BY_BECALM,
    ("plain, nothing cached", r#""$LAB" slowfs --forgetful "$TREE" "$TREE" -- "$@""#),
    (
        "becalm run, nothing cached",
        r#"BECALM_TRUST_TIMES=$TREE "$LAB" slowfs --forgetful "$TREE" "$TREE" -- "$BECALM" run -- "$@""#,
    ),
    ("squashfuse, image on local disk", r#"sh -c "$ON_TREE" squashfuse "$IMAGES/tree" "$@""#),
    ("squashfs, image on local disk", r#"sh -c "$ON_TREE" "mount -o loop,ro" "$IMAGES/tree" "$@""#),
    (
        "squashfuse, image on slow disk",
        r#""$LAB" slowfs "$IMAGES" "$IMAGES" -- sh -c "$ON_TREE" squashfuse "$IMAGES/tree" "$@""#,
    ),
    (
        "squashfs, image on slow disk",
        r#""$LAB" slowfs "$IMAGES" "$IMAGES" -- sh -c "$ON_TREE" "mount -o loop,ro" "$IMAGES/tree" "$@""#,
    ),
    (
        "copied by rsync in this start",
        r#""$LAB" slowfs "$TREE" "$TREE" -- rsync -a "$TREE/" "$COPY/"; sh -c "$ON_TREE" "mount --bind" "$COPY" "$@""#,
    ),
];
const BY_BECALM: (&str, &str) = (
    "becalm run",
    r#"BECALM_TRUST_TIMES=$TREE "$LAB" slowfs "$TREE" "$TREE" -- "$BECALM" run -- "$@""#,
);
const ON_TREE: &str = r#"
test "$INSIDE" || INSIDE=1 exec unshare --mount --propagation private sh -c "$ON_TREE" "$0" "$@"
$0 "$1" "$TREE" || exit 99
shift
"$@"
status=$?
umount "$TREE"
exit $status"#;
/// Packs the tree into an image, as computing centres tell their users to do.
const PACK: &str = r#"mksquashfs "$TREE" "$IMAGES/tree" -comp zstd -no-progress -quiet"#;

/// Learns, measures, and prints a table.
///
/// # Errors
/// Returns an error if the program, becalm or the mount fails.
pub(super) fn run(args: &TreesBench) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let at = |name: &str| scratch.path().join(name);
    let becalm = args.becalm.canonicalize().context(args.becalm.display().to_string())?;
    let tree = args.tree.canonicalize().context(args.tree.display().to_string())?;
    let lab = std::env::current_exe()?;
    let start = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script, "sh"]).args(&args.command).env_remove("XDG_CACHE_HOME");
        shell.env("HOME", scratch.path()).env("BECALM_CACHE", at("copies")).env("ON_TREE", ON_TREE);
        shell.env("LAB", &lab).env("BECALM", &becalm).env("TREE", &tree).env("INSIDE", "");
        shell.env("IMAGES", at("images")).env("COPY", at("copy"));
        let began = Instant::now();
        let status = shell.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "{script}: {status}");
        Ok(began.elapsed().as_secs_f64())
    };
    let mut learned = 0;
    while !has_copies(&at("copies")) {
        ensure!(learned < MOST_LEARNED, "becalm copies nothing in {learned} starts");
        start(BY_BECALM.1)?;
        sleep(PAUSE);
        learned += 1;
    }
    // The index of the program as it is on the local disk.
    start(STARTS[1].1)?;
    sleep(PAUSE);
    fs::create_dir(at("images"))?;
    start(PACK)?;
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); STARTS.len()];
    for _ in 0..args.rounds {
        for (all, (name, script)) in times.iter_mut().zip(STARTS) {
            all.push(start(script)?);
            if name.contains("becalm") {
                // It may be learned from.
                sleep(PAUSE);
            }
            // The copy of a start is not that of the next one.
            let _ = fs::remove_dir_all(at("copy"));
        }
    }
    let raw =
        STARTS.iter().zip(&times).map(|((name, _), all)| json!({ "way": name, "seconds": all }));
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let data = json!({ "command": command, "times": raw.collect::<Vec<_>>() });
    write_raw(args.raw.as_deref(), &tree, data)?;
    for ((name, _), all) in STARTS.iter().zip(&times) {
        let ms = spread(all.iter().map(|time| time * 1e3));
        let pairs = all.iter().zip(&times[0]);
        let ratio = spread(pairs.map(|(time, local)| time / local));
        println!("{name:31} {ms} ms, {ratio} of the local disk");
    }
    Ok(())
}

/// True if a record names copies.
fn has_copies(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut records = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    records.any(|record| record.contains("\"copy\""))
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
