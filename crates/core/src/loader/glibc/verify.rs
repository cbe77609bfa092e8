//! Judging a file that opened: `open_verify` and the first checks of
//! `_dl_map_object_from_fd` (glibc `elf/dl-load.c`).

use crate::elf::{Class, DF_1_PIE, Endian, Ident, ObjectView};
use crate::fs::{Errno, OpenedFile};
use crate::loader::load::Refusal;
use crate::probe::Outcome;

/// What the loader thinks of a file that opened.
pub(crate) enum Verdict {
    /// It is a library for this process.
    Good,
    /// Passed over, the search goes on (with errno `ENOENT`).
    PassedOver(Outcome),
    /// An error that ends the search.
    Refused(Refusal),
}

/// Whether the loader would take a file that opened for a library of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// It loads it.
    Good,
    /// It passes it over (another class or machine) and searches on.
    PassedOver,
    /// It raises an error, which ends the search.
    Refused(Refusal),
}

/// Judges a file that opened as `open_verify` and `_dl_map_object_from_fd` do; `host` is the
/// header of an object of the process.
#[must_use]
pub fn fitness(file: &OpenedFile, host: &Ident) -> Fitness {
    match open_verify(file, host) {
        Verdict::PassedOver(_) => Fitness::PassedOver,
        Verdict::Refused(refusal) => Fitness::Refused(refusal),
        Verdict::Good => match &file.object {
            Err(_) => Fitness::Refused(Refusal::Malformed),
            Ok(view) => map_from_fd(view).map_or_else(Fitness::Refused, |()| Fitness::Good),
        },
    }
}

const EM_ARM: u16 = 40;
const EM_PPC64: u16 = 21;
const EM_RISCV: u16 = 243;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

/// `open_verify` on a file that opened; `host` is the program's own header.
pub(crate) fn open_verify(file: &OpenedFile, host: &Ident) -> Verdict {
    let head = match &file.head {
        Ok(head) => head.as_slice(),
        Err(_) => return Verdict::Refused(Refusal::Unreadable),
    };
    let header_len = if host.class == Class::Elf64 { 64 } else { 52 };
    if head.len() < header_len {
        return Verdict::Refused(Refusal::TooShort);
    }
    if !head.starts_with(b"\x7fELF") {
        return Verdict::Refused(Refusal::NotElf);
    }
    if head[4] != class_byte(host) {
        return Verdict::PassedOver(Outcome::WrongClass);
    }
    judge_machine(head, host)
}

/// The part of `open_verify` behind the class check. The fields are read in the
/// loader's own byte order, whatever the file's, so that a file of the other order is
/// another machine's.
fn judge_machine(head: &[u8], host: &Ident) -> Verdict {
    let header = Header { head, endian: host.endian, class: host.class };
    let ident_ok = head[5] == data_byte(host) && head[6] == 1 && header.os_abi_is_known();
    if ident_ok && header.word(20) != 1 {
        return Verdict::Refused(Refusal::Header);
    }
    if !header.machine_matches(host) {
        return Verdict::PassedOver(Outcome::WrongMachine);
    }
    if !ident_ok {
        return Verdict::Refused(Refusal::Header);
    }
    if !matches!(header.half(16), ET_DYN | ET_EXEC) {
        return Verdict::Refused(Refusal::Kind);
    }
    if header.phentsize() != if host.class == Class::Elf64 { 56 } else { 32 } {
        return Verdict::Refused(Refusal::Header);
    }
    Verdict::Good
}

/// The checks of `_dl_map_object_from_fd` that a library can fail.
pub(crate) fn map_from_fd(view: &ObjectView) -> Result<(), Refusal> {
    if !view.has_load {
        return Err(Refusal::NoSegments);
    }
    if view.ident.e_type == ET_EXEC {
        return Err(Refusal::Executable);
    }
    match &view.dynamic {
        None => Err(Refusal::NoDynamic),
        Some(dynamic) if dynamic.flags_1 & DF_1_PIE != 0 => Err(Refusal::Pie),
        Some(_) => Ok(()),
    }
}

/// The errno left behind by a file that was passed over.
pub(super) const PASSED_OVER: Errno = Errno::NOENT;

fn class_byte(host: &Ident) -> u8 {
    match host.class {
        Class::Elf32 => 1,
        Class::Elf64 => 2,
    }
}

fn data_byte(host: &Ident) -> u8 {
    match host.endian {
        Endian::Little => 1,
        Endian::Big => 2,
    }
}

/// The first bytes of a file, read with the loader's class and byte order.
struct Header<'a> {
    head: &'a [u8],
    endian: Endian,
    class: Class,
}

impl Header<'_> {
    fn half(&self, at: usize) -> u16 {
        let bytes = [self.head[at], self.head[at + 1]];
        match self.endian {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        }
    }

    fn word(&self, at: usize) -> u32 {
        let (low, high) = (u32::from(self.half(at)), u32::from(self.half(at + 2)));
        match self.endian {
            Endian::Little => low | high << 16,
            Endian::Big => high | low << 16,
        }
    }

    fn flags(&self) -> u32 {
        self.word(if self.class == Class::Elf64 { 48 } else { 36 })
    }

    fn phentsize(&self) -> u16 {
        self.half(if self.class == Class::Elf64 { 54 } else { 42 })
    }

    /// `VALID_ELF_OSABI`, `VALID_ELF_ABIVERSION` and the padding: System V with ABI
    /// version 0, or GNU with one that this release knows (`LIBC_ABI_MAX`, 4 at the
    /// most so far).
    fn os_abi_is_known(&self) -> bool {
        let (os_abi, abi_version) = (self.head[7], self.head[8]);
        let known = match os_abi {
            0 => abi_version == 0,
            3 => abi_version < 5,
            _ => false,
        };
        known && self.head[9..16].iter().all(|&byte| byte == 0)
    }

    /// `elf_machine_matches_host` of the architectures that look at more than
    /// `e_machine`, with the program's own flags as the host's.
    fn machine_matches(&self, host: &Ident) -> bool {
        const ARM_FLOAT: u32 = 0x600;
        const RISCV_FLOAT_ABI: u32 = 0x6;
        if self.half(18) != host.machine {
            return false;
        }
        let flags = self.flags();
        match host.machine {
            // VALID_FLOAT_ABI: a library may leave the float ABI open.
            EM_ARM => {
                let (ours, theirs) = (host.flags & ARM_FLOAT, flags & ARM_FLOAT);
                theirs == 0 || ours == 0 || theirs == ours
            }
            // 0 leaves the ABI open.
            EM_PPC64 => flags & 3 == 0 || host.flags & 3 == 0 || flags & 3 == host.flags & 3,
            EM_RISCV => flags & RISCV_FLOAT_ABI == host.flags & RISCV_FLOAT_ABI,
            _ => true,
        }
    }
}
