//! Objects with symbols, relocations and versions: one `PT_LOAD` at address 0 over the whole file, so
//! that an address is an offset.

use becalm_testing::elf::{
    self as testing, Encoding, FileHeader, ProgramHeader, SinglePhase, Verdef, Vernaux, Verneed,
    number,
};
use object::elf;

use crate::elf::{Class, Endian};

/// Address of the slots of relocations: words of zeros, or the values given to [`Image::slot`].
pub(super) const SLOTS: u64 = 0x100;
const SLOTS_SIZE: usize = 0x200;
/// A version index with this bit is hidden.
const HIDDEN: u16 = 0x8000;

/// One symbol.
#[derive(Clone, Debug)]
pub(super) struct Sym {
    name: String,
    binding: u8,
    kind: u8,
    visibility: u8,
    section: u16,
    value: u64,
    size: u64,
    /// Index of the version, with the hidden bit.
    version: u16,
}

impl Sym {
    /// A global function that is defined at `value`.
    pub(super) fn defined(name: &str, value: u64) -> Self {
        let (binding, kind) = (elf::STB_GLOBAL.0, elf::STT_FUNC.0);
        let name = name.to_owned();
        Self { name, binding, kind, visibility: 0, section: 1, value, size: 8, version: 1 }
    }

    /// A global reference.
    pub(super) fn undefined(name: &str) -> Self {
        let defined = Self::defined(name, 0);
        Self { kind: elf::STT_NOTYPE.0, section: 0, size: 0, ..defined }
    }

    pub(super) fn binding(self, binding: elf::SymbolBind) -> Self {
        Self { binding: binding.0, ..self }
    }

    pub(super) fn kind(self, kind: elf::SymbolType) -> Self {
        Self { kind: kind.0, ..self }
    }

    pub(super) fn visibility(self, visibility: elf::SymbolVisibility) -> Self {
        Self { visibility: visibility.0, ..self }
    }

    /// `st_other` beyond the visibility.
    pub(super) fn other(self, other: u8) -> Self {
        Self { visibility: self.visibility | other, ..self }
    }

    pub(super) fn absolute(self) -> Self {
        Self { section: elf::SHN_ABS.0, ..self }
    }

    /// An undefined symbol that has a value: the PLT entry of a program.
    pub(super) fn with_value(self, value: u64) -> Self {
        Self { value, ..self }
    }

    pub(super) fn version(self, index: u16) -> Self {
        Self { version: index, ..self }
    }

    pub(super) fn hidden_version(self, index: u16) -> Self {
        Self { version: index | HIDDEN, ..self }
    }

    /// True if a hash table has it.
    fn is_hashed(&self) -> bool {
        self.section != 0 || self.value != 0
    }
}

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) name: String,
    class: Class,
    endian: Endian,
    machine: u16,
    symbols: Vec<Sym>,
    /// Type, name of the symbol, addend; `None` for an entry of `REL`.
    relocations: Vec<(u32, String, Option<i64>)>,
    slots: Vec<(u64, u64)>,
    relr: Vec<u64>,
    defines: Vec<(u16, String, bool)>,
    needs: Vec<(u16, String, String, bool)>,
    sysv: bool,
    tags: Vec<(elf::DynamicTag, u64)>,
}

impl Image {
    /// An x86_64 object without anything.
    pub(super) fn new(name: &str) -> Self {
        Self::of(name, Class::Elf64, Endian::Little, elf::EM_X86_64)
    }

    pub(super) fn of(name: &str, class: Class, endian: Endian, machine: elf::Machine) -> Self {
        Self {
            name: name.to_owned(),
            class,
            endian,
            machine: machine.0,
            symbols: Vec::new(),
            relocations: Vec::new(),
            slots: Vec::new(),
            relr: Vec::new(),
            defines: Vec::new(),
            needs: Vec::new(),
            sysv: false,
            tags: Vec::new(),
        }
    }

    pub(super) fn symbol(mut self, symbol: Sym) -> Self {
        self.symbols.push(symbol);
        self
    }

    /// A relocation of the symbol of this name; each has the next slot.
    pub(super) fn relocate(self, kind: elf::RelocationType, symbol: &str) -> Self {
        self.relocate_with(kind, symbol, Some(0))
    }

    pub(super) fn relocate_with(
        mut self,
        kind: elf::RelocationType,
        symbol: &str,
        addend: Option<i64>,
    ) -> Self {
        self.relocations.push((kind.0, symbol.to_owned(), addend));
        self
    }

    /// Sets the value of the slot at this index in the file.
    pub(super) fn slot(mut self, index: u64, value: u64) -> Self {
        self.slots.push((index, value));
        self
    }

    pub(super) fn relr(mut self, words: &[u64]) -> Self {
        self.relr.extend(words);
        self
    }

    /// Defines a version; `base` for the name of the library itself.
    pub(super) fn defines(mut self, index: u16, version: &str, base: bool) -> Self {
        self.defines.push((index, version.to_owned(), base));
        self
    }

    /// Needs a version of a library; `weak` for `VER_FLG_WEAK`.
    pub(super) fn needs(mut self, index: u16, file: &str, version: &str, weak: bool) -> Self {
        self.needs.push((index, file.to_owned(), version.to_owned(), weak));
        self
    }

    /// With `DT_HASH` instead of `DT_GNU_HASH`.
    pub(super) fn sysv(mut self) -> Self {
        self.sysv = true;
        self
    }

    pub(super) fn tag(mut self, tag: elf::DynamicTag, value: u64) -> Self {
        self.tags.push((tag, value));
        self
    }

    fn encoding(&self) -> Encoding {
        testing::encoding(self.class == Class::Elf64, self.endian == Endian::Big)
    }

    /// The bytes of the file.
    pub(super) fn build(&self) -> Vec<u8> {
        let flags = if self.machine == elf::EM_PPC64.0 { 2 } else { 0 };
        let header = FileHeader {
            e_type: elf::ET_DYN,
            e_machine: elf::Machine(self.machine),
            e_flags: elf::FileFlags(flags),
            ..FileHeader::default()
        };
        let mut bytes = Vec::new();
        let head = testing::write(&mut bytes, self.encoding(), &header, 2, |writer| {
            let encoding = self.encoding();
            Parts { image: self, encoding, writer, symbols: self.ordered(), tags: Vec::new() }
                .write()
        });
        bytes[..head.len()].copy_from_slice(&head);
        bytes
    }

    /// The symbols without a hash, then those with one. The null symbol precedes them.
    fn ordered(&self) -> Vec<&Sym> {
        let (hashed, others): (Vec<&Sym>, Vec<&Sym>) =
            self.symbols.iter().partition(|symbol| symbol.is_hashed());
        [others, hashed].concat()
    }
}

/// The parts behind the headers.
struct Parts<'w, 'a> {
    image: &'a Image,
    encoding: Encoding,
    writer: &'w mut testing::Writer<'a, SinglePhase>,
    symbols: Vec<&'a Sym>,
    tags: Vec<(elf::DynamicTag, u64)>,
}

impl<'a> Parts<'_, 'a> {
    fn write(mut self) -> Vec<ProgramHeader> {
        self.slots();
        self.symbol_table();
        self.hash_table();
        self.versions();
        self.relocations();
        let soname = self.string(&self.image.name);
        let (at, size) = self.writer.write_dynstr().expect("strings");
        self.tags.push((elf::DT_STRTAB, at));
        self.tags.push((elf::DT_STRSZ, size.into()));
        self.tags.push((elf::DT_SONAME, soname.into()));
        self.writer.write_align(8);
        let dynamic = self.writer.write_align_dynamic();
        for &(tag, value) in self.tags.iter().chain(&self.image.tags).chain(&[(elf::DT_NULL, 0)]) {
            self.writer.write_dynamic(tag, value).expect("an entry");
        }
        let end = self.writer.offset();
        let segment =
            |kind, at| testing::segment(kind, elf::PF_R | elf::PF_W, at, end - at, 0, 0x1000);
        vec![segment(elf::PT_LOAD, 0), segment(elf::PT_DYNAMIC, dynamic)]
    }

    fn word(&self) -> usize {
        self.encoding.address_size() as usize
    }

    fn slots(&mut self) {
        let word = self.word();
        let mut slots = vec![0; SLOTS_SIZE];
        for &(index, value) in &self.image.slots {
            let at = index as usize * word;
            slots[at..at + word].copy_from_slice(&number(self.encoding, value, word));
        }
        self.writer.pad_until(SLOTS);
        self.writer.write(&slots);
    }

    /// Returns the offset of a string, which is written later.
    fn string(&mut self, text: &'a str) -> u32 {
        let string = self.writer.add_dynamic_string(text.as_bytes());
        self.writer.dynamic_string_offset(Some(string))
    }

    fn symbol_table(&mut self) {
        let at = self.writer.write_null_dynamic_symbol();
        self.tags.push((elf::DT_SYMTAB, at));
        for symbol in self.symbols.clone() {
            let st_name = self.string(&symbol.name);
            self.writer.write_dynamic_symbol(&testing::Sym {
                section: None,
                st_name,
                st_info: elf::SymbolInfo(symbol.binding << 4 | symbol.kind),
                st_other: elf::SymbolOther(symbol.visibility),
                st_shndx: elf::SymbolSection(symbol.section),
                st_value: symbol.value,
                st_size: symbol.size,
            });
        }
    }

    /// One bucket for everything.
    fn hash_table(&mut self) {
        let hashed = self.symbols.iter().filter(|symbol| symbol.is_hashed()).count() as u32;
        let count = self.symbols.len() as u32 + 1;
        let first = count - hashed;
        if self.image.sysv && self.image.machine == elf::EM_S390.0 {
            return self.hash_table_of_s390(first, count);
        }
        if self.image.sysv {
            let at = self.writer.write_hash(1, count, |index| (index >= first).then_some(0));
            return self.tags.push((elf::DT_HASH, at));
        }
        let names: Vec<&[u8]> =
            self.symbols[first as usize - 1..].iter().map(|it| it.name.as_bytes()).collect();
        let hash = |index: u32| elf::gnu_hash(names[index as usize]);
        let at = self.writer.write_gnu_hash(first, 5, 1, 1, hashed, hash);
        self.tags.push((elf::DT_GNU_HASH, at));
    }

    /// `object` has no `DT_HASH` with entries of eight bytes.
    fn hash_table_of_s390(&mut self, first: u32, count: u32) {
        let at = self.writer.write_align(8);
        let has_any = first < count;
        let bucket = if has_any { first } else { 0 };
        let next = |index| if (first..count - 1).contains(&index) { index + 1 } else { 0 };
        for entry in [1, count, bucket].into_iter().chain((0..count).map(next)) {
            self.writer.write(&number(self.encoding, entry.into(), 8));
        }
        self.tags.push((elf::DT_HASH, at));
    }

    fn versions(&mut self) {
        let Image { defines, needs, .. } = self.image;
        if defines.is_empty() && needs.is_empty() {
            return;
        }
        let at = self.writer.write_null_gnu_versym();
        self.tags.push((elf::DT_VERSYM, at));
        for symbol in &self.symbols {
            self.writer.write_gnu_versym(elf::VersymIndex(symbol.version));
        }
        if !defines.is_empty() {
            let at = self.writer.write_align_gnu_verdef(defines.len() as u16);
            self.tags.push((elf::DT_VERDEF, at));
        }
        for (index, version, base) in defines {
            let name = self.string(version);
            self.writer.write_gnu_verdef(&Verdef {
                version: elf::VER_DEF_CURRENT,
                flags: if *base { elf::VER_FLG_BASE } else { elf::VersionFlags(0) },
                index: elf::VersionIndex(*index),
                aux_count: 1,
                name,
                hash: elf::hash(version.as_bytes()),
            });
        }
        if !needs.is_empty() {
            let at = self.writer.write_align_gnu_verneed(needs.len() as u16);
            self.tags.push((elf::DT_VERNEED, at));
        }
        for (index, file, version, weak) in needs {
            let (file, name) = (self.string(file), self.string(version));
            let verneed = Verneed { version: elf::VER_NEED_CURRENT, aux_count: 1, file };
            self.writer.write_gnu_verneed(&verneed);
            self.writer.write_gnu_vernaux(&Vernaux {
                flags: if *weak { elf::VER_FLG_WEAK } else { elf::VersionFlags(0) },
                index: elf::VersionIndex(*index),
                name,
                hash: elf::hash(version.as_bytes()),
            });
        }
    }

    fn relocations(&mut self) {
        let word = self.word() as u64;
        let has_addends = self.image.relocations.iter().any(|(_, _, addend)| addend.is_some());
        let (tag, size_tag) = match has_addends {
            true => (elf::DT_RELA, elf::DT_RELASZ),
            false => (elf::DT_REL, elf::DT_RELSZ),
        };
        let at = self.writer.write_align_relocation();
        for (slot, (kind, name, addend)) in self.image.relocations.iter().enumerate() {
            let index = self.symbols.iter().position(|symbol| symbol.name == *name);
            let relocation = testing::Rel {
                r_offset: SLOTS + slot as u64 * word,
                r_sym: index.map_or(0, |index| index as u32 + 1),
                r_type: elf::RelocationType(*kind),
                r_addend: addend.unwrap_or(0),
            };
            self.writer.write_relocation(has_addends, &relocation);
        }
        self.tags.push((tag, at));
        self.tags.push((size_tag, self.writer.offset() - at));
        if !self.image.relr.is_empty() {
            let at = self.writer.write_align(word);
            for entry in &self.image.relr {
                self.writer.write(&number(self.encoding, *entry, word as usize));
            }
            self.tags.push((elf::DT_RELR, at));
            self.tags.push((elf::DT_RELRSZ, self.writer.offset() - at));
        }
    }
}
