//! Rooms: mount namespaces in which scratch copies lie at the places of the originals, so that
//! absolute paths lead to them. Nobody outside sees it, and the kernel takes a room away with
//! its last process, however that ends.
//!
//! `becalm compare` makes one for each carrier; [`crate::bench`] starts programs in them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount_bind, mount_bind_recursive, mount_change,
    mount_remount,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use thiserror::Error;

/// Why there is no room.
#[derive(Debug, Error)]
pub enum MountNamespaceError {
    /// The kernel or a sandbox allows no mount namespace.
    #[error("no mount namespace: it takes root, or a kernel that lets users make namespaces")]
    Namespace(#[source] io::Error),
    /// Something cannot be put into its place.
    #[error("{path}: nothing can be mounted there")]
    Mount {
        /// The place.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What lies where in a room: files on files, directories on directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// What is to be seen.
    pub from: PathBuf,
    /// Where; without symbolic links.
    pub to: PathBuf,
}

/// A mount namespace; copies are the same one.
#[derive(Clone, Debug)]
pub struct MountNamespace {
    namespace: Arc<File>,
    dir: PathBuf,
}

/// Gets what [`MountNamespace::new`] needs: nothing for root; for everyone else a user namespace, in
/// which this process and all that it starts stay. To be called before the process has a
/// second thread.
///
/// # Errors
/// Neither is allowed.
pub fn prepare() -> Result<(), MountNamespaceError> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() && MountNamespace::new(&[]).is_ok() {
        return Ok(());
    }
    // The thread of that trial may be on its way out still, and counts.
    let alone = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        apart(UnshareFlags::NEWUSER).is_ok()
    });
    if !alone {
        apart(UnshareFlags::NEWUSER)?;
    }
    let map = |file: &str, text: String| std::fs::write(format!("/proc/self/{file}"), text);
    // Without it the kernel lets nobody but root write a map of groups (user_namespaces(7)).
    let mapped = map("setgroups", "deny".to_owned())
        .and_then(|()| map("uid_map", format!("{0} {0} 1", user.as_raw())))
        .and_then(|()| map("gid_map", format!("{0} {0} 1", group.as_raw())));
    mapped.map_err(MountNamespaceError::Namespace)?;
    MountNamespace::new(&[]).map(drop)
}

impl MountNamespace {
    /// A room with these things in their places, later ones on top.
    ///
    /// # Errors
    /// No namespace can be made, or something cannot be put into its place.
    pub fn new(binds: &[Bind]) -> Result<Self, MountNamespaceError> {
        in_thread(|| {
            apart(UnshareFlags::NEWNS)?;
            let whole = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", whole).map_err(|errno| unmounted(Path::new("/"), errno))?;
            put(binds)?;
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let namespace = open("/proc/thread-self/ns/mnt", flags, Mode::empty())
                .map_err(|errno| MountNamespaceError::Namespace(errno.into()))?;
            let dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
            Ok(Self { namespace: Arc::new(namespace.into()), dir })
        })
    }

    /// Puts further things into their places.
    ///
    /// # Errors
    /// One of them cannot be.
    pub fn add(&self, binds: &[Bind]) -> Result<(), MountNamespaceError> {
        self.run(|| put(binds))?
    }

    /// Has directories that were put into the room written to no more, or again. Where the
    /// kernel does not allow that they stay as they are.
    ///
    /// # Errors
    /// The room cannot be entered.
    pub fn set_read_only(
        &self,
        places: &[PathBuf],
        read_only: bool,
    ) -> Result<(), MountNamespaceError> {
        let flags = if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        self.run(|| {
            for place in places {
                let _ = mount_remount(place, MountFlags::BIND | flags, "");
            }
        })
    }

    /// Does something in the room: a thread of its own is in it, and so is what that starts.
    ///
    /// # Errors
    /// The room cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, MountNamespaceError> {
        in_thread(|| {
            apart(UnshareFlags::FS)?;
            self.enter()?;
            Ok(work())
        })
    }

    /// Has the calling thread change over into this room. To be called from [`Self::run`] of
    /// any room.
    ///
    /// # Errors
    /// Elsewhere, for the thread shares its current directory with others.
    pub fn enter(&self) -> Result<(), MountNamespaceError> {
        use std::os::fd::AsFd;
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(|errno| MountNamespaceError::Namespace(errno.into()))?;
        // The kernel puts the thread into the root directory.
        rustix::process::chdir(&self.dir)
            .map_err(|errno| MountNamespaceError::Namespace(errno.into()))
    }
}

/// Has this thread share less with the others.
fn apart(flags: UnshareFlags) -> Result<(), MountNamespaceError> {
    #[allow(unsafe_code, reason = "rustix has it as unsafe for the sake of one flag")]
    // SAFETY: what may do harm is a table of file descriptors of one's own, and no caller
    // here asks for that.
    let done = unsafe { unshare_unsafe(flags) };
    done.map_err(|errno| MountNamespaceError::Namespace(errno.into()))
}

fn put(binds: &[Bind]) -> Result<(), MountNamespaceError> {
    for Bind { from, to } in binds {
        let done = match from.is_dir() {
            true => mount_bind_recursive(from, to),
            false => mount_bind(from, to),
        };
        done.map_err(|errno| unmounted(to, errno))?;
    }
    Ok(())
}

fn unmounted(path: &Path, errno: Errno) -> MountNamespaceError {
    MountNamespaceError::Mount { path: path.to_owned(), source: errno.into() }
}

/// A thread's own part of the process can be changed without the others.
fn in_thread<T: Send>(
    work: impl FnOnce() -> Result<T, MountNamespaceError> + Send,
) -> Result<T, MountNamespaceError> {
    std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_room_is_seen_there_and_by_its_programs_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for (name, text) in [("place/file", "original"), ("one/file", "1"), ("two/file", "2")] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), text).unwrap();
        }
        let mount_namespace =
            |name: &str| MountNamespace::new(&[Bind { from: path(name), to: path("place") }]);
        let (one, two) = match (mount_namespace("one"), mount_namespace("two")) {
            (Ok(one), Ok(two)) => (one, two),
            (Err(error), _) | (_, Err(error)) => {
                let all = std::env::var_os("BECALM_REQUIRE_ALL").is_some_and(|v| v == "1");
                // Making them as a user changes the whole process, and so all other tests.
                assert!(!all || !geteuid().is_root(), "skipped: {error}");
                return eprintln!("skipped: {error}");
            }
        };
        let place = path("place/file");
        let read = || std::fs::read_to_string(&place).unwrap();
        let cat = || {
            let said = std::process::Command::new("cat").arg(&place).output().unwrap().stdout;
            String::from_utf8(said).unwrap()
        };
        assert_eq!(one.run(|| (read(), cat())).unwrap(), ("1".to_owned(), "1".to_owned()));
        let both = two.run(|| {
            let first = cat();
            one.enter().unwrap();
            (first, cat())
        });
        assert_eq!(both.unwrap(), ("2".to_owned(), "1".to_owned()));
        assert_eq!(read(), "original");
        assert!(one.enter().is_err(), "a thread that is in no room shares its directory");

        one.set_read_only(&[path("place")], true).unwrap();
        assert!(one.run(|| std::fs::write(&place, "x")).unwrap().is_err());
        one.set_read_only(&[path("place")], false).unwrap();
        one.run(|| std::fs::write(&place, "x")).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(path("one/file")).unwrap(), "x");
    }
}
