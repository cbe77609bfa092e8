//! The pages of files that a process has in its page tables, collected while it runs.

use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use rustc_hash::{FxHashMap, FxHashSet};

use super::maps::{Mapping, mappings};
use super::{MOST_PAGES, PAGE, fault_around};

/// Bits of an entry of pagemap (Linux Documentation/admin-guide/mm/pagemap.rst): in memory, swapped.
const PRESENT: u64 = 0b11 << 62;

/// After so many pages of all files, no further file or mapping is looked at: 1 GiB.
pub const MOST_TOUCHED: u64 = 1 << 18;

/// The pages of files that processes have touched so far.
#[derive(Debug, Default)]
pub struct Touched {
    /// The files with their places in the order in which they were first seen, and their pages.
    files: FxHashMap<PathBuf, (usize, FxHashSet<u64>)>,
    /// The number of pages of all files.
    pub count: u64,
}

impl Touched {
    /// Returns the files and their pages in any order, in the order in which the files were first seen.
    pub fn files(&self) -> impl Iterator<Item = (&Path, impl Iterator<Item = u64>)> {
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by_key(|(_, (place, _))| *place);
        files.into_iter().map(|(path, (_, pages))| (&**path, pages.iter().copied()))
    }

    /// Adds the pages that a process has now in mappings of files, and those that it has read through
    /// descriptors that are open. `faults` is the process's descriptor of [`fault_around`]: all
    /// mappings are registered, because the process may have made new ones.
    ///
    /// # Errors
    /// Returns an error if the process has ended or may not be examined.
    pub fn add(&mut self, pid: u32, faults: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        let text = fs::read(format!("/proc/{pid}/maps"))?;
        // The loader maps each library below the one before.
        let mappings: Vec<Mapping<'_>> = mappings(&text).collect();
        for mapping in mappings.iter().rev() {
            if let Some(faults) = faults {
                fault_around::turn_off(faults, mapping.from, mapping.to);
            }
            if self.count < MOST_TOUCHED {
                self.add_mapping(&pagemap, mapping)?;
            }
        }
        self.add_descriptors(pid);
        Ok(())
    }

    fn add_mapping(&mut self, pagemap: &File, mapping: &Mapping<'_>) -> io::Result<()> {
        const ENTRY: u64 = 8;
        let size = rustix::param::page_size() as u64;
        let most = MOST_PAGES * PAGE;
        let end = mapping.to.min(mapping.from.saturating_add(most.saturating_sub(mapping.offset)));
        let entries = end.saturating_sub(mapping.from) / size;
        let mut bytes = vec![0; (entries * ENTRY) as usize];
        let length = pagemap.read_at(&mut bytes, mapping.from / size * ENTRY)?;
        let entries = bytes[..length].as_chunks().0.iter().map(|it| u64::from_le_bytes(*it));
        let present = (0u64..).zip(entries).filter(|(_, entry)| entry & PRESENT != 0);
        let offsets = present.map(|(at, _)| mapping.offset + at * size);
        let units = offsets.flat_map(|offset| offset / PAGE..(offset + size) / PAGE);
        self.add_pages(mapping.path, units);
        Ok(())
    }

    /// Adds what was read up to the present offsets of open files.
    fn add_descriptors(&mut self, pid: u32) {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return };
        for entry in entries.flatten() {
            // The offset of a directory is no number of bytes.
            let facts = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file);
            let (Some(facts), Ok(path)) = (facts, fs::read_link(entry.path())) else { continue };
            let about = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
            let offset = fs::read(about).ok().and_then(|about| offset(&about)).unwrap_or(0);
            let end = offset.min(facts.len()).div_ceil(PAGE).min(MOST_PAGES);
            if path.is_absolute() && end > 0 && self.count < MOST_TOUCHED {
                self.add_pages(&path, 0..end);
            }
        }
    }

    /// Adds pages that were found elsewhere.
    pub fn add_all(&mut self, other: &Self) {
        other.files().for_each(|(path, pages)| self.add_pages(path, pages));
    }

    /// Returns true if there are pages of a file.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.files.get(path).is_some_and(|(_, pages)| !pages.is_empty())
    }

    /// Adds pages of a file; without pages, only its place in the order.
    pub fn add_pages(&mut self, path: &Path, pages: impl IntoIterator<Item = u64>) {
        let place = self.files.len();
        let file = self.files.entry(path.to_owned());
        let (_, known) = file.or_insert_with(|| (place, FxHashSet::default()));
        for page in pages.into_iter().filter(|page| *page < MOST_PAGES) {
            self.count += u64::from(known.insert(page));
        }
    }
}

/// Returns the offset of a descriptor by its fdinfo (proc_pid_fdinfo(5)).
fn offset(about: &[u8]) -> Option<u64> {
    let line = about.lines().find_map(|line| line.strip_prefix(b"pos:"))?;
    line.trim_ascii().to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{Seek, SeekFrom};

    use super::*;

    #[test]
    fn pages_that_this_process_touches_are_found() {
        let mut touched = Touched::default();
        touched.add(std::process::id(), None).expect("this process");
        let own = std::env::current_exe().expect("known");
        let (_, pages) =
            touched.files().find(|(path, _)| *path == own).expect("this program is mapped");
        assert!(pages.count() > 10);
        let before = touched.count;
        touched.add(std::process::id(), None).expect("this process");
        assert!(touched.count - before < before, "pages are counted once");
    }

    /// An offset beyond the end of a file, or the place in a directory, is no reason to end a record.
    #[test]
    fn only_files_count_as_read_and_only_to_their_end() {
        let dir = tempfile::tempdir().expect("made");
        let path = dir.path().join("file");
        fs::write(&path, vec![1; 2 * PAGE as usize]).expect("written");
        let mut file = File::open(&path).expect("is there");
        file.seek(SeekFrom::Start(1 << 40)).expect("set");
        let mut folder = File::open(dir.path()).expect("is there");
        // Not every file system has such places.
        let _ = folder.seek(SeekFrom::Start(1 << 30));
        let mut touched = Touched::default();
        touched.add_descriptors(std::process::id());
        let pages = |path: &Path| {
            let found = touched.files().find(|it| it.0 == path);
            found.map(|(_, pages)| BTreeSet::from_iter(pages))
        };
        assert_eq!(pages(&path), Some(BTreeSet::from([0, 1])));
        assert_eq!(pages(dir.path()), None);
    }

    #[test]
    fn a_page_is_added_once_and_a_far_one_is_not() {
        let mut touched = Touched::default();
        touched.add_pages(Path::new("/x"), [70, 3, 70, MOST_PAGES]);
        assert_eq!(touched.count, 2);
        let (path, pages) = touched.files().next().expect("added");
        assert_eq!((path, BTreeSet::from_iter(pages)), (Path::new("/x"), BTreeSet::from([3, 70])));
    }
}
