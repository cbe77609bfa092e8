//! The loader that lists a file, and the binutils of its machine.

use std::fs;
use std::path::Path;

use anyhow::Result;
use becalm_core::elf::ObjectView;

use crate::root::{self, Loader};

/// Returns the loader for an object of `sysroot`, or of this machine. `None` if there is none.
///
/// # Errors
/// Returns an error if the emulator is missing.
pub(super) fn loader(
    object: &Path,
    view: &ObjectView,
    sysroot: Option<&Path>,
) -> Result<Option<Loader>> {
    let Some(own) = root::interpreter(object) else { return Ok(None) };
    let Some(sysroot) = sysroot else {
        return Ok(own.is_file().then(|| Loader(vec![own])));
    };
    let emulator = root::emulator(view.ident.machine_name())?;
    let inside = |path: &Path| sysroot.join(path.strip_prefix("/").unwrap_or(path));
    let mut loader = inside(&own);
    // An absolute link is one of the root.
    if let Some(target) = fs::read_link(&loader).ok().filter(|target| target.is_absolute()) {
        loader = inside(&target);
    }
    Ok(Some(Loader(vec![emulator, "-L".into(), sysroot.to_owned(), loader])))
}

/// Returns the libraries that a loader lists for a file, without their addresses. `None` if it refuses
/// the file.
pub(super) fn list(loader: &Loader, file: &Path) -> Option<Vec<String>> {
    let done = loader.list(file).ok().filter(|done| done.status.success())?;
    let text = String::from_utf8_lossy(&done.stdout);
    let line = |line: &str| line.split(" (0x").next().unwrap_or_default().to_owned();
    Some(text.lines().map(line).collect())
}

/// Returns the name of a tool for an object: that of its machine, or LLVM's.
pub(super) fn tool(view: &ObjectView, name: &str) -> String {
    match root::triple(view.ident.machine_name()) {
        None => name.into(),
        Some(triple) if Path::new(&format!("/usr/bin/{triple}-{name}")).is_file() => {
            format!("{triple}-{name}")
        }
        Some(_) => format!("llvm-{name}"),
    }
}
