//! Copies of files, for programs to read instead of the originals.
//!
//! A copy counts while its original has the same inode, size, mtime and ctime. So that no later change
//! can leave the same times, a file is copied only [`SETTLED`] after it was first seen with them. A copy
//! gets its name when it is on the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use becalm_core::elf;
use becalm_core::index::hash;
use becalm_host::tree::look::{self, Identity};
use becalm_host::trust;
use bstr::ByteSlice;
use rustix::fs::{CWD, syncfs};
use rustix::path::Arg;

use crate::index::places::cache_writer as writer;
use crate::trees::folder;

/// The time for which a file must have been unchanged: clocks of file systems have steps of up to two
/// seconds.
pub(super) const SETTLED: Duration = Duration::from_millis(2100);
/// Maximum length of a file that is copied.
const MOST: u64 = 64 << 20;
/// Maximum number of bytes of all copies.
const MOST_OF_ALL: u64 = 2 << 30;
/// A copy that was used in the last hour is not removed.
const YOUNG: Duration = Duration::from_secs(3600);
/// Bytes of the name of a file that the name of its copy has.
const MOST_OF_NAME: usize = 100;
/// Words of a library that asks where it is: it must be mapped from there.
const ASKS_WHERE_IT_IS: [&str; 4] = ["dladdr", "dlinfo", "dl_iterate_phdr", "/proc/self/maps"];
/// The folder of the copies.
const FOLDER: &str = "copies";
/// The ending of a copy that is being made.
const UNFINISHED: &str = "part";

/// Returns the path of a copy.
pub(super) fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(FOLDER).join(name)
}

/// Returns the name of the copy of a file, by all that identifies the file.
fn name(original: &Path, identity: &Identity) -> String {
    // Debuggers and profilers name a library by the beginning of its file name.
    let own = original.file_name().map_or(String::new(), |it| it.to_string_lossy().into_owned());
    let own: String = own.chars().filter(|it| it.is_ascii_graphic()).take(MOST_OF_NAME).collect();
    let Identity { inode, size, modified, changed } = identity;
    let path = hash::bytes(0, original.as_os_str().as_encoded_bytes());
    let [modified, changed] = [modified, changed].map(|(s, ns)| format!("{s:x}.{ns:x}"));
    format!("{own}~{path:016x}-{inode:x}-{size:x}-{modified}-{changed}")
}

/// Returns device and inode of a whole copy of a file with this identity.
pub(super) fn whole(copy: impl Arg, identity: &Identity) -> Option<(u64, u64)> {
    let copied = look::at(CWD, copy, false).ok()?;
    let is_whole = look::kind(&copied) == look::FILE
        && copied.stx_size == identity.size
        && copied.stx_uid == trust::user();
    is_whole.then(|| (look::device(&copied), copied.stx_ino))
}

/// Copies that are being made.
pub(super) struct Making {
    folder: PathBuf,
    /// Bytes that may still be used, by all and by one.
    pub(super) room: u64,
    most: u64,
    /// Those that are new, with the paths that they will have.
    pub(super) made: Vec<(PathBuf, PathBuf)>,
}

impl Making {
    /// Prepares the folder; `None` if that fails. Removes copies that were not used for long if there are
    /// many bytes.
    pub(super) fn new(folder: &Path) -> Option<Self> {
        let copies = folder::own(&folder.join(FOLDER))?;
        let used = make_room(&copies);
        let room = MOST_OF_ALL.saturating_sub(used).min(folder::free(folder) / 4);
        Some(Self { folder: copies, room, most: MOST, made: Vec::new() })
    }

    /// As [`Self::new`], for a pack: as many bytes as the file system has room for.
    pub(super) fn of_pack(folder: &Path) -> Option<Self> {
        Some(Self { room: folder::free(folder) / 4 * 3, most: u64::MAX, ..Self::new(folder)? })
    }

    /// True if there is room for those of these files that have no copy.
    pub(super) fn fits<'a>(&self, files: impl Iterator<Item = (&'a Path, Identity)>) -> bool {
        let is_new = |(original, of): &(&Path, Identity)| {
            self.folder.join(name(original, of)).symlink_metadata().is_err()
        };
        files.filter(is_new).map(|(_, of)| of.size).fold(0, u64::saturating_add) <= self.room
    }

    /// Copies a file with this identity. Returns the name; `None` if the file has changed, or there is no
    /// room.
    pub(super) fn copy(&mut self, original: &Path, identity: &Identity) -> Option<String> {
        self.make(original, identity, |copy| {
            let file = look::open(CWD, original).ok()?;
            let is_same = || {
                let facts = look::open_file(file.as_fd()).ok()?;
                (Identity::of_regular(&facts) == Some(*identity)).then_some(())
            };
            is_same()?;
            let mut from = File::from(file.try_clone().ok()?).take(identity.size + 1);
            let length = io::copy(&mut from, copy).ok()?;
            (length == identity.size).then_some(())?;
            is_same()
        })
    }

    /// Makes the copy of a file with this identity from its content. Returns the name; `None` if there is less
    /// of it, or no room.
    pub(super) fn add(
        &mut self,
        original: &Path,
        identity: &Identity,
        from: &mut impl Read,
    ) -> Option<String> {
        self.make(original, identity, |copy| {
            let length = io::copy(&mut from.take(identity.size), copy).ok()?;
            (length == identity.size).then_some(())
        })
    }

    fn make(
        &mut self,
        original: &Path,
        identity: &Identity,
        write: impl FnOnce(&mut File) -> Option<()>,
    ) -> Option<String> {
        let name = name(original, identity);
        let place = self.folder.join(&name);
        if place.symlink_metadata().is_ok_and(|facts| facts.len() == identity.size) {
            return Some(name);
        }
        (identity.size <= self.most && identity.size <= self.room).then_some(())?;
        let part = self.folder.join(format!("{name}.{}.{UNFINISHED}", std::process::id()));
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
        if created.ok().and_then(|mut copy| write(&mut copy)).is_none() {
            let _ = fs::remove_file(&part);
            return None;
        }
        self.room -= identity.size;
        self.made.push((part, place));
        Some(name)
    }

    /// Gives the copies their names, when they are on the disk. Returns false if that fails.
    pub(super) fn finish(&self) -> bool {
        let is_synced =
            self.made.is_empty() || File::open(&self.folder).is_ok_and(|it| syncfs(it).is_ok());
        // One writer looks for what is left of killed ones once.
        let writer = writer();
        for (part, place) in &self.made {
            if !(is_synced && writer.rename(part, place).is_ok()) {
                let _ = fs::remove_file(part);
            }
        }
        is_synced
    }
}

/// True if the loader may map this copy of a library instead of it: nothing in the library depends on its
/// directory.
pub(super) fn is_loadable(copy: &Path) -> bool {
    let Ok(bytes) = fs::read(copy) else { return false };
    let Ok(view) = elf::parse(&bytes[..]) else { return false };
    let is_plain = view.dynamic.is_some_and(|dynamic| {
        let names = dynamic.dependencies.iter().all(|it| !it.name.contains(&b'$'));
        names
            && dynamic.run_path().is_none()
            && dynamic.audit.is_none()
            && dynamic.depaudit.is_none()
    });
    is_plain && ASKS_WHERE_IT_IS.iter().all(|it| !bytes.contains_str(it))
}

/// Removes the copies that are of no pack and were not used for the longest time, until there is room for others, and unfinished
/// ones that nobody makes any more. Returns the bytes that are left.
fn make_room(copies: &Path) -> u64 {
    let entries = copies.read_dir().into_iter().flatten().flatten();
    let mut all: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            // One with a second name belongs to a pack that was unpacked.
            let facts = entry.metadata().ok().filter(|it| it.nlink() == 1)?;
            Some((facts.accessed().ok()?.max(facts.modified().ok()?), facts.len(), entry.path()))
        })
        .collect();
    all.sort();
    let mut used: u64 = all.iter().map(|it| it.1).sum();
    for (time, length, path) in all {
        let is_old = time.elapsed().is_ok_and(|age| age > YOUNG);
        let is_unfinished = path.extension().is_some_and(|it| it == UNFINISHED);
        if is_old && (is_unfinished || used > MOST_OF_ALL / 4 * 3) && fs::remove_file(&path).is_ok()
        {
            used -= length;
        }
    }
    used
}
