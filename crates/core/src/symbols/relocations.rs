//! `DT_REL`, `DT_RELA`, `DT_RELR` and `DT_JMPREL` of one object.

use object::elf::{self, DynamicTag};
use object::read::ReadRef;

use super::machine::{KnownMachine, TypeOf};
use super::symbol_type::{Binding, Definer, Relative, RelocationKind, SymbolType};
use crate::elf::{Class, ElfError, Image, Tags};

/// The limit on relocations of one object. Chromium has less than a million. A hostile `DT_RELR`
/// can name 63 with one word.
const MAX_RELOCATIONS: usize = 1 << 24;

/// Every relocation of an object, sorted by the treatment of the loader.
#[derive(Clone, Debug, Default)]
pub struct Relocations {
    /// Those of `DT_RELR` in order. All of them are relative and applied first.
    pub relr: Vec<Relative>,
    /// The relative relocations of `DT_REL` and `DT_RELA`, in order.
    pub relative: Vec<Relative>,
    /// All other relocations. Within each table `IRELATIVE` is last.
    pub(super) symbolic: Vec<Relocation>,
}

/// Address and size in bytes of a table.
#[derive(Clone, Copy, Debug)]
struct Table {
    address: u64,
    size: u64,
}

impl Table {
    fn end(self) -> u64 {
        self.address.wrapping_add(self.size)
    }

    /// Reads the table. An empty one may have any address.
    fn bytes<'data, R: ReadRef<'data>>(self, image: &Image<'data, R>) -> Option<&'data [u8]> {
        if self.size == 0 { Some(&[]) } else { image.bytes(self.address, self.size) }
    }
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

impl Relocation {
    /// Returns the binding without a definition.
    pub(super) fn unbound(&self, definer: Definer, adds: bool) -> Binding {
        Binding {
            offset: self.offset,
            kind: self.kind,
            lazy_table: self.lazy_table,
            symbol: self.symbol,
            definer,
            definition: 0,
            value: 0,
            addend: if adds { self.addend } else { 0 },
            symbol_type: SymbolType::NoType,
            unique: false,
        }
    }
}

impl Tags {
    fn table(&self, address: DynamicTag, size: DynamicTag) -> Table {
        let value = |tag| self.get(tag).unwrap_or(0);
        Table { address: value(address), size: value(size) }
    }
}

impl Relocations {
    /// Reads all tables.
    pub(super) fn read<'data, R: ReadRef<'data>>(
        image: &Image<'data, R>,
        tags: &Tags,
        machine: KnownMachine,
    ) -> Result<Self, ElfError> {
        let mut found = Self::default();
        // `ELF_DYNAMIC_RELOCATE` applies `DT_RELR` first, then `DT_REL`, then `DT_RELA`.
        found.relr(image, tags.table(elf::DT_RELR, elf::DT_RELRSZ))?;
        let plt_kind = tags.get(elf::DT_PLTREL);
        let plt_has_addends = plt_kind == u64::try_from(elf::DT_RELA.0).ok();
        let plt = tags.table(elf::DT_JMPREL, elf::DT_PLTRELSZ);
        if machine.reads_rel() {
            let rel = tags.table(elf::DT_REL, elf::DT_RELSZ);
            found.tables(image, machine, [rel, plt], false, !plt_has_addends)?;
        }
        // `elf_get_dynamic_info` asserts that `DT_PLTREL` is `DT_RELA` on the other machines.
        let takes_plt = if machine.reads_rel() { plt_has_addends } else { plt_kind.is_some() };
        let rela = tags.table(elf::DT_RELA, elf::DT_RELASZ);
        found.tables(image, machine, [rela, plt], true, takes_plt)?;
        Ok(found)
    }

    /// `_ELF_DYNAMIC_DO_RELOC`: a table and the PLT table, which may be its end.
    fn tables<'data, R: ReadRef<'data>>(
        &mut self,
        image: &Image<'data, R>,
        machine: KnownMachine,
        [mut table, mut plt]: [Table; 2],
        has_addends: bool,
        takes_plt: bool,
    ) -> Result<(), ElfError> {
        // A size without a table is ignored.
        if table.address == 0 {
            table.size = 0;
        }
        if !takes_plt {
            plt.size = 0;
        }
        // Some linkers count the PLT relocations in `DT_RELASZ` too. They must not be applied
        // twice.
        if table.size >= plt.size && table.end() == plt.end() {
            table.size -= plt.size;
        }
        self.table(image, machine, table, has_addends, false)?;
        self.table(image, machine, plt, has_addends, true)
    }

    /// `elf_dynamic_do_Rel`.
    fn table<'data, R: ReadRef<'data>>(
        &mut self,
        image: &Image<'data, R>,
        machine: KnownMachine,
        table: Table,
        has_addend: bool,
        lazy_table: bool,
    ) -> Result<(), ElfError> {
        let malformed = ElfError::Malformed("its relocations lie outside its segments");
        let bytes = table.bytes(image).ok_or(malformed)?;
        let word = image.ident.address_size();
        let mut last = Vec::new();
        for entry in bytes.chunks_exact(word * if has_addend { 3 } else { 2 }) {
            let number = |at| image.ident.address(entry, at).unwrap_or(0);
            let (offset, info) = (number(0), number(word));
            let (symbol, raw) = match image.ident.class {
                Class::Elf32 => ((info >> 8) as u32, (info & 0xff) as u32),
                Class::Elf64 => ((info >> 32) as u32, info as u32),
            };
            let meaning = machine.type_of(raw);
            let stored = match meaning {
                _ if has_addend => number(2 * word),
                // A `REL` entry has its addend in the word that it relocates, a descriptor in its second
                // word: the argument.
                TypeOf::Symbolic(RelocationKind::TlsDescriptor) => {
                    in_place(image, offset.wrapping_add(4))
                }
                _ => in_place(image, offset),
            };
            let addend = match image.ident.class {
                Class::Elf32 => i64::from(stored as i32),
                Class::Elf64 => stored as i64,
            };
            match meaning {
                TypeOf::Nothing => {}
                TypeOf::Relative => {
                    // In a 32-bit `REL` entry it is an address.
                    let addend = if has_addend { addend as u64 } else { stored };
                    push(&mut self.relative, Relative { offset, addend })?;
                }
                TypeOf::Symbolic(kind) => {
                    let found = Relocation { offset, kind, symbol, addend, has_addend, lazy_table };
                    // A resolver may read what the other relocations of its object store.
                    let is_last = kind == RelocationKind::Irelative;
                    if is_last { &mut last } else { &mut self.symbolic }.push(found);
                }
            }
        }
        self.symbolic.append(&mut last);
        Ok(())
    }

    /// `ELF_DYNAMIC_DO_RELR`: an even word is an address, an odd word a bitmap of the following
    /// words.
    fn relr<'data, R: ReadRef<'data>>(
        &mut self,
        image: &Image<'data, R>,
        table: Table,
    ) -> Result<(), ElfError> {
        let malformed = ElfError::Malformed("its DT_RELR lies outside its segments");
        let bytes = table.bytes(image).ok_or(malformed)?;
        let size = image.ident.address_size() as u64;
        let mut next = 0_u64;
        for chunk in bytes.chunks_exact(size as usize) {
            let entry = image.ident.address(chunk, 0).unwrap_or(0);
            let (start, bits, count) = match entry & 1 {
                0 => (entry, 1, 1),
                // Bit 0 marks the word as a bitmap, which covers one word less than it has bits.
                _ => (next, entry >> 1, size * 8 - 1),
            };
            for bit in (0..count).filter(|bit| bits >> bit & 1 == 1) {
                let offset = start.wrapping_add(bit * size);
                push(&mut self.relr, Relative { offset, addend: in_place(image, offset) })?;
            }
            next = start.wrapping_add(count * size);
        }
        Ok(())
    }
}

/// Returns the word of the file at an address, before relocation, or 0 beyond the file.
fn in_place<'data, R: ReadRef<'data>>(image: &Image<'data, R>, address: u64) -> u64 {
    let bytes = image.bytes(address, image.ident.address_size() as u64);
    bytes.and_then(|bytes| image.ident.address(bytes, 0)).unwrap_or(0)
}

fn push(list: &mut Vec<Relative>, relative: Relative) -> Result<(), ElfError> {
    if list.len() == MAX_RELOCATIONS {
        return Err(ElfError::Malformed("it has more relocations than becalm follows"));
    }
    list.push(relative);
    Ok(())
}
