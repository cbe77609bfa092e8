//! Reads roots of other machines, as `scripts/sysroots` creates them: their objects and their
//! emulators.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use becalm_core::closure::Subject;
use becalm_core::elf::{self, ObjectView};
use becalm_host::{OsFs, WalkOptions, find_objects};
use bstr::BStr;

/// Returns the programs and libraries below a folder that a loader can load, by path.
pub(crate) fn objects(folder: &Path) -> Vec<(PathBuf, ObjectView)> {
    let found = find_objects(&[folder.to_owned()], WalkOptions::default());
    let parsed = |path: PathBuf| {
        let view = elf::parse(fs::read(&path).ok()?.as_slice()).ok()?;
        view.dynamic.is_some().then_some((path, view))
    };
    found.objects.into_iter().filter_map(|object| parsed(object.path)).collect()
}

/// Returns the emulator of a machine, as `uname -m` names it.
///
/// # Errors
/// Returns an error if it is not installed.
pub(crate) fn emulator(machine: &str) -> Result<PathBuf> {
    let path = Path::new("/usr/bin").join(format!("qemu-{machine}-static"));
    ensure!(path.is_file(), "{} is missing (Debian: qemu-user-static)", path.display());
    Ok(path)
}

/// Returns the prefix of the names of a machine's compiler and binutils, or `None` for x86, which those
/// without a prefix handle here.
pub(crate) fn triple(machine: &str) -> Option<String> {
    Some(match machine {
        "x86_64" | "i386" => return None,
        "arm" => "arm-linux-gnueabihf".to_owned(),
        "ppc64le" => "powerpc64le-linux-gnu".to_owned(),
        other => format!("{other}-linux-gnu"),
    })
}

/// Returns the path of the loader that a program names, or of the usual one of a library.
pub(crate) fn interpreter(object: &Path) -> Option<PathBuf> {
    let fs = OsFs::new();
    let subject = Subject::open(&fs.session(), BStr::new(object.as_os_str().as_bytes())).ok()?;
    Some(OsStr::from_bytes(&subject.interpreter?).into())
}

/// A loader that can be run here: the words of its command line, with the emulator of another machine.
pub(crate) struct Loader(pub(crate) Vec<PathBuf>);

impl Loader {
    /// Runs the loader to list the objects of a file.
    pub(crate) fn list(&self, file: &Path) -> Result<Output> {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]).arg("--list").arg(file).env_remove("LD_LIBRARY_PATH");
        command.stdin(Stdio::null()).env("LC_ALL", "C");
        command.output().with_context(|| format!("{command:?}"))
    }
}

/// Returns the loader for an object of `sysroot`, or of this machine. `None` if there is none.
///
/// # Errors
/// Returns an error if the emulator is missing.
pub(crate) fn loader(
    object: &Path,
    view: &ObjectView,
    sysroot: Option<&Path>,
) -> Result<Option<Loader>> {
    let Some(own) = interpreter(object) else { return Ok(None) };
    let Some(sysroot) = sysroot else {
        return Ok(own.is_file().then(|| Loader(vec![own])));
    };
    let emulator = emulator(view.ident.machine_name())?;
    let inside = |path: &Path| sysroot.join(path.strip_prefix("/").unwrap_or(path));
    let mut loader = inside(&own);
    // An absolute link is one of the root.
    if let Some(target) = fs::read_link(&loader).ok().filter(|target| target.is_absolute()) {
        loader = inside(&target);
    }
    Ok(Some(Loader(vec![emulator, "-L".into(), sysroot.to_owned(), loader])))
}
