//! `lab slowfs`: a file system with slow lookups, as over a network.
//!
//! It is a FUSE pass-through, read-only without `--writable`. Every lookup of a name waits. The kernel looks up an absent name
//! each time; it keeps existing names for as long as it likes (`--forgetful`: not at all). The view may
//! be mounted over its own source. [`view`] is the file system, [`changes`] are changes
//! through it, [`faults`] are its errors, and this module mounts it.

mod changes;
mod faults;
mod view;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fuser::{Config, KernelConfig, MountOption, Session, SessionACL};
use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, setns};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, daemon, fork};
use serde_json::json;

use self::faults::{Failure, Refused};
use self::view::View;
use crate::mount_namespace::stand_apart;

/// Number of threads, and so of requests that are answered at once.
const THREADS: usize = 128;
/// Time for which the kernel may cache existing names.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Options of the mount.
#[derive(Args)]
pub(crate) struct SlowFs {
    /// Duration of a lookup, in microseconds
    #[arg(long, default_value_t = 1000, value_name = "N")]
    delay_us: u64,
    /// Turn the kernel's cache off: each use of a path looks up every name in it
    #[arg(long)]
    forgetful: bool,
    /// Show directories whose times never change, as object stores do
    #[arg(long)]
    still_times: bool,
    /// Permit changes through the mount. The kernel caches no content, so that changes of the source
    /// are seen too; with --forgetful, each is seen at once
    #[arg(long)]
    writable: bool,
    /// Fail requests
    #[arg(long, value_enum, value_name = "ERROR")]
    fail: Option<Failure>,
    /// Write the numbers of lookups, opens and reads of attributes to a file when the mount ends
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// Duration of each read, in microseconds; the kernel caches none then
    #[arg(long, value_name = "N")]
    read_delay_us: Option<u64>,
    /// The directory to show, without other file systems that are mounted below it
    source: PathBuf,
    /// The mount point; it may be the source itself
    mountpoint: PathBuf,
    /// Run a command that alone sees the mount, with the processes that it starts; the mount ends
    /// with the last of them
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Called before each step.
type Wait = Box<dyn Fn(Step) + Send + Sync>;

/// Called before each read.
type ReadWait = Box<dyn Fn() + Send + Sync>;

/// Called with the path of each request below the source. An error is its result.
type Check = Box<dyn Fn(&Path) -> Result<(), Refused> + Send + Sync>;

/// A request that can be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    LookUp,
    Open,
    Attributes,
}

/// The differences between a view and its source.
struct Options {
    wait: Wait,
    /// Makes each read slow; the kernel caches none then.
    read_wait: Option<ReadWait>,
    /// Time for which the kernel may cache existing names.
    names_kept: Duration,
    /// Time for which the kernel may cache attributes.
    attributes_kept: Duration,
    /// The times of directories never change.
    has_still_times: bool,
    /// The source can be changed through the view, and the kernel caches no content.
    is_writable: bool,
    check: Check,
}

/// Counts requests.
struct Counted {
    /// By [`Step`].
    numbers: Arc<[AtomicU64; 3]>,
    file: Option<File>,
}

impl Counted {
    /// Writes the numbers.
    fn write(self) -> io::Result<()> {
        let [lookups, opens, attributes] =
            [0, 1, 2].map(|step| self.numbers[step].load(Ordering::Relaxed));
        let Some(mut file) = self.file else { return Ok(()) };
        let numbers = json!({"lookups": lookups, "opens": opens, "attributes": attributes});
        writeln!(file, "{numbers}")
    }
}

impl SlowFs {
    fn options(&self, counted: &Counted) -> Options {
        let delay = Duration::from_micros(self.delay_us);
        let numbers = Arc::clone(&counted.numbers);
        let wait = move |step| {
            numbers[step as usize].fetch_add(1, Ordering::Relaxed);
            if step == Step::LookUp {
                thread::sleep(delay);
            }
        };
        let fail = self.fail;
        let names_kept = if self.forgetful { Duration::ZERO } else { REMEMBERED };
        Options {
            wait: Box::new(wait),
            names_kept,
            attributes_kept: names_kept,
            has_still_times: self.still_times,
            is_writable: self.writable,
            check: Box::new(move |_| fail.map_or(Ok(()), |failure| Err(failure.refused()))),
            read_wait: self.read_delay_us.map(|delay| -> ReadWait {
                Box::new(move || thread::sleep(Duration::from_micros(delay)))
            }),
        }
    }
}

/// Serves the mount until it is unmounted (`umount`), or becomes the command.
///
/// A server is left behind for the command. It ends with the last process of the mount namespace.
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
    let create = |path: &PathBuf| File::create(path).with_context(|| path.display().to_string());
    let file = args.requests.as_ref().map(create);
    let counted = Counted { numbers: Arc::default(), file: file.transpose()? };
    let view = View::new(source, args.options(&counted))?;
    let Some((program, rest)) = args.command.split_first() else {
        start(view, &args.mountpoint)?.run().context("the mount cannot be served")?;
        counted.write().context("the numbers of requests")?;
        return Ok(ExitCode::SUCCESS);
    };
    let outside = File::open("/proc/self/ns/mnt").context("the mount namespace")?;
    stand_apart().context("a mount for one command alone")?;
    let session = start(view, &args.mountpoint)?;
    // SAFETY: this process has one thread, so no lock is held by a thread that the child lacks.
    match unsafe { fork() }? {
        ForkResult::Child => serve(session, &outside, counted),
        // SIGCHLD may be ignored.
        ForkResult::Parent { child } => match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, 0)) | Err(Errno::ECHILD) => {}
            _ => bail!("the mount has no server"),
        },
    }
    Err(Command::new(program).args(rest).exec()).with_context(|| program.display().to_string())
}

/// Returns the reason why FUSE cannot be used here, or `None` if it can.
fn why_not() -> Option<String> {
    let device = Path::new("/dev/fuse");
    match File::options().read(true).write(true).open(device) {
        Ok(_) => None,
        Err(error) => Some(format!("no FUSE here: {}: {error}", device.display())),
    }
}

/// Mounts the file system, which is not served yet.
fn start(view: View, mountpoint: &Path) -> Result<Session<View>> {
    let config = config(view.options.is_writable);
    let session = Session::new(view, mountpoint, &config);
    session.with_context(|| mountpoint.display().to_string())
}

/// Serves the mount from outside of its namespace, in a process that is no child of the command.
///
/// The kernel ends the session when the namespace, and the mount with it, has ended. No caller
/// waits for the server: it has none of the standard streams.
fn serve(session: Session<View>, outside: &File, counted: Counted) -> ! {
    let begun = setns(outside, CloneFlags::CLONE_NEWNS)
        .and_then(|()| daemon(false, false))
        .map_err(io::Error::from)
        .and_then(|()| session.spawn());
    match begun {
        Ok(session) => {
            // An error is a connection that the kernel has closed.
            let _ = session.guard.join();
            let _ = counted.write();
            // The rest of the session is not dropped, which would unmount: out here, the path of the
            // mount point may lead to another mount.
            process::exit(0)
        }
        Err(error) => {
            eprintln!("lab: the mount cannot be served: {error}");
            process::exit(2)
        }
    }
}

fn config(is_writable: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("slowfs".to_owned()),
        if is_writable { MountOption::RW } else { MountOption::RO },
        MountOption::DefaultPermissions,
    ];
    // Only root can allow access by other users, unless fuse.conf permits it.
    config.acl = if nix::unistd::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    // Each thread has a buffer of 16 MiB. After the first one was freed, glibc would take the others
    // from its heaps and write all of their pages.
    // SAFETY: this sets a number in glibc, under its own lock.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

/// Lets the kernel send this number of requests that no process waits for, or as many as it permits,
/// before an earlier one is answered.
fn allow_background(config: &mut KernelConfig, requests: u16) {
    // The kernel may have a lower limit and returns it.
    if let Err(most) = config.set_max_background(requests) {
        let _ = config.set_max_background(most);
    }
}
