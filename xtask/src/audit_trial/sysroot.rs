//! Makes a store from a root of another machine or glibc release (`scripts/sysroots`). Each program
//! and each library becomes a package, and the C library becomes one, so that all libraries are
//! found along run paths. The originals are not changed.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf::ObjectView;
use becalm_core::loader::is_of_c_library;
use bstr::{BString, ByteSlice};

use crate::root;
use crate::trace_differential::choose;

/// A store and the way to start its programs.
pub(crate) struct Root {
    /// The machine, as `uname -m` names it.
    pub(crate) machine: String,
    pub(crate) programs: Vec<PathBuf>,
    /// The emulator, if the machine is another one.
    pub(crate) emulator: Option<PathBuf>,
}

/// Makes a store at `store`.
///
/// # Errors
/// Returns an error if the root has no programs or the emulator is missing.
pub(crate) fn make(root: &Path, store: &Path) -> Result<Root> {
    let objects = root::objects(&root.join("usr"));
    let libraries: BTreeMap<BString, (&Path, &ObjectView)> = objects
        .iter()
        .filter_map(|(path, view)| Some((soname(view)?, (path.as_path(), view))))
        .collect();
    let first = objects.iter().find_map(|(_, view)| view.interpreter.clone());
    let interpreter = first.with_context(|| format!("{}: no programs", root.display()))?;
    let name = interpreter.rsplit_str("/").next().unwrap_or_default();
    let (loader, view) =
        libraries.get(name.as_bstr()).with_context(|| format!("no loader {interpreter}"))?;
    let libc = store.join(package("c-library")).join("lib");
    let new_loader = libc.join(name.to_os_str()?);
    put(&new_loader, &fs::read(loader)?)?;
    for (soname, (path, view)) in &libraries {
        let place = place(store, soname).join(soname.to_os_str()?);
        if place != new_loader {
            put(&place, &moved((path, view), store, &libraries, None)?)?;
        }
    }
    let mut programs = Vec::new();
    for (path, view) in &objects {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_program = view.interpreter.is_some() && soname(view).is_none();
        if !is_program || choose::is_never_started(&name) {
            continue;
        }
        let place = store.join(package(&format!("{name}-program"))).join("bin").join(&name);
        put(&place, &moved((path, view), store, &libraries, Some(&new_loader))?)?;
        programs.push(place);
    }
    programs.sort();
    let machine = view.ident.machine_name();
    let is_own = machine == std::env::consts::ARCH
        || (machine.starts_with('i') && std::env::consts::ARCH == "x86_64");
    let emulator = (!is_own).then(|| root::emulator(machine)).transpose()?;
    Ok(Root { machine: machine.to_owned(), programs, emulator })
}

/// Returns the soname of a library or a loader, if it can be a file name.
fn soname(view: &ObjectView) -> Option<BString> {
    let soname = view.dynamic.as_ref()?.soname.clone()?;
    (!soname.contains(&b'/')).then_some(soname)
}

/// Returns the path of a library in the store.
fn place(store: &Path, soname: &BString) -> PathBuf {
    let is_c_library = is_of_c_library(soname)
        || soname.starts_with(b"ld-linux")
        || soname.starts_with(b"ld64.so");
    let name = soname.to_str_lossy();
    store.join(package(if is_c_library { "c-library" } else { &name })).join("lib")
}

/// Returns the bytes of an object whose run path and interpreter are inside the store.
fn moved(
    (path, view): (&Path, &ObjectView),
    store: &Path,
    libraries: &BTreeMap<BString, (&Path, &ObjectView)>,
    loader: Option<&Path>,
) -> Result<Vec<u8>> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let libc = store.join(package("c-library")).join("lib");
    if soname(view).is_some_and(|soname| place(store, &soname) == libc) {
        // The C library must not be edited.
        return Ok(bytes);
    }
    let mut dirs: Vec<BString> = Vec::new();
    let needed = view.dynamic.iter().flat_map(|dynamic| &dynamic.dependencies);
    for name in needed.map(|it| &it.name).filter(|name| libraries.contains_key(*name)) {
        let dir = BString::from(place(store, name).display().to_string());
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    // The C library comes last, as in the wrappers of compilers.
    dirs.sort_by_key(|dir| *dir == libc.display().to_string());
    let value = (!dirs.is_empty()).then(|| bstr::join(":", &dirs).into());
    let mut edits = vec![Edit::RunPath { kind: RunPathKind::Runpath, value }];
    edits.extend(loader.map(|path| Edit::Interpreter(path.display().to_string().into())));
    let edited = becalm_rewrite::edit(bytes.as_slice(), &edits)
        .map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(edited.patch.map_or(bytes.clone(), |patch| patch.applied_to(&bytes)))
}

/// Returns a directory name as packages of a store have it.
fn package(name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{0:016x}{1:016x}-{name}", hasher.finish(), !hasher.finish())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, bytes).with_context(|| path.display().to_string())?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}
