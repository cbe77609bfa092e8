//! Objects with symbols, relocations and versions, built by hand: one `PT_LOAD` at address 0 over
//! the whole file, so that an address is an offset.

use becalm_testing::elf::{Encoding, Header, Segment};
use object::elf;

use super::super::hash::{gnu_hash, sysv_hash};
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
        Encoding { is_64: self.class == Class::Elf64, is_big: self.endian == Endian::Big }
    }

    /// The bytes of the file.
    pub(super) fn build(&self) -> Vec<u8> {
        Writer::new(self).build()
    }
}

struct Writer<'a> {
    image: &'a Image,
    bytes: Vec<u8>,
    strings: Vec<u8>,
    /// The null symbol, those without a hash, then those with one.
    symbols: Vec<Sym>,
    tags: Vec<(i64, u64)>,
}

impl<'a> Writer<'a> {
    fn new(image: &'a Image) -> Self {
        let null = Sym { binding: 0, version: 0, ..Sym::undefined("") };
        let mut symbols = vec![null];
        symbols.extend(image.symbols.iter().filter(|symbol| !symbol.is_hashed()).cloned());
        symbols.extend(image.symbols.iter().filter(|symbol| symbol.is_hashed()).cloned());
        let bytes = vec![0; SLOTS as usize + SLOTS_SIZE];
        Self { image, bytes, strings: vec![0], symbols, tags: Vec::new() }
    }

    fn build(mut self) -> Vec<u8> {
        let word = self.word_size();
        for &(index, value) in &self.image.slots {
            let at = SLOTS as usize + index as usize * word;
            self.put_at(at, value, word);
        }
        self.symbol_table();
        self.hash_table();
        self.versions();
        self.relocations();
        let strings_at = self.bytes.len() as u64;
        let soname = self.string(&self.image.name.clone());
        let strings = self.strings.clone();
        self.bytes.extend(&strings);
        self.align();
        self.tags.push((elf::DT_STRTAB.0, strings_at));
        self.tags.push((elf::DT_STRSZ.0, strings.len() as u64));
        self.tags.push((elf::DT_SONAME.0, soname));
        let own: Vec<_> = self.image.tags.iter().map(|(tag, value)| (tag.0, *value)).collect();
        self.tags.extend(own);
        let dynamic_at = self.bytes.len();
        for (tag, value) in std::mem::take(&mut self.tags).into_iter().chain([(0, 0)]) {
            self.put(tag as u64, word);
            self.put(value, word);
        }
        self.headers(dynamic_at);
        self.bytes
    }

    fn word_size(&self) -> usize {
        self.image.encoding().word()
    }

    fn put(&mut self, value: u64, size: usize) {
        let at = self.bytes.len();
        self.bytes.resize(at + size, 0);
        self.put_at(at, value, size);
    }

    fn put_at(&mut self, at: usize, value: u64, size: usize) {
        let bytes = self.image.encoding().number(value, size);
        self.bytes[at..at + size].copy_from_slice(&bytes);
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn string(&mut self, text: &str) -> u64 {
        let at = self.strings.len() as u64;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn start(&mut self, tag: elf::DynamicTag) {
        self.align();
        self.tags.push((tag.0, self.bytes.len() as u64));
    }

    fn symbol_table(&mut self) {
        self.start(elf::DT_SYMTAB);
        for symbol in self.symbols.clone() {
            let name = self.string(&symbol.name);
            let info = u64::from(symbol.binding << 4 | symbol.kind);
            let (other, section) = (symbol.visibility.into(), symbol.section.into());
            self.put(name, 4);
            if self.image.class == Class::Elf64 {
                for (value, size) in [(info, 1), (other, 1), (section, 2)] {
                    self.put(value, size);
                }
                self.put(symbol.value, 8);
                self.put(symbol.size, 8);
            } else {
                self.put(symbol.value, 4);
                self.put(symbol.size, 4);
                for (value, size) in [(info, 1), (other, 1), (section, 2)] {
                    self.put(value, size);
                }
            }
        }
    }

    /// One bucket for everything.
    fn hash_table(&mut self) {
        let first = self.symbols.iter().position(Sym::is_hashed).unwrap_or(self.symbols.len());
        if self.image.sysv {
            let entry = if self.image.machine == elf::EM_S390.0 { 8 } else { 4 };
            self.start(elf::DT_HASH);
            let count = self.symbols.len() as u64;
            let has_any = (first as u64) < count;
            self.put(1, entry);
            self.put(count, entry);
            self.put(if has_any { first as u64 } else { 0 }, entry);
            for index in 0..count {
                let next = if index >= first as u64 && index + 1 < count { index + 1 } else { 0 };
                self.put(next, entry);
            }
            return;
        }
        self.start(elf::DT_GNU_HASH);
        let has_any = first < self.symbols.len();
        for value in [1, first as u64, 1, 5] {
            self.put(value, 4);
        }
        self.put(u64::MAX, self.word_size());
        self.put(if has_any { first as u64 } else { 0 }, 4);
        let last = self.symbols.len() - 1;
        for (index, symbol) in self.symbols.clone().iter().enumerate().skip(first) {
            let hash = gnu_hash(symbol.name.as_bytes()) & !1;
            self.put(u64::from(hash | u32::from(index == last)), 4);
        }
    }

    fn versions(&mut self) {
        if self.image.defines.is_empty() && self.image.needs.is_empty() {
            return;
        }
        self.start(elf::DT_VERSYM);
        for symbol in self.symbols.clone() {
            self.put(symbol.version.into(), 2);
        }
        if !self.image.defines.is_empty() {
            self.start(elf::DT_VERDEF);
        }
        let defines = self.image.defines.clone();
        for (at, (index, name, base)) in defines.iter().enumerate() {
            let next = if at + 1 < defines.len() { 28 } else { 0 };
            let hash = sysv_hash(name.as_bytes()).into();
            let name = self.string(name);
            for (value, size) in [(1, 2), (u64::from(*base), 2), ((*index).into(), 2), (1, 2)] {
                self.put(value, size);
            }
            for value in [hash, 20, next, name, 0] {
                self.put(value, 4);
            }
        }
        if !self.image.needs.is_empty() {
            self.start(elf::DT_VERNEED);
        }
        let needs = self.image.needs.clone();
        for (at, (index, file, name, weak)) in needs.iter().enumerate() {
            let next = if at + 1 < needs.len() { 32 } else { 0 };
            let (file, hash) = (self.string(file), sysv_hash(name.as_bytes()).into());
            let name = self.string(name);
            for (value, size) in [(1, 2), (1, 2), (file, 4), (16, 4), (next, 4)] {
                self.put(value, size);
            }
            let flags = if *weak { 2 } else { 0 };
            for (value, size) in [(hash, 4), (flags, 2), ((*index).into(), 2), (name, 4), (0, 4)] {
                self.put(value, size);
            }
        }
    }

    fn relocations(&mut self) {
        let word = self.word_size();
        let has_addends = self.image.relocations.iter().any(|(_, _, addend)| addend.is_some());
        let (tag, size_tag) = match has_addends {
            true => (elf::DT_RELA, elf::DT_RELASZ),
            false => (elf::DT_REL, elf::DT_RELSZ),
        };
        self.start(tag);
        let start = self.bytes.len();
        for (slot, (kind, name, addend)) in self.image.relocations.iter().enumerate() {
            let index = self.symbols.iter().position(|symbol| symbol.name == *name).unwrap_or(0);
            let info = match self.image.class {
                Class::Elf64 => (index as u64) << 32 | u64::from(*kind),
                Class::Elf32 => (index as u64) << 8 | u64::from(*kind),
            };
            self.put(SLOTS + slot as u64 * word as u64, word);
            self.put(info, word);
            if let Some(addend) = addend {
                self.put(*addend as u64, word);
            }
        }
        self.tags.push((size_tag.0, (self.bytes.len() - start) as u64));
        if !self.image.relr.is_empty() {
            self.start(elf::DT_RELR);
            for entry in &self.image.relr {
                self.put(*entry, word);
            }
            self.tags.push((elf::DT_RELRSZ.0, (self.image.relr.len() * word) as u64));
        }
    }

    fn headers(&mut self, dynamic_at: usize) {
        let end = self.bytes.len() as u64;
        let segment = |kind: elf::ProgramType, offset: u64| Segment {
            kind: kind.0,
            flags: 6,
            offset,
            address: offset,
            file_size: end - offset,
            memory_size: end - offset,
            align: 0x1000,
        };
        let flags = if self.image.machine == elf::EM_PPC64.0 { 2 } else { 0 };
        let (kind, machine) = (elf::ET_DYN.0, self.image.machine);
        let header = Header { kind, machine, flags, ..Header::default() };
        let segments = [segment(elf::PT_LOAD, 0), segment(elf::PT_DYNAMIC, dynamic_at as u64)];
        let head = self.image.encoding().head(&header, &segments);
        assert!(head.len() <= SLOTS as usize, "the headers have no room");
        self.bytes[..head.len()].copy_from_slice(&head);
    }
}
