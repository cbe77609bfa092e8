//! The symbol tables and relocations of one object.

use object::elf;
use object::read::ReadRef;

use super::hash::HashTable;
use super::machine::KnownMachine;
use super::relocations::{Relocation, Relocations};
use super::symbol_type::{Relative, RelocationKind, SymbolType};
use super::version_table::VersionTable;
use crate::elf::{Class, ElfError, Ident, Image, Tags};

/// The data of one object that symbol lookup and relocation need. It is read once for each file and
/// shared by all starts that load the file.
#[derive(Clone, Debug, Default)]
pub struct ObjectSymbols {
    /// The identification and machine fields.
    pub ident: Ident,
    /// The machine, if its relocation types are known.
    pub machine: Option<KnownMachine>,
    /// The entries of `PT_DYNAMIC` in the file, up to `DT_NULL`. A loader changes some of them in
    /// memory.
    pub(crate) tags: Tags,
    /// `DT_SYMBOLIC` or `DF_SYMBOLIC`: glibc searches the object itself first.
    pub(super) symbolic: bool,
    /// Address of `PT_DYNAMIC`, before the load address is added.
    pub dynamic_address: u64,
    symbols: Vec<u8>,
    strings: Vec<u8>,
    pub(super) hash: HashTable,
    pub(super) versions: VersionTable,
    /// The relocations.
    pub relocations: Relocations,
}

/// One entry of a symbol table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Offset of the name in the string table (`st_name`).
    pub name: u32,
    /// `ELF_ST_BIND (st_info)`.
    pub binding: u8,
    /// `ELF_ST_TYPE (st_info)`.
    pub raw_type: u8,
    /// `st_other`.
    pub other: u8,
    /// `st_shndx`.
    pub section: u16,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
}

impl Symbol {
    /// `ELF_ST_VISIBILITY (st_other)`.
    pub(crate) fn visibility(&self) -> u8 {
        self.other & 3
    }

    /// True for `STV_HIDDEN` and `STV_INTERNAL`, which no other object sees (glibc
    /// `dl_symbol_visibility_binds_local_p`).
    #[must_use]
    pub fn binds_locally(&self) -> bool {
        matches!(self.visibility(), v if v == elf::STV_HIDDEN.0 || v == elf::STV_INTERNAL.0)
    }

    /// Returns true if a lookup from another object may find it: it is neither local nor hidden.
    pub(crate) fn is_exported(&self) -> bool {
        let binding = elf::SymbolBind(self.binding);
        let is_global = matches!(binding, elf::STB_GLOBAL | elf::STB_WEAK | elf::STB_GNU_UNIQUE);
        is_global && !self.binds_locally()
    }

    /// True if `st_shndx` is `SHN_UNDEF`.
    pub(crate) fn is_undefined(&self) -> bool {
        self.section == elf::SHN_UNDEF.0
    }

    /// Returns true if `st_shndx` is `SHN_ABS`, so that the value is not an address of the object.
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        self.section == elf::SHN_ABS.0
    }

    /// Returns the type, as far as a loader distinguishes types.
    pub(crate) fn symbol_type(&self) -> SymbolType {
        match elf::SymbolType(self.raw_type) {
            elf::STT_NOTYPE => SymbolType::NoType,
            elf::STT_OBJECT | elf::STT_COMMON => SymbolType::Object,
            elf::STT_FUNC => SymbolType::Function,
            elf::STT_TLS => SymbolType::Tls,
            elf::STT_GNU_IFUNC => SymbolType::Ifunc,
            _ => SymbolType::Other,
        }
    }
}

impl ObjectSymbols {
    /// Reads the tables that `PT_DYNAMIC` names, at their addresses in the segments, as a loader
    /// does. If the object's machine is unknown, only the header is read.
    ///
    /// # Errors
    /// Returns [`ElfError`] if a table is outside the segments, if a relocation names a symbol
    /// beyond them, or if there are more than 16,777,216 relative relocations.
    pub fn read<'data, R: ReadRef<'data>>(data: R) -> Result<Self, ElfError> {
        let image = Image::new(data)?;
        let machine = KnownMachine::of(&image.ident);
        let tags = image.dynamic_entries()?;
        let mut object = Self {
            ident: image.ident,
            machine,
            symbolic: tags.has(elf::DT_SYMBOLIC, elf::DF_SYMBOLIC),
            tags,
            dynamic_address: image.dynamic.map_or(0, |segment| segment.vaddr),
            ..Self::default()
        };
        if let Some(machine) = machine {
            object.fill(&image, machine)?;
        }
        Ok(object)
    }

    fn fill<'data, R: ReadRef<'data>>(
        &mut self,
        image: &Image<'data, R>,
        machine: KnownMachine,
    ) -> Result<(), ElfError> {
        let tags = &self.tags;
        self.relocations = Relocations::read(image, tags, machine)?;
        let Some(symbols_at) = tags.get(elf::DT_SYMTAB) else { return Ok(()) };
        self.hash = HashTable::read(image, tags, machine)?;
        // A GNU table has defined symbols only. Relocations name the undefined ones.
        let last = self.relocations.symbolic.iter().map(|relocation| relocation.symbol).max();
        let count = self.hash.symbol_count().max(u64::from(last.unwrap_or(0)) + 1);
        let size = count * self.entry_size() as u64;
        let malformed = ElfError::Malformed("its symbol table lies outside its segments");
        self.symbols = image.bytes(symbols_at, size).ok_or(malformed)?.to_vec();
        if let Some(strings_at) = tags.get(elf::DT_STRTAB) {
            let rest = image.bytes_after(strings_at);
            // A loader does not read `DT_STRSZ`, so that a wrong size is not an error.
            let size = tags.get(elf::DT_STRSZ).map_or(rest, |size| size.min(rest));
            self.strings = image.bytes(strings_at, size).unwrap_or_default().to_vec();
        }
        self.versions = VersionTable::read(image, tags, count)?;
        Ok(())
    }

    fn entry_size(&self) -> usize {
        match self.ident.class {
            Class::Elf32 => 16,
            Class::Elf64 => 24,
        }
    }

    /// Returns the number of relocations with a symbol ([`super::ObjectBindings::symbolic`]).
    #[must_use]
    pub fn symbolic_count(&self) -> usize {
        let relocations = self.relocations.symbolic.iter();
        relocations.filter(|relocation| relocation.kind.is_symbolic()).count()
    }

    /// Returns the offset of each word that a relocation names, of any kind.
    pub fn relocated(&self) -> impl Iterator<Item = u64> {
        let Relocations { relr, relative, symbolic } = &self.relocations;
        let relatives = relr.iter().chain(relative).map(|it| it.offset);
        relatives.chain(symbolic.iter().map(|it| it.offset))
    }

    /// Returns the address of the words that the loader fills for lazy binding (`DT_PLTGOT`).
    #[must_use]
    pub fn lazy_words(&self) -> Option<u64> {
        self.tags.get(elf::DT_PLTGOT)
    }

    /// `DT_PPC64_OPT`; 0 on other machines.
    #[must_use]
    pub fn ppc64_options(&self) -> u64 {
        // Tags from `DT_LOPROC` on have another meaning on each machine.
        let is_ppc64 = self.machine == Some(KnownMachine::Ppc64le);
        self.tags.get(elf::DT_PPC64_OPT).filter(|_| is_ppc64).unwrap_or(0)
    }

    /// Returns the address of `PT_DYNAMIC`, and the number of its words.
    #[must_use]
    pub fn dynamic_words(&self) -> (u64, u64) {
        // One more for `DT_NULL`.
        (self.dynamic_address, 2 * (self.tags.0.len() as u64 + 1))
    }

    /// Returns the approximate size of the tables in memory, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let Relocations { relr, relative, symbolic } = &self.relocations;
        let relatives = (relr.len() + relative.len()) * size_of::<Relative>();
        let rest = symbolic.len() * size_of::<Relocation>();
        self.symbols.len() * 2 + self.strings.len() + relatives + rest
    }

    /// Returns the number of symbols, as far as the hash table and the relocations show it.
    #[must_use]
    pub fn symbol_count(&self) -> u32 {
        u32::try_from(self.symbols.len() / self.entry_size()).unwrap_or(u32::MAX)
    }

    /// Returns the symbol at an index, or `None` beyond the table.
    #[must_use]
    pub fn symbol(&self, index: u32) -> Option<Symbol> {
        let size = self.entry_size();
        let start = (index as usize).checked_mul(size)?;
        let entry = self.symbols.get(start..start.checked_add(size)?)?;
        let endian = self.ident.endian;
        // `Elf32_Sym` has `st_value` and `st_size` before `st_info`, `Elf64_Sym` at its end.
        let (info_at, value_at) = if self.ident.class == Class::Elf32 { (12, 4) } else { (4, 8) };
        let (info, other) = (entry[info_at], entry[info_at + 1]);
        let (binding, raw_type) = (info >> 4, info & 0xf);
        let (name, section) = (endian.u32(entry, 0)?, endian.u16(entry, info_at + 2)?);
        let value = self.ident.address(entry, value_at)?;
        let size = self.ident.address(entry, value_at + self.ident.address_size())?;
        Some(Symbol { name, binding, raw_type, other, section, value, size })
    }

    /// Returns the name of a symbol, or an empty string if it has no name.
    #[must_use]
    pub fn symbol_name(&self, index: u32) -> &[u8] {
        self.symbol(index).map_or(b"", |symbol| self.string(symbol.name.into()))
    }

    /// The version of a symbol reference or definition, without the base version.
    #[must_use]
    pub fn symbol_version(&self, index: u32) -> Option<&[u8]> {
        let version = self.versions.get(self.versions.entry(index)?);
        (version.hash != 0).then(|| self.string(version.name))
    }

    /// True if a `COPY` relocation names the symbol.
    pub(super) fn copies(&self, symbol: u32) -> bool {
        let mut relocations = self.relocations.symbolic.iter();
        relocations.any(|it| it.symbol == symbol && it.kind == RelocationKind::Copy)
    }

    /// The string at an offset of the string table, without its NUL.
    pub(super) fn string(&self, offset: u64) -> &[u8] {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.strings.get(offset..));
        let rest = rest.unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        &rest[..end]
    }

    /// True if the string at an offset is `name`.
    pub(super) fn string_is(&self, offset: u32, name: &[u8]) -> bool {
        let Some(rest) = self.strings.get(offset as usize..) else { return name.is_empty() };
        rest.starts_with(name) && rest.get(name.len()).is_none_or(|&byte| byte == 0)
    }
}
