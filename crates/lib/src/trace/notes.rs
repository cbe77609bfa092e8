//! Remarks on a run for its reader.

use becalm_host::trace::Note;

use crate::escape::shown;
use crate::words::{counted, errno_words};

/// Returns the notes, a sentence each. `filtered` is true if remaining processes need the tracer.
#[must_use]
pub fn in_words(notes: &[Note], filtered: bool) -> Vec<String> {
    notes.iter().map(|note| words(note, filtered)).collect()
}

fn words(note: &Note, filtered: bool) -> String {
    match note {
        Note::OfProgram { path, what } => format!("{}: {what}", shown(path.as_ref())),
        Note::TracesItself { pid } => {
            format!("process {pid} tried to trace (ptrace), which failed because becalm traces it")
        }
        Note::NoFilter { errno } => format!(
            "no seccomp filter ({}): every system call stopped, at more cost",
            errno_words(becalm_core::fs::Errno(*errno))
        ),
        Note::NoNewPrivileges => {
            "run under no_new_privs, as the seccomp filter needs without CAP_SYS_ADMIN".to_owned()
        }
        Note::Undecoded { arch } => {
            format!("calls of another architecture ({arch:#x}) were not counted")
        }
        Note::LeftRunning { processes } => {
            let still = counted(
                *processes as u64,
                "process that the program started still runs",
                "processes that the program started still run",
            );
            let need = "; a process of becalm stays until the end, without which no file could be \
                        looked up";
            format!("{still}, uncounted{}", if filtered { need } else { "" })
        }
        Note::PagesNotMeasured { errno, waits } => format!(
            "{} of the program and its processes waited for the disk; which and how long is not measured \
             (perf_event_open: {})",
            counted(*waits, "page fault", "page faults"),
            errno_words(becalm_core::fs::Errno(*errno))
        ),
        Note::PagesLost { events } => format!(
            "{} of page faults were lost: the program waited for more pages than are counted",
            counted(*events, "event", "events")
        ),
    }
}
