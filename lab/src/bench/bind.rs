//! Gain from the bindings of an index: the same start unchanged, and with bindings. Measured as in
//! [`super::calm`].

use anyhow::Result;

use super::Common;
use super::calm::{calm, each_place, index_of, measure, starts, variant};

/// The programs by name or path, with arguments that make them end by themselves ([`starts`]).
const PROGRAMS: &str = "\
    inkscape --version; nix --version; qemu-system-x86_64 --version; \
    /usr/lib/chromium/chromium --version; clang --version; convert-im6.q16 --version; \
    node --version; emacs-gtk --version; emacs-nox --version; gdb --version; git --version; \
    python3 -c 0";

/// Measures and prints one table a program: of /usr/bin, and of the store where it has one.
///
/// # Errors
/// Returns an error if becalm or a program cannot be run, or the raw data cannot be
/// written.
pub(super) fn run(args: &Common) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let index = scratch.path().join("index.so");
    each_place(args, starts(PROGRAMS), |label, program, store, arguments| {
        index_of(args, &["--bind-threshold", "0,0"], (program, store), &index)?;
        let start = (program, arguments);
        let variants =
            [variant("plain", &[], start, &[]), variant("bound", &[], start, &calm(&index))];
        measure(label, &variants, args.rounds)
    })
}
