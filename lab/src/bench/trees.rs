//! Starts of a program whose tree is on a slow file system: as it is, and by `becalm run`; beside them the
//! same program with the tree on the local disk, and in an image of the tree.
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

use super::Spread;

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
    /// Duration of a lookup, in microseconds
    #[arg(long, default_value_t = 1000)]
    delay_us: u32,
    /// Number of rounds; each runs every variant once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
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
    let slow = |forgetful: bool, line: &[OsString]| -> Result<Duration> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["slowfs", "--delay-us", &args.delay_us.to_string()]);
        command.args(forgetful.then_some("--forgetful")).args([&tree, &tree]).arg("--").args(line);
        command.env("HOME", scratch.path()).env_remove("XDG_CACHE_HOME");
        command.env("BECALM_CACHE", scratch.path().join("copies"));
        command.env("BECALM_TRUST_TIMES", &tree);
        timed(command)
    };
    let mut learned = 0;
    while !has_copies(&scratch.path().join("copies")) {
        ensure!(learned < MOST_LEARNED, "becalm copies nothing in {learned} starts");
        slow(false, &by_becalm)?;
        sleep(PAUSE);
        learned += 1;
    }
    let local = |line: &[OsString]| -> Result<Duration> {
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).env("HOME", scratch.path()).env_remove("XDG_CACHE_HOME");
        command.env("BECALM_CACHE", scratch.path().join("copies"));
        timed(command)
    };
    // The index of the program as it is on the local disk.
    local(&by_becalm)?;
    sleep(PAUSE);
    let image = scratch.path().join("tree.squashfs");
    make_image(&tree, &image)?;
    let (plain, mount) = (args.command.as_slice(), "mount -o loop,ro");
    type Start<'a> = Box<dyn Fn() -> Result<Duration> + 'a>;
    let starts: [(&str, Start<'_>); 8] = [
        ("local disk", Box::new(|| local(plain))),
        ("local disk, becalm run", Box::new(|| local(&by_becalm))),
        ("plain", Box::new(|| slow(false, plain))),
        ("becalm run", Box::new(|| slow(false, &by_becalm))),
        ("plain, nothing cached", Box::new(|| slow(true, plain))),
        ("becalm run, nothing cached", Box::new(|| slow(true, &by_becalm))),
        ("squashfuse image", Box::new(|| in_image("squashfuse", &image, &tree, plain))),
        ("squashfs image", Box::new(|| in_image(mount, &image, &tree, plain))),
    ];
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); starts.len()];
    for _ in 0..args.rounds {
        for (all, (name, start)) in times.iter_mut().zip(&starts) {
            all.push(start().with_context(|| (*name).to_owned())?);
            if name.contains("becalm") {
                // It may be learned from.
                sleep(PAUSE);
            }
        }
    }
    for ((name, _), all) in starts.iter().zip(&times) {
        let ms = Spread::of(all.iter().map(|time| time.as_secs_f64() * 1e3));
        let pairs = all.iter().zip(&times[0]);
        let ratio = Spread::of(pairs.map(|(time, local)| time.as_secs_f64() / local.as_secs_f64()));
        println!("{name:28} {ms} ms, {ratio} of the local disk");
    }
    Ok(())
}

/// Packs the tree into an image, as computing centres tell their users to do.
fn make_image(tree: &Path, image: &Path) -> Result<()> {
    let mut command = Command::new("mksquashfs");
    command.arg(tree).arg(image).args(["-comp", "zstd", "-no-progress", "-quiet"]);
    timed(command).context("mksquashfs (Debian's package squashfs-tools)").map(drop)
}

/// Starts a command with the image on the tree, mounted by this command; the time includes the mount.
fn in_image(mount: &str, image: &Path, tree: &Path, line: &[OsString]) -> Result<Duration> {
    let script = format!("{mount} \"$0\" \"$1\" && shift || exit 99; \"$@\"");
    let script = format!("tree=$1; {script}; status=$?; umount \"$tree\"; exit $status");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    command.arg(image).arg(tree).args(line);
    timed(command)
}

/// True if a record names copies.
fn has_copies(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut records = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    records.any(|record| record.contains("\"copy\""))
}

fn timed(mut command: Command) -> Result<Duration> {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().context("a start")?;
    ensure!(status.success(), "a start fails: {status}");
    Ok(began.elapsed())
}
