//! A builder of small ELF images for the tests of this crate. The images have all parts that edits
//! change: interpreter, notes, hash table, strings, needed versions, dynamic section, sections.

use becalm_core::elf::{Class, Endian};
use becalm_testing::elf::{
    self, FileHeader, ProgramHeader, SectionHeader, SinglePhase, Vernaux, Verneed, Writer,
};
use object::elf::{
    DT_GNU_HASH, DT_NEEDED, DT_NULL, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DT_VERNEED, DT_VERNEEDNUM,
    DynamicTag, FileType, Machine, PF_R, PF_W, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE, PT_PHDR,
    ProgramFlags, ProgramType, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_DYNAMIC, SHT_DYNSYM,
    SHT_GNU_HASH, SHT_GNU_VERNEED, SHT_NOBITS, SHT_NOTE, SHT_PROGBITS, SHT_STRTAB, SectionFlags,
    SectionType, VER_NEED_CURRENT, VersionFlags, VersionIndex, hash,
};

use crate::format::Format;

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
    /// True if `.dynstr` and `.dynamic` have a `PT_LOAD` of their own each, as after patchelf.
    pub(crate) apart: bool,
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
            apart: false,
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
        let Self { format, base, .. } = *self;
        let header = FileHeader {
            e_type: FileType(self.kind),
            e_machine: Machine(self.machine),
            e_entry: base + 0x200,
            ..FileHeader::default()
        };
        let further = [self.interpreter, self.note, self.apart, self.apart];
        let count = 4 + further.into_iter().filter(|&it| it).count();
        let encoding = elf::encoding(format.is_64(), format.endian == Endian::Big);
        let mut bytes = Vec::new();
        let head = elf::write(&mut bytes, encoding, &header, count, |writer| {
            let parts = Parts {
                builder: self,
                writer,
                segments: Vec::new(),
                load: 0,
                sections: Vec::new(),
                dynamic: Vec::new(),
            };
            parts.write()
        });
        bytes[..head.len()].copy_from_slice(&head);
        bytes
    }
}

/// The parts behind the headers.
struct Parts<'w, 'a> {
    builder: &'a Builder,
    writer: &'w mut Writer<'a, SinglePhase>,
    segments: Vec<ProgramHeader>,
    /// The start of the read-only segment that is being written.
    load: u64,
    sections: Vec<SectionHeader>,
    dynamic: Vec<(DynamicTag, u64)>,
}

impl<'a> Parts<'_, 'a> {
    fn write(mut self) -> Vec<ProgramHeader> {
        self.read_only();
        self.writable();
        if self.builder.sections {
            self.writer.write_shstrtab().expect("names");
            self.writer.write_align(8);
            self.writer.write_null_section_header();
            for section in &self.sections {
                self.writer.write_section_header(section);
            }
            self.writer.write_shstrtab_section_header();
        }
        self.segments
    }

    fn string(&mut self, text: &'a str) -> u32 {
        let string = self.writer.add_dynamic_string(text.as_bytes());
        self.writer.dynamic_string_offset(Some(string))
    }

    fn entry(&mut self, tag: DynamicTag, value: u64) {
        self.dynamic.push((tag, value));
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
        self.segments.push(elf::segment(kind, flags, offset, size, bias, align));
    }

    /// Writes bytes, and adds a section with them.
    fn section(
        &mut self,
        name: &'static str,
        kind: SectionType,
        bytes: &[u8],
        align: u64,
        bias: u64,
    ) -> u64 {
        let offset = self.writer.write_align(align);
        self.writer.write(bytes);
        self.written(name, kind, offset, align, bias);
        offset
    }

    /// Adds a section with what was written since an offset.
    fn written(&mut self, name: &'static str, kind: SectionType, at: u64, align: u64, bias: u64) {
        let name = self.writer.add_section_name(name.as_bytes());
        self.sections.push(SectionHeader {
            sh_name: self.writer.section_name_offset(Some(name)),
            sh_type: kind,
            sh_flags: SHF_ALLOC,
            sh_addr: at + bias,
            sh_offset: at,
            sh_size: self.writer.offset() - at,
            sh_addralign: align,
            ..SectionHeader::default()
        });
    }

    fn described(
        &mut self,
        kind: ProgramType,
        name: &'static str,
        section: SectionType,
        bytes: &[u8],
    ) {
        let base = self.builder.base;
        let offset = self.section(name, section, bytes, 4, base);
        self.segment(kind, PF_R, offset, bytes.len() as u64, base);
    }

    fn read_only(&mut self) {
        let (base, format) = (self.builder.base, self.builder.format);
        let table = self.writer.offset() - format.encoder().file_header_size();
        self.segment(PT_PHDR, PF_R, format.encoder().file_header_size(), table, base);
        if self.builder.interpreter {
            self.described(PT_INTERP, ".interp", SHT_PROGBITS, b"/lib/ld.so.9\0");
        }
        if self.builder.note {
            let words: Vec<u8> = [4, 20, 3].into_iter().flat_map(|it| format.u32(it)).collect();
            let note = [&words[..], b"GNU\0", &[7; 20]].concat();
            self.described(PT_NOTE, ".note.gnu.build-id", SHT_NOTE, &note);
        }
        // Room instead of a hash table and of a symbol: an edit moves the bytes as they are.
        if self.builder.hash > 0 {
            let room = vec![0x11; self.builder.hash];
            let at = self.section(".gnu.hash", SHT_GNU_HASH, &room, 8, base);
            self.entry(DT_GNU_HASH, at + base);
        }
        let symbols = self.section(".dynsym", SHT_DYNSYM, &[0; 24], 8, base);
        self.entry(DT_SYMTAB, symbols + base);
        self.strings_and_versions();
        self.section(".text", SHT_PROGBITS, &[0xc3; 64], 16, base);
        self.flag_last(SHF_EXECINSTR);
    }

    fn strings_and_versions(&mut self) {
        let Builder { base, needed, texts, numbers, .. } = self.builder;
        let files: Vec<u32> = needed.iter().map(|name| self.string(name)).collect();
        self.dynamic.splice(0..0, files.iter().map(|&file| (DT_NEEDED, file.into())));
        for &(tag, text) in texts {
            let at = self.string(text);
            self.entry(tag, at.into());
        }
        let name = self.string("VERSION_1");
        self.end_load_if_apart();
        let (at, size) = self.writer.write_dynstr().expect("strings");
        self.written(".dynstr", SHT_STRTAB, at, 1, *base);
        self.entry(DT_STRTAB, at + base);
        self.entry(DT_STRSZ, size.into());
        self.end_load_if_apart();
        if !files.is_empty() {
            self.writer.write_align(8);
            let at = self.writer.write_align_gnu_verneed(files.len() as u16);
            for &file in &files {
                let verneed = Verneed { version: VER_NEED_CURRENT, aux_count: 1, file };
                self.writer.write_gnu_verneed(&verneed);
                let (flags, index) = (VersionFlags(0), VersionIndex(2));
                let hash = hash(b"VERSION_1");
                self.writer.write_gnu_vernaux(&Vernaux { flags, index, name, hash });
            }
            self.written(".gnu.version_r", SHT_GNU_VERNEED, at, 8, *base);
            self.entry(DT_VERNEED, at + base);
            self.entry(DT_VERNEEDNUM, files.len() as u64);
        }
        self.dynamic.extend(numbers);
    }

    /// Ends the read-only segment, and starts another one on the next page.
    fn end_load_if_apart(&mut self) {
        if self.builder.apart {
            self.end_load();
            self.load = self.writer.write_align(0x1000);
        }
    }

    fn end_load(&mut self) {
        let size = self.writer.offset() - self.load;
        self.segment(PT_LOAD, PF_R, self.load, size, self.builder.base);
    }

    fn writable(&mut self) {
        let bias = self.builder.base + STEP;
        self.end_load();
        for _ in 0..=self.builder.spare {
            self.entry(DT_NULL, 0);
        }
        self.writer.write_align(8);
        let offset = self.writer.write_align_dynamic();
        for &(tag, value) in &self.dynamic {
            self.writer.write_dynamic(tag, value).expect("an entry");
        }
        let dynamic_size = self.writer.offset() - offset;
        self.written(".dynamic", SHT_DYNAMIC, offset, 8, bias);
        if !self.builder.apart {
            self.section(".data", SHT_PROGBITS, &[0xdd; 32], 8, bias);
        }
        let size = self.writer.offset() - offset;
        if self.builder.bss_plt {
            self.section(".plt", SHT_NOBITS, &[], 4, bias);
            self.flag_last(SHF_WRITE | SHF_EXECINSTR);
            if let Some(last) = self.sections.last_mut() {
                last.sh_size = 0x100;
            }
        }
        self.segment(PT_LOAD, PF_R | PF_W, offset, size, bias);
        if let Some(load) = self.segments.last_mut() {
            load.p_memsz += self.builder.bss;
        }
        self.segment(PT_DYNAMIC, PF_R | PF_W, offset, dynamic_size, bias);
    }

    fn flag_last(&mut self, flags: SectionFlags) {
        if let Some(last) = self.sections.last_mut() {
            last.sh_flags |= flags;
        }
    }
}
