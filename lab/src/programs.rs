//! The lab's eight programs: their names and files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::dpkg;
use crate::elf::Dynamic;

/// A program to import: its name and its real file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its name in the lab, or the base name of a given path.
    pub(crate) name: String,
    /// The ELF file, with links resolved.
    pub(crate) path: PathBuf,
}

/// One of the eight programs: its name in the lab, packages that may have it (the first installed
/// one counts), and base names that its file may have.
struct Known {
    name: &'static str,
    packages: &'static [&'static str],
    programs: &'static [&'static str],
}

const KNOWN: [Known; 8] = [
    Known {
        name: "imagemagick",
        packages: &["imagemagick-6.q16", "imagemagick-7.q16"],
        programs: &["convert-im6.q16", "magick-im7.q16"],
    },
    Known { name: "emacs-nox", packages: &["emacs-nox"], programs: &["emacs-nox"] },
    Known { name: "inkscape", packages: &["inkscape"], programs: &["inkscape"] },
    Known { name: "guile-3.0", packages: &["guile-3.0"], programs: &["guile-3.0", "guile"] },
    Known { name: "nix-bin", packages: &["nix-bin"], programs: &["nix"] },
    Known { name: "git", packages: &["git"], programs: &["git"] },
    Known { name: "python3", packages: &["python3-minimal"], programs: &["python3"] },
    Known { name: "bash", packages: &["bash"], programs: &["bash"] },
];

/// Returns the names of the eight programs, in the order of the reports.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name)
}

/// Finds the program `word`: one of the eight names, a path, or a name to search for in `PATH`. The
/// eight names refer to the files of their Debian packages, even if `PATH` has another program of
/// that name first.
///
/// # Errors
/// Returns an error if nothing is found, or if it is not a dynamically linked program.
pub(crate) fn find(word: &str) -> Result<Program> {
    let path = match KNOWN.iter().find(|known| known.name == word) {
        Some(known) => of_package(known)?,
        None if word.contains('/') => PathBuf::from(word),
        None => in_path(word).with_context(|| format!("{word}: no such program"))?,
    };
    let path = path.canonicalize().with_context(|| format!("{}", path.display()))?;
    if Dynamic::read(&path)?.interpreter.is_none() {
        bail!("{}: asks for no interpreter, so it is no program", path.display());
    }
    let base = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = if word.contains('/') { base(&path) } else { word.to_owned() };
    Ok(Program { name, path })
}

fn of_package(known: &Known) -> Result<PathBuf> {
    for package in known.packages {
        let files = dpkg::files_of(package)?;
        let found = known.programs.iter().find_map(|program| {
            files.iter().find(|file| {
                file.parent().is_some_and(|dir| dir.ends_with("bin"))
                    && file.file_name().is_some_and(|name| name == *program)
            })
        });
        if let Some(found) = found {
            return Ok(found.clone());
        }
    }
    bail!("{}: none of its packages is installed ({})", known.name, known.packages.join(", "))
}

fn in_path(word: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(word)).find(|file| file.is_file())
}
