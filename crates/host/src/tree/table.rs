//! The table of paths and results that a program's audit module reads (`crates/audit/module/tree.c`).

#![allow(unsafe_code, reason = "memory that two processes share")]

use std::ffi::CStr;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use becalm_core::index::hash;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::look::Facts;

/// The first number of a table. Another form of table has another one.
pub const MAGIC: u64 = 0x3265_6572_546d_6c62;
/// Bytes for the paths that a program tells.
const LOG: u32 = 512 << 10;
/// Maximum number of trees.
pub const MOST_BASES: usize = 16;

#[repr(C)]
struct Header {
    magic: u64,
    size: u64,
    is_taken: AtomicU32,
    is_ready: AtomicU32,
    is_off: AtomicU32,
    entries: u32,
    slots: u32,
    strings: u32,
    log: u32,
    log_size: u32,
    logs_all: u32,
    count: u32,
    /// The process that holds the directories.
    holder: AtomicU32,
    base_count: AtomicU32,
    bases: [AtomicU32; MOST_BASES],
    log_used: AtomicU64,
    asked: AtomicU64,
    /// The time of the last beginning of a program that uses the table, and the number of programs.
    last_since: AtomicU64,
    programs: AtomicU64,
    seen: [u64; 512],
}

#[repr(C)]
struct Entry {
    hash: u64,
    path: u32,
    length: u32,
    copy: u32,
    target: u32,
    state: AtomicU64,
    copy_dev: u64,
    copy_ino: u64,
    used: AtomicU32,
    is_mapped: u32,
    loads: AtomicU32,
    /// The holder's descriptor of the directory, plus one.
    directory: AtomicU32,
    found: Facts,
    followed: Facts,
}

const _: () = assert!(size_of::<Header>() == 4256 && size_of::<Entry>() == 576);

/// A path to be put into a table.
#[derive(Clone, Debug)]
pub struct NewEntry<'a> {
    /// The path.
    pub path: &'a str,
    /// The path of its copy.
    pub copy: Option<&'a CStr>,
    /// The target of a symbolic link.
    pub target: Option<&'a str>,
    /// True if it is known that the program maps it.
    pub is_mapped: bool,
    /// True if the loader may map the copy instead.
    pub loads: bool,
}

/// The results of the calls for a path.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for a moment")]
pub enum Found {
    /// The kernel has to be asked.
    Unknown,
    /// Nothing.
    Absent,
    /// The results of `lstat` and, for a link that leads somewhere, `stat`.
    There {
        /// The result of `lstat`.
        facts: Facts,
        /// The result of `stat` if the first is a link.
        followed: Option<Facts>,
        /// Device and inode of the copy, if the file is as it was copied.
        copy: Option<(u64, u64)>,
    },
}

/// The numbers of bytes that a table needs.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The number of paths.
    pub entries: u32,
    /// Bytes of the paths, copies, targets and trees, each with a zero at its end.
    pub text: u32,
}

impl Sizes {
    fn slots(self) -> u32 {
        (self.entries.max(4) * 2).next_power_of_two()
    }

    /// Returns the offsets of entries, slots, strings and log, and the size of all.
    fn offsets(self) -> [u32; 5] {
        let entries = (size_of::<Header>() as u32).next_multiple_of(64);
        let slots = entries + self.entries * size_of::<Entry>() as u32;
        let strings = slots + 4 + 8 * self.slots();
        // The first string is empty: its offset means that there is none.
        let log = (strings + 1 + self.text).next_multiple_of(64);
        [entries, slots, strings, log, (log + LOG).next_multiple_of(4096)]
    }
}

/// A table in memory that two processes share.
#[derive(Debug)]
pub struct Table {
    memory: *mut u8,
    size: usize,
    sizes: Sizes,
}

// SAFETY: both processes change it with atomic operations, and each entry by one thread at a time.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Makes the file of an empty table. With `logs_all` programs tell every path that they look up, otherwise
/// those in the trees.
///
/// # Errors
/// Returns an error if there is no memory.
pub fn make(sizes: Sizes, logs_all: bool) -> io::Result<OwnedFd> {
    let [entries, slots, strings, log, size] = sizes.offsets();
    let memory = memfd_create("becalm", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, size.into())?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let mut head = Vec::new();
    head.extend(MAGIC.to_ne_bytes());
    head.extend(u64::from(size).to_ne_bytes());
    for word in [0, 0, 0, entries, slots, strings, log, LOG, u32::from(logs_all), sizes.entries] {
        head.extend(word.to_ne_bytes());
    }
    debug_assert_eq!(head.len(), offset_of!(Header, holder));
    let file = std::fs::File::from(memory);
    file.write_all_at(&head, 0)?;
    file.write_all_at(&(sizes.slots() - 1).to_ne_bytes(), slots.into())?;
    Ok(file.into())
}

impl Table {
    /// Maps the file of a table.
    ///
    /// # Errors
    /// Returns an error if there is no memory.
    pub fn map(file: impl AsFd, sizes: Sizes) -> io::Result<Self> {
        let size = sizes.offsets()[4] as usize;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping. The file is sealed, so it cannot become shorter.
        let memory = unsafe { mmap(ptr::null_mut(), size, rights, MapFlags::SHARED, file, 0)? };
        Ok(Self { memory: memory.cast(), size, sizes })
    }

    fn head(&self) -> &Header {
        // SAFETY: the mapping begins with a header and is aligned to pages. What both processes change is
        // atomic.
        unsafe { &*self.memory.cast() }
    }

    fn entry(&self, at: usize) -> *mut Entry {
        assert!(at < self.sizes.entries as usize, "an entry of the table");
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.memory.add(self.sizes.offsets()[0] as usize).cast::<Entry>().add(at) }
    }

    /// Returns a slot: by path in the first half, by inode of the copy in the second.
    fn slot(&self, at: u32) -> &AtomicU32 {
        assert!(at < 2 * self.sizes.slots(), "a slot of the table");
        let offset = self.sizes.offsets()[1] as usize + 4 + 4 * at as usize;
        // SAFETY: inside the mapping, by the assertion, and aligned to four bytes.
        unsafe { &*self.memory.add(offset).cast() }
    }

    /// Writes trees and paths, and lets the program use them. Returns false if they do not fit.
    #[must_use]
    pub fn fill<'a>(
        &self,
        bases: &[String],
        entries: impl ExactSizeIterator<Item = NewEntry<'a>>,
    ) -> bool {
        if entries.len() > self.sizes.entries as usize || bases.len() > MOST_BASES {
            return false;
        }
        let mut used = 1;
        let mut add = |string: &[u8]| self.add(string, &mut used);
        for (place, base) in self.head().bases.iter().zip(bases) {
            let Some(offset) = add(base.as_bytes()) else { return false };
            place.store(offset, Ordering::Relaxed);
        }
        self.head().base_count.store(bases.len() as u32, Ordering::Relaxed);
        for (at, new) in entries.enumerate() {
            let bytes = new.path.as_bytes();
            let strings =
                [Some(bytes), new.copy.map(CStr::to_bytes), new.target.map(str::as_bytes)];
            let offsets = strings.map(|string| string.map_or(Some(0), &mut add));
            let [Some(path), Some(copy), Some(target)] = offsets else { return false };
            let hash = hash::bytes(0, bytes);
            let entry = self.entry(at);
            // SAFETY: no program reads the entry before it is ready.
            unsafe {
                (*entry).hash = hash;
                (*entry).path = path;
                (*entry).length = bytes.len() as u32;
                (*entry).copy = copy;
                (*entry).target = target;
                (*entry).is_mapped = new.is_mapped.into();
                (*entry).loads = AtomicU32::new(new.loads.into());
            }
            self.enter(hash as u32, 0, at);
        }
        self.head().is_ready.store(1, Ordering::Release);
        true
    }

    /// Writes a string after those that are written, and returns its offset; `None` if it does not fit.
    fn add(&self, bytes: &[u8], used: &mut u32) -> Option<u32> {
        let offset = *used;
        // The memory is zero.
        let end = offset.checked_add(bytes.len() as u32 + 1)?;
        if end > self.sizes.text + 1 {
            return None;
        }
        let at = self.sizes.offsets()[2] as usize + offset as usize;
        // SAFETY: inside the mapping, by the check above; no program reads it before it is ready.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.add(at), bytes.len()) };
        *used = end;
        Some(offset)
    }

    /// Lets programs open a directory by a descriptor of the process that attends the table. The descriptor
    /// must stay open as long as the process runs.
    pub fn hold(&self, at: usize, directory: BorrowedFd<'_>) {
        let number = directory.as_raw_fd().cast_unsigned() + 1;
        // SAFETY: inside the mapping; the field is atomic.
        unsafe { (*self.entry(at)).directory.store(number, Ordering::Release) };
    }

    /// Lets the loader map the copy of an entry instead of the library. Of a directory, says that all names
    /// in it are in the table: programs are told that there are no others.
    pub fn let_map(&self, at: usize) {
        // SAFETY: inside the mapping; the field is atomic.
        unsafe { (*self.entry(at)).loads.store(1, Ordering::Release) };
    }

    /// Enters an entry into the slots of one half, which are more than the entries.
    fn enter(&self, hash: u32, half: u32, at: usize) {
        let mask = self.sizes.slots() - 1;
        let mut place = hash & mask;
        let number = at as u32 + 1;
        for _ in 0..=mask {
            let slot = self.slot(half * (mask + 1) + place);
            let known = slot.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
            if known.is_ok() || known == Err(number) {
                return;
            }
            place = (place + 1) & mask;
        }
    }

    /// The time of results that count as long as the table, for every program.
    pub const ALWAYS: u64 = u64::MAX >> 2;

    /// Writes what was found at a path. `time` is that before the calls, in milliseconds of
    /// `CLOCK_MONOTONIC`, or [`Self::ALWAYS`]. Each entry is written by one thread at a time.
    pub fn publish(&self, at: usize, found: &Found, time: u64) {
        let entry = self.entry(at);
        // SAFETY: this thread alone writes the entry. The program reads it only if the state is the same
        // before and after.
        unsafe {
            (*entry).state.store(0, Ordering::Release);
            fence(Ordering::SeqCst);
            let kind = match found {
                Found::Unknown => return,
                Found::Absent => 1,
                Found::There { facts, followed, copy } => {
                    ptr::write(&raw mut (*entry).found, *facts);
                    let mut nowhere = *facts;
                    nowhere.stx_mode = 0;
                    ptr::write(&raw mut (*entry).followed, followed.unwrap_or(nowhere));
                    if let Some((device, inode)) = *copy {
                        ptr::write(&raw mut (*entry).copy_dev, device);
                        ptr::write(&raw mut (*entry).copy_ino, inode);
                        self.enter(inode as u32, 1, at);
                    }
                    if copy.is_some() { 3 } else { 2 }
                }
            };
            (*entry).state.store(time << 2 | kind, Ordering::Release);
        }
    }

    /// Returns what was published at an entry last; its copy is left out. Only for the process that publishes.
    #[must_use]
    pub fn found(&self, at: usize) -> Found {
        let entry = self.entry(at);
        // SAFETY: inside the mapping; no thread writes the entry meanwhile.
        let (facts, followed) = unsafe { ((*entry).found, (*entry).followed) };
        match self.kind(at) {
            0 => Found::Unknown,
            1 => Found::Absent,
            _ => {
                let followed = (followed.stx_mode != 0).then_some(followed);
                Found::There { facts, followed, copy: None }
            }
        }
    }

    /// Returns the kind of an entry's state: 0 if the kernel has to be asked, 1 for nothing, 2 for something,
    /// 3 for a file with a copy.
    #[must_use]
    pub fn kind(&self, at: usize) -> u64 {
        // SAFETY: inside the mapping; the field is atomic.
        unsafe { (*self.entry(at)).state.load(Ordering::Acquire) & 3 }
    }

    /// Returns the number of times that programs have asked for an entry.
    #[must_use]
    pub fn uses(&self, at: usize) -> u32 {
        // SAFETY: inside the mapping; the field is atomic.
        unsafe { (*self.entry(at)).used.load(Ordering::Relaxed) }
    }

    /// True if a program uses the table.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.head().is_taken.load(Ordering::Acquire) != 0
    }

    /// Adds a program that begins at this time.
    pub fn join(&self, since: u64) {
        self.head().programs.fetch_add(1, Ordering::Relaxed);
        self.head().last_since.fetch_max(since, Ordering::AcqRel);
    }

    /// Returns the time of the last beginning of a program.
    #[must_use]
    pub fn last_since(&self) -> u64 {
        self.head().last_since.load(Ordering::Acquire)
    }

    /// Returns the number of programs.
    #[must_use]
    pub fn programs(&self) -> u64 {
        self.head().programs.load(Ordering::Relaxed)
    }

    /// Says which process fills the table and holds the directories: this one.
    pub fn attend(&self) {
        self.head().holder.store(std::process::id(), Ordering::Release);
    }

    /// Says that no process fills the table any more.
    pub fn leave(&self) {
        self.head().holder.store(Self::LEFT, Ordering::Release);
    }

    /// The attendant of a table that no process fills any more.
    pub const LEFT: u32 = u32::MAX;

    /// Returns the process that fills the table; 0 if it has not begun.
    #[must_use]
    pub fn attendant(&self) -> u32 {
        self.head().holder.load(Ordering::Acquire)
    }

    /// True if all answers are disabled.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.head().is_off.load(Ordering::Acquire) != 0
    }

    /// Returns a number that changes as long as the program asks.
    #[must_use]
    pub fn activity(&self) -> u64 {
        let head = self.head();
        head.asked.load(Ordering::Relaxed) + head.log_used.load(Ordering::Relaxed)
    }

    /// Returns the number of answers that programs have had.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.head().asked.load(Ordering::Relaxed)
    }

    /// Disables all answers.
    pub fn turn_off(&self) {
        self.head().is_off.store(1, Ordering::Release);
    }

    /// Returns the paths that the program has told, each with its use: `r` if it opened the file for reading, `m` if the
    /// loader mapped it after the start, `s` for anything else.
    #[must_use]
    pub fn told(&self) -> Vec<(u8, Vec<u8>)> {
        let used = self.head().log_used.load(Ordering::Acquire).min(LOG.into()) as usize;
        // SAFETY: inside the mapping. The program may write a later part meanwhile; it is copied once.
        let bytes = unsafe {
            let from = self.memory.add(self.sizes.offsets()[3] as usize);
            std::slice::from_raw_parts(from, used).to_vec()
        };
        let told = bytes.split(|&byte| byte == 0).filter_map(|told| {
            let (what, path) = told.split_first()?;
            b"rms".contains(what).then(|| (*what, path.to_vec()))
        });
        told.collect()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the mapping of this table; nothing refers to it any more.
        let _ = unsafe { munmap(self.memory.cast(), self.size) };
    }
}
