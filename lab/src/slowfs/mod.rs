//! `lab slowfs`: a file system with slow lookups, as over a network.
//!
//! It is a read-only FUSE pass-through. Every lookup of a name waits. Absent names are looked up
//! again each time; existing names are cached by the kernel for as long as it likes (`--forgetful`:
//! not at all). It may be mounted over its own source. [`view`] is the file system, and this module
//! mounts it.

mod view;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use self::view::{View, Wait};

/// Number of threads, and so of concurrent lookups.
const THREADS: usize = 8;

/// Options of the mount.
#[derive(Args)]
pub(crate) struct SlowFs {
    /// Duration of a lookup, in microseconds
    #[arg(long, default_value_t = 1000)]
    delay_us: u64,
    /// Turn the kernel's cache off: each use of a path looks up every name in it
    #[arg(long)]
    forgetful: bool,
    /// Show directories whose times never change, as object stores do
    #[arg(long)]
    still_times: bool,
    /// The directory to show
    source: PathBuf,
    /// The mount point; it may be the source itself
    mountpoint: PathBuf,
    /// Run a command that alone sees the mount; the mount ends with it
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Serves the mount until it is unmounted (`umount`) or the command ends.
///
/// # Errors
/// Returns an error if FUSE is missing or forbidden, the source or the mount point is not a
/// directory, or the command cannot be started.
pub(crate) fn run(args: &SlowFs) -> Result<ExitCode> {
    if let Some(reason) = why_not() {
        bail!("{reason}");
    }
    // The mount will cover the source, so it is opened first.
    let source = File::open(&args.source).with_context(|| args.source.display().to_string())?;
    let delay = Duration::from_micros(args.delay_us);
    let wait: Wait = Box::new(move || thread::sleep(delay));
    if args.command.is_empty() {
        let view = View::new(source, wait, args.forgetful)?.with_still_times(args.still_times);
        let mounted = fuser::mount(view, &args.mountpoint, &config());
        mounted.with_context(|| args.mountpoint.display().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    // Threads stay in the namespace in which they were started, so the namespace comes first.
    stand_apart()?;
    let session = start(source, &args.mountpoint, wait, args.forgetful)?;
    let status = std::process::Command::new(&args.command[0]).args(&args.command[1..]).status();
    let ended = session.umount_and_join();
    let status = status.with_context(|| args.command[0].display().to_string())?;
    // A thread between two requests gets this error when the connection closes.
    if ended.as_ref().is_err_and(|error| error.kind() != ErrorKind::ConnectionAborted) {
        ended.context("the mount cannot be taken away")?;
    }
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(128)).unwrap_or(u8::MAX)))
}

/// Returns the reason why FUSE cannot be used here, or `None` if it can.
pub(crate) fn why_not() -> Option<String> {
    let device = Path::new("/dev/fuse");
    match File::options().read(true).write(true).open(device) {
        Ok(_) => None,
        Err(error) => Some(format!("no FUSE here: {}: {error}", device.display())),
    }
}

/// Mounts the file system; threads serve it until the session is dropped.
fn start(
    source: File,
    mountpoint: &Path,
    wait: Wait,
    forgetful: bool,
) -> Result<BackgroundSession> {
    let view = View::new(source, wait, forgetful)?;
    let session = fuser::spawn_mount(view, mountpoint, &config());
    session.with_context(|| mountpoint.display().to_string())
}

fn config() -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("slowfs".to_owned()),
        MountOption::RO,
        MountOption::DefaultPermissions,
    ];
    // Only root can allow access by other users, unless fuse.conf permits it.
    config.acl = if nix::unistd::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

/// Makes later mounts visible only to this process and its children.
pub(crate) fn stand_apart() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)
        .context("a mount for one command alone needs root (CAP_SYS_ADMIN)")?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("mounts cannot be made private")
}
