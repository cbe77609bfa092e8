//! The names of operating systems in the ELF header (`EI_OSABI`), as patchelf prints them.

use anyhow::{Result, bail};
use object::elf;

const NAMES: [(u8, &str); 12] = [
    (elf::ELFOSABI_SYSV.0, "System V"),
    (elf::ELFOSABI_HPUX.0, "HP-UX"),
    (elf::ELFOSABI_NETBSD.0, "NetBSD"),
    (elf::ELFOSABI_LINUX.0, "Linux"),
    (elf::ELFOSABI_HURD.0, "GNU Hurd"),
    (elf::ELFOSABI_SOLARIS.0, "Solaris"),
    (elf::ELFOSABI_AIX.0, "AIX"),
    (elf::ELFOSABI_IRIX.0, "IRIX"),
    (elf::ELFOSABI_FREEBSD.0, "FreeBSD"),
    (elf::ELFOSABI_TRU64.0, "Tru64"),
    (elf::ELFOSABI_OPENBSD.0, "OpenBSD"),
    (elf::ELFOSABI_OPENVMS.0, "OpenVMS"),
];

/// Returns the name of an operating system, or its number.
pub(crate) fn name(number: u8) -> String {
    let known = NAMES.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("0x{number:02X}"), |(_, name)| (*name).into())
}

/// Returns the number of an operating system. Upper and lower case are the same.
///
/// # Errors
/// Returns an error that lists the names if the name is unknown.
pub(crate) fn number(name: &[u8]) -> Result<u8> {
    let known = NAMES.iter().find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name));
    let Some((number, _)) = known else {
        let names = NAMES.map(|(_, name)| name).join(", ");
        bail!("--set-os-abi {}: not one of {names}", String::from_utf8_lossy(name));
    };
    Ok(*number)
}
