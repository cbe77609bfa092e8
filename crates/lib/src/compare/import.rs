//! Copies a program of this machine into a store of its own, one library to a directory as in Nix,
//! Guix and Spack. becalm's own editor sets the run paths and the interpreter. Used by
//! `becalm demo`, and by `lab compare` for a program outside the stores.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::path::{at, path_bytes, path_of};
use anyhow::{Context, Result, bail};
use becalm_core::closure::Closure;
use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::loader::is_of_c_library;
use becalm_core::loader::load::Role;
use bstr::BString;
use rustc_hash::FxHasher;

/// The maximum size of a copied tree in bytes.
const MOST: u64 = 1_500_000_000;

/// Bytes that must stay free on the file system.
const SPARE: u64 = 64 << 20;

/// An object to copy into the store.
struct Object {
    /// Path of the original.
    original: PathBuf,
    /// Path of the copy in the store.
    place: PathBuf,
    /// Further names under which other objects need it.
    names: Vec<BString>,
    /// Directories of its libraries, in the order of its needed strings.
    run_path: Vec<PathBuf>,
    is_program: bool,
}

/// Copies a program and all objects that its start loads into a new store; returns the program's
/// file there.
///
/// # Errors
/// Returns an error if there is not enough disk space, or an object cannot be read or edited.
pub fn import(closure: &Closure, interpreter: &Path, store: &Path) -> Result<PathBuf> {
    let objects = placed(closure, store)?;
    let length = |path: &Path| path.metadata().map(|about| about.len()).unwrap_or(0);
    let bytes = objects.iter().map(|object| length(&object.original)).sum();
    fs::create_dir_all(store).with_context(at(store))?;
    // Each file may exist twice, before and after it is edited.
    check_room(store, bytes)?;
    let libc = store.join(package("c-library")).join("lib");
    let loader = libc.join(interpreter.file_name().unwrap_or_default());
    put(&loader, &read(interpreter)?)?;
    for object in &objects {
        let mut bytes = read(&object.original)?;
        let edits = object.edits(&loader);
        // The C library is not edited, and needs only its loader.
        if !object.place.starts_with(&libc) {
            let edited = becalm_rewrite::edit(bytes.as_slice(), &edits);
            let edited = edited.with_context(at(&object.original))?;
            if let Some(patch) = edited.patch {
                bytes = patch.applied_to(&bytes);
            }
        }
        put(&object.place, &bytes)?;
        for name in &object.names {
            let link = object.place.with_file_name(path_of(name.as_ref()));
            let target = object.place.file_name().unwrap_or_default();
            symlink(target, &link).with_context(at(&link))?;
        }
    }
    let program = objects.into_iter().find(|object| object.is_program);
    Ok(program.context("no program in its own closure")?.place)
}

impl Object {
    fn edits(&self, loader: &Path) -> Vec<Edit> {
        let dirs: Vec<BString> = self.run_path.iter().map(|dir| path_bytes(dir)).collect();
        let value = (!dirs.is_empty()).then(|| bstr::join(":", &dirs).into());
        let mut edits = vec![Edit::RunPath { kind: RunPathKind::Runpath, value }];
        if self.is_program {
            edits.push(Edit::Interpreter(path_bytes(loader)));
        }
        edits
    }
}

/// Returns the objects of a closure, each with its path in the store.
fn placed(closure: &Closure, store: &Path) -> Result<Vec<Object>> {
    let load = &closure.load;
    let mut objects: BTreeMap<usize, Object> = BTreeMap::new();
    for (number, object) in load.objects.iter().enumerate() {
        let path = path_of(object.path.as_ref());
        let original = path.canonicalize().with_context(at(&path))?;
        let (named, folder) = match object.role {
            Role::Program => (&original, "bin"),
            Role::Library => (&path, "lib"),
            _ => continue,
        };
        let name = file_name(named);
        let is_program = object.role == Role::Program;
        let is_of_libc = !is_program && is_of_c_library(name.as_bytes());
        let place = store.join(package(if is_of_libc { "c-library" } else { &name })).join(folder);
        let place = place.join(named.file_name().unwrap_or_default());
        let (names, run_path) = (Vec::new(), Vec::new());
        objects.insert(number, Object { original, place, names, run_path, is_program });
    }
    for resolution in load.resolutions.iter().filter(|it| !it.needed.contains(&b'/')) {
        let answer = resolution.answer.object();
        let Some(object) = answer.and_then(|answer| objects.get_mut(&answer)) else { continue };
        let own = path_bytes(Path::new(object.place.file_name().unwrap_or_default()));
        if resolution.needed != own && !object.names.contains(&resolution.needed) {
            object.names.push(resolution.needed.clone());
        }
        let dir = object.place.parent().map(Path::to_owned);
        if let (Some(dir), Some(by)) = (dir, objects.get_mut(&resolution.needed_by))
            && !by.run_path.contains(&dir)
        {
            by.run_path.push(dir);
        }
    }
    Ok(objects.into_values().collect())
}

/// Checks that trees of this size may be copied to a directory.
///
/// # Errors
/// Returns an error if they are too large, or if there is not enough disk space.
pub fn check_room(dir: &Path, bytes: u64) -> Result<()> {
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    if bytes > MOST {
        let (bytes, most) = (megabytes(bytes), megabytes(MOST));
        bail!(
            "the packages of its closure hold {bytes} MB, more than the {most} MB that are copied"
        );
    }
    let about = rustix::fs::statvfs(dir).map_err(io::Error::from).with_context(at(dir))?;
    // `f_bavail` leaves out the blocks that are reserved for root (statvfs(3)).
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free < bytes.saturating_add(SPARE) {
        let (free, needed) = (megabytes(free), megabytes(bytes + SPARE));
        bail!(
            "{}: no room: {free} MB are free, {needed} are needed; TMPDIR names another place",
            dir.display()
        );
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the directory of a package: 32 hex digits and a name. Characters that would end an
/// element of a search path, or begin a token, are replaced.
fn package(name: &str) -> String {
    let mut hasher = FxHasher::default();
    name.hash(&mut hasher);
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || ".-_+".contains(c) { c } else { '_' })
        .collect();
    format!("{0:016x}{1:016x}-{plain}", hasher.finish(), !hasher.finish())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(at(path))
}

/// Writes an executable file, and the directories above it.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, bytes)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    };
    write().with_context(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_nothing_that_a_search_path_would_take_apart() {
        let name = package("a:b$c;d.so.1");
        assert!(name.ends_with("-a_b_c_d.so.1") && name.find('-') == Some(32), "{name}");
        assert_ne!(package("a"), package("b"));
    }
}
