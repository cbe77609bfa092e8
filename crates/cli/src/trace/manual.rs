//! The manual's sections of `becalm trace`.

use crate::terminal::manual::{ENVIRONMENT, JSON};

/// Last sections of the help and the man page of `becalm trace`.
pub(crate) const TRACE: &[&str] =
    &[TRACE_STATUS, TRACE_STREAMS, TRACE_WATCHING, ENVIRONMENT, JSON, TRACE_EXAMPLES];

const TRACE_STATUS: &str = "Exit status
the program's
    Its own exit code; 128+N if signal N ended it.
2
    The program was not started (no command, not found, not executable, a directory, no interpreter,
    another architecture, a --log or -o file that cannot be made), or the report could not be
    written (a full disk); a line on stderr says which.";

const TRACE_STREAMS: &str = "Streams
the program's
    Its stdin, stdout, stderr, terminal, process group and signals are the same as without becalm.
report
    On stderr, when the program has ended; with -o in a file. With --until entry as soon as the
    entry point is reached.
--json
    On stdout, one line, after all output of the program. Name a file with -o if the program writes
    to stdout as well.
--format chrome
    As --json. A run without a tracer has no times, so it has no events; otherData has the notes.";

const TRACE_WATCHING: &str = "Tracing
becalm ends early
    The program outlives it: signals that ask becalm to end are passed on, and SIGKILL ends only the
    supervisor process before the tracer. A SIGKILL of the tracer itself makes the traced program's
    next lookup fail (ENOSYS).
set-id programs
    The kernel gives no set-id or capability privileges to a program that an ordinary user traces; a
    note says so. Without CAP_SYS_ADMIN the program runs under no_new_privs.
ptrace
    A program that tries to trace gets EPERM, as under any tracer.
no tracing
    If ptrace is not allowed (containers, Yama), and for programs that an emulator runs, the
    loader's own output (LD_DEBUG=libs) is used: opens only, no stats, no times, no system calls,
    nothing after the entry point. A note says so.
pages
    The waits for pages of files that are not in memory, as at the first start after a boot: the
    page faults that wait (major ones, and those that sleep for a page of a file that is being read
    already), from the fault to its end, by file, of all threads. Not counted: waits in read, open
    and other calls, and, for an ordinary user, faults of the kernel itself. A start that waits for
    no page has no such line. The kernel may refuse to report page faults (perf_event_paranoid above
    2, containers); a note then has their number. The prediction reads the libraries only after the
    program has reached its entry point, so that it brings nothing into memory before.
times
    The tracer's own cost is measured before the run and subtracted; both are shown.";

const TRACE_EXAMPLES: &str = "Examples
becalm trace -- inkscape --version
    How much of the start is the loader's search.
becalm trace --until entry -- emacs
    The loader's work alone; the program continues untraced.
becalm trace --syscalls -- python3 -c pass
    Every system call, by time.
becalm trace --format chrome -o start.json -- python3 -c 'import json'
    The start in time, for ui.perfetto.dev or speedscope.
becalm trace --follow --files -o list -- ./tool; cpio -o -H newc < list > tool.cpio
    The files that a run used, also those that it opened after its start.
becalm trace --json -o run.json -- prog; becalm check --against run.json ./prog
    Compare the prediction with the run.";
