//! One step of an order: an edit of becalm or a run of another tool.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use becalm_core::elf::ObjectView;
use bstr::ByteSlice;

use crate::root;

/// One step of an order: its name, and the line of a shell that makes it. The line's first argument is the file, and
/// variables name the tools.
pub(super) type Step = (&'static str, &'static str);

/// becalm writes a run path.
pub(super) const RUN_PATH: Step =
    ("RunPath", r#""$BECALM" elf --no-sync --add-rpath /becalm/one:/becalm/two "$1""#);
/// becalm adds a directory to the run path and writes a note. Most files have no run path, and a note only with
/// one.
pub(super) const NOTE: Step =
    ("Note", r#""$BECALM" elf --no-sync --add-rpath /becalm/lib --build-resolution-cache "$1""#);
/// becalm shrinks the run path.
pub(super) const SHRINK: Step = ("Shrink", r#""$BECALM" elf --no-sync --shrink-rpath "$1""#);
pub(super) const STRIP: Step = ("Strip", r#""$STRIP" "$1""#);
pub(super) const OBJCOPY: Step = ("Objcopy", r#""$OBJCOPY" --strip-debug "$1""#);
pub(super) const SPLIT_DEBUG: Step = (
    "SplitDebug",
    r#"trap 'rm -f "$1.debug"' EXIT; "$OBJCOPY" --only-keep-debug "$1" "$1.debug"
    "$OBJCOPY" --strip-all --add-gnu-debuglink="$1.debug" "$1""#,
);
pub(super) const EU_STRIP: Step = ("EuStrip", r#"eu-strip "$1""#);
pub(super) const LLVM_STRIP: Step = ("LlvmStrip", r#"llvm-strip "$1""#);
/// [`bundle`], whose line only says that it needs patchelf.
pub(super) const BUNDLE: Step = ("Bundle", "$PATCHELF");
pub(super) const PATCHELF: Step = ("Patchelf", r#""$PATCHELF" --add-rpath /patchelf "$1""#);
pub(super) const PATCHELF_SHRINK: Step = ("PatchelfShrink", r#""$PATCHELF" --shrink-rpath "$1""#);

pub(super) fn is_becalm(step: Step) -> bool {
    step.1.contains("$BECALM")
}

pub(super) fn is_patchelf(step: Step) -> bool {
    step.1.contains("$PATCHELF")
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
    /// Returns an error if the shell cannot be run, or there is no tool.
    pub(super) fn make(&self, step: Step, copy: &Path) -> Result<bool> {
        let patchelf = self.patchelf.unwrap_or(Path::new("false"));
        if step == BUNDLE {
            return bundle(patchelf, copy);
        }
        let mut shell = Command::new("sh");
        shell.args(["-euc", step.1, "sh"]).arg(copy).env("BECALM", self.becalm);
        shell.env("PATCHELF", patchelf).env("STRIP", &self.strip).env("OBJCOPY", &self.objcopy);
        let status = shell.output()?.status;
        // The shell's status if a program is not found.
        ensure!(status.code() != Some(127), "{step:?}: not installed");
        Ok(status.success())
    }
}

/// The prefix of a build folder, as long as conda's placeholder.
const PREFIX: &str =
    "/placehold_placehold_placehold_placehold_placehold_placehold_placehold_placehold";
/// The prefix that replaces it.
const INSTALLED: &str = "/opt/env";

/// Edits a file as auditwheel and conda-build do: `patchelf` writes names and a long run path, and the start of each
/// directory is then replaced by a shorter one, with NULs at the end of the string.
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
