//! Helpers of the writer's tests: a simple edit with a record for its undo, a script of faults, and
//! snapshots of directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use becalm_core::patch::{Patch, Write};

use super::faults::{Faults, Verdict};
use crate::write::sys::Call;
use crate::write::{WriteError, WriteOptions, Writer};

/// The first bytes that the edit appends; the old length follows.
const LEADER: &[u8; 8] = b"\x7ftoyLEAD";
/// The last bytes of a file with the edit.
const FOOTER: &[u8; 8] = b"\x7ftoyFOOT";

/// An edit of `old` that overwrites ranges inside and appends a record with the old bytes. The part
/// before the footer is long, so that the tests can write only part of it.
pub(super) fn edit(old: &[u8]) -> Patch {
    let inside = [(8usize, vec![b'N'; 16]), (old.len() / 2, vec![b'M'; 700])];
    let mut leader = LEADER.to_vec();
    leader.extend((old.len() as u64).to_le_bytes());
    let mut body = vec![b'S'; 3000];
    for (offset, new) in &inside {
        body.extend((*offset as u64).to_le_bytes());
        body.extend((new.len() as u64).to_le_bytes());
        body.extend(&old[*offset..offset + new.len()]);
    }
    body.extend(checksum(&body).to_le_bytes());
    body.extend(FOOTER);
    let at = old.len() as u64;
    let mut writes: Vec<Write> =
        inside.into_iter().map(|(offset, bytes)| Write { offset: offset as u64, bytes }).collect();
    let length = at + (leader.len() + body.len()) as u64;
    let body_at = at + leader.len() as u64;
    writes.push(Write { offset: at, bytes: leader });
    writes.push(Write { offset: body_at, bytes: body });
    Patch { writes, length }
}

/// Returns the patch that undoes [`edit`] for a file in any state between old and new, or `None` if
/// the file has no record.
pub(super) fn undo(now: &[u8]) -> Option<Patch> {
    let at = now.windows(8).position(|bytes| bytes == LEADER)?;
    let number = |at: usize| Some(u64::from_le_bytes(*now.get(at..)?.first_chunk()?));
    let length = number(at + 8)?;
    let mut writes = Vec::new();
    if let Some(body) = now.get(at + 16..).and_then(|rest| rest.strip_suffix(FOOTER)) {
        let (body, sum) = body.split_last_chunk::<8>()?;
        if checksum(body) == u64::from_le_bytes(*sum) {
            let mut rest = &body[3000..];
            while let Some((offset, more)) = rest.split_first_chunk::<8>() {
                let (size, more) = more.split_first_chunk::<8>()?;
                let (bytes, more) = more.split_at(u64::from_le_bytes(*size) as usize);
                let offset = u64::from_le_bytes(*offset);
                writes.push(Write { offset, bytes: bytes.to_vec() });
                rest = more;
            }
        }
    }
    Some(Patch { writes, length })
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Undoes the edit of a file that is neither old nor new.
pub(super) fn recovered(now: &[u8]) -> Vec<u8> {
    undo(now).map_or_else(|| now.to_vec(), |patch| applied(&patch, now))
}

/// Does the same as [`Patch::applied_to`], also for a patch that shortens the file.
pub(super) fn applied(patch: &Patch, old: &[u8]) -> Vec<u8> {
    let longer = Patch { length: patch.length.max(old.len() as u64), ..patch.clone() };
    let mut new = longer.applied_to(old);
    new.truncate(patch.length as usize);
    new
}

/// Content that differs from file to file.
pub(super) fn content(number: usize) -> Vec<u8> {
    (0..20_000usize).map(|at| b'a' + ((at * 7 + number + at / 251) % 26) as u8).collect()
}

/// A plan of faults.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plan {
    /// No faults; the calls are counted.
    Count,
    /// The process is killed before the n-th change. Of a long write, this number of sixteenths is
    /// written.
    Kill { at: usize, sixteenths: usize },
    /// The disk is full at the n-th call that needs disk space and, if `on` is true, at all later
    /// ones.
    Full { at: usize, on: bool },
    /// The n-th call of any kind fails with an I/O error.
    Broken { at: usize },
}

/// A [`Faults`] that follows a plan.
pub(super) struct Script {
    plan: Plan,
    changes: AtomicUsize,
    spaces: AtomicUsize,
    calls: AtomicUsize,
    dead: AtomicBool,
    /// Indexes of the changes that are long writes.
    long: Mutex<Vec<usize>>,
}

impl Script {
    pub(super) fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Self {
            plan,
            changes: AtomicUsize::new(0),
            spaces: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            long: Mutex::default(),
        })
    }

    pub(super) fn counts(&self) -> Counts {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        Counts {
            changes: count(&self.changes),
            spaces: count(&self.spaces),
            calls: count(&self.calls),
            long: self.long.lock().unwrap().clone(),
        }
    }
}

/// Number of calls that a run made.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) changes: usize,
    /// Calls that need disk space.
    pub(super) spaces: usize,
    pub(super) calls: usize,
    /// Indexes of the changes that are long writes.
    pub(super) long: Vec<usize>,
}

impl Counts {
    /// Returns every point at which the run can be killed: before each change and within each long
    /// write.
    pub(super) fn kills(&self) -> Vec<Plan> {
        let plain = (0..self.changes).map(|at| Plan::Kill { at, sixteenths: 0 });
        let torn = self
            .long
            .iter()
            .flat_map(|&at| (1..16).map(move |sixteenths| Plan::Kill { at, sixteenths }));
        plain.chain(torn).collect()
    }
}

/// Returns true for a call that changes the file system.
fn changes(call: Call<'_>) -> bool {
    !matches!(call, Call::Open | Call::Stat | Call::Read | Call::List | Call::Lock)
}

fn is_long(call: Call<'_>) -> bool {
    matches!(call, Call::Write { bytes, .. } if bytes.len() > 256)
}

fn needs_space(call: Call<'_>) -> bool {
    matches!(
        call,
        Call::Create
            | Call::Write { .. }
            | Call::Copy
            | Call::Clone
            | Call::MakeDir
            | Call::Link
            | Call::Attribute
    )
}

impl Faults for Script {
    fn before(&self, _path: &Path, call: Call<'_>) -> Verdict {
        let next = |counter: &AtomicUsize, counts: bool| {
            if counts { counter.fetch_add(1, Ordering::SeqCst) } else { usize::MAX }
        };
        let change = next(&self.changes, changes(call));
        let space = next(&self.spaces, needs_space(call));
        let number = next(&self.calls, true);
        if is_long(call) {
            self.long.lock().unwrap().push(change);
        }
        if self.dead.load(Ordering::SeqCst) {
            return Verdict::Fail(libc::EIO);
        }
        match self.plan {
            Plan::Kill { at, sixteenths } if change == at => {
                self.dead.store(true, Ordering::SeqCst);
                match call {
                    Call::Write { bytes, .. } if is_long(call) => {
                        Verdict::Short(bytes.len() * sixteenths / 16)
                    }
                    _ => Verdict::Fail(libc::EIO),
                }
            }
            Plan::Full { at, on } if space == at || (on && space != usize::MAX && space > at) => {
                Verdict::Fail(libc::ENOSPC)
            }
            Plan::Broken { at } if number == at => Verdict::Fail(libc::EIO),
            _ => Verdict::Pass,
        }
    }
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Write { offset: u64, bytes: Vec<u8> },
    SetLength(u64),
    Sync,
    SyncAll,
    Rename(PathBuf),
    Other,
}

/// A [`Faults`] that injects none and records all calls.
#[derive(Default)]
pub(super) struct Log(pub(super) Mutex<Vec<(PathBuf, Made)>>);

impl Faults for Log {
    fn before(&self, path: &Path, call: Call<'_>) -> Verdict {
        let made = match call {
            Call::Write { offset, bytes } => Made::Write { offset, bytes: bytes.to_vec() },
            Call::SetLength(length) => Made::SetLength(length),
            Call::Sync => Made::Sync,
            Call::SyncAll => Made::SyncAll,
            Call::Rename(to) => Made::Rename(to.to_owned()),
            call if changes(call) => Made::Other,
            _ => return Verdict::Pass,
        };
        self.0.lock().unwrap().push((path.to_owned(), made));
        Verdict::Pass
    }
}

/// Returns the content of a directory: each name with its bytes, link target or directory content.
/// Symbolic links are not followed.
pub(super) fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            all.push((path, target.into_os_string().into_encoded_bytes()));
        } else if kind.is_dir() {
            all.push((path.clone(), b"directory".to_vec()));
            all.extend(snapshot(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

/// Creates a directory for thousands of small trees. It is in memory if possible, because the tests
/// are about the order of calls and not about the disk.
pub(super) fn quick_place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Writes one file.
pub(super) fn write(
    writer: &Writer,
    path: &Path,
    patch: impl FnOnce(&[u8]) -> Patch,
) -> Result<(), WriteError> {
    let file = writer.open(path)?;
    let patch = patch(&fs::read(path).unwrap());
    writer.apply(file, patch)
}

pub(super) fn anew() -> WriteOptions {
    WriteOptions::default()
}

pub(super) fn in_place() -> WriteOptions {
    WriteOptions { in_place: true, ..WriteOptions::default() }
}
