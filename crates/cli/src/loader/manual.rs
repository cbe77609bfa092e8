//! The manual's sections of `becalm loader`.

use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm loader`.
pub(crate) const LOADER: &[&Section] =
    &[&STATUS, &BUILDING, &LOADER_ENVIRONMENT, &LOADER_FILES, &LOADER_JSON, &LOADER_EXAMPLES];

const STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "build: the loader is installed. check: it reads notes, caches or both."),
        ("1", "check: it reads neither, or not in the --store named."),
        (
            "2",
            "Something could not be done: a step of the build failed (the line names its log), a \
             package is lacking, a file is no loader or cannot be run on this machine.",
        ),
        ("130", "Interrupted (SIGINT), as shells tell it; what was fetched is kept."),
    ],
};

const BUILDING: Section = Section {
    title: "Building",
    entries: &[
        (
            "what is needed",
            "The Debian packages apt, binutils, bison, dpkg, gawk, gcc, libc6-dev, make, patch, \
             perl, python3, tar and xz-utils. What of them is not there is named before anything \
             is done, as one command to install it.",
        ),
        (
            "what is fetched",
            "The package glibc-source of bookworm (2.36), trixie (2.41), sid (2.43) or experimental \
             (2.44), from the mirror that this machine's apt knows, verified by apt with the keys it has. Where a \
             suite has moved on to another release, --source names a package kept from before.",
        ),
        (
            "--store",
            "Compiled in. Below these prefixes, and nowhere else, the loader believes the loader \
             caches of packages, and in set-user-id programs it believes nothing outside of them. \
             Notes need no store.",
        ),
        (
            "what belongs together",
            "The loader and libc.so.6 of one build (--minimal makes no more than these). A program is given them by naming the loader \
             as its interpreter and their folder in its run path, as stores do, or for one start \
             by calling the loader with the program as its argument.",
        ),
    ],
};

const LOADER_ENVIRONMENT: Section = Section {
    title: "Environment",
    entries: &[
        ("XDG_CACHE_HOME", "Where builds and packages are kept; ~/.cache without it."),
        (
            "GLIBC_TUNABLES",
            "Of the loader that was built: glibc.rtld.resolution=N has it read nothing (0), notes \
             (1), package caches (2) or both (3, the default).",
        ),
        (
            "LD_DEBUG=libs",
            "Of the loader that was built: it names the note or cache that it asks before what \
             it tries.",
        ),
    ],
};

const LOADER_FILES: Section = Section {
    title: "Files",
    entries: &[
        (
            "becalm/loader/VERSION-KEY/",
            "In the cache folder, a build: image (what is installed), build.log. KEY stands for \
             the patches, the prefix, the stores and the flags. May be deleted at any time.",
        ),
        ("becalm/loader/glibc-source-SUITE/", "There too: the package, and apt's lists."),
    ],
};

const LOADER_JSON: Section = Section {
    title: "JSON",
    entries: &[(
        "schema becalm/loader/1",
        "Of check: loader, notes (true or false), caches (true, false, or null where no --store \
         was named).",
    )],
};

const LOADER_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        (
            "becalm loader build --glibc 2.36 --prefix /opt/glibc --store /opt/store",
            "A glibc that reads the notes of any object, and caches below /opt/store.",
        ),
        ("becalm loader check /opt/glibc/lib/ld-linux-x86-64.so.2 --store /opt/store", "Does it?"),
        (
            "/opt/glibc/lib/ld-linux-x86-64.so.2 /opt/store/some-package/bin/program",
            "One start by it.",
        ),
    ],
};
