//! The manual's sections of `becalm pack` and `becalm unpack`.

use crate::terminal::manual::Section;

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
            "The copies of the files that the learned starts read, below their own paths, with \
             their times. Other tools can unpack or mount them.",
        ),
        (
            "folder .becalm",
            "The records: the paths that starts look up, and for each file its inode, size, mtime \
             and ctime. Of programs that the command starts too.",
        ),
        ("left out", "Files of more than 64 MiB, files that changed in the last hour, the index."),
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
             on this machine. A file that differs is read from the tree.",
        ),
        ("becalm run --pack FILE", "Unpacks the file if this machine has not, then starts."),
    ],
};

const JSON: Section = Section {
    title: "JSON",
    entries: &[(
        "schema becalm/pack/1",
        "One object: file, files, bytes, records (of command, starts, paths, copies, learned, \
         copied).",
    )],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        (
            "becalm pack -o env.tar .venv/bin/python",
            "What starts of this environment's Python need, after some by becalm run.",
        ),
        ("becalm unpack env.tar", "On another node: its first start is one that was learned."),
        ("becalm run --pack env.tar -- .venv/bin/python app.py", "Both, in a job script."),
    ],
};
