//! Finding out what kind of loader a program names: by its bytes, and where it can
//! run here and may be trusted, by asking it (`--list-diagnostics`, glibc 2.34 on).
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
//! is the user's own. `--cpu`, `--libc` and `--sysroot` each keep becalm from running
//! anything.
//!
//! The file that was checked is the file that runs: it is started through its open
//! descriptor, so that nobody can swap the path in between. It gets an empty
//! environment, no input, two seconds and a bounded buffer for its answer. Where
//! anything of this fails, its bytes and the processor's own answer must do.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use becalm_core::elf;
use becalm_core::fs::FileSystem;
use becalm_core::loader::{Libc, LoaderFacts, facts};
use becalm_core::search::hwcaps;
use bstr::{BStr, BString, ByteSlice};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{Pid, PidfdFlags};

use crate::HostError;
use crate::cpu;
use crate::os_fs::{Interpreter, OpenInterpreter, OsFs, io_error, proc_path};

/// How long a loader may take to describe itself; it takes about a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of an answer that are read; glibc's has about 20 kB.
const LONGEST_ANSWER: u64 = 1024 * 1024;

/// What the user says of the loader, over what is found out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FactChoice {
    /// The C library whose rules apply (`--libc`).
    pub libc: Option<Libc>,
    /// The processor, as [`hwcaps::for_cpu`] takes it (`--cpu`). Where it is given, or
    /// `libc`, no loader is run.
    pub cpu: Option<String>,
}

/// Facts found out before, by the interpreter in the state it was in.
#[derive(Debug, Default)]
pub(crate) struct FactCache {
    known: Mutex<HashMap<(Interpreter, FactChoice), Arc<LoaderFacts>>>,
}

/// The facts of the loader at `interpreter`, a path inside the root of `fs` as a
/// program names it. Found out once for each file and choice.
///
/// # Errors
/// [`HostError::Interpreter`] where the file cannot be read;
/// [`HostError::UnknownLoader`] where it is no loader known here;
/// [`HostError::NotALoader`] if it is not one of the C library that the choice names;
/// [`HostError::UnknownCpu`] where its machine has no such processor.
pub fn loader_facts(
    fs: &OsFs,
    interpreter: &BStr,
    choice: &FactChoice,
) -> Result<Arc<LoaderFacts>, HostError> {
    let errno =
        |errno| HostError::Interpreter { path: path_of(interpreter), source: io_error(errno) };
    let key = (fs.interpreter(interpreter).map_err(errno)?, choice.clone());
    let known = || fs.facts.known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(facts) = known().get(&key) {
        return Ok(Arc::clone(facts));
    }
    let loader = fs.read_interpreter(interpreter).map_err(errno)?;
    let facts = Arc::new(find_out(fs, interpreter, &loader, choice)?);
    known().insert((loader.state, key.1), Arc::clone(&facts));
    Ok(facts)
}

/// Reads the loader, and asks it where that adds to what its bytes say.
fn find_out(
    fs: &OsFs,
    interpreter: &BStr,
    loader: &OpenInterpreter,
    choice: &FactChoice,
) -> Result<LoaderFacts, HostError> {
    let unknown = || match choice.libc {
        Some(libc) => HostError::NotALoader { path: path_of(interpreter), libc },
        None => HostError::UnknownLoader { path: path_of(interpreter) },
    };
    let ident = elf::ident(&loader.bytes).ok_or_else(unknown)?;
    let libc = choice.libc.or_else(|| libc_of(fs, interpreter, &loader.bytes));
    let libc = libc.ok_or_else(unknown)?;
    let native = cpu::is_native(&ident);
    let unchosen = choice.cpu.is_none() && choice.libc.is_none();
    let may_ask = fs.is_real_root()
        && answers(libc)
        && loader.state.may_run()
        && is_trusted_place(fs, interpreter);
    if native && unchosen && may_ask {
        let answer = diagnostics(&loader.file)
            .and_then(|text| facts::from_diagnostics(&text.to_str_lossy()))
            // One that contradicts the bytes is not this loader's.
            .filter(|answer| answer.libc == libc);
        if let Some(mut answer) = answer {
            // The path compiled in is the one that is opened.
            answer.cache_path = facts::cache_path(&loader.bytes).or(answer.cache_path);
            answer.reads = facts::readers(&loader.bytes);
            return Ok(answer);
        }
    }
    let cpu = match &choice.cpu {
        Some(name) => name,
        None if native => cpu::running(),
        None => cpu::BASELINE,
    };
    let caps = hwcaps::for_cpu(&ident, libc, cpu)
        .map_err(|source| HostError::UnknownCpu { path: path_of(interpreter), source })?;
    facts::from_bytes(&loader.bytes, libc, caps).ok_or_else(unknown)
}

/// The C library of a loader, by its bytes; before glibc 2.33 by the name of the file
/// that the interpreter leads to, or by the libc beside it.
fn libc_of(fs: &OsFs, interpreter: &BStr, bytes: &[u8]) -> Option<Libc> {
    facts::libc_of(bytes, b"").or_else(|| {
        let session = fs.session();
        let real = session.canonicalize(interpreter).ok()?;
        let (dir, name) = real.split_at(real.rfind_byte(b'/')? + 1);
        facts::libc_of(bytes, name).or_else(|| {
            let mut libc = BString::from(dir);
            libc.extend_from_slice(b"libc.so.6");
            facts::libc_of(bytes, &session.read(libc.as_bstr()).ok()?)
        })
    })
}

/// True for a glibc that knows `--list-diagnostics`; an older one takes it for the
/// name of a program to load.
fn answers(libc: Libc) -> bool {
    matches!(libc, Libc::Glibc(version) if (version.major, version.minor) >= (2, 34))
}

fn path_of(interpreter: &BStr) -> PathBuf {
    PathBuf::from(interpreter.to_os_str_lossy().into_owned())
}

/// What an open glibc loader prints for `--list-diagnostics`; `None` where it cannot
/// be started, fails, or takes too long.
fn diagnostics(loader: &File) -> Option<Vec<u8>> {
    answer_of(Path::new(&proc_path(loader)), &["--list-diagnostics"])
}

/// The output of a program that nothing is expected of, within [`PATIENCE`]. It goes to
/// a piece of memory of fixed size, which takes one system call to read and cannot be
/// made to grow.
fn answer_of(program: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("answer", flags).ok()?;
    rustix::fs::ftruncate(&memory, LONGEST_ANSWER).ok()?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::GROW | SealFlags::SHRINK).ok()?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(memory.try_clone().ok()?)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    if !ends_in_time(&child) {
        // It may be gone already; the wait then takes its status all the same.
        let _ = child.kill();
    }
    let fine = child.wait().ok()?.success();
    // The child writes through the same open file, so its end is where that now stands.
    let length = rustix::fs::tell(&memory).ok()?.min(LONGEST_ANSWER);
    let mut text = vec![0; usize::try_from(length).ok()?];
    let count = rustix::io::pread(&memory, &mut text, 0).ok()?;
    text.truncate(count);
    fine.then_some(text)
}

/// True where the child ends within [`PATIENCE`].
fn ends_in_time(child: &Child) -> bool {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return false };
    let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let deadline = Instant::now() + PATIENCE;
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        let Ok(timeout) = Timespec::try_from(left) else { return false };
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}

/// The places whose loaders are run: where distributions and stores put theirs. One that
/// lies elsewhere may have come out of an archive.
const TRUSTED_PLACES: [&str; 4] = ["/lib", "/usr/lib", "/nix/store/", "/gnu/store/"];

/// True where the file that the interpreter leads to lies in a trusted place.
fn is_trusted_place(fs: &OsFs, interpreter: &BStr) -> bool {
    let real = fs.session().canonicalize(interpreter);
    real.is_ok_and(|real| TRUSTED_PLACES.iter().any(|place| real.starts_with_str(place)))
}

#[cfg(test)]
mod tests;
