//! An audit module that declines: `la_version` returns 0, and the loader unloads the module
//! silently (glibc 2.36 `elf/rtld.c` `load_audit_module`).
//!
//! Programs of a machine's 32-bit sibling inherit `LD_AUDIT`, and their loader prints an error
//! about a module that does not exist or is of the other class. `$PLATFORM` in the path leads that
//! loader to this module instead. It is small enough to be written here, byte by byte, because
//! compilers for these machines are seldom installed.

/// The 32-bit sibling of a machine: `e_machine`, `e_flags` and a function that returns 0.
#[derive(Debug)]
pub struct Sibling(u16, u32, &'static [u8]);

/// i386, beside x86_64: xor %eax,%eax; ret.
pub const I386: Sibling = Sibling(3, 0, &[0x31, 0xc0, 0xc3, 0x90]);
/// 32-bit ARM, beside aarch64: `EF_ARM_EABI_VER5`; mov r0, #0; bx lr.
pub const ARM: Sibling =
    Sibling(40, 0x0500_0000, &[0x00, 0x00, 0xa0, 0xe3, 0x1e, 0xff, 0x2f, 0xe1]);

const HEADER: u32 = 52;
const PROGRAM_HEADERS: u32 = 4;
const PROGRAM_HEADER: u32 = 32;
const HASH: u32 = HEADER + PROGRAM_HEADERS * PROGRAM_HEADER;
/// Two counts, one bucket, two chain words (gABI, `DT_HASH`).
const HASH_SIZE: u32 = 5 * 4;
const SYMBOLS: u32 = HASH + HASH_SIZE;
const SYMBOL: u32 = 16;
const STRINGS: u32 = SYMBOLS + 2 * SYMBOL;
const NAMES: &[u8] = b"\0la_version\0";
const CODE: u32 = (STRINGS + NAMES.len() as u32).next_multiple_of(16);
/// Distance in memory of the dynamic section, which the loader writes to: at least a page of any
/// size.
const APART: u32 = 0x1_0000;

/// The bytes of the module: an ELF32 shared object of one function, little-endian.
pub fn module(sibling: &Sibling) -> Vec<u8> {
    let &Sibling(machine, flags, code) = sibling;
    let halves =
        |values: &[u16]| -> Vec<u8> { values.iter().flat_map(|it| it.to_le_bytes()).collect() };
    let words =
        |values: &[u32]| -> Vec<u8> { values.iter().flat_map(|it| it.to_le_bytes()).collect() };
    let dynamic = (CODE + code.len() as u32).next_multiple_of(16);
    // `DT_HASH`, `DT_STRTAB`, `DT_SYMTAB`, `DT_STRSZ`, `DT_SYMENT`, `DT_NULL`.
    let entries: [u32; 12] =
        [4, HASH, 5, STRINGS, 6, SYMBOLS, 10, NAMES.len() as u32, 11, SYMBOL, 0, 0];
    let dynamic_size = 4 * entries.len() as u32;
    let (load, dynamic_header, stack) = (1, 2, 0x6474_e551);
    let (read, read_write, read_execute) = (4, 6, 5);
    let at = dynamic + APART;
    let mut file = [
        // `ELFCLASS32`, `ELFDATA2LSB`, `EV_CURRENT`.
        b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
        halves(&[3, machine]),
        words(&[1, 0, HEADER, 0, flags]),
        halves(&[HEADER as u16, PROGRAM_HEADER as u16, PROGRAM_HEADERS as u16, 40, 0, 0]),
        words(&[load, 0, 0, 0, dynamic, dynamic, read_execute, APART]),
        words(&[load, dynamic, at, at, dynamic_size, dynamic_size, read_write, APART]),
        words(&[dynamic_header, dynamic, at, at, dynamic_size, dynamic_size, read, 4]),
        // Without `PT_GNU_STACK` the loader would make the stack of the process executable.
        words(&[stack, 0, 0, 0, 0, 0, read_write, 16]),
        // One bucket, which holds symbol 1.
        words(&[1, 2, 1, 0, 0]),
        // The first symbol is reserved (gABI, "Symbol Table").
        words(&[0; 4]),
        words(&[1, CODE, code.len() as u32]),
        // A global function; the section index only has to differ from SHN_UNDEF.
        halves(&[0x12, 1]),
        NAMES.to_vec(),
    ]
    .concat();
    file.resize(CODE as usize, 0);
    file.extend(code);
    file.resize(dynamic as usize, 0);
    file.extend(words(&entries));
    file
}

#[cfg(test)]
mod tests {
    use becalm_core::elf;

    use super::*;

    #[test]
    fn a_declining_module_is_a_library_of_its_machine() {
        for (sibling, name) in [(&I386, "i386"), (&ARM, "arm")] {
            let bytes = module(sibling);
            let view = elf::parse(&bytes[..]).expect("an object");
            assert_eq!(view.ident.machine_name(), name);
            assert_eq!(view.needed().count(), 0);
            assert!(view.has_load && view.dynamic.is_some());
        }
    }
}
