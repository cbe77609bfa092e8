//! Gain from the bindings of an index: the same start unchanged, under an audit module that does
//! nothing, and with bindings; lazily and with `LD_BIND_NOW`. Measured as in [`super::calm`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::Common;
use super::calm::{Variant, calm, each_place, index_of, measure, variant};
use crate::child;

/// The programs by name or path, each with arguments that make it end by itself.
const PROGRAMS: [(&str, &[&str]); 12] = [
    ("inkscape", &["--version"]),
    ("nix", &["--version"]),
    ("qemu-system-x86_64", &["--version"]),
    ("/usr/lib/chromium/chromium", &["--version"]),
    ("clang", &["--version"]),
    ("convert-im6.q16", &["--version"]),
    ("node", &["--version"]),
    ("emacs-gtk", &["--version"]),
    ("emacs-nox", &["--version"]),
    ("gdb", &["--version"]),
    ("git", &["--version"]),
    ("python3", &["-c", "0"]),
];

/// Measures and prints one table a program: of /usr/bin, and of the store where it has one.
///
/// # Errors
/// Returns an error if becalm, a C compiler or a program cannot be run, or the raw data cannot be
/// written.
pub(super) fn run(args: &Common) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let idle = idle_module(scratch.path())?;
    let index = scratch.path().join("index.so");
    each_place(args, &PROGRAMS, |label, program, store, arguments| {
        index_of(args, &["--bind-threshold", "0,0"], (program, store), &index)?;
        measure(label, &ways(program, &idle, &index), arguments, args.rounds)
    })
}

/// Builds an audit module that requests no events.
fn idle_module(folder: &Path) -> Result<PathBuf> {
    let (source, module) = (folder.join("idle.c"), folder.join("idle.so"));
    fs::write(&source, "unsigned la_version (unsigned version) { return version; }\n")?;
    let mut cc = Command::new("cc");
    child::succeed(
        cc.args(["-shared", "-fPIC", "-O2", "-nostdlib", "-o"]).args([&module, &source]),
    )?;
    Ok(module)
}

fn ways(program: &Path, idle: &Path, index: &Path) -> Vec<Variant> {
    let now = |mut environment: Vec<(&'static str, String)>| {
        environment.push(("LD_BIND_NOW", "1".to_owned()));
        environment
    };
    vec![
        variant("plain", program, &[]),
        variant("plain again", program, &[]),
        variant("idle audit module", program, &calm(idle)),
        variant("bound", program, &calm(index)),
        variant("plain, LD_BIND_NOW", program, &now(Vec::new())),
        variant("idle audit module, LD_BIND_NOW", program, &now(calm(idle))),
        variant("bound, LD_BIND_NOW", program, &now(calm(index))),
    ]
}
