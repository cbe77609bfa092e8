//! `becalm run`.

use crate::index::manual::INDEX_FILES;
use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm run`.
pub(crate) const RUN: &[&Section] = &[&RUN_STATUS, &RUN_PROGRAMS, &INDEX_FILES, &RUN_EXAMPLES];

const RUN_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        (
            "the program's",
            "becalm executes the program in its own process: exit code and signals \
         are the program's.",
        ),
        (
            "2",
            "The program was not started: not found or not a program. With --strict also if it \
             cannot use an index.",
        ),
    ],
};

const RUN_PROGRAMS: Section = Section {
    title: "Programs",
    entries: &[
        (
            "always started",
            "If no index can be used, the program is started without one, and a line on stderr \
             has the reason: the file does not exist, another user may have written it, it is \
             damaged or for another machine, the cache cannot be written, or the loader has no \
             audit modules (musl, glibc before 2.31). --quiet omits that line, --strict makes it \
             a failure.",
        ),
        (
            "no index",
            "Without --index, if the program is in no store of the default index, another process \
             makes an index of this program's start and keeps it in the cache directory: the \
             program starts at once, without an index. If an orphan would become the program's \
             child (the first process of a container, a subreaper), the next becalm index makes \
             it. The index is compared with the files once an hour, when the program is started.",
        ),
        ("LD_AUDIT", "The user's own modules stay in the list, before becalm's."),
        ("GLIBC_TUNABLES", "Unchanged except for glibc.rtld.optional_static_tls, if needed."),
        (
            "set-id programs",
            "Their loader ignores LD_AUDIT of the environment: they are started without an index, \
             and a line on stderr says so.",
        ),
        ("static programs", "Are started; programs that they start use an --index."),
        ("scripts", "Use the index of the interpreter that their first line names."),
    ],
};

const RUN_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        (
            "becalm run -- inkscape",
            "Without any preparation: an index is made in the background and kept.",
        ),
        ("becalm run --index store.so -- make check", "All programs that a build starts."),
        ("becalm trace -- becalm run -- emacs --version", "Count the misses that remain."),
    ],
};
