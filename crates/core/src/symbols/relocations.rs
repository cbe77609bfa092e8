//! `DT_REL`, `DT_RELA`, `DT_RELR` and `DT_JMPREL` of one object.

use object::elf;
use object::read::ReadRef;

use super::dynamic::{Table, Tags};
use super::machine::{KnownMachine, TypeOf};
use super::symbol_type::{Relative, RelocationKind};
use crate::elf::{Class, ElfError, Image};

/// The limit on relocations of one object. Chromium has less than a million. A hostile `DT_RELR`
/// can name 63 with one word.
const MAX_RELOCATIONS: usize = 1 << 24;

/// Every relocation of an object, sorted by the treatment of the loader.
#[derive(Clone, Debug, Default)]
pub(super) struct Relocations {
    /// `DT_RELR`.
    pub(super) relr: Vec<Relative>,
    /// The relative relocations of the other tables.
    pub(super) relative: Vec<Relative>,
    /// All other relocations. Within each table `IRELATIVE` is last.
    pub(super) symbolic: Vec<Relocation>,
}

/// A relocation that is not relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) kind: RelocationKind,
    pub(super) symbol: u32,
    /// The addend of the entry. For `REL` it is the slot's value in the file.
    pub(super) addend: i64,
    /// True for an entry of `RELA`.
    pub(super) has_addend: bool,
    /// True for `DT_JMPREL`.
    pub(super) lazy_table: bool,
}

struct Reader<'a, 'data, R> {
    image: &'a Image<'data, R>,
    machine: KnownMachine,
    found: Relocations,
}

impl Relocations {
    /// Reads all tables.
    pub(super) fn read<'data, R: ReadRef<'data>>(
        image: &Image<'data, R>,
        tags: &Tags,
        machine: KnownMachine,
    ) -> Result<Self, ElfError> {
        let mut reader = Reader { image, machine, found: Self::default() };
        // `ELF_DYNAMIC_RELOCATE` applies `DT_RELR` first, then `DT_REL`, then `DT_RELA`.
        reader.relr(tags.table(elf::DT_RELR, elf::DT_RELRSZ))?;
        let plt_kind = tags.get(elf::DT_PLTREL);
        let plt_has_addends = plt_kind == u64::try_from(elf::DT_RELA.0).ok();
        let plt = tags.table(elf::DT_JMPREL, elf::DT_PLTRELSZ);
        let rela = tags.table(elf::DT_RELA, elf::DT_RELASZ);
        if machine.reads_rel() {
            let rel = tags.table(elf::DT_REL, elf::DT_RELSZ);
            reader.tables(rel, plt, false, !plt_has_addends)?;
            reader.tables(rela, plt, true, plt_has_addends)?;
        } else {
            // `elf_get_dynamic_info` asserts that `DT_PLTREL` is `DT_RELA` on these machines.
            reader.tables(rela, plt, true, plt_kind.is_some())?;
        }
        Ok(reader.found)
    }

    /// Returns the largest symbol index in a relocation.
    pub(super) fn last_symbol(&self) -> u32 {
        self.symbolic.iter().map(|relocation| relocation.symbol).max().unwrap_or(0)
    }
}

impl<'data, R: ReadRef<'data>> Reader<'_, 'data, R> {
    /// `_ELF_DYNAMIC_DO_RELOC`: a table and the PLT table, which may be its end.
    fn tables(
        &mut self,
        mut table: Table,
        plt: Table,
        has_addends: bool,
        takes_plt: bool,
    ) -> Result<(), ElfError> {
        // A size without a table is ignored.
        if table.address == 0 {
            table.size = 0;
        }
        let takes_plt = takes_plt && plt.size > 0;
        // Some linkers count the PLT relocations in `DT_RELASZ` too. They must not be applied
        // twice.
        if takes_plt && table.size >= plt.size && table.end() == plt.end() {
            table.size -= plt.size;
        }
        self.table(table, has_addends, false)?;
        if takes_plt {
            self.table(plt, has_addends, true)?;
        }
        Ok(())
    }

    /// `elf_dynamic_do_Rel`.
    fn table(&mut self, table: Table, has_addends: bool, lazy_table: bool) -> Result<(), ElfError> {
        if table.size == 0 {
            return Ok(());
        }
        let malformed = ElfError::Malformed("its relocations lie outside its segments");
        let bytes = self.image.bytes(table.address, table.size).ok_or(malformed)?;
        let words = self.image.words();
        let size = words.size() * if has_addends { 3 } else { 2 };
        let mut last = Vec::new();
        for entry in bytes.chunks_exact(size) {
            let number = |at| words.address(entry, at).unwrap_or(0);
            let (offset, info) = (number(0), number(words.size()));
            let (symbol, raw) = match words.class {
                Class::Elf32 => ((info >> 8) as u32, (info & 0xff) as u32),
                Class::Elf64 => ((info >> 32) as u32, info as u32),
            };
            let meaning = self.machine.type_of(raw);
            let addend = match meaning {
                _ if has_addends => self.signed(number(2 * words.size())),
                // A `REL` entry has its addend in the word that it relocates, a descriptor in its second
                // word: the argument.
                TypeOf::Symbolic(RelocationKind::TlsDescriptor) => {
                    self.signed(self.in_place(offset.wrapping_add(4)))
                }
                _ => self.signed(self.in_place(offset)),
            };
            match meaning {
                TypeOf::Nothing => {}
                TypeOf::Relative => {
                    // In a 32-bit `REL` entry it is an address.
                    let addend = if has_addends { addend as u64 } else { self.in_place(offset) };
                    push(&mut self.found.relative, Relative { offset, addend })?;
                }
                TypeOf::Symbolic(kind) => {
                    let has_addend = has_addends;
                    let found = Relocation { offset, kind, symbol, addend, has_addend, lazy_table };
                    // A resolver may read what the other relocations of its object store.
                    let is_last = kind == RelocationKind::Irelative;
                    if is_last { &mut last } else { &mut self.found.symbolic }.push(found);
                }
            }
        }
        self.found.symbolic.append(&mut last);
        Ok(())
    }

    /// Returns the word of the file at an address, before relocation, or 0 beyond the file.
    fn in_place(&self, address: u64) -> u64 {
        let words = self.image.words();
        let bytes = self.image.bytes(address, words.size() as u64);
        bytes.and_then(|bytes| words.address(bytes, 0)).unwrap_or(0)
    }

    /// Returns an address-sized number as a signed one.
    fn signed(&self, number: u64) -> i64 {
        match self.image.words().class {
            Class::Elf32 => i64::from(number as i32),
            Class::Elf64 => number as i64,
        }
    }

    /// `ELF_DYNAMIC_DO_RELR`: an even word is an address, an odd word a bitmap of the following
    /// words.
    fn relr(&mut self, table: Table) -> Result<(), ElfError> {
        if table.size == 0 {
            return Ok(());
        }
        let malformed = ElfError::Malformed("its DT_RELR lies outside its segments");
        let bytes = self.image.bytes(table.address, table.size).ok_or(malformed)?;
        let (words, mut next) = (self.image.words(), 0_u64);
        let size = words.size() as u64;
        for chunk in bytes.chunks_exact(words.size()) {
            let entry = words.address(chunk, 0).unwrap_or(0);
            if entry & 1 == 0 {
                self.push_relr(entry)?;
                next = entry.wrapping_add(size);
                continue;
            }
            // Bit 0 marks the word as a bitmap.
            for bit in 1..size * 8 {
                if entry >> bit & 1 == 1 {
                    self.push_relr(next.wrapping_add((bit - 1) * size))?;
                }
            }
            // A bitmap covers one word less than it has bits.
            next = next.wrapping_add((size * 8 - 1) * size);
        }
        Ok(())
    }

    fn push_relr(&mut self, offset: u64) -> Result<(), ElfError> {
        let addend = self.in_place(offset);
        push(&mut self.found.relr, Relative { offset, addend })
    }
}

fn push(list: &mut Vec<Relative>, relative: Relative) -> Result<(), ElfError> {
    if list.len() == MAX_RELOCATIONS {
        return Err(ElfError::Malformed("it has more relocations than becalm follows"));
    }
    list.push(relative);
    Ok(())
}
