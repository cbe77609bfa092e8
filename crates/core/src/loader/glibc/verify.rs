//! The checks of a file that opened: those of `open_verify` and the first of
//! `_dl_map_object_from_fd` (glibc `elf/dl-load.c`).

use object::elf::{EF_PPC64_ABI, EF_RISCV_FLOAT_ABI, EM_ARM, EM_PPC64, EM_RISCV, Machine};

use crate::elf::{Class, DF_1_PIE, ET_DYN, ET_EXEC, Ident, ObjectView};
use crate::fs::OpenedFile;
use crate::loader::load::Refusal;
use crate::probe::Outcome;

/// The loader's reaction to a file that opened, as a library of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The file is a library for this process.
    Good,
    /// The loader skips the file (another class or machine) with errno `ENOENT` and continues the
    /// search.
    PassedOver(Outcome),
    /// The loader raises an error, which ends the search.
    Refused(Refusal),
}

/// Checks a file that opened as `open_verify` and `_dl_map_object_from_fd` do. `host` is the
/// header of an object of the process.
pub(crate) fn fitness(file: &OpenedFile, host: &Ident) -> Verdict {
    match (open_verify(file, host), &file.object) {
        (Verdict::Good, Ok(view)) => {
            map_from_fd(view).map_or_else(Verdict::Refused, |()| Verdict::Good)
        }
        (Verdict::Good, Err(_)) => Verdict::Refused(Refusal::MALFORMED),
        (verdict, _) => verdict,
    }
}

/// `open_verify` on a file that opened. `host` is the program's own header.
pub(crate) fn open_verify(file: &OpenedFile, host: &Ident) -> Verdict {
    let head = match &file.head {
        Ok(head) => head.as_slice(),
        Err(_) => return Verdict::Refused(Refusal::UNREADABLE),
    };
    // The loader compares with its own `sizeof (ElfW(Ehdr))`, whatever the class of the file is.
    let header_len = if host.class == Class::Elf64 { 64 } else { 52 };
    // The length is checked before the magic: a short text file is "too short", not "invalid".
    if head.len() < header_len {
        return Verdict::Refused(Refusal::TOO_SHORT);
    }
    if !head.starts_with(b"\x7fELF") {
        return Verdict::Refused(Refusal::NOT_ELF);
    }
    // A biarch system has libraries of both classes: this is not an error (`found_other_class`).
    if head[4] != host.class as u8 {
        return Verdict::PassedOver(Outcome::WrongClass);
    }
    verify_header(head, host)
}

/// The part of `open_verify` after the class check.
fn verify_header(head: &[u8], host: &Ident) -> Verdict {
    // The loader reads the fields in its own byte order. A file of the other byte order therefore
    // looks like a file for another machine.
    let half = |at| host.endian.u16(head, at).expect("the header is complete");
    let word = |at| host.endian.u32(head, at).expect("the header is complete");
    let is_64 = host.class == Class::Elf64;
    // `VALID_ELF_OSABI`, `VALID_ELF_ABIVERSION` and the padding. The OS ABI is System V with ABI
    // version 0, or GNU with an ABI version below `LIBC_ABI_MAX` (5 or less up to 2.44).
    let known_abi = matches!((head[7], head[8]), (0, 0) | (3, 0..5));
    let ident_ok = head[5] == host.endian as u8
        && head[6] == 1
        && known_abi
        && head[9..16].iter().all(|&byte| byte == 0);
    if ident_ok && word(20) != 1 {
        return Verdict::Refused(Refusal::HEADER);
    }
    // The machine is checked before the errors of `e_ident` are raised: a bad OS ABI in a file for
    // another machine is not an error.
    if !machine_matches(host, half(18), word(if is_64 { 48 } else { 36 })) {
        return Verdict::PassedOver(Outcome::WrongMachine);
    }
    if !ident_ok {
        return Verdict::Refused(Refusal::HEADER);
    }
    if !matches!(half(16), ET_DYN | ET_EXEC) {
        return Verdict::Refused(Refusal::KIND);
    }
    // The loader indexes the table as an array of its own `ElfW(Phdr)`.
    if half(if is_64 { 54 } else { 42 }) != if is_64 { 56 } else { 32 } {
        return Verdict::Refused(Refusal::HEADER);
    }
    Verdict::Good
}

/// The checks of `_dl_map_object_from_fd` that a library can fail, in its order.
pub(crate) fn map_from_fd(view: &ObjectView) -> Result<(), Refusal> {
    if !view.has_load {
        return Err(Refusal::NO_SEGMENTS);
    }
    // A process cannot have a second executable: its copy relocations and static TLS are the
    // program's.
    if view.ident.e_type == ET_EXEC {
        return Err(Refusal::EXECUTABLE);
    }
    match &view.dynamic {
        None => Err(Refusal::NO_DYNAMIC),
        // The header cannot tell a PIE from a library: both are `ET_DYN`.
        Some(dynamic) if dynamic.flags_1 & DF_1_PIE != 0 => Err(Refusal::PIE),
        Some(_) => Ok(()),
    }
}

/// `elf_machine_matches_host`. Some architectures compare flags besides `e_machine`; the program's
/// own flags stand in for those of the loader.
fn machine_matches(host: &Ident, machine: u16, flags: u32) -> bool {
    const ARM_FLOAT: u32 = 0x600;
    // 0 is a library that works with all ABIs of the mask.
    let fits = |mask: u32| {
        let (ours, theirs) = (host.flags & mask, flags & mask);
        theirs == 0 || ours == 0 || theirs == ours
    };
    let agrees = match Machine(host.machine) {
        // VALID_FLOAT_ABI.
        EM_ARM => fits(ARM_FLOAT),
        EM_PPC64 => fits(EF_PPC64_ABI),
        // The float ABI decides the registers of arguments, so that no library works with two
        // of them.
        EM_RISCV => flags & EF_RISCV_FLOAT_ABI == host.flags & EF_RISCV_FLOAT_ABI,
        _ => true,
    };
    machine == host.machine && agrees
}
