//! Parses the records of a ring (`enum perf_event_type` of `<linux/perf_event.h>`).

use bstr::BString;
use perf_event_open_sys::bindings::{
    PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_LOST,
    PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MISC_SWITCH_OUT, PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
    PERF_RECORD_MMAP2, PERF_RECORD_SAMPLE, PERF_RECORD_SWITCH,
};

use super::ring::Kind;

/// An event, and its time on the monotonic clock in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Timed {
    pub(super) time: u64,
    pub(super) event: Event,
}

/// An event of a process or of one of its threads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A page fault began in a thread, at an address.
    Began { thread: u32, address: u64 },
    /// A page fault has ended.
    Ended { process: u32, thread: u32, address: u64, is_major: bool },
    /// A thread sleeps: it left its processor by itself.
    Slept { thread: u32 },
    /// Memory was mapped: from a file, or for [`None`] anonymous.
    Mapped { process: u32, start: u64, end: u64, file: Option<BString> },
    /// A process executed a program.
    Executed { process: u32 },
    /// A process was created by another one.
    Forked { process: u32, parent: u32 },
    /// A process has ended.
    Gone { process: u32 },
    /// The ring had no room for this many records.
    Lost { records: u64 },
}

/// The flags of a thread that was taken off its processor.
const PREEMPTED: u32 = PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;

/// Parses a record; `None` for one that is not used.
pub(super) fn parse(record: &[u8], kind: Kind) -> Option<Timed> {
    let number = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    let type_ = number(0)?;
    let flags = u32::from(u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?));
    let (process, thread) = (number(8)?, number(12)?);
    if type_ == PERF_RECORD_SAMPLE {
        let (time, address) = (long(16)?, long(24)?);
        let event = match kind {
            Kind::Began => Event::Began { thread, address },
            kind => Event::Ended { process, thread, address, is_major: kind == Kind::Major },
        };
        return Some(Timed { time, event });
    }
    let event = match type_ {
        PERF_RECORD_MMAP2 => {
            let (start, name) = (long(16)?, record.get(72..)?);
            let name = &name[..name.iter().position(|byte| *byte == 0)?];
            // "//anon", "[heap]" and others are no paths.
            let is_file = name.starts_with(b"/") && !name.starts_with(b"//");
            let end = start.saturating_add(long(24)?);
            Event::Mapped { process, start, end, file: is_file.then(|| name.into()) }
        }
        PERF_RECORD_COMM if flags & PERF_RECORD_MISC_COMM_EXEC != 0 => Event::Executed { process },
        // The second number is the parent's, the third the thread's.
        PERF_RECORD_FORK if process != thread => Event::Forked { process, parent: thread },
        PERF_RECORD_EXIT if number(16)? == process => Event::Gone { process },
        // It consists of what every record ends with.
        PERF_RECORD_SWITCH if flags & PREEMPTED == PERF_RECORD_MISC_SWITCH_OUT => {
            Event::Slept { thread }
        }
        PERF_RECORD_LOST => Event::Lost { records: long(16)? },
        _ => return None,
    };
    // The last field of what every record ends with (`sample_id_all`).
    Some(Timed { time: long(record.len().checked_sub(8)?)?, event })
}
