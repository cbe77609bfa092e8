//! One step of an order: an edit of becalm or a run of another tool.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use becalm_core::elf::ObjectView;

use crate::root;

/// One step of an order: its name, and the line of a shell that makes it. The line's first argument is the file, and
/// variables name the tools.
pub(crate) type Step = (&'static str, &'static str);

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
/// An edit as auditwheel and conda-build make it: `patchelf` writes names and a long run path, whose prefix is as long
/// as conda's placeholder, and the prefix is then replaced by a shorter one, with NULs at the end of the string. A
/// program has no soname, and patchelf leaves it alone.
pub(crate) const BUNDLE: Step = (
    "Bundle",
    r#"export P=/placehold_placehold_placehold_placehold_placehold_placehold_placehold_placehold
    "$PATCHELF" --set-soname libbundled-1a2b3c4d.so.1 "$1"
    "$PATCHELF" --set-rpath "$P/lib:\$ORIGIN/bundled.libs" "$1"
    perl -0777 -pi -e 's{$ENV{P}([^\0]*)}{"/opt/env$1" . "\0" x (length($ENV{P}) - 8)}ge' "$1" || exit 127"#,
);
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

/// The variables that name the tools of the machine of a file.
pub(super) type Tools = [(&'static str, OsString); 4];

/// Makes a step with the tools that the variables name. Returns false if the tool refused the file.
///
/// # Errors
/// Returns an error if the shell cannot be run, or there is no tool.
pub(crate) fn make(step: Step, copy: &Path, tools: &[(&str, OsString)]) -> Result<bool> {
    let mut shell = Command::new("sh");
    shell.args(["-euc", step.1, "sh"]).arg(copy).envs(tools.iter().cloned());
    let status = shell.output()?.status;
    // The shell's status if a program cannot be run, or is not found.
    ensure!(!matches!(status.code(), Some(126 | 127)), "{step:?}: cannot be run");
    Ok(status.success())
}
