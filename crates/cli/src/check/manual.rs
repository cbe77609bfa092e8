//! The manual's sections of `becalm check`.

use crate::terminal::manual::{ENVIRONMENT, EXIT_STATUS, JSON};

/// Last sections of the help and the man page of `becalm check`.
pub(crate) const CHECK: &[&str] = &[EXIT_STATUS, ENVIRONMENT, JSON, EXAMPLES];

const EXAMPLES: &str = "Examples
becalm check /usr/bin/git
    The cost of starting git.
becalm check --tree ./result/bin/magick
    The source of each library, and its cost.
becalm check --max-misses 100 --max-lookups 20000 ./result
    Fail a package's tests when its programs search or look up too much.
becalm check --library-path /opt/lib: prog
    The cost with another LD_LIBRARY_PATH.
becalm check --sysroot ~/arm64 /usr/bin
    All programs of another machine's file tree.
becalm check --reads note,ldcache --store /opt/store prog
    The misses with a loader that has becalm's patches.
becalm check --symbols prog
    The results of `ldd -r` and more: undefined symbols, and which definitions win.
becalm check --files ./tool | cpio -o -H newc > tool.cpio
    The files that the start of a tool needs, for an initramfs.
becalm check --ndjson --shard 1/8 --store /apps /apps > survey-1.ndjson
    One eighth of a survey of all programs.
becalm check --json --probes prog
    Every probe, for another program to read.
becalm check --against run.json prog
    The prediction, compared with a record of `becalm trace --json`.";
