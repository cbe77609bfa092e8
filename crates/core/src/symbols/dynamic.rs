//! The entries of `PT_DYNAMIC` that symbol lookup and relocation use.

use object::elf::{self, DynamicTag};

/// Addresses, sizes and flags. If a tag occurs twice, the last entry counts, as in glibc
/// `elf_get_dynamic_info`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tags {
    pub(super) symbols: Option<u64>,
    pub(super) strings: Option<u64>,
    pub(super) strings_size: Option<u64>,
    pub(super) gnu_hash: Option<u64>,
    pub(super) sysv_hash: Option<u64>,
    pub(super) version_symbols: Option<u64>,
    pub(super) version_needs: Option<u64>,
    pub(super) version_definitions: Option<u64>,
    pub(super) rela: Table,
    pub(super) rel: Table,
    pub(super) relr: Table,
    pub(super) jmprel: Table,
    pub(super) plt_got: Option<u64>,
    /// `DT_PLTREL`: `DT_REL` or `DT_RELA`.
    pub(super) jmprel_kind: Option<u64>,
    /// `DT_SYMBOLIC` or `DF_SYMBOLIC`: glibc searches the object itself first.
    pub(super) symbolic: bool,
    /// `DT_BIND_NOW`, `DF_BIND_NOW` or `DF_1_NOW`.
    pub(super) bind_now: bool,
    pub(super) text_relocations: bool,
    /// `DT_PPC64_OPT`.
    pub(super) ppc64_options: u64,
}

/// Address and size in bytes of a table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Table {
    pub(super) address: u64,
    pub(super) size: u64,
}

impl Table {
    pub(super) fn end(self) -> u64 {
        self.address.wrapping_add(self.size)
    }
}

impl Tags {
    pub(super) fn new(entries: &[(DynamicTag, u64)], is_ppc64: bool) -> Self {
        let mut tags = Self::default();
        for &(tag, value) in entries {
            tags.take(tag, value, is_ppc64);
        }
        tags
    }

    fn take(&mut self, tag: DynamicTag, value: u64, is_ppc64: bool) {
        match tag {
            elf::DT_SYMTAB => self.symbols = Some(value),
            elf::DT_STRTAB => self.strings = Some(value),
            elf::DT_STRSZ => self.strings_size = Some(value),
            elf::DT_GNU_HASH => self.gnu_hash = Some(value),
            elf::DT_HASH => self.sysv_hash = Some(value),
            elf::DT_VERSYM => self.version_symbols = Some(value),
            elf::DT_VERNEED => self.version_needs = Some(value),
            elf::DT_VERDEF => self.version_definitions = Some(value),
            elf::DT_RELA => self.rela.address = value,
            elf::DT_RELASZ => self.rela.size = value,
            elf::DT_REL => self.rel.address = value,
            elf::DT_RELSZ => self.rel.size = value,
            elf::DT_RELR => self.relr.address = value,
            elf::DT_RELRSZ => self.relr.size = value,
            elf::DT_PLTGOT => self.plt_got = Some(value),
            elf::DT_JMPREL => self.jmprel.address = value,
            elf::DT_PLTRELSZ => self.jmprel.size = value,
            elf::DT_PLTREL => self.jmprel_kind = Some(value),
            elf::DT_SYMBOLIC => self.symbolic = true,
            elf::DT_BIND_NOW => self.bind_now = true,
            elf::DT_TEXTREL => self.text_relocations = true,
            elf::DT_FLAGS => self.take_flags(value),
            // `elf_get_dynamic_info` sets `l_info[DT_BIND_NOW]` for `DF_1_NOW` as well.
            elf::DT_FLAGS_1 => self.bind_now |= value & elf::DF_1_NOW.0 != 0,
            // Tags from `DT_LOPROC` on have another meaning on each machine.
            elf::DT_PPC64_OPT if is_ppc64 => self.ppc64_options = value,
            _ => {}
        }
    }

    /// Adds the entry that a flag replaces, as glibc's `elf_get_dynamic_info` does.
    fn take_flags(&mut self, flags: u64) {
        let has = |flag: elf::DynamicFlags| flags & flag.0 != 0;
        self.symbolic |= has(elf::DF_SYMBOLIC);
        self.bind_now |= has(elf::DF_BIND_NOW);
        self.text_relocations |= has(elf::DF_TEXTREL);
    }
}
