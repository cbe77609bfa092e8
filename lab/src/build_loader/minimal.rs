//! The parts of glibc that must be of the same build: the loader and libc.so.6.
//!
//! The target `lib` makes them. It also makes the static libraries, from objects of their own; a
//! variable (`Makeconfig`, "object-suffixes") selects the suffixes that are made.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_core::elf;

/// Arguments of `make`: build the shared objects, and the objects that are linked into every user
/// of libc.so.
pub(crate) const TARGET: [&str; 3] =
    ["object-suffixes=.os", "object-suffixes-for-libc=.os .oS", "lib"];

/// The two files, in a tree of objects.
const BUILT: [&str; 2] = ["elf/ld.so", "libc.so"];

/// Copies them to `lib` below `prefix`, by their sonames.
///
/// # Errors
/// Returns an error if a file was not built or cannot be copied.
pub(crate) fn install(objects: &Path, prefix: &Path) -> Result<()> {
    let lib = prefix.join("lib");
    fs::create_dir_all(&lib).with_context(|| lib.display().to_string())?;
    for built in BUILT {
        let file = objects.join(built);
        let named = || file.display().to_string();
        let bytes = fs::read(&file).with_context(named)?;
        let view = elf::parse(bytes.as_slice()).with_context(named)?;
        let soname = view.dynamic.and_then(|dynamic| dynamic.soname);
        let soname = soname.with_context(|| format!("{}: no soname", file.display()))?;
        fs::copy(&file, lib.join(soname.to_string())).with_context(named)?;
    }
    Ok(())
}
