//! Reads a program's file, interpreter and entry point right after its `execve`, from the kernel's
//! auxiliary vector and the program's own headers.

use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use bstr::{BString, ByteSlice};
use object::ReadCache;

use becalm_core::elf::{self, Class};
use becalm_core::observe::classes;
use becalm_core::path::name;

use super::arch;
use super::report::Image;
use super::stopped::Stopped;
use super::sys::Pid;
use crate::pages::maps::mappings;
use crate::secure::is_started_secure;
use crate::trust::user;

/// The tracer's facts about a program.
#[derive(Debug, Default)]
pub(super) struct Program {
    /// Its paths, environment and `AT_SECURE`.
    pub(super) image: Image,
    /// The address range of the mapped interpreter.
    pub(super) loader: Range<u64>,
    /// `AT_ENTRY`, if a loader runs before it.
    pub(super) entry: Option<u64>,
    /// True for a 32-bit program.
    pub(super) is_32_bit: bool,
    /// True if the program is a loader itself: `ld.so PROGRAM`.
    pub(super) is_loader: bool,
    /// True if the file has set-id bits or capabilities that the kernel withholds from a program with an
    /// unprivileged tracer (`cap_bprm_creds_from_file`).
    pub(super) drops_privileges: bool,
}

const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_SECURE: u64 = 23;
const AT_EXECFN: u64 = 31;
impl Program {
    /// Reads the facts of a task right after its `execve`. Facts that cannot be read (the process
    /// is not dumpable) keep their defaults.
    pub(super) fn of(task: &Stopped) -> Program {
        let pid = task.pid;
        let mut program = Program::default();
        // The link leads to the executed file itself, even if its path has been replaced since.
        let exe = format!("/proc/{pid}/exe");
        if let Ok(path) = std::fs::read_link(&exe) {
            program.image.path = path.as_os_str().as_bytes().into();
        }
        let Ok(file) = File::open(&exe) else { return program };
        // Root usually has `CAP_SYS_PTRACE`, and then the kernel grants the rights (`ptracer_capable`).
        program.drops_privileges = user() != 0
            && file.metadata().is_ok_and(|facts| is_started_secure(exe.as_ref(), facts.mode()));
        let started = elf::start(&ReadCache::new(file));
        let Some((ident, interpreter)) = started else { return program };
        let is_64_bit = ident.class == Class::Elf64;
        (program.is_32_bit, program.image.interpreter) = (!is_64_bit, interpreter);
        let auxv = std::fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default();
        // These addresses are final: the load bias of a position-independent program is in them
        // already.
        let value = |key| auxiliary(&auxv, is_64_bit, key);
        program.image.secure = value(AT_SECURE).is_some_and(|value| value != 0);
        program.image.exec_path =
            value(AT_EXECFN).map(|addr| task.string(addr)).unwrap_or_default();
        program.image.environment = environment(pid);
        // `AT_BASE` is 0 if the kernel loaded no interpreter (`create_elf_tables`).
        let base = value(AT_BASE).filter(|base| *base != 0);
        if let (Some(base), Some(_)) = (base, &program.image.interpreter) {
            // The mapping is looked up, because the file at the interpreter's path may have been
            // replaced.
            program.loader = base..end_of_mapped(pid, base);
            program.entry = value(AT_ENTRY);
        }
        program.is_loader =
            program.image.interpreter.is_none() && names_a_loader(&program.image.path);
        program
    }
}

/// Returns true for the file name of a dynamic loader.
fn names_a_loader(path: &BString) -> bool {
    let starts = ["ld-linux", "ld-musl", "ld.so", "ld-2.", "ld64.so"];
    starts.iter().any(|start| name(path).starts_with(start.as_bytes()))
}

/// Returns a value of the auxiliary vector, which consists of pairs of words of the program's
/// class.
fn auxiliary(auxv: &[u8], is_64_bit: bool, key: u64) -> Option<u64> {
    let size = if is_64_bit { 8 } else { 4 };
    let word = |bytes: &[u8]| {
        let mut whole = [0u8; 8];
        whole[..size].copy_from_slice(bytes);
        u64::from_le_bytes(whole)
    };
    let mut pairs = auxv.chunks_exact(2 * size);
    pairs.find(|pair| word(&pair[..size]) == key).map(|pair| word(&pair[size..]))
}

fn environment(pid: Pid) -> Vec<(BString, BString)> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = |name: &[u8]| {
        name.starts_with(b"LD_")
            || name == b"GLIBC_TUNABLES"
            || name == b"BECALM"
            || classes::is_used(name)
    };
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|variable| variable.split_once_str("="))
        .filter(|(name, _)| wanted(name))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Returns the end of the last mapping of the file whose first one is at `base`.
fn end_of_mapped(pid: Pid, base: u64) -> u64 {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let file = mappings(&maps).find(|mapping| mapping.from == base).map(|first| first.path);
    let of_file = mappings(&maps).filter(|mapping| Some(mapping.path) == file);
    of_file.map(|mapping| mapping.to).max().unwrap_or(base)
}

/// A breakpoint at the entry point.
#[derive(Debug)]
pub(super) struct Breakpoint {
    entry: u64,
    word: u64,
}

impl Breakpoint {
    /// Inserts the breakpoint.
    pub(super) fn set(task: &Stopped, entry: u64) -> Option<Breakpoint> {
        let mut bytes = [0u8; 8];
        if task.read(entry, &mut bytes) != 8 {
            return None;
        }
        let word = u64::from_le_bytes(bytes);
        // ptrace writes whole words, so the bytes after the instruction are written back unchanged.
        let trap = (word & !arch::BREAKPOINT_MASK) | arch::BREAKPOINT;
        // The kernel writes to a private copy of the page. The file and other processes do not see
        // the breakpoint.
        task.poke(entry, trap).ok()?;
        Some(Breakpoint { entry, word })
    }

    /// Returns true if the task has just hit the breakpoint.
    pub(super) fn is_hit(&self, task: &Stopped) -> bool {
        // A program may raise `SIGTRAP` itself, so the address is compared.
        let at = task.call().map(|info| info.instruction_pointer);
        at.is_ok_and(|at| at == arch::after_breakpoint(self.entry))
    }

    /// Removes the breakpoint and moves the task back to the original instruction.
    pub(super) fn take_out(self, task: &Stopped) -> std::io::Result<()> {
        task.poke(self.entry, self.word)?;
        arch::rewind(task, self.entry)
    }
}
