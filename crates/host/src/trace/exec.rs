//! Reads a program's file, interpreter and entry point right after its `execve`, from the kernel's
//! auxiliary vector and the program's own headers.

use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use bstr::{BString, ByteSlice};

use becalm_core::observe::classes::VARIABLES;

use super::arch;
use super::stopped::Stopped;
use super::sys::Pid;

/// The tracer's facts about a program.
#[derive(Debug, Default)]
pub(super) struct Program {
    /// The file, with symbolic links resolved.
    pub(super) path: BString,
    /// The path passed to `execve` (`AT_EXECFN`).
    pub(super) exec_path: BString,
    /// `PT_INTERP`.
    pub(super) interpreter: Option<BString>,
    /// The address range of the mapped interpreter.
    pub(super) loader: Range<u64>,
    /// `AT_ENTRY`, if a loader runs before it.
    pub(super) entry: Option<u64>,
    /// `AT_SECURE`.
    pub(super) secure: bool,
    /// True for a 32-bit program.
    pub(super) is_32_bit: bool,
    /// True if the program is a loader itself: `ld.so PROGRAM`.
    pub(super) is_loader: bool,
    /// True if the file has set-id bits or capabilities that the kernel ignores under a tracer.
    pub(super) drops_privileges: bool,
    /// The variables that a loader or a class reads.
    pub(super) environment: Vec<(BString, BString)>,
}

const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_SECURE: u64 = 23;
const AT_EXECFN: u64 = 31;
const PT_LOAD: u32 = object::elf::PT_LOAD.0;
const PT_INTERP: u32 = object::elf::PT_INTERP.0;
/// Maximum number of program headers read from a file.
const MAX_HEADERS: usize = 128;

impl Program {
    /// Reads the facts of a task right after its `execve`. Facts that cannot be read (the process
    /// is not dumpable) keep their defaults.
    pub(super) fn of(task: &Stopped) -> Program {
        let pid = task.pid();
        let mut program = Program::default();
        // The link leads to the executed file itself, even if its path has been replaced since.
        let exe = format!("/proc/{pid}/exe");
        if let Ok(path) = std::fs::read_link(&exe) {
            program.path = path.as_os_str().as_bytes().into();
        }
        let Ok(file) = File::open(&exe) else { return program };
        program.drops_privileges = drops_privileges(&file);
        let Some(headers) = Headers::read(|at, into| file.read_at(into, at).unwrap_or(0)) else {
            return program;
        };
        program.is_32_bit = !headers.is_64_bit;
        program.interpreter = headers.interpreter(&file);
        let auxv = std::fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default();
        // These addresses are final: the load bias of a position-independent program is in them
        // already.
        let value = |key| auxiliary(&auxv, headers.is_64_bit, key);
        program.secure = value(AT_SECURE).is_some_and(|value| value != 0);
        program.exec_path = value(AT_EXECFN).map(|addr| task.string(addr)).unwrap_or_default();
        program.environment = environment(pid);
        // `AT_BASE` is 0 if the kernel loaded no interpreter (`create_elf_tables`).
        let base = value(AT_BASE).filter(|base| *base != 0);
        if let (Some(base), Some(_)) = (base, &program.interpreter) {
            // The mapped headers are read, because the file at the interpreter's path may have been
            // replaced.
            let loader = Headers::read(|at, into| task.read(base.wrapping_add(at), into));
            program.loader = base..base.wrapping_add(loader.map_or(0, |loader| loader.extent()));
            program.entry = value(AT_ENTRY);
        }
        program.is_loader = program.interpreter.is_none() && names_a_loader(&program.path);
        program
    }
}

/// Returns true for the file name of a dynamic loader.
fn names_a_loader(path: &BString) -> bool {
    let name = path.rsplit_str("/").next().unwrap_or_default();
    name.starts_with(b"ld-linux")
        || name.starts_with(b"ld-musl")
        || name.starts_with(b"ld.so")
        || name.starts_with(b"ld-2.")
        || name.starts_with(b"ld64.so")
}

/// Returns true if the file would give rights that the kernel withholds from a program with an
/// unprivileged tracer (`cap_bprm_creds_from_file`).
fn drops_privileges(file: &File) -> bool {
    // Root usually has `CAP_SYS_PTRACE`, and then the kernel grants the rights (`ptracer_capable`).
    if rustix::process::geteuid().is_root() {
        return false;
    }
    let owned_by_another = |metadata: &std::fs::Metadata| {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let set_uid = metadata.mode() & 0o4000 != 0 && metadata.uid() != uid.as_raw();
        // A set-gid bit without group execution once marked mandatory locking; execve ignores it.
        let set_gid = metadata.mode() & 0o2010 == 0o2010 && metadata.gid() != gid.as_raw();
        set_uid || set_gid
    };
    let mut capability = [0u8; 64];
    file.metadata().is_ok_and(|metadata| owned_by_another(&metadata))
        || rustix::fs::fgetxattr(file, "security.capability", &mut capability[..]).is_ok()
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
    let bytes = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
    let bytes = bytes.unwrap_or_default();
    let wanted = |name: &[u8]| {
        name.starts_with(b"LD_")
            || name == b"GLIBC_TUNABLES"
            || name == b"BECALM"
            || VARIABLES.iter().any(|known| known.as_bytes() == name)
    };
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|variable| variable.split_once_str("="))
        .filter(|(name, _)| wanted(name))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// The program headers of a file or of an object in memory.
struct Headers {
    is_64_bit: bool,
    rows: Vec<Row>,
}

/// One program header.
struct Row {
    kind: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
}

impl Headers {
    /// Reads the headers through a function that fills a buffer from an offset and returns the
    /// number of bytes.
    fn read(read: impl Fn(u64, &mut [u8]) -> usize) -> Option<Headers> {
        let mut ident = [0u8; 64];
        // The smaller of both headers, that of a 32-bit file, has 52 bytes.
        if read(0, &mut ident) < 52 || !ident.starts_with(b"\x7fELF") {
            return None;
        }
        let is_64_bit = ident[4] == 2;
        let (table, size, count) = if is_64_bit {
            (number(&ident, 32, 8), 56, number(&ident, 56, 2))
        } else {
            (number(&ident, 28, 4), 32, number(&ident, 44, 2))
        };
        // `e_phnum` of a hostile file may be 65,535; real programs have about a dozen headers.
        let count = (count as usize).min(MAX_HEADERS);
        let mut bytes = vec![0u8; count * size];
        let there = read(table, &mut bytes).min(bytes.len());
        let rows = bytes[..there].chunks_exact(size).map(|row| Row::read(row, is_64_bit)).collect();
        Some(Headers { is_64_bit, rows })
    }

    /// Returns the interpreter's path.
    fn interpreter(&self, file: &File) -> Option<BString> {
        let row = self.rows.iter().find(|row| row.kind == PT_INTERP)?;
        // The kernel rejects a longer interpreter path too (`load_elf_binary`).
        let mut path = vec![0u8; usize::try_from(row.file_size).ok()?.min(4096)];
        file.read_exact_at(&mut path, row.offset).ok()?;
        let end = path.find_byte(0).unwrap_or(path.len());
        path.truncate(end);
        Some(path.into())
    }

    /// Returns the size of the object in memory.
    fn extent(&self) -> u64 {
        let loaded = self.rows.iter().filter(|row| row.kind == PT_LOAD);
        loaded.map(|row| row.address.saturating_add(row.memory_size)).max().unwrap_or(0)
    }
}

impl Row {
    fn read(row: &[u8], is_64_bit: bool) -> Row {
        let kind = number(row, 0, 4) as u32;
        if is_64_bit {
            let field = |at| number(row, at, 8);
            let (offset, address) = (field(8), field(16));
            Row { kind, offset, address, file_size: field(32), memory_size: field(40) }
        } else {
            let field = |at| number(row, at, 4);
            let (offset, address) = (field(4), field(8));
            Row { kind, offset, address, file_size: field(16), memory_size: field(20) }
        }
    }
}

/// Reads a little-endian integer. Both architectures with a tracer are little-endian.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut whole = [0u8; 8];
    whole[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_le_bytes(whole)
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
