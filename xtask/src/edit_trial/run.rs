//! Starts whole programs from edited copies: output and exit code must be those of an unedited
//! copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf;
use becalm_host::child::status_within;
use becalm_rewrite::edit;

use super::tally::Tally;
use crate::user::{NOBODY, is_root};

/// Programs that must not be started for a trial, whatever the argument.
const NEVER: [&str; 12] = [
    "shutdown", "reboot", "halt", "poweroff", "init", "telinit", "sulogin", "vlock", "kill",
    "killall", "pkill", "yes",
];
/// Time limit of a program.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of unedited starts if a program's output differs: some programs have one of two
/// outputs.
const ATTEMPTS: usize = 20;
#[derive(PartialEq)]
struct Said {
    code: Option<i32>,
    out: Vec<u8>,
    err: Vec<u8>,
}

/// Starts `count` programs, each unedited twice, with a note and with a run path.
pub(super) fn programs(count: usize, scratch: &Path, tally: &mut Tally) -> Result<()> {
    let mut paths: Vec<PathBuf> = fs::read_dir("/usr/bin")?.flatten().map(|it| it.path()).collect();
    paths.sort();
    let folder = scratch.join("programs");
    fs::create_dir_all(&folder)?;
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o755))?;
    let mut done = 0;
    for path in paths {
        if done == count {
            break;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(original) = fs::read(&path) else { continue };
        let dynamic = elf::parse(original.as_slice()).is_ok_and(|it| it.interpreter.is_some());
        if !dynamic || path.is_symlink() || NEVER.contains(&name.as_str()) {
            continue;
        }
        for argument in ["--version", "--help"] {
            if let Some(difference) = differs(&folder, &name, &original, argument)? {
                tally.program(&name, difference);
                done += usize::from(argument == "--version");
            }
        }
    }
    Ok(())
}

/// Returns the difference, or `None` if the program's output varies by itself.
fn differs(
    folder: &Path,
    name: &str,
    original: &[u8],
    argument: &str,
) -> Result<Option<Option<String>>> {
    let path = folder.join(name);
    let control = said(&path, original, argument)?;
    if control.is_none() || said(&path, original, argument)? != control {
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
        if said(&path, &patch.applied_to(original), argument)? != control {
            for _ in 0..ATTEMPTS {
                if said(&path, original, argument)? != control {
                    return Ok(None);
                }
            }
            return Ok(Some(Some(format!("{argument} differs after {kind}"))));
        }
    }
    Ok(Some(None))
}

/// Runs an image, always from the same path. Returns `None` if it does not end.
fn said(path: &Path, image: &[u8], argument: &str) -> Result<Option<Said>> {
    // The previous process may still execute the old file, so the new one gets a new inode.
    let _ = fs::remove_file(path);
    fs::write(path, image)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    let mut command = Command::new(path);
    command.arg(argument).current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let Ok(mut child) = command.spawn() else { return Ok(None) };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let out = std::thread::spawn(move || drain(out));
    let err = std::thread::spawn(move || drain(err));
    let Some(status) = status_within(&mut child, TIME_LIMIT)? else { return Ok(None) };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    Ok(Some(Said { code: status.code(), out, err }))
}

fn drain(stream: Option<impl std::io::Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // If a stream breaks, the output before that is enough.
        let _ = stream.read_to_end(&mut bytes);
    }
    bytes
}
