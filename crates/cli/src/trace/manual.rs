//! The manual's sections of `becalm trace`.

use crate::terminal::manual::{ENVIRONMENT, Section};

/// Last sections of the help and the man page of `becalm trace`.
pub(crate) const TRACE: &[&Section] =
    &[&TRACE_STATUS, &TRACE_STREAMS, &TRACE_WATCHING, &ENVIRONMENT, &TRACE_JSON, &TRACE_EXAMPLES];

const TRACE_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("the program's", "Its own exit code; 128+N if signal N ended it."),
        (
            "2",
            "The program was not started (no command, not found, not executable, a directory, no \
             interpreter, another architecture, a --log or -o file that cannot be made), or the \
             report could not be written (a full disk); a line on stderr says which.",
        ),
    ],
};

const TRACE_STREAMS: Section = Section {
    title: "Streams",
    entries: &[
        (
            "the program's",
            "Its stdin, stdout, stderr, terminal, process group and signals are the same as \
             without becalm.",
        ),
        (
            "report",
            "On stderr, when the program has ended; with -o in a file. With --until entry as soon \
             as the entry point is reached.",
        ),
        (
            "--json",
            "On stdout, one line, after all output of the program. Name a file with -o if the \
             program writes to stdout as well.",
        ),
        (
            "--format chrome",
            "As --json. A run without a tracer has no times, so it has no events; otherData has the notes.",
        ),
    ],
};

const TRACE_WATCHING: Section = Section {
    title: "Tracing",
    entries: &[
        (
            "becalm ends early",
            "The program outlives it: signals that ask becalm to end are passed on, and SIGKILL \
             ends only the supervisor process before the tracer. A SIGKILL of the tracer itself \
             makes the traced program's next lookup fail (ENOSYS).",
        ),
        (
            "set-id programs",
            "The kernel gives no set-id or capability privileges to a program that an ordinary \
             user traces; a note says so. Without CAP_SYS_ADMIN the program runs under \
             no_new_privs.",
        ),
        ("ptrace", "A program that tries to trace gets EPERM, as under any tracer."),
        (
            "no tracing",
            "If ptrace is not allowed (containers, Yama), and for programs that an emulator runs, \
             the loader's own output (LD_DEBUG=libs) is used: opens only, no stats, no times, no \
             system calls, nothing after the entry point. A note says so.",
        ),
        (
            "pages",
            "The waits for pages of files that are not in memory, as at the first start after a boot: the page \
             faults that wait (major ones, and those that sleep for a page of a file that is being read \
             already), from the fault to its end, by file, of all threads. Not counted: \
             waits in read, open and other calls, and, for an ordinary user, faults of the kernel itself. A \
             start that waits for no page has no such line. The kernel may refuse to report page faults \
             (perf_event_paranoid above 2, containers); a note then has their number. The prediction reads \
             the libraries only after the program has reached its entry point, so that it brings nothing \
             into memory before.",
        ),
        (
            "times",
            "The tracer's own cost is measured before the run and subtracted; both are shown.",
        ),
    ],
};

const TRACE_JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/trace/1",
            "One object: schema, command, images, exit (code or signal; null if it still runs), \
             overhead (call_ns, cycle_ns, samples), all_syscalls, opens_alone, notes.",
        ),
        (
            "image",
            "One for each successful execve, the last one being the program; with --follow also \
             one for each process: path, file, asked, pid, forked, interpreter, machine, libc, \
             secure, immutable, reached_entry, storm, storm_ns, loader and program (the two \
             shares), syscalls, classes, worst, dlopen, pages, relocations, prediction, no_prediction (why there is none), \
             initialisers, dropped, environment, probes.",
        ),
        ("storm, probe", "As those of becalm check; of the loader's share alone."),
        ("share", "net_ns, wall_ns, tracer_ns, calls, hits, missed, syscalls."),
        (
            "syscalls",
            "name, count, errors, total_ns, max_ns; the most time first. Without --syscalls only \
             the calls that look up files.",
        ),
        (
            "class",
            "class (dlopen, python, perl, guile, ocaml, ruby, node, r, emacs, gconv, locale, nss, \
             fontconfig, xdg, qt-plugins, gi-typelibs, terminfo, path-lookup, other), hits, \
             missed, dirs and names (of the misses), repeated (count, ns, paths: lookups that had \
             succeeded before).",
        ),
        (
            "dlopen",
            "The loader's search after the entry point: missed, hits, found_misses (of names that \
             were found), directories, needed (with found), objects, probes, dropped.",
        ),
        (
            "pages",
            "waits, seconds (in which a thread waited), files (path, waits, seconds; the worst 50). Null if \
             the kernel does not report page faults.",
        ),
        (
            "relocations",
            "With --relocations, of starts after the traced one: loader_ns and of it ns, lookups (symbols), cached (relocations \
             with the symbol of the lookup before), relative, bindings (bound, relocations: what \
             an index applied), phases (of another start: exec_ns, start_ns, search_ns, relocation_ns, \
             constructors_ns, page_faults, objects), not_applied (why not).",
        ),
        (
            "prediction",
            "equal, predicted and observed (storms), differences (how, at, probe, \
             predicted_outcome), not_reached.",
        ),
    ],
};

const TRACE_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm trace -- inkscape --version", "How much of the start is the loader's search."),
        (
            "becalm trace --until entry -- emacs",
            "The loader's work alone; the program continues untraced.",
        ),
        ("becalm trace --syscalls -- python3 -c pass", "Every system call, by time."),
        (
            "becalm trace --format chrome -o start.json -- python3 -c 'import json'",
            "The start in time, for ui.perfetto.dev or speedscope.",
        ),
        (
            "becalm trace --follow --files -o list -- ./tool; cpio -o -H newc < list > tool.cpio",
            "The files that a run used, also those that it opened after its start.",
        ),
        (
            "becalm trace --json -o run.json -- prog; becalm check --against run.json ./prog",
            "Compare the prediction with the run.",
        ),
    ],
};
