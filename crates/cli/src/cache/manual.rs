//! The manual's sections of `becalm cache`.

use crate::terminal::manual::{JSON, Section};

/// Last sections of the help and the man page of `becalm cache`.
pub(crate) const CACHE: &[&Section] = &[&STATUS, &FOLDER, &JSON, &EXAMPLES];

const STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "Printed, or removed."),
        ("2", "A file could not be removed; the others are."),
    ],
};

const FOLDER: Section = Section {
    title: "Folder",
    entries: &[
        (
            "place",
            "$BECALM_CACHE, else the first of $XDG_RUNTIME_DIR/becalm, /var/tmp/becalm-UID and \
             /tmp/becalm-UID that is on no network file system and has room.",
        ),
        (
            "--clear",
            "Programs that run go on: they read the files themselves. The folder stays. Indexes \
             are elsewhere and stay too. Ready pages (becalm run --share-pages) lie in the folder pages.",
        ),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm cache", "What is kept, and of which commands."),
        ("becalm cache --clear", "Forget it: the next starts learn again."),
    ],
};
