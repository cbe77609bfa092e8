//! Finding out what kind of loader a program names: by its bytes, and where it can
//! run here and may be trusted, by asking it (`--list-diagnostics`, glibc 2.33 on).
//!
//! # Why not every loader is run
//!
//! Any ELF file may name any interpreter, so running what a file names would make
//! looking at a file as dangerous as starting it. A loader is run only where
//!
//! - becalm looks at the machine's own root, not at another one;
//! - its bytes are those of a glibc loader for this machine;
//! - it belongs to root or to the user who runs becalm, nobody else may write it, and
//!   it has no set-id bit. Whoever could place such a file could already act as that
//!   user or as root.
//!
//! The last rule does not cover an archive that the user has unpacked: what is in it
//! is the user's own. `--cpu` and `--sysroot` both keep becalm from running anything.
//!
//! The file that was checked is the file that runs: it is started through its open
//! descriptor, so that nobody can swap the path in between. It gets an empty
//! environment, no input, two seconds and a bounded buffer for its answer. Where
//! anything of this fails, its bytes and the processor's own answer must do.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use becalm_core::elf::{self, Ident};
use becalm_core::fs::Errno;
use becalm_core::loader::{Libc, LoaderFacts};
use bstr::{BStr, ByteSlice};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::HostError;
use crate::cpu::{self, Cpu};
use crate::os_fs::{Interpreter, OsFs, io_error, proc_path};

/// How long a loader may take to describe itself; it takes about a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of an answer that are read; glibc's has about 20 kB.
const LONGEST_ANSWER: u64 = 1024 * 1024;

/// What the user says of the loader, over what is found out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FactChoice {
    /// The C library whose rules apply (`--libc`).
    pub libc: Option<Libc>,
    /// The processor, as [`Cpu::named`] takes it (`--cpu`). Where it is given, no
    /// loader is run.
    pub cpu: Option<String>,
}

/// Facts found out before, by the interpreter in the state it was in.
#[derive(Debug, Default)]
pub(crate) struct FactCache {
    known: Mutex<HashMap<(Interpreter, FactChoice), LoaderFacts>>,
}

/// The facts of the loader at `interpreter`, a path inside the root of `fs` as a
/// program names it. Found out once for each file and choice.
///
/// # Errors
/// [`HostError::Interpreter`] where the file cannot be read;
/// [`HostError::UnknownLoader`] where it is no loader known here;
/// [`HostError::UnknownCpu`] where no machine has the chosen processor.
pub fn loader_facts(
    fs: &OsFs,
    interpreter: &BStr,
    choice: &FactChoice,
) -> Result<LoaderFacts, HostError> {
    let path = || PathBuf::from(interpreter.to_os_str_lossy().into_owned());
    let failed = |errno: Errno| HostError::Interpreter { path: path(), source: io_error(errno) };
    let key = (fs.interpreter(interpreter).map_err(failed)?, choice.clone());
    let known = || fs.facts.known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(facts) = known().get(&key) {
        return Ok(facts.clone());
    }
    let (file, found, bytes) = fs.read_interpreter(interpreter).map_err(failed)?;
    let ident = elf::ident(&bytes).ok_or_else(|| HostError::UnknownLoader { path: path() })?;
    let native = fs.is_real_root() && cpu::is_native(&ident);
    let cpu = match &choice.cpu {
        Some(name) => Cpu::named(name, ident.machine)?,
        None if cpu::is_native(&ident) => Cpu::running(),
        None => Cpu::default(),
    };
    let mut facts = seam::from_bytes(&bytes, &ident, &cpu, choice)
        .ok_or_else(|| HostError::UnknownLoader { path: path() })?;
    let may_ask = native && choice.cpu.is_none() && choice.libc.is_none() && found.may_run();
    if may_ask && matches!(facts.libc, Libc::Glibc(_)) {
        let answer = diagnostics(&file).and_then(|text| seam::from_diagnostics(&text));
        // An answer that contradicts the bytes is none of that loader's.
        facts = answer.filter(|answer| answer.libc == facts.libc).unwrap_or(facts);
    }
    known().insert((found, choice.clone()), facts.clone());
    Ok(facts)
}

// STUBS, to be replaced by `becalm_core::loader::facts`.
mod seam {
    use super::*;

    pub(super) fn from_bytes(
        _bytes: &[u8],
        _ident: &Ident,
        _cpu: &Cpu,
        _choice: &FactChoice,
    ) -> Option<LoaderFacts> {
        None
    }

    pub(super) fn from_diagnostics(_text: &[u8]) -> Option<LoaderFacts> {
        None
    }
}

/// What an open glibc loader prints for `--list-diagnostics`; `None` where it cannot
/// be started, fails (glibc before 2.33 does), or takes too long.
fn diagnostics(loader: &File) -> Option<Vec<u8>> {
    answer_of(Path::new(&proc_path(loader)), &["--list-diagnostics"])
}

/// The output of a program that nothing is expected of, within [`PATIENCE`].
fn answer_of(program: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let text = read_until(&mut child, deadline);
    let fine = text.is_some() && exits_well(&mut child, deadline);
    if !fine {
        // It may be gone already; the wait then takes its status all the same.
        let _ = child.kill();
        let _ = child.wait();
    }
    text.filter(|_| fine)
}

/// The child's whole output; `None` at the deadline or where it is too long.
fn read_until(child: &mut Child, deadline: Instant) -> Option<Vec<u8>> {
    let mut output = child.stdout.take()?;
    let mut text = Vec::new();
    loop {
        let left = deadline.checked_duration_since(Instant::now())?;
        let timeout = Timespec::try_from(left).ok()?;
        let mut fds = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(0) => return None,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        let mut block = [0; 16 * 1024];
        match output.read(&mut block) {
            Ok(0) => return Some(text),
            Ok(count) => text.extend_from_slice(&block[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        if text.len() as u64 > LONGEST_ANSWER {
            return None;
        }
    }
}

/// Waits for a child that has closed its output; true where it ends with status 0
/// before the deadline. It is about to exit, so the waits are short.
fn exits_well(child: &mut Child, deadline: Instant) -> bool {
    let mut pause = Duration::from_micros(20);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(pause),
            _ => return false,
        }
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests;
