//! Files and directories that are opened in the directories of a start, seen while it runs
//! (inotify(7)). A file that was read and closed again is in no page table.
//!
//! The kernel does not say which process opened a file, so what other processes read in these
//! directories meanwhile is seen too.

use std::ffi::OsStr;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::fs::{AtFlags, CWD, Mode, Stat, statat, statfs};

/// Maximum number of directories that are watched. Kernels allow a user at least 8,192 by default.
const MOST: usize = 4096;
/// Bytes of events that are read at once.
const BUFFER: usize = 16 * 1024;

/// The directories that are watched, and what was opened in them.
#[derive(Debug, Default)]
pub struct Opens {
    watched: FxHashMap<i32, PathBuf>,
    known: FxHashSet<PathBuf>,
    listed: FxHashSet<PathBuf>,
    /// How often a path is still to be opened by becalm itself.
    own: FxHashMap<PathBuf, u32>,
    seen: FxHashSet<PathBuf>,
    found: Vec<PathBuf>,
}

/// The descriptor of the events.
#[derive(Debug)]
pub struct Events(OwnedFd);

impl Events {
    /// Makes a descriptor without directories.
    ///
    /// # Errors
    /// Returns an error if the user has too many of them.
    pub fn new() -> io::Result<(Self, Opens)> {
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok((Self(events), Opens::default()))
    }

    /// Waits for an event, for at most this time.
    pub fn wait(&self, patience: Duration) {
        let patience = Timespec::try_from(patience).ok();
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], patience.as_ref());
    }
}

impl Opens {
    /// Watches a directory, those above it, and those in all of them. What has been opened there before is
    /// not seen.
    pub fn watch(&mut self, events: &Events, directory: &Path) {
        for directory in directory.ancestors() {
            self.add(events, directory);
            if !self.listed.insert(directory.to_owned()) {
                break;
            }
            // This is seen as well.
            if directory.parent().is_some_and(|parent| self.known.contains(parent)) {
                self.expect(directory);
            }
            // An interpreter reads files of a directory that it has not listed, such as its compiled
            // modules, and lists others beside its own.
            inside(directory).for_each(|path| self.add(events, &path));
        }
    }

    /// Leaves out the next time that a path is opened: by becalm itself.
    pub fn expect(&mut self, path: &Path) {
        *self.own.entry(path.to_owned()).or_default() += 1;
    }

    fn is_own(&mut self, path: &Path) -> bool {
        let count = self.own.get_mut(path).filter(|count| **count > 0);
        count.map(|count| *count -= 1).is_some()
    }

    /// Watches a directory, unless there are too many, or anybody may write to it: what is in it is mostly
    /// not of this start.
    pub fn add(&mut self, events: &Events, directory: &Path) {
        let is_new = self.known.len() < MOST && self.known.insert(directory.to_owned());
        let what = WatchFlags::OPEN
            | WatchFlags::CLOSE_NOWRITE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        if is_new
            && facts(directory).is_some_and(|facts| !is_open_to_all(&facts))
            && let Ok(number) = add_watch(&events.0, directory, what)
        {
            self.watched.insert(number, directory.to_owned());
        }
    }

    /// Reads the events that there are. A directory that was opened is watched from here on.
    pub fn read(&mut self, events: &Events) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&events.0, &mut buffer);
        while let Ok(event) = reader.next() {
            let (Some(directory), Some(name)) = (self.watched.get(&event.wd()), event.file_name())
            else {
                continue;
            };
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            let is_directory = event.events().contains(ReadFlags::ISDIR);
            // A file that was written is not one to be read ahead.
            let wanted = if is_directory { ReadFlags::OPEN } else { ReadFlags::CLOSE_NOWRITE };
            if !event.events().contains(wanted)
                || self.is_own(&path)
                || !self.seen.insert(path.clone())
            {
                continue;
            }
            if is_directory {
                self.watch(events, &path);
            }
            self.found.push(path);
        }
    }

    /// Returns what was opened for the first time since the last call, in order.
    pub fn take(&mut self) -> Vec<PathBuf> {
        mem::take(&mut self.found)
    }
}

/// Returns the state of a directory without mounting a file system (autofs(5)).
fn facts(directory: &Path) -> Option<Stat> {
    statat(CWD, directory, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT).ok()
}

fn is_open_to_all(facts: &Stat) -> bool {
    Mode::from_raw_mode(facts.st_mode).contains(Mode::WOTH)
}

/// Returns the directories in a directory, without those of other file systems: to watch them could
/// mount one.
fn inside(directory: &Path) -> impl Iterator<Item = PathBuf> {
    const AUTOFS: u64 = 0x0187;
    let is_automounter = || statfs(directory).map_or(true, |found| found.f_type as u64 == AUTOFS);
    let own = facts(directory).filter(|facts| !is_open_to_all(facts) && !is_automounter());
    let entries = own.and_then(|_| directory.read_dir().ok()).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    let device = own.map(|facts| facts.st_dev);
    let is_here = move |path: &PathBuf| facts(path).map(|facts| facts.st_dev) == device;
    directories.map(|entry| entry.path()).filter(is_here)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_that_are_read_and_directories_below_are_found() {
        let dir = tempfile::tempdir().expect("made");
        let root = dir.path().canonicalize().expect("is there");
        let below = root.join("below");
        fs::create_dir(&below).expect("made");
        let [read, later, written] = [root.join("read"), below.join("later"), root.join("written")];
        for path in [&read, &later] {
            fs::write(path, "x").expect("written");
        }
        let (events, mut opens) = Events::new().expect("made");
        opens.watch(&events, &root);
        fs::read(&read).expect("is there");
        fs::write(&written, "x").expect("written");
        fs::read_dir(&below).expect("is there").for_each(drop);
        events.wait(Duration::from_secs(5));
        opens.read(&events);
        let ours = |found: Vec<PathBuf>| -> Vec<PathBuf> {
            found.into_iter().filter(|path| path.starts_with(&root)).collect()
        };
        assert_eq!(ours(opens.take()), [read, below]);
        fs::read(&later).expect("is there");
        opens.read(&events);
        assert_eq!(ours(opens.take()), [later]);
    }
    #[test]
    fn what_lies_where_anybody_may_write_is_not_seen() {
        let dir = tempfile::tempdir().expect("made");
        let shared = dir.path().canonicalize().expect("is there").join("shared");
        let [theirs, ours] = ["theirs", "ours"].map(|name| shared.join(name));
        for path in [&theirs, &ours] {
            fs::create_dir_all(path).expect("made");
            fs::write(path.join("file"), "x").expect("written");
        }
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("set");
        let (events, mut opens) = Events::new().expect("made");
        opens.watch(&events, &ours);
        opens.watch(&events, &shared);
        fs::read_dir(&theirs).expect("is there").for_each(drop);
        opens.read(&events);
        for path in [&theirs, &ours] {
            fs::read(path.join("file")).expect("is there");
        }
        opens.read(&events);
        let found = opens.take().into_iter().filter(|path| path.starts_with(&shared));
        assert_eq!(found.collect::<Vec<PathBuf>>(), [ours.join("file")]);
    }
}
