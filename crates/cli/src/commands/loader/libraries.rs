//! The part of glibc that programs run with: the loader and the shared libraries.
//!
//! glibc has no target of this extent. `lib` is the nearest; it makes the static libraries
//! as well, of objects of their own, and which suffixes are made is a variable (`Makeconfig`,
//! "object-suffixes").

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use becalm_core::elf;

/// What `make` is asked for: shared objects, and those that are linked into every user of
/// libc.so, without which no other library can be linked.
pub(super) const TARGET: [&str; 3] =
    ["object-suffixes=.os", "object-suffixes-for-libc=.os .oS", "lib"];

/// Copies the libraries of a tree of objects to `lib` below `prefix`, by their sonames.
///
/// # Errors
/// A file that cannot be read or copied, or a tree that lacks loader or C library.
pub(super) fn install(objects: &Path, prefix: &Path) -> Result<()> {
    let lib = prefix.join("lib");
    fs::create_dir_all(&lib).with_context(|| lib.display().to_string())?;
    let mut names = Vec::new();
    for (name, file) in libraries(objects)? {
        fs::copy(&file, lib.join(&name)).with_context(|| file.display().to_string())?;
        names.push(name);
    }
    for wanted in ["ld", "libc.so"] {
        let is_there = names.iter().any(|name| name.starts_with(wanted));
        ensure!(is_there, "{}: {wanted} was not built", objects.display());
    }
    Ok(())
}

/// Shared objects of the tree and of the folders in it that have a versioned soname.
fn libraries(objects: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for file in files(objects)? {
        // A second libc.so, for linking alone, is not what runs.
        let is_for_linking = file.parent().is_some_and(|dir| dir.ends_with("linkobj"));
        if file.extension().is_none_or(|end| end != "so") || file.is_symlink() || is_for_linking {
            continue;
        }
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        // Some are scripts of the linker.
        let Ok(view) = elf::parse(bytes.as_slice()) else { continue };
        let Some(soname) = view.dynamic.and_then(|dynamic| dynamic.soname) else { continue };
        let soname = soname.to_string();
        let is_versioned = !soname.ends_with(".so") && !soname.contains('/');
        if is_versioned {
            found.push((soname, file));
        }
    }
    Ok(found)
}

/// Files of a folder and of the folders in it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() && !path.is_symlink() {
            files.extend(entries(&path)?.into_iter().filter(|path| path.is_file()));
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let entries: std::io::Result<_> = read();
    entries.with_context(|| folder.display().to_string())
}
