//! The manual's sections of `becalm loader`.

use crate::terminal::manual::{JSON, Section};

/// Last sections of the help and the man page of `becalm loader`.
pub(crate) const LOADER: &[&Section] =
    &[&STATUS, &BUILDING, &LOADER_ENVIRONMENT, &LOADER_FILES, &JSON, &LOADER_EXAMPLES];

const STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "build: the loader is installed. check: it reads notes, caches or both."),
        ("1", "check: it reads neither, or not in the --store named."),
        (
            "2",
            "A step of the build failed (the message names its log), a package is missing, or a \
             file is not a loader or cannot be run on this machine.",
        ),
        ("130", "Interrupted (SIGINT), as shells report it; fetched packages are kept."),
    ],
};

const BUILDING: Section = Section {
    title: "Building",
    entries: &[
        (
            "what is needed",
            "The Debian packages apt, binutils, bison, dpkg, gawk, gcc, libc6-dev, make, patch, \
             perl, python3, tar and xz-utils. If some are missing, the command that installs them \
             is printed before anything is done.",
        ),
        (
            "what is fetched",
            "The package glibc-source of bookworm (2.36), trixie (2.41), sid (2.43) or \
             experimental (2.44), from the mirror of this machine's apt configuration, verified \
             by apt with its keys. A release that has left experimental or sid is looked for in \
             sid and testing. If no suite has it any more, --source names a package kept from \
             before.",
        ),
        (
            "--store",
            "Compiled in. The loader reads loader caches of packages only below these prefixes. \
             Notes need no store.",
        ),
        (
            "what belongs together",
            "The loader and libc.so.6 of one build (--minimal makes only these). A program uses \
             them if it names the loader as its interpreter and their folder in its run path, as \
             in stores; or, for one start, if the loader is called with the program as its \
             argument.",
        ),
    ],
};

const LOADER_ENVIRONMENT: Section = Section {
    title: "Environment",
    entries: &[
        ("XDG_CACHE_HOME", "Folder of builds and packages; ~/.cache if it is not set."),
        (
            "GLIBC_TUNABLES",
            "Of the loader that was built: glibc.rtld.resolution=N has it read nothing (0), notes \
             (1), package caches (2) or both (3, the default).",
        ),
        (
            "LD_DEBUG=libs",
            "Of the loader that was built: it names the cache that it reads, and the paths that it \
             tries.",
        ),
    ],
};

const LOADER_FILES: Section = Section {
    title: "Files",
    entries: &[
        (
            "becalm/loader/VERSION-KEY/",
            "In the cache folder, a build: image (what is installed), build.log. KEY is a hash of \
             the patches, the prefix, the stores and the flags. May be deleted at any time.",
        ),
        (
            "becalm/loader/glibc-source-SUITE/",
            "Also in the cache folder: the package, and apt's \
         lists.",
        ),
    ],
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
