//! A builder of small ELF images for the tests of this crate. The images have all parts that edits
//! change: interpreter, notes, hash table, strings, needed versions, dynamic section, sections.

use becalm_core::elf::{Class, Endian};
use becalm_testing::elf::{self, Encoding, Header};
use object::elf::{
    DT_GNU_HASH, DT_NEEDED, DT_NULL, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DT_VERNEED, DT_VERNEEDNUM,
    DynamicTag, PF_R, PF_W, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE, PT_PHDR, ProgramFlags,
    ProgramType, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH,
    SHT_GNU_VERNEED, SHT_NOBITS, SHT_NOTE, SHT_NULL, SHT_PROGBITS, SHT_STRTAB, SectionFlags,
    SectionType,
};

use crate::format::{Dyn, Format, Section, Segment};

/// Every class and byte order.
pub(crate) const FORMATS: [Format; 4] = [
    Format { class: Class::Elf64, endian: Endian::Little },
    Format { class: Class::Elf64, endian: Endian::Big },
    Format { class: Class::Elf32, endian: Endian::Little },
    Format { class: Class::Elf32, endian: Endian::Big },
];

/// The parts of an image to build.
#[derive(Clone, Debug)]
pub(crate) struct Builder {
    pub(crate) format: Format,
    pub(crate) kind: u16,
    pub(crate) machine: u16,
    pub(crate) base: u64,
    pub(crate) interpreter: bool,
    pub(crate) note: bool,
    pub(crate) hash: usize,
    pub(crate) sections: bool,
    pub(crate) spare: usize,
    pub(crate) bss: u64,
    /// True for a `.plt` without bytes, which the loader of 32-bit PowerPC writes.
    pub(crate) bss_plt: bool,
    pub(crate) needed: Vec<&'static str>,
    /// Further dynamic entries with strings.
    pub(crate) texts: Vec<(DynamicTag, &'static str)>,
    /// Further dynamic entries with numbers.
    pub(crate) numbers: Vec<(DynamicTag, u64)>,
}

/// The difference between address and offset in the writable segment.
const STEP: u64 = 0x10000;

impl Builder {
    /// Makes a program that needs two libraries, with room for an edit in place.
    pub(crate) fn program(format: Format) -> Self {
        Self {
            format,
            kind: 3,
            machine: if format.is_64() { 62 } else { 3 },
            base: 0,
            interpreter: true,
            note: true,
            hash: 40,
            sections: true,
            spare: 4,
            bss: 0x2345,
            bss_plt: false,
            needed: vec!["libone.so.1", "libc.so.6"],
            texts: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// Makes a library, which has no interpreter.
    pub(crate) fn library(format: Format) -> Self {
        Self { interpreter: false, ..Self::program(format) }
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        Image::new(self).finish()
    }
}

struct Image<'a> {
    builder: &'a Builder,
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    names: Vec<u8>,
    strings: Vec<u8>,
    dynamic: Vec<Dyn>,
}

impl<'a> Image<'a> {
    fn new(builder: &'a Builder) -> Self {
        let format = builder.format;
        let count = 4 + usize::from(builder.interpreter) + usize::from(builder.note);
        let size = format.header_size() + count as u64 * format.segment_size();
        let null = Section {
            name: 0,
            kind: SHT_NULL,
            flags: SectionFlags(0),
            addr: 0,
            offset: 0,
            size: 0,
            link: 0,
            info: 0,
            align: 0,
            entsize: 0,
        };
        Self {
            builder,
            bytes: vec![0; size as usize],
            segments: Vec::new(),
            sections: vec![null],
            names: vec![0],
            strings: vec![0],
            dynamic: Vec::new(),
        }
    }

    fn string(&mut self, text: &str) -> u64 {
        let at = self.strings.len();
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at as u64
    }

    fn entry(&mut self, tag: DynamicTag, value: u64) {
        self.dynamic.push(Dyn { tag, value });
    }

    fn segment(
        &mut self,
        kind: ProgramType,
        flags: ProgramFlags,
        offset: u64,
        size: u64,
        bias: u64,
    ) {
        let align = if kind == PT_LOAD { 0x1000 } else { 4 };
        let vaddr = offset + bias;
        let (filesz, memsz) = (size, size);
        let paddr = vaddr;
        self.segments.push(Segment { kind, flags, offset, vaddr, paddr, filesz, memsz, align });
    }

    /// Adds bytes, and a section with them if the image has sections.
    fn section(
        &mut self,
        name: &str,
        kind: SectionType,
        bytes: &[u8],
        align: u64,
        bias: u64,
    ) -> u64 {
        let offset = (self.bytes.len() as u64).next_multiple_of(align);
        self.bytes.resize(offset as usize, 0);
        self.bytes.extend(bytes);
        let at = self.names.len() as u32;
        self.names.extend(name.as_bytes());
        self.names.push(0);
        self.sections.push(Section {
            name: at,
            kind,
            flags: SectionFlags(SHF_ALLOC.0),
            addr: offset + bias,
            offset,
            size: bytes.len() as u64,
            link: 0,
            info: 0,
            align,
            entsize: 0,
        });
        offset
    }

    fn flag_last(&mut self, flags: SectionFlags) {
        if let Some(last) = self.sections.last_mut() {
            last.flags = SectionFlags(last.flags.0 | flags.0);
        }
    }

    fn described(&mut self, kind: ProgramType, name: &str, section: SectionType, bytes: &[u8]) {
        let base = self.builder.base;
        let offset = self.section(name, section, bytes, 4, base);
        self.segment(kind, PF_R, offset, bytes.len() as u64, base);
    }

    fn read_only(&mut self) {
        let (base, format) = (self.builder.base, self.builder.format);
        let table = self.bytes.len() as u64 - format.header_size();
        self.segment(PT_PHDR, PF_R, format.header_size(), table, base);
        if self.builder.interpreter {
            self.described(PT_INTERP, ".interp", SHT_PROGBITS, b"/lib/ld.so.9\0");
        }
        if self.builder.note {
            let mut note: Vec<u8> = Vec::new();
            for word in [4, 20, 3] {
                note.extend(format.u32(word));
            }
            note.extend(b"GNU\0");
            note.extend([7; 20]);
            self.described(PT_NOTE, ".note.gnu.build-id", SHT_NOTE, &note);
        }
        let hash = vec![0x11; self.builder.hash];
        if self.builder.hash > 0 {
            let at = self.section(".gnu.hash", SHT_GNU_HASH, &hash, 8, base);
            self.entry(DT_GNU_HASH, at + base);
        }
        let symbols = self.section(".dynsym", SHT_DYNSYM, &[0; 24], 8, base);
        self.entry(DT_SYMTAB, symbols + base);
        self.strings_and_versions();
        self.section(".text", SHT_PROGBITS, &[0xc3; 64], 16, base);
        self.flag_last(SHF_EXECINSTR);
    }

    fn strings_and_versions(&mut self) {
        let base = self.builder.base;
        let mut needed = Vec::new();
        for name in &self.builder.needed {
            let at = self.string(name);
            needed.push(Dyn { tag: DT_NEEDED, value: at });
        }
        self.dynamic.splice(0..0, needed.iter().copied());
        for (tag, text) in self.builder.texts.clone() {
            let at = self.string(text);
            self.entry(tag, at);
        }
        let version = self.string("VERSION_1") as u32;
        let mut versions = Vec::new();
        for (index, entry) in needed.iter().enumerate() {
            versions.extend(self.versions(entry.value as u32, version, index + 1 == needed.len()));
        }
        let strings = self.strings.clone();
        let at = self.section(".dynstr", SHT_STRTAB, &strings, 1, base);
        self.entry(DT_STRTAB, at + base);
        self.entry(DT_STRSZ, strings.len() as u64);
        if !needed.is_empty() {
            let at = self.section(".gnu.version_r", SHT_GNU_VERNEED, &versions, 8, base);
            self.entry(DT_VERNEED, at + base);
            self.entry(DT_VERNEEDNUM, needed.len() as u64);
        }
        for &(tag, value) in &self.builder.numbers {
            self.entry(tag, value);
        }
    }

    /// Makes a `Verneed` with one `Vernaux`.
    fn versions(&self, file: u32, version: u32, last: bool) -> Vec<u8> {
        let format = self.builder.format;
        let mut bytes = [format.u16(1), format.u16(1)].concat();
        for word in [file, 16, if last { 0 } else { 32 }, 0x1234] {
            bytes.extend(format.u32(word));
        }
        bytes.extend([format.u16(0), format.u16(2)].concat());
        bytes.extend(format.u32(version));
        bytes.extend(format.u32(0));
        bytes
    }

    fn writable(&mut self) {
        let bias = self.builder.base + STEP;
        let end = self.bytes.len() as u64;
        self.segment(PT_LOAD, PF_R, 0, end, self.builder.base);
        for _ in 0..=self.builder.spare {
            self.entry(DT_NULL, 0);
        }
        let mut bytes = Vec::new();
        for entry in &self.dynamic {
            bytes.extend(self.builder.format.entry(*entry).expect("it fits"));
        }
        let offset = self.section(".dynamic", SHT_DYNAMIC, &bytes, 8, bias);
        let data = self.section(".data", SHT_PROGBITS, &[0xdd; 32], 8, bias);
        let size = data + 32 - offset;
        if self.builder.bss_plt {
            self.section(".plt", SHT_NOBITS, &[], 4, bias);
            self.flag_last(SectionFlags(SHF_WRITE.0 | SHF_EXECINSTR.0));
            if let Some(last) = self.sections.last_mut() {
                last.size = 0x100;
            }
        }
        self.segment(PT_LOAD, PF_R | PF_W, offset, size, bias);
        if let Some(load) = self.segments.last_mut() {
            load.memsz += self.builder.bss;
        }
        self.segment(PT_DYNAMIC, PF_R | PF_W, offset, bytes.len() as u64, bias);
    }

    fn finish(mut self) -> Vec<u8> {
        self.read_only();
        self.writable();
        let format = self.builder.format;
        let mut section_table = 0;
        if self.builder.sections {
            let names = [self.names.as_slice(), b".shstrtab\0"].concat();
            self.section(".shstrtab", SHT_STRTAB, &names, 1, 0);
            if let Some(last) = self.sections.last_mut() {
                (last.flags, last.addr) = (SectionFlags(0), 0);
            }
            section_table = self.bytes.len().next_multiple_of(8);
            self.bytes.resize(section_table, 0);
            for section in &self.sections {
                self.bytes.extend(format.section(section).expect("it fits"));
            }
        }
        let head = self.head(section_table as u64);
        self.bytes[..head.len()].copy_from_slice(&head);
        self.bytes
    }

    fn head(&self, section_table: u64) -> Vec<u8> {
        let Builder { format, kind, machine, base, sections, .. } = *self.builder;
        let encoding = Encoding { is_64: format.is_64(), is_big: format.endian == Endian::Big };
        let sections = if sections { self.sections.len() as u16 } else { 0 };
        let entry = base + 0x200;
        let header = Header { kind, machine, entry, flags: 0, section_table, sections };
        let segments: Vec<elf::Segment> = self.segments.iter().map(of_testing).collect();
        encoding.head(&header, &segments)
    }
}

fn of_testing(segment: &Segment) -> elf::Segment {
    elf::Segment {
        kind: segment.kind.0,
        flags: segment.flags.0,
        offset: segment.offset,
        address: segment.vaddr,
        file_size: segment.filesz,
        memory_size: segment.memsz,
        align: segment.align,
    }
}
