//! The reasons why a command was not started, or not traced, in terms that help the user.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::anyhow;
use becalm_core::closure::Subject;
use becalm_host::OsFs;
use becalm_host::trace::{Command, TraceError};
use bstr::{BStr, ByteSlice};
use rustix::io::Errno;

use crate::escape::shown;
use crate::run::program::words_of_script;

/// Returns the error of a run, with the reason that the system's message does not name.
pub(super) fn explained(error: TraceError) -> anyhow::Error {
    if let TraceError::Exec { command, source } = &error
        && let Some(reason) = reason(command, source)
    {
        return anyhow!("{}: {reason}", shown(command.as_os_str().as_bytes().as_bstr()));
    }
    error.into()
}

/// Returns the cause that the system's error message leaves out.
fn reason(command: &Path, source: &io::Error) -> Option<String> {
    let about = fs::metadata(command).ok()?;
    if about.is_dir() {
        return Some("a directory, not a program".to_owned());
    }
    match Errno::from_io_error(source)? {
        Errno::NOENT => missing_interpreter(command),
        Errno::NOEXEC => Some(not_executable(command)),
        Errno::ACCESS => Some("not executable: Permission denied".to_owned()),
        _ => None,
    }
}

/// Returns what is missing if the file exists but its interpreter does not.
fn missing_interpreter(command: &Path) -> Option<String> {
    let head = head(command)?;
    let name = match words_of_script(&head) {
        Some(words) => words.first().copied().unwrap_or_default().to_vec(),
        None => subject(command)?.interpreter?.into(),
    };
    Some(format!("its interpreter {} is not there", shown(name.as_bstr())))
}

fn not_executable(command: &Path) -> String {
    let Some(head) = head(command) else { return "cannot be executed".to_owned() };
    if !head.starts_with(b"\x7fELF") {
        return "neither a program nor a script that names its interpreter (#!)".to_owned();
    }
    match machine(command) {
        Some(machine) => format!("a program for {machine}, which does not run here"),
        None => "a broken ELF file".to_owned(),
    }
}

fn head(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(256).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn subject(path: &Path) -> Option<Subject> {
    let fs = OsFs::new();
    Subject::open(&fs.session(), BStr::new(path.as_os_str().as_bytes())).ok()
}

/// Returns the reason why the command should not be traced: a program of another architecture runs by an
/// emulator if at all, whose own calls show nothing about the loader inside. `None` if it can be traced.
#[must_use]
pub fn why_untraced(command: &Command) -> Option<String> {
    let machine = machine(&command.file().ok()?)?;
    // A 64-bit kernel usually runs 32-bit programs of the same family without an emulator.
    let runs_here = match env::consts::ARCH {
        "x86_64" => matches!(machine, "x86_64" | "i386" | "i686" | "x86"),
        "aarch64" => matches!(machine, "aarch64" | "arm"),
        native => machine == native,
    };
    (!runs_here).then(|| format!("a program for {machine}, which runs under an emulator"))
}

/// Returns the machine of a program.
fn machine(path: &Path) -> Option<&'static str> {
    Some(subject(path)?.view.ident.machine_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_for_another_machine_is_left_to_its_emulator() {
        let own = env::current_exe().expect("our own program");
        assert_eq!(why_untraced(&Command::new(&own, [])), None);
        let mut image = std::fs::read(&own).expect("read");
        // EM_PPC64 in the byte order of the file: no machine with a tracer runs it.
        image[18..20].copy_from_slice(&21_u16.to_le_bytes());
        let dir = tempfile::tempdir().expect("a scratch directory");
        let alien = dir.path().join("alien");
        std::fs::write(&alien, image).expect("written");
        let why = why_untraced(&Command::new(&alien, []));
        assert!(why.as_ref().is_some_and(|why| why.contains("under an emulator")), "{why:?}");
    }
}
