//! Starts a program as nobody, in an empty folder, without input and with a time limit.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::user::NOBODY;
use anyhow::{Context, Result, bail};
use becalm_host::child::ends_within;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// Time limit of a start, longer than any program needs to print its version.
const LIMIT: Duration = Duration::from_secs(10);

/// The result of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Exit code, 128+n for a signal.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Copies a program into a folder of its own, which every user can search: a build directory may be private. The
/// folder is removed when it is dropped.
///
/// # Errors
/// Returns an error if it cannot be copied.
pub fn reachable(program: &Path) -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let copy = copy_into(folder.path(), program)?;
    Ok((folder, copy))
}

/// Copies a program into a folder, so that every user can start it.
pub(crate) fn copy_into(folder: &Path, program: &Path) -> Result<PathBuf> {
    let copy = folder.join(program.file_name().context("a program without a name")?);
    fs::copy(program, &copy).with_context(|| program.display().to_string())?;
    fs::set_permissions(&copy, Permissions::from_mode(0o755))?;
    Ok(copy)
}

/// Creates an empty folder that the user nobody may write to.
pub(crate) fn open_folder() -> Result<TempDir> {
    let dir = tempfile::tempdir()?;
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777))?;
    Ok(dir)
}

/// Starts a command line. Returns `None` if it does not end in time.
pub(crate) fn start<S: AsRef<OsStr>>(line: &[S]) -> Result<Option<Ran>> {
    let Some((program, arguments)) = line.split_first() else { bail!("nothing to start") };
    let mut command = Command::new(program);
    let dir = open_folder()?;
    let mut stdout = tempfile::tempfile()?;
    let mut stderr = tempfile::tempfile()?;
    let child = command
        .args(arguments)
        .uid(NOBODY)
        .gid(NOBODY)
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("HOME", "/dev/null/home")])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .process_group(0)
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    let Some(code) = ended(child)? else { return Ok(None) };
    let folder = dir.path().to_string_lossy().into_owned();
    let text = |file: &mut File| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(bstr::ByteSlice::replace(bytes.as_slice(), &folder, "FOLDER"))
    };
    Ok(Some(Ran { code, stdout: text(&mut stdout)?, stderr: text(&mut stderr)? }))
}

/// Waits for the child. At the limit, kills it and the rest of its process group.
fn ended(mut child: Child) -> Result<Option<i32>> {
    let in_time = ends_within(&mut child, LIMIT)?;
    if !in_time {
        // The group may have ended already.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait()?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.filter(|_| in_time))
}
