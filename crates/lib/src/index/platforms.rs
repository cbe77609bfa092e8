//! The directory beside an index that `LD_AUDIT` names: one entry for each value that
//! `$PLATFORM` may have, the index itself for those of its machine, a [`declining`] module
//! for those of its 32-bit sibling.
//!
//! `index.so.d/x86_64 -> ../index.so`, `index.so.d/i686`, and so on. The loader replaces
//! `$PLATFORM` in elements of `LD_AUDIT` that have a slash (glibc 2.36 `elf/dl-load.c`
//! `_dl_map_object`, `expand_dynamic_string_token`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becalm_core::index::Target;
use becalm_host::write::{WriteError, WriteOptions, Writer, is_unfinished};

use crate::index::declining::{self, Sibling};
use crate::index::trust::{self, Rule};
use crate::path::path_bytes;
use crate::problem::Problem;
use crate::progress::Progress;

/// The values of `$PLATFORM` on a machine, and on its 32-bit sibling.
struct Platforms {
    machine: object::elf::Machine,
    own: &'static [&'static str],
    sibling: &'static Sibling,
    siblings: &'static [&'static str],
}

const PLATFORMS: [Platforms; 2] = [
    // The kernel's `AT_PLATFORM`; on some CPUs glibc replaces it by the generation of the CPU
    // (`sysdeps/x86/cpu-features.c`, 2.31 to 2.43).
    Platforms {
        machine: object::elf::EM_X86_64,
        own: &["x86_64", "haswell", "xeon_phi"],
        sibling: &declining::I386,
        siblings: &["i386", "i486", "i586", "i686"],
    },
    // The kernel gives 32-bit programs `v8l` and similar names.
    Platforms {
        machine: object::elf::EM_AARCH64,
        own: &["aarch64"],
        sibling: &declining::ARM,
        siblings: &["v5l", "v6l", "v7l", "v8l", "aarch32"],
    },
];
/// The token that the loader replaces by its platform.
const TOKEN: &str = "$PLATFORM";

fn of(target: Target) -> Option<&'static Platforms> {
    PLATFORMS.iter().find(|it| it.machine.0 == target.machine)
}

/// Returns the directory beside an index.
pub fn dir_of(index: &Path) -> PathBuf {
    let mut name = index.file_name().unwrap_or_default().to_owned();
    name.push(".d");
    index.with_file_name(name)
}

/// Returns true if the directory beside a file is one that [`make`] made for it.
pub fn is_beside(index: &Path) -> bool {
    let dir = dir_of(index);
    let mut own = PLATFORMS.iter().flat_map(|it| it.own);
    own.any(|name| is_link_to(&dir.join(name), index))
}

/// Returns true if the entry for the machine's usual platform leads to the index beside the
/// directory. It leads elsewhere if both were renamed. Takes one system call.
fn leads_to(index: &Path, platforms: &Platforms) -> bool {
    platforms.own.first().is_some_and(|name| is_link_to(&dir_of(index).join(name), index))
}

/// Returns true if a link in the directory beside an index is one that [`make`] made.
fn is_link_to(link: &Path, index: &Path) -> bool {
    let goal = Path::new("..").join(index.file_name().unwrap_or_default());
    fs::read_link(link).is_ok_and(|there| there == goal)
}

/// Returns the links and the files of the directory beside an index that are not as [`make`] makes them.
fn missing(index: &Path, platforms: &Platforms, module: &[u8]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let dir = dir_of(index);
    let below = |names: &[&str]| names.iter().map(|name| dir.join(name)).collect::<Vec<_>>();
    let (mut links, mut files) = (below(platforms.own), below(platforms.siblings));
    links.retain(|link| !is_link_to(link, index));
    // Another becalm may use an existing file, so an equal one stays.
    files.retain(|file| !fs::read(file).is_ok_and(|there| there == module));
    (links, files)
}

/// The state of the directory beside an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is as [`make`] makes it, or the machine needs none.
    Whole,
    /// The index is found through it. Other entries are missing, or are not those of [`make`].
    Leads,
    /// It leads to no index, or to another one.
    Astray,
    /// There is none.
    Missing,
}

/// Examines the directory beside an index.
pub fn state(index: &Path, target: Target) -> State {
    let Some(platforms) = of(target) else { return State::Whole };
    let module = declining::module(platforms.sibling);
    let is_whole = || missing(index, platforms, &module) == (Vec::new(), Vec::new());
    match dir_of(index).symlink_metadata() {
        Err(_) => State::Missing,
        Ok(_) if !leads_to(index, platforms) => State::Astray,
        Ok(facts) if !is_unfinished(facts.mode()) && is_whole() => State::Whole,
        Ok(_) => State::Leads,
    }
}

/// Makes or completes the directory; does nothing for a machine without a 32-bit sibling. Other
/// files in it are kept.
///
/// # Errors
/// Returns an error if a directory, link or file cannot be made.
pub fn make(writer: &Writer, index: &Path, target: Target) -> Result<()> {
    let Some(platforms) = of(target) else { return Ok(()) };
    let dir = dir_of(index);
    // Only becalm makes this directory, so a link there is somebody else's.
    if dir.is_symlink() {
        return Err(WriteError::NotOurs(dir).into());
    }
    writer.make_dir(&dir)?;
    let goal = Path::new("..").join(index.file_name().unwrap_or_default());
    let module = declining::module(platforms.sibling);
    let (links, files) = missing(index, platforms, &module);
    // An entry is replaced at once, so a program that starts meanwhile finds the old or the new one.
    links.iter().try_for_each(|link| writer.replace_link(link, &goal))?;
    files.iter().try_for_each(|file| writer.replace(file, &module, 0o644))?;
    // Last, because `audit_path` uses only a settled directory.
    writer.settle_dir(&dir)?;
    Ok(())
}

/// Makes the folder beside an index again if it is not as it was made: its links name the index,
/// and fail after both are renamed.
pub(super) fn repair(
    path: &Path,
    rule: Rule,
    target: Target,
    progress: &dyn Progress,
) -> Result<()> {
    // A link to an index has no folder.
    let path = rule.real(path)?;
    if state(&path, target) == State::Whole {
        return Ok(());
    }
    make(&Writer::under(rule, WriteOptions::default()), &path, target)?;
    let reason = "repaired: programs find the index through it again";
    progress.remark(&Problem::new(path_bytes(&dir_of(&path)), reason));
    Ok(())
}

/// Returns the path of an index for `LD_AUDIT`: through the directory beside the index if that is
/// complete, leads to the index, and nobody else may write it; else the index itself. A directory is
/// complete once [`make`] has settled it.
pub fn audit_path(index: &Path, target: Target) -> OsString {
    let dir = dir_of(index);
    let is_complete = |facts: fs::Metadata| {
        facts.is_dir() && !is_unfinished(facts.mode()) && trust::check(&dir, &facts).is_ok()
    };
    let is_usable =
        |platforms| dir.symlink_metadata().is_ok_and(is_complete) && leads_to(index, platforms);
    let is_used = of(target).is_some_and(is_usable);
    if is_used { dir.join(TOKEN).into() } else { index.into() }
}

/// Returns the index that an element of `LD_AUDIT` made by [`audit_path`] leads to.
pub fn index_of(element: &OsStr) -> PathBuf {
    let path = Path::new(element);
    let dir = path.parent().filter(|_| path.file_name() == Some(OsStr::new(TOKEN)));
    let index = dir.and_then(|dir| {
        let name = dir.file_name()?.to_str()?.strip_suffix(".d")?;
        Some(dir.with_file_name(name))
    });
    index.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_with_the_token_stands_for_the_index_beside() {
        assert_eq!(index_of(OsStr::new("/x/index.so.d/$PLATFORM")), Path::new("/x/index.so"));
        assert_eq!(index_of(OsStr::new("/x/index.so")), Path::new("/x/index.so"));
    }
}
