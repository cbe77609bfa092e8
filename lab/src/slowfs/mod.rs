//! `lab slowfs`: a file system that takes its time, like one on the other side of a
//! network.
//!
//! A read-only FUSE pass-through: every lookup of a name waits, absent names are asked for
//! again each time, and what is there is remembered by the kernel for as long as it
//! likes (`--forgetful`: not at all). It may be mounted over its own source. [`view`] is
//! the file system, this module mounts it.

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

/// Threads that serve lookups: as many may wait at once.
const THREADS: usize = 8;

/// What is mounted, and for whom.
#[derive(Args)]
pub(crate) struct SlowFs {
    /// How long a lookup takes, in microseconds
    #[arg(long, default_value_t = 1000)]
    delay_us: u64,
    /// Let the kernel remember nothing: each use of a path asks for every name in it
    #[arg(long)]
    forgetful: bool,
    /// What is shown
    source: PathBuf,
    /// Where; it may be the source itself
    mountpoint: PathBuf,
    /// Run a command that alone sees the mount, which ends with it
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Serves the mount until it is taken away (`umount`), or until the command ends.
///
/// # Errors
/// FUSE is missing or may not be used, the source or the mount point is no directory, or
/// the command cannot be started.
pub(crate) fn run(args: &SlowFs) -> Result<ExitCode> {
    if let Some(reason) = why_not() {
        bail!("{reason}");
    }
    // Before the mount covers it.
    let source = File::open(&args.source).with_context(|| args.source.display().to_string())?;
    let delay = Duration::from_micros(args.delay_us);
    let wait: Wait = Box::new(move || thread::sleep(delay));
    if args.command.is_empty() {
        let view = View::new(source, wait, args.forgetful)?;
        let mounted = fuser::mount(view, &args.mountpoint, &config());
        mounted.with_context(|| args.mountpoint.display().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    // Threads share the namespace they were started in, so that comes first.
    stand_apart()?;
    let session = start(source, &args.mountpoint, wait, args.forgetful)?;
    let status = std::process::Command::new(&args.command[0]).args(&args.command[1..]).status();
    let ended = session.umount_and_join();
    let status = status.with_context(|| args.command[0].display().to_string())?;
    // A thread that was between two requests is told that the connection is gone.
    if ended.as_ref().is_err_and(|error| error.kind() != ErrorKind::ConnectionAborted) {
        ended.context("the mount cannot be taken away")?;
    }
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(128)).unwrap_or(u8::MAX)))
}

/// Why no such file system can be mounted here; `None` where one can.
pub(crate) fn why_not() -> Option<String> {
    let device = Path::new("/dev/fuse");
    match File::options().read(true).write(true).open(device) {
        Ok(_) => None,
        Err(error) => Some(format!("no FUSE here: {}: {error}", device.display())),
    }
}

/// Mounts it, served by threads until the session is dropped.
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
    // Others are let in by root alone, unless fuse.conf says otherwise.
    config.acl = if nix::unistd::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

/// What is mounted from now on is seen by this process and its children alone.
fn stand_apart() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)
        .context("a mount for one command alone needs root (CAP_SYS_ADMIN)")?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("mounts cannot be made private")
}
