//! Starts whole programs from edited copies: output and exit code must be those of an unedited
//! copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf;
use becalm_rewrite::edit;

use super::tally::Tally;
use crate::trace_differential::choose;
use crate::trace_differential::run::{Ran, start_command};
use crate::user::{NOBODY, is_root};

/// Maximum number of unedited starts if a program's output differs: some programs have one of two
/// outputs.
const ATTEMPTS: usize = 20;

/// Starts `count` programs, each unedited twice, with a note and with a run path.
pub(super) fn programs(count: usize, scratch: &Path, tally: &mut Tally) -> Result<()> {
    let folder = scratch.join("programs");
    fs::create_dir_all(&folder)?;
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o755))?;
    let mut done = 0;
    for trial in choose::all(Path::new("/usr/bin"), "system") {
        if done == count && trial.argument == "--version" {
            break;
        }
        let name = trial.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(original) = fs::read(&trial.program) else { continue };
        if trial.program.is_symlink() {
            continue;
        }
        if let Some(difference) = differs(&folder.join(&name), &original, trial.argument)? {
            tally.program(&name, difference);
            done += usize::from(trial.argument == "--version");
        }
    }
    Ok(())
}

/// Returns the difference, or `None` if the program's output varies by itself.
fn differs(path: &Path, original: &[u8], argument: &str) -> Result<Option<Option<String>>> {
    let control = said(path, original, argument)?;
    if control.is_none() || said(path, original, argument)? != control {
        return Ok(None);
    }
    // The new run path follows the existing one, which the program may need.
    let dynamic = elf::parse(original).ok().and_then(|view| view.dynamic).unwrap_or_default();
    let old = dynamic.runpath.or(dynamic.rpath).unwrap_or_default();
    let value = Some(format!("{old}:/becalm/trial/run/path").into());
    for (kind, step) in [
        ("note", Edit::ResolutionNote(Some(vec![0x42; 300]))),
        ("run-path", Edit::RunPath { kind: RunPathKind::Keep, value }),
    ] {
        let Ok(edited) = edit(original, &[step]) else { return Ok(None) };
        let Some(patch) = edited.patch else { continue };
        if said(path, &patch.applied_to(original), argument)? != control {
            for _ in 0..ATTEMPTS {
                if said(path, original, argument)? != control {
                    return Ok(None);
                }
            }
            return Ok(Some(Some(format!("{argument} differs after {kind}"))));
        }
    }
    Ok(Some(None))
}

/// Runs an image, always from the same path. Returns `None` if it does not end.
fn said(path: &Path, image: &[u8], argument: &str) -> Result<Option<Ran>> {
    // The previous process may still execute the old file, so the new one gets a new inode.
    let _ = fs::remove_file(path);
    fs::write(path, image)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    let mut command = Command::new(path);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    start_command(command.arg(argument))
}
