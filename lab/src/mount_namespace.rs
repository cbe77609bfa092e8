//! Mount namespaces in which copies are mounted over the originals, so that absolute paths lead to
//! the copies. Other processes do not see the mounts, and the kernel removes a namespace when its
//! last process ends.
//!
//! `lab compare` creates one namespace for each strategy; [`becalm_host::bench`] starts programs in
//! them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{chdir, getegid, geteuid};
use tempfile::TempDir;

use crate::child;

/// A bind mount of a file over a file or a directory over a directory: what becomes visible, and the mount point,
/// without symbolic links.
pub(crate) type Bind = (PathBuf, PathBuf);

/// An argument of mount(2) that is not used.
const NONE: Option<&str> = None;

/// A mount namespace. Clones refer to the same namespace.
#[derive(Clone, Debug)]
pub(crate) struct MountNamespace {
    namespace: Arc<File>,
    dir: PathBuf,
    /// The directory of [`Self::with_copy`], which is removed with the last clone.
    _copy: Option<Arc<TempDir>>,
}

/// Acquires the rights that [`MountNamespace::new`] needs. Root needs none. Any other user gets a
/// user namespace, in which this process and its descendants stay. Call this before the process
/// starts a second thread.
///
/// # Errors
/// Returns an error if the kernel allows neither.
pub(crate) fn prepare() -> Result<()> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() && MountNamespace::new(&[]).is_ok() {
        return Ok(());
    }
    // unshare(2) fails with EINVAL while the process has a second thread, and the thread of that
    // trial may still be exiting.
    let alone = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        unshare(CloneFlags::CLONE_NEWUSER).is_ok()
    });
    if !alone {
        // Once more, for the error.
        unshare(CloneFlags::CLONE_NEWUSER).map_err(refused)?;
    }
    let map = |file: &str, text: String| std::fs::write(format!("/proc/self/{file}"), text);
    // Without this the kernel allows only root to write a map of groups (user_namespaces(7)).
    let mapped = map("setgroups", "deny".to_owned())
        // An unprivileged process may map only its own ids (user_namespaces(7)).
        .and_then(|()| map("uid_map", format!("{0} {0} 1", user.as_raw())))
        .and_then(|()| map("gid_map", format!("{0} {0} 1", group.as_raw())));
    mapped.map_err(refused)?;
    MountNamespace::new(&[]).map(drop)
}

impl MountNamespace {
    /// Creates a namespace with these mounts; later ones cover earlier ones.
    ///
    /// # Errors
    /// Returns an error if no namespace can be created or a mount fails.
    pub(crate) fn new(binds: &[Bind]) -> Result<Self> {
        in_thread(|| {
            stand_apart()?;
            mount_all(binds)?;
            // `/proc/self` has the namespace of the main thread, which has not entered the new one.
            let namespace = File::open("/proc/thread-self/ns/mnt").map_err(refused)?;
            let dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
            Ok(Self { namespace: Arc::new(namespace), dir, _copy: None })
        })
    }

    /// Creates a namespace in which a copy of a store, that may be changed, is at the store's own path: run paths
    /// are absolute.
    ///
    /// # Errors
    /// Returns an error if the store does not exist or mounting is not allowed.
    pub(crate) fn with_copy(store: &Path) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let copy = scratch.path().join("store");
        child::succeed(child::command("cp").args(["-a", "--reflink=auto"]).args([store, &copy]))?;
        let namespace = Self::new(&[(copy, store.to_owned())])
            .with_context(|| format!("a copy in the place of {}", store.display()))?;
        Ok(Self { _copy: Some(Arc::new(scratch)), ..namespace })
    }

    /// Makes mounts of the namespace read-only, or writable again. If the kernel does not allow
    /// that for a mount, it stays as it is.
    ///
    /// # Errors
    /// Returns an error if the namespace cannot be entered.
    pub(crate) fn set_read_only(&self, places: &[PathBuf], read_only: bool) -> Result<()> {
        let flags = if read_only { MsFlags::MS_RDONLY } else { MsFlags::empty() };
        // With `MS_BIND` only this mount changes and not its file system (mount(2)).
        let flags = flags | MsFlags::MS_BIND | MsFlags::MS_REMOUNT;
        self.run(|| {
            for place in places {
                let _ = mount(NONE, place, NONE, flags, NONE);
            }
        })
    }

    /// Runs `work` in the namespace, in a thread of its own. Processes that it starts are in the
    /// namespace too.
    ///
    /// # Errors
    /// Returns an error if the namespace cannot be entered.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        in_thread(|| {
            // setns(2) fails with `EINVAL` for a thread that shares its root and current directory.
            unshare(CloneFlags::CLONE_FS).map_err(refused)?;
            self.enter()?;
            Ok(work())
        })
    }

    /// Moves the calling thread into this namespace. Call this within [`Self::run`] of any
    /// namespace.
    ///
    /// # Errors
    /// Returns an error if the thread shares its current directory with others, which every thread
    /// outside of [`Self::run`] does.
    pub(crate) fn enter(&self) -> Result<()> {
        setns(&self.namespace, CloneFlags::CLONE_NEWNS).map_err(refused)?;
        // The kernel changes the thread's directory to the root.
        chdir(&self.dir).map_err(refused)
    }
}

/// Makes later mounts visible only to this thread and the processes that it starts.
///
/// # Errors
/// Returns an error if no namespace can be created.
pub(crate) fn stand_apart() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(refused)?;
    // Without private propagation the mounts would also appear outside.
    let whole = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
    mount(NONE, "/", NONE, whole, NONE).map_err(|errno| unmounted(Path::new("/"), errno))
}

/// Mounts in the namespace of this thread.
///
/// # Errors
/// Returns an error if a mount fails.
pub(crate) fn mount_all(binds: &[Bind]) -> Result<()> {
    for (from, to) in binds {
        // A plain bind mount would not have the file systems mounted below the directory.
        let below = if from.is_dir() { MsFlags::MS_REC } else { MsFlags::empty() };
        mount(Some(from), to, NONE, MsFlags::MS_BIND | below, NONE)
            .map_err(|errno| unmounted(to, errno))?;
    }
    Ok(())
}

/// Returns the error if the kernel or a sandbox forbids mount namespaces.
fn refused(error: impl Into<io::Error>) -> Error {
    Error::new(error.into())
        .context("no mount namespace: it takes root, or a kernel that lets users make namespaces")
}

fn unmounted(path: &Path, errno: Errno) -> Error {
    Error::new(io::Error::from(errno))
        .context(format!("{}: cannot be mounted over", path.display()))
}

/// Runs `work` in a new thread, whose namespaces can change without those of the other threads.
fn in_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_a_namespace_see_its_mounts() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for (name, text) in [("place/file", "original"), ("one/file", "1"), ("two/file", "2")] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), text).unwrap();
        }
        let mount_namespace = |name: &str| MountNamespace::new(&[(path(name), path("place"))]);
        let (one, two) = match (mount_namespace("one"), mount_namespace("two")) {
            (Ok(one), Ok(two)) => (one, two),
            (Err(error), _) | (_, Err(error)) => {
                // As a user, creating them would change the whole process and so all other tests.
                if geteuid().is_root() {
                    becalm_testing::skip(&error.to_string());
                }
                return eprintln!("skipped: {error}");
            }
        };
        let place = path("place/file");
        let read = || std::fs::read_to_string(&place).unwrap();
        let cat = || {
            let output = std::process::Command::new("cat").arg(&place).output().unwrap().stdout;
            String::from_utf8(output).unwrap()
        };
        assert_eq!(one.run(|| (read(), cat())).unwrap(), ("1".to_owned(), "1".to_owned()));
        let results = two.run(|| {
            let first = cat();
            one.enter().unwrap();
            (first, cat())
        });
        assert_eq!(results.unwrap(), ("2".to_owned(), "1".to_owned()));
        assert_eq!(read(), "original");
        assert!(one.enter().is_err(), "a thread outside of run shares its directory");

        one.set_read_only(&[path("place")], true).unwrap();
        assert!(one.run(|| std::fs::write(&place, "x")).unwrap().is_err());
        one.set_read_only(&[path("place")], false).unwrap();
        one.run(|| std::fs::write(&place, "x")).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(path("one/file")).unwrap(), "x");
    }
}
