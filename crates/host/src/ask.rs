//! Determines which loader a program names: from the loader's bytes and, if it can run here and may
//! be trusted, from its own output (`--list-diagnostics`, glibc 2.34 and later).
//!
//! # Which loaders are run
//!
//! Any ELF file may name any interpreter. If becalm ran whatever a file names, checking a file
//! would be as dangerous as executing it. A loader is run only if
//!
//! - becalm checks the machine's own root and not another one;
//! - its bytes are those of a glibc loader for this machine;
//! - it belongs to root or to the user who runs becalm, nobody else may write it, and it has no
//!   set-id bit. Anyone who could place such a file could already act as that user or as root;
//! - its real path is below a directory of [`TRUSTED_PREFIXES`]. An archive that the user has
//!   unpacked may also contain a loader that belongs to the user.
//!
//! With `--cpu`, `--libc` or `--sysroot` becalm runs no loader.
//!
//! The checked file is the file that runs: it is started through its open descriptor, so nobody can
//! replace the path in between. Its environment is empty but for the `GLIBC_TUNABLES` of the predicted
//! start, which it applies to what it prints. It gets no input, two seconds of time and a bounded buffer
//! for its output. If any of this fails, becalm uses its bytes and the processor's
//! own identification.

pub use crate::os_fs::FactChoice;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use becalm_core::elf;
use becalm_core::fs::FileSystem;
use becalm_core::loader::{GlibcVersion, Libc, LoaderFacts, facts};
use becalm_core::search::hwcaps;
use bstr::{BStr, BString, ByteSlice};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::HostError;
use crate::child::status_within;
use crate::cpu;
use crate::fingerprint::Fingerprint;
use crate::os_fs::{OsFs, io_error};
use crate::path::{path_of, proc_path};

/// Time limit of a loader's self-description; it takes about a millisecond.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Maximum size of a loader's output, in bytes; glibc's has about 20 kB.
const MAX_OUTPUT: u64 = 1024 * 1024;

/// Returns the facts of the loader at `interpreter`, which is a path inside the root of `fs`. They
/// are determined once for each file and choice.
///
/// # Errors
/// Returns [`HostError::Interpreter`] if the file cannot be read, and [`HostError::Unusable`] if it is
/// not a known loader, or not one of the chosen C library, or if its machine has no such processor.
pub fn loader_facts(
    fs: &OsFs,
    interpreter: &BStr,
    choice: &FactChoice,
) -> Result<Arc<LoaderFacts>, HostError> {
    let errno =
        |errno| HostError::Interpreter { path: path_of(interpreter), source: io_error(errno) };
    let key = (fs.interpreter(interpreter).map_err(errno)?, choice.clone());
    if let Some(facts) = fs.facts.get(&key) {
        return Ok(facts);
    }
    let (file, stat, bytes) = fs.read_interpreter(interpreter).map_err(errno)?;
    let state = stat.fingerprint;
    let facts = Arc::new(determine(fs, interpreter, (&file, &state, &bytes), choice)?);
    // The file may have been replaced since the key was made, so the state of the opened file is
    // the key.
    fs.facts.insert((state, key.1), Arc::clone(&facts), 1);
    Ok(facts)
}

/// Reads the loader, and runs it if that adds facts.
fn determine(
    fs: &OsFs,
    interpreter: &BStr,
    (file, state, bytes): (&File, &Fingerprint, &[u8]),
    choice: &FactChoice,
) -> Result<LoaderFacts, HostError> {
    let unusable = |reason: String| HostError::unusable(path_of(interpreter), reason);
    let unknown = || {
        let reason = choice.libc.map(|libc| format!("not a loader of {libc}"));
        unusable(reason.unwrap_or("no loader known here; name its rules with --libc".to_owned()))
    };
    let ident = elf::ident(bytes).ok_or_else(unknown)?;
    let libc = choice.libc.or_else(|| libc_of(fs, interpreter, bytes));
    let libc = libc.ok_or_else(unknown)?;
    let native = cpu::is_native(&ident);
    let is_unchosen = choice.cpu.is_none() && choice.libc.is_none();
    let may_run = fs.is_real_root()
        && has_diagnostics(libc)
        && state.may_run()
        && has_trusted_prefix(fs, interpreter);
    if native && is_unchosen && may_run {
        let answer = diagnostics(file, libc, choice.tunables.as_ref())
            .and_then(|text| facts::from_diagnostics(&text.to_str_lossy()))
            // An output that contradicts the bytes belongs to another loader.
            .filter(|answer| answer.libc == libc);
        if let Some(mut answer) = answer {
            // The loader opens the path that is compiled in, whatever it prints.
            answer.cache_path = facts::cache_path(bytes).or(answer.cache_path);
            answer.reads = facts::readers(bytes);
            return Ok(answer);
        }
    }
    let cpu = match &choice.cpu {
        Some(name) => name,
        None if native => cpu::running(),
        None => cpu::BASELINE,
    };
    let caps =
        hwcaps::for_cpu(&ident, libc, cpu).map_err(|unknown| unusable(unknown.to_string()))?;
    facts::from_bytes(bytes, libc, caps).ok_or_else(unknown)
}

/// Returns the C library of a loader from its bytes. Before glibc 2.33 this needs the file's real
/// name or the libc in the same directory.
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

/// Returns true for a glibc that supports `--list-diagnostics`. An older one would load a program
/// of that name.
fn has_diagnostics(libc: Libc) -> bool {
    matches!(libc, Libc::Glibc(version) if (version.major, version.minor) >= (2, 34))
}

/// Returns the output of an open glibc loader for `--list-diagnostics`, and for `--list-tunables` if
/// some may be set: by `tunables`, or since 2.44 by `/etc/tunables.conf`, which `ldconfig` puts into the
/// loader cache. Returns `None` if the loader cannot be started, fails, or takes too long.
fn diagnostics(loader: &File, libc: Libc, tunables: &BStr) -> Option<Vec<u8>> {
    const FIRST_WITH_FILE: Libc = Libc::Glibc(GlibcVersion { major: 2, minor: 44 });
    // The kernel opens this path in the child before it closes the close-on-exec descriptors.
    let path = proc_path(loader);
    let output = |argument| output_of(Path::new(&path), &[argument], tunables);
    let mut text = output("--list-diagnostics")?;
    if !tunables.is_empty() || libc >= FIRST_WITH_FILE {
        text.extend(output("--list-tunables")?);
    }
    Some(text)
}

/// Returns the output of an untrusted program that ends within [`TIME_LIMIT`]. The output goes to
/// memory of a fixed size, which the program cannot enlarge and which one system call reads.
fn output_of(program: &Path, arguments: &[&str], tunables: &BStr) -> Option<Vec<u8>> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("answer", flags).ok()?;
    rustix::fs::ftruncate(&memory, MAX_OUTPUT).ok()?;
    // The child shares the file, so the seals bind it too: a write beyond the end fails with
    // `EPERM`.
    rustix::fs::fcntl_add_seals(&memory, SealFlags::GROW | SealFlags::SHRINK).ok()?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs((!tunables.is_empty()).then(|| ("GLIBC_TUNABLES", tunables.to_os_str_lossy())))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(memory.try_clone().ok()?)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let fine = status_within(&mut child, TIME_LIMIT).ok()?.is_some_and(|status| status.success());
    // The child shares the open file, so the file's position is the end of the output.
    let length = rustix::fs::tell(&memory).ok()?.min(MAX_OUTPUT);
    let mut text = vec![0; usize::try_from(length).ok()?];
    let count = rustix::io::pread(&memory, &mut text, 0).ok()?;
    text.truncate(count);
    fine.then_some(text)
}

/// Prefixes of loaders that may run: the directories of distributions and stores. A loader
/// elsewhere may come from an archive.
const TRUSTED_PREFIXES: [&str; 4] = ["/lib", "/usr/lib", "/nix/store/", "/gnu/store/"];

/// Returns true if the interpreter's real path has a trusted prefix.
fn has_trusted_prefix(fs: &OsFs, interpreter: &BStr) -> bool {
    let real = fs.session().canonicalize(interpreter);
    real.is_ok_and(|real| TRUSTED_PREFIXES.iter().any(|prefix| real.starts_with_str(prefix)))
}

#[cfg(test)]
mod tests;
