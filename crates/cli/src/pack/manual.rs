//! The manual's sections of `becalm pack` and `becalm unpack`.

use crate::terminal::manual::{JSON, Section};

/// Last sections of the help and the man page of `becalm pack`.
pub(crate) const PACK: &[&Section] = &[&STATUS, &CONTENT, &JSON, &EXAMPLES];

/// Last sections of the help and the man page of `becalm unpack`.
pub(crate) const UNPACK: &[&Section] = &[&STATUS, &USE, &JSON, &EXAMPLES];

const STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "Written, or unpacked. What this machine knew before stays."),
        ("2", "No start of a command was learned, or a file cannot be read or written."),
    ],
};

const CONTENT: Section = Section {
    title: "Content",
    entries: &[
        (
            "files",
            "The files that the learned starts look up, the program and its libraries, as far as they \
             are in the trees, below their own paths, with their times. Other tools can unpack or mount \
             them.",
        ),
        (
            "folder .becalm",
            "The records: the paths that starts look up, the state of each, and the names in each \
             directory, and the index. Of programs that the command starts too. An index counts for the becalm \
             that made it, and on machines that have the same C library.",
        ),
        (
            "left out",
            "Files of more than 64 MiB, files that programs keep open, files of trees in which times do \
             not count.",
        ),
    ],
};

const USE: Section = Section {
    title: "Use",
    entries: &[
        (
            "trust",
            "Programs read the packed bytes as the content of files. Unpack what you would also \
             run: a pack of yours, or of your site.",
        ),
        (
            "tree",
            "Each start compares every file with the tree, as it does with copies that were made \
             on this machine. A file that differs is read from the tree. With --check node, the first \
             start on a machine does so for later ones, with --check never no start.",
        ),
        (
            "--generation FILE",
            "If the file is as it was when the pack was made, by inode, size, mtime and ctime, a start \
             compares nothing else.",
        ),
        ("becalm run --pack FILE", "Unpacks the file if this machine has not, then starts."),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        (
            "becalm pack -o env.tar .venv/bin/python",
            "What starts of this environment's Python need, after some by becalm run.",
        ),
        (
            "becalm trace --files --json -o run.json -- app; becalm pack -o app.tar --from run.json",
            "What one run used, of which nothing was learned.",
        ),
        ("becalm unpack env.tar", "On another node: its first start is one that was learned."),
        ("becalm run --pack env.tar -- .venv/bin/python app.py", "Both, in a job script."),
    ],
};
