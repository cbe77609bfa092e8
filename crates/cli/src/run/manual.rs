//! `becalm run`.

use crate::index::manual::INDEX_FILES;
use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm run`.
pub(crate) const RUN: &[&Section] = &[&RUN_STATUS, &RUN_PROGRAMS, &INDEX_FILES, &RUN_EXAMPLES];

const RUN_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("the program's", "becalm becomes the program: exit code and signals are its own."),
        (
            "2",
            "The program was not started: not found or not a program. With --strict also if it \
             cannot be calmed.",
        ),
    ],
};

const RUN_PROGRAMS: Section = Section {
    title: "Programs",
    entries: &[
        (
            "always started",
            "If there is no index to be used, the program is started without one, and a line on \
             stderr says why: no such file, another user may have written it, it is damaged or for \
             another machine, the cache cannot be written, a loader that knows no audit modules \
             (musl, glibc before 2.31). --quiet leaves that line out, --strict makes it a failure.",
        ),
        (
            "no index",
            "Without --index, if the program is in no store of the default index, an index of this \
             program's start is made and kept in the cache directory, by a process of its own: the \
             program starts at once, without an index. Where an orphan would become the program's \
             child (the first process of a container, a subreaper) the next becalm index makes it. \
             It is compared with the files once an hour, if the program is started.",
        ),
        ("LD_AUDIT", "The user's own modules stay in the list, before becalm's."),
        ("GLIBC_TUNABLES", "Stays as it is but for glibc.rtld.optional_static_tls, where needed."),
        (
            "set-id programs",
            "Their loader takes no LD_AUDIT from the environment: they are started as they are, and \
             a line on stderr says so.",
        ),
        ("static programs", "Are started; what they start is calmed by an --index."),
        ("scripts", "Are calmed as the interpreter that their first line names."),
    ],
};

const RUN_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        (
            "becalm run -- inkscape",
            "Without any preparation: an index is made meanwhile, and kept.",
        ),
        ("becalm run --index store.so -- make check", "All programs that a build starts."),
        ("becalm trace -- becalm run -- emacs --version", "See what is left of the storm."),
    ],
};
