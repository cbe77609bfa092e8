//! Parses the ELF header.

use super::{Class, Endian, Ident};

/// Parses the identification and machine fields in the first bytes of a file; 52 bytes are enough.
/// Returns `None` if the magic bytes are missing or the class or byte order is unknown.
#[must_use]
pub fn ident(head: &[u8]) -> Option<Ident> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let (class, endian) = (Class::of(*head.get(4)?)?, Endian::of(*head.get(5)?)?);
    // `e_flags` follows three addresses, whose size depends on the class.
    let flags_at = match class {
        Class::Elf32 => 36,
        Class::Elf64 => 48,
    };
    Some(Ident {
        class,
        endian,
        os_abi: *head.get(7)?,
        abi_version: *head.get(8)?,
        e_type: endian.u16(head, 16)?,
        machine: endian.u16(head, 18)?,
        flags: endian.u32(head, flags_at)?,
    })
}
