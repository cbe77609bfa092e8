//! `lab slowdisk`: a command with directories on a disk each of whose reads takes a latency.
//!
//! A view of [`slowfs`] shows the file of the [`image`], each of whose reads waits. A loop device with direct I/O turns
//! it into a disk. The file system on it is mounted in a mount namespace of the command, and covers
//! the directories there. This process serves the reads, and runs from the ordinary disk: its
//! files were opened before the directories were covered. So it can serve after its pages were
//! dropped.
//!
//! The loop device detaches itself after the last use, and the mounts end with the namespace, even
//! if this process is killed.

mod image;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use becalm_host::child::kill_descendants;
use clap::Args;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use self::image::Format;
use crate::slowfs::options::{Options, ReadWait};
use crate::slowfs::view::View;
use crate::{child, slowfs};

/// Number of threads, and so of concurrent reads.
const THREADS: usize = 64;

/// The kernel's read-ahead, in KiB.
const READ_AHEAD_KB: &str = "128";
/// The directory on the disk.
const USR: &str = "/usr";

/// Options of the disk.
#[derive(Args)]
pub(crate) struct SlowDisk {
    /// Latency of each read, in microseconds
    #[arg(long, default_value_t = 1000)]
    delay_us: u64,
    /// The file system on the disk
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the command and returns its exit code.
///
/// The processes that it leaves behind are killed.
///
/// # Errors
/// Returns an error if this is not root, FUSE or loop devices are missing, the image cannot be made
/// or lacks a directory, or the command cannot be started.
pub(crate) fn run(args: &SlowDisk) -> Result<ExitCode> {
    if !nix::unistd::geteuid().is_root() {
        bail!("a slow disk needs root");
    }
    if let Some(reason) = slowfs::why_not() {
        bail!("{reason}");
    }
    // Threads inherit the mask and the namespace. The signals end the command, see [`wait_for`].
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block()?;
    slowfs::stand_apart()?;
    // Processes that the command leaves behind would keep the mounts.
    set_child_subreaper(true)?;
    let scratch = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir()?;
    let (below, above) = (scratch.path().join("disk"), scratch.path().join("files"));
    fs::create_dir(&below)?;
    fs::create_dir(&above)?;
    let path = Path::new("target/lab/slowdisk").with_extension(args.format.name());
    image::make(&path, args.format, &above)?;
    let path = path.canonicalize().with_context(|| path.display().to_string())?;
    let delay = Duration::from_micros(args.delay_us);
    let session = start(&path, &below, Box::new(move || thread::sleep(delay)))?;
    let status = with_files(args, &path, (&below, &above), signals);
    let ended = session.umount_and_join();
    let code = status?;
    // A thread between two requests gets this error when the connection closes.
    if ended.as_ref().is_err_and(|error| error.kind() != ErrorKind::ConnectionAborted) {
        ended.context("the disk cannot be taken away")?;
    }
    Ok(ExitCode::from(code))
}

/// Mounts a view of the folder with the image; threads serve it until the session is dropped.
fn start(image: &Path, mountpoint: &Path, wait: ReadWait) -> Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("slowdisk".to_owned()), MountOption::RO];
    // A file system on a loop device is identified by the device's file, for every user.
    config.acl = SessionACL::All;
    let config = slowfs::with_threads(config, THREADS);
    let folder = File::open(image.parent().unwrap_or(Path::new("/")))?;
    let view = View::new(folder, Options::slow_reads(wait))?;
    let session = fuser::spawn_mount(view, mountpoint, &config);
    session.with_context(|| mountpoint.display().to_string())
}

/// Mounts the image's file system over the directories, runs the command, and unmounts.
fn with_files(
    args: &SlowDisk,
    image: &Path,
    (below, above): (&Path, &Path),
    signals: SigSet,
) -> Result<u8> {
    attach(&below.join(image.file_name().unwrap_or_default()), above, args)?;
    let done = bind(&above.join("usr"), Path::new(USR)).and_then(|()| {
        let child = Command::new(&args.command[0]).args(&args.command[1..]).spawn();
        let child = child.with_context(|| args.command[0].display().to_string());
        let done =
            child.and_then(|child| wait_for(Pid::from_raw(child.id().cast_signed()), signals));
        unmount(Path::new(USR)).and(done)
    });
    unmount(above)?;
    done
}

/// Turns the file into a disk and mounts the file system on it.
fn attach(file: &Path, above: &Path, args: &SlowDisk) -> Result<()> {
    let options = ["--direct-io=on", "--read-only", "-f", "--show"].map(OsStr::new);
    let printed = run_tool("losetup", &[&options[..], &[file.as_os_str()]].concat())?;
    let device = Path::new(printed.trim());
    let queue = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("queue");
    let kernel = queue.join("read_ahead_kb");
    let mounted = fs::write(&kernel, READ_AHEAD_KB)
        .with_context(|| kernel.display().to_string())
        .and_then(|()| {
            let format = args.format.name();
            let options = ["-t", &format, "-o", "ro"].map(OsStr::new);
            let words = [&options[..], &[device.as_os_str(), above.as_os_str()]].concat();
            run_tool("mount", &words).map(drop)
        });
    // A device in use is detached after its last use.
    run_tool("losetup", &["-d".as_ref(), device.as_os_str()])?;
    mounted
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    let none: Option<&str> = None;
    let mounted = mount(Some(from), to, none, MsFlags::MS_BIND, none);
    mounted.with_context(|| format!("cannot cover {}", to.display()))
}

fn unmount(dir: &Path) -> Result<()> {
    umount2(dir, MntFlags::empty()).with_context(|| format!("cannot unmount {}", dir.display()))
}

/// Waits for the command, kills the processes that it left behind, and returns its exit code.
///
/// A signal to this process is sent on to the command.
fn wait_for(command: Pid, signals: SigSet) -> Result<u8> {
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            // It may have ended.
            let _ = kill(command, signal);
        }
    });
    let code = loop {
        match waitpid(command, None)? {
            WaitStatus::Exited(_, code) => break u8::try_from(code).unwrap_or(u8::MAX),
            WaitStatus::Signaled(_, signal, _) => break 128 + signal as u8,
            _ => {}
        }
    };
    // Among them are those that lost their own parents.
    loop {
        kill_descendants();
        if waitpid(None, None).is_err() {
            return Ok(code);
        }
    }
}

/// Runs a tool and returns its standard output.
fn run_tool(name: &str, args: &[&OsStr]) -> Result<String> {
    child::whole(Command::new(name).args(args))
}
