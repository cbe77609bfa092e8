//! The lab's eight programs: their names and files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use becalm_host::trace::Command;

use crate::dpkg;
use crate::elf::Dynamic;

/// A program to import: its name in the lab, or the base name of a given path, and its ELF file, with links resolved.
pub(crate) type Program = (String, PathBuf);

/// The eight programs: the name in the lab, packages that may have it (the first installed one counts),
/// and base names that its file may have.
const KNOWN: [(&str, &str, &str); 8] = [
    ("imagemagick", "imagemagick-6.q16 imagemagick-7.q16", "convert-im6.q16 magick-im7.q16"),
    ("emacs-nox", "emacs-nox", "emacs-nox"),
    ("inkscape", "inkscape", "inkscape"),
    ("guile-3.0", "guile-3.0", "guile-3.0 guile"),
    ("nix-bin", "nix-bin", "nix"),
    ("git", "git", "git"),
    ("python3", "python3-minimal", "python3"),
    ("bash", "bash", "bash"),
];

/// Returns the names of the eight programs, in the order of the reports.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.0)
}

/// Finds the program `word`: one of the eight names, a path, or a name to search for in `PATH`. The
/// eight names refer to the files of their Debian packages, even if `PATH` has another program of
/// that name first.
///
/// # Errors
/// Returns an error if nothing is found, or if it is not a dynamically linked program.
pub(crate) fn find(word: &str) -> Result<Program> {
    let path = match KNOWN.iter().find(|known| known.0 == word) {
        Some(known) => of_package(*known)?,
        None => Command::new(word, []).file()?,
    };
    let path = path.canonicalize().with_context(|| format!("{}", path.display()))?;
    if Dynamic::read(&path)?.interpreter.is_none() {
        bail!("{}: asks for no interpreter, so it is no program", path.display());
    }
    let base = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = if word.contains('/') { base(&path) } else { word.to_owned() };
    Ok((name, path))
}

fn of_package((name, packages, programs): (&str, &str, &str)) -> Result<PathBuf> {
    for package in packages.split(' ') {
        let files = dpkg::files_of(package)?;
        let is_named = |file: &&PathBuf, program: &str| {
            file.parent().is_some_and(|dir| dir.ends_with("bin")) && file.ends_with(program)
        };
        let mut found = programs.split(' ').map(|it| files.iter().find(|file| is_named(file, it)));
        if let Some(found) = found.find_map(|file| file) {
            return Ok(found.clone());
        }
    }
    bail!("{name}: none of its packages is installed ({})", packages.replace(' ', ", "))
}
