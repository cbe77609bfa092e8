//! The loader that lists a file, and the binutils of its machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use becalm_core::elf::ObjectView;

use crate::root;

/// The loader of a machine, by an emulator if the machine is not this one.
pub(super) struct Machine {
    loader: PathBuf,
    emulator: Option<(PathBuf, PathBuf)>,
}

impl Machine {
    /// Returns the loader for an object of `sysroot`, or of this machine. `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the emulator is missing.
    pub(super) fn of(view: &ObjectView, sysroot: Option<&Path>) -> Result<Option<Self>> {
        let Some(loader) = loader(view) else { return Ok(None) };
        let Some(sysroot) = sysroot else {
            let loader = PathBuf::from(loader);
            return Ok(loader.is_file().then_some(Self { loader, emulator: None }));
        };
        let emulator = root::emulator(view.ident.machine_name())?;
        let inside = |path: &Path| sysroot.join(path.strip_prefix("/").unwrap_or(path));
        let mut loader = inside(Path::new(loader));
        // An absolute link is one of the root.
        if let Some(target) = fs::read_link(&loader).ok().filter(|target| target.is_absolute()) {
            loader = inside(&target);
        }
        Ok(Some(Self { loader, emulator: Some((emulator, sysroot.to_owned())) }))
    }

    /// Returns the libraries that the loader lists for a file, without their addresses. `None` if it
    /// refuses the file.
    pub(super) fn list(&self, file: &Path) -> Option<Vec<String>> {
        let mut command = match &self.emulator {
            None => Command::new(&self.loader),
            Some((emulator, root)) => {
                let mut command = Command::new(emulator);
                command.arg("-L").arg(root).arg(&self.loader);
                command
            }
        };
        let done = command.arg("--list").arg(file).output().ok()?;
        if !done.status.success() {
            return None;
        }
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let line = |line: &str| line.split(" (0x").next().unwrap_or_default().to_owned();
        Some(text.lines().map(line).collect())
    }
}

/// Returns the usual path of glibc's loader.
fn loader(view: &ObjectView) -> Option<&'static str> {
    Some(match view.ident.machine_name() {
        "x86_64" => "/lib64/ld-linux-x86-64.so.2",
        "i386" => "/lib/ld-linux.so.2",
        "aarch64" => "/lib/ld-linux-aarch64.so.1",
        "arm" => "/lib/ld-linux-armhf.so.3",
        "ppc64le" => "/lib64/ld64.so.2",
        "riscv64" => "/lib/ld-linux-riscv64-lp64d.so.1",
        "s390x" => "/lib/ld64.so.1",
        _ => return None,
    })
}

/// The names of the binutils of a machine.
pub(super) struct Binutils(Option<&'static str>);

impl Binutils {
    /// Returns the name of a tool: that of the machine, or LLVM's.
    pub(super) fn tool(&self, name: &str) -> String {
        match self.0 {
            None => name.into(),
            Some(triple) if Path::new(&format!("/usr/bin/{triple}-{name}")).is_file() => {
                format!("{triple}-{name}")
            }
            Some(_) => format!("llvm-{name}"),
        }
    }
}

/// Returns the binutils for an object. Those of this machine, x86, handle i386 too.
pub(super) fn binutils(view: &ObjectView) -> Binutils {
    Binutils(match view.ident.machine_name() {
        "aarch64" => Some("aarch64-linux-gnu"),
        "arm" => Some("arm-linux-gnueabihf"),
        "ppc64le" => Some("powerpc64le-linux-gnu"),
        "riscv64" => Some("riscv64-linux-gnu"),
        "s390x" => Some("s390x-linux-gnu"),
        _ => None,
    })
}
