//! One step of an order: an edit of becalm or a run of another tool.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use becalm_core::elf::ObjectView;
use bstr::ByteSlice;

use crate::root;

/// One step of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// becalm writes a run path.
    RunPath,
    /// becalm adds a directory to the run path and writes a note.
    Note,
    /// becalm shrinks the run path.
    Shrink,
    /// `strip`.
    Strip,
    /// `objcopy --strip-debug`.
    Objcopy,
    /// `objcopy --only-keep-debug`, `--strip-all` and `--add-gnu-debuglink`.
    SplitDebug,
    /// `eu-strip`.
    EuStrip,
    /// `llvm-strip`.
    LlvmStrip,
    /// As auditwheel and conda-build do: `patchelf` writes names and a long run path, and the start of each
    /// directory is then replaced by a shorter one, with NULs at the end of the string.
    Bundle,
    /// `patchelf --add-rpath`.
    Patchelf,
    /// `patchelf --shrink-rpath`.
    PatchelfShrink,
}

impl Step {
    pub(super) fn is_becalm(self) -> bool {
        matches!(self, Self::RunPath | Self::Note | Self::Shrink)
    }

    pub(super) fn is_patchelf(self) -> bool {
        matches!(self, Self::Patchelf | Self::PatchelfShrink | Self::Bundle)
    }
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

/// The tools of the machine of a file.
pub(super) struct Tools<'a> {
    pub(super) becalm: &'a Path,
    pub(super) patchelf: Option<&'a Path>,
    pub(super) strip: String,
    pub(super) objcopy: String,
}

impl Tools<'_> {
    /// Makes a step. Returns false if the tool refused the file.
    ///
    /// # Errors
    /// Returns an error if the tool cannot be run.
    pub(super) fn make(&self, step: Step, copy: &Path) -> Result<bool> {
        let (becalm, patchelf) = (self.becalm, self.patchelf.unwrap_or(Path::new("false")));
        let (program, arguments): (&Path, &[&str]) = match step {
            Step::RunPath => {
                (becalm, &["elf", "--no-sync", "--add-rpath", "/becalm/one:/becalm/two"])
            }
            // Most files have no run path, and a note only with one.
            Step::Note => {
                let note = "--build-resolution-cache";
                (becalm, &["elf", "--no-sync", "--add-rpath", "/becalm/lib", note])
            }
            Step::Shrink => (becalm, &["elf", "--no-sync", "--shrink-rpath"]),
            Step::Strip => (Path::new(&self.strip), &[]),
            Step::Objcopy => (Path::new(&self.objcopy), &["--strip-debug"]),
            Step::SplitDebug => return self.split_debug(copy),
            Step::EuStrip => (Path::new("eu-strip"), &[]),
            Step::LlvmStrip => (Path::new("llvm-strip"), &[]),
            Step::Bundle => return bundle(patchelf, copy),
            Step::Patchelf => (patchelf, &["--add-rpath", "/patchelf"]),
            Step::PatchelfShrink => (patchelf, &["--shrink-rpath"]),
        };
        succeeds(Command::new(program).args(arguments).arg(copy))
    }

    fn split_debug(&self, copy: &Path) -> Result<bool> {
        let debug: PathBuf = copy.with_extension("debug");
        let mut keep = Command::new(&self.objcopy);
        keep.arg("--only-keep-debug").arg(copy).arg(&debug);
        let mut split = Command::new(&self.objcopy);
        split.arg("--strip-all");
        split.arg(format!("--add-gnu-debuglink={}", debug.display())).arg(copy);
        let done = succeeds(&mut keep)? && succeeds(&mut split)?;
        let _ = std::fs::remove_file(debug);
        Ok(done)
    }
}

/// The prefix of a build folder, as long as conda's placeholder.
const PREFIX: &str =
    "/placehold_placehold_placehold_placehold_placehold_placehold_placehold_placehold";
/// The prefix that replaces it.
const INSTALLED: &str = "/opt/env";

/// Edits a file as tools do that bundle libraries or move them to another prefix.
pub(crate) fn bundle(patchelf: &Path, copy: &Path) -> Result<bool> {
    let run_path = format!("{PREFIX}/lib:$ORIGIN/bundled.libs");
    for arguments in [["--set-soname", "libbundled-1a2b3c4d.so.1"], ["--set-rpath", &run_path]] {
        let mut command = Command::new(patchelf);
        // A program has no soname, and patchelf leaves it alone.
        if !succeeds(command.args(arguments).arg(copy))? {
            return Ok(false);
        }
    }
    let mut bytes = std::fs::read(copy)?;
    let starts: Vec<usize> = bytes.find_iter(PREFIX).collect();
    for at in starts {
        let rest = bytes[at..].find_byte(0).context("the string ends")?;
        let string = [INSTALLED.as_bytes(), &bytes[at + PREFIX.len()..at + rest]].concat();
        bytes[at..at + rest].fill(0);
        bytes[at..at + string.len()].copy_from_slice(&string);
    }
    std::fs::write(copy, bytes)?;
    Ok(true)
}

fn succeeds(command: &mut Command) -> Result<bool> {
    let name = command.get_program().to_string_lossy().into_owned();
    Ok(command.output().with_context(|| name)?.status.success())
}
