//! A builder of small ELF images for the tests of this crate. One `PT_LOAD` covers the whole file, so
//! that an address is an offset plus [`BASE`].

use becalm_testing::elf::{
    Encoding, FileHeader, ProgramHeader, SinglePhase, Writer, encoding, number, segment, write,
};
use object::elf::{self, DynamicTag, FileFlags, FileType, Machine, ProgramType};

use crate::elf::{Class, Endian};

/// The address of the first byte of an image. It is not zero, so that a confusion of addresses and
/// offsets makes a test fail.
pub(crate) const BASE: u64 = 0x10000;

/// Every class and byte order.
pub(crate) const FORMATS: [(Class, Endian); 4] = [
    (Class::Elf32, Endian::Little),
    (Class::Elf32, Endian::Big),
    (Class::Elf64, Endian::Little),
    (Class::Elf64, Endian::Big),
];

/// The parts of an image to build.
#[derive(Clone)]
pub(crate) struct Builder {
    class: Class,
    endian: Endian,
    e_type: u16,
    machine: u16,
    flags: u32,
    has_load: bool,
    interpreter: Option<Vec<u8>>,
    dynamic: Option<Vec<(DynamicTag, Value)>>,
    notes: Vec<(u64, Vec<u8>)>,
    tls: Option<(u64, u64)>,
}

#[derive(Clone)]
enum Value {
    Number(u64),
    Text(Vec<u8>),
}

/// An image and the offsets of its parts, for tests that damage it.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    /// Offset of the first dynamic entry.
    pub(crate) dynamic_at: usize,
    /// Offset of the dynamic string table.
    pub(crate) strings_at: usize,
    /// Kind and offset of each program header.
    headers: Vec<(ProgramType, usize)>,
    encoding: Encoding,
}

/// A field of a program header.
#[derive(Clone, Copy)]
pub(crate) enum Field {
    Kind,
    Offset,
    Address,
    FileSize,
    MemorySize,
    Align,
}

impl Builder {
    /// Makes an empty library (`ET_DYN`).
    pub(crate) fn new(class: Class, endian: Endian) -> Self {
        Self {
            class,
            endian,
            e_type: elf::ET_DYN.0,
            machine: elf::EM_X86_64.0,
            flags: 0,
            has_load: true,
            interpreter: None,
            dynamic: None,
            notes: Vec::new(),
            tls: None,
        }
    }

    /// Makes an empty little-endian 64-bit library.
    pub(crate) fn elf64() -> Self {
        Self::new(Class::Elf64, Endian::Little)
    }

    pub(crate) fn header(mut self, e_type: u16, machine: u16, flags: u32) -> Self {
        (self.e_type, self.machine, self.flags) = (e_type, machine, flags);
        self
    }

    pub(crate) fn without_load(mut self) -> Self {
        self.has_load = false;
        self
    }

    /// Adds a `PT_INTERP` with this path and a NUL.
    pub(crate) fn interpreter(mut self, path: &str) -> Self {
        self.interpreter = Some([path.as_bytes(), b"\0"].concat());
        self
    }

    /// Adds a dynamic entry with a number. [`Self::build`] adds `DT_NULL`.
    pub(crate) fn number(mut self, tag: DynamicTag, value: u64) -> Self {
        self.dynamic.get_or_insert_default().push((tag, Value::Number(value)));
        self
    }

    /// Adds a dynamic entry with a string.
    pub(crate) fn text(mut self, tag: DynamicTag, text: &str) -> Self {
        self.dynamic.get_or_insert_default().push((tag, Value::Text(text.into())));
        self
    }

    pub(crate) fn needed(self, name: &str) -> Self {
        self.text(elf::DT_NEEDED, name)
    }

    pub(crate) fn tls(mut self, size: u64, align: u64) -> Self {
        self.tls = Some((size, align));
        self
    }

    /// Adds a `PT_NOTE` with one note. A NUL is appended to `owner`.
    pub(crate) fn note(mut self, align: u64, owner: &str, kind: u32, descriptor: &[u8]) -> Self {
        let mut note = Vec::new();
        for word in [owner.len() as u32 + 1, descriptor.len() as u32, kind] {
            note.extend(number(self.encoding(), word.into(), 4));
        }
        for part in [&[owner.as_bytes(), b"\0"].concat(), descriptor] {
            note.extend_from_slice(part);
            note.resize(note.len().next_multiple_of(align as usize), 0);
        }
        self.notes.push((align, note));
        self
    }

    pub(crate) fn build(self) -> Image {
        let encoding = self.encoding();
        let count = usize::from(self.has_load)
            + usize::from(self.interpreter.is_some())
            + usize::from(self.dynamic.is_some())
            + usize::from(self.tls.is_some())
            + self.notes.len();
        let header = FileHeader {
            e_type: FileType(self.e_type),
            e_machine: Machine(self.machine),
            e_flags: FileFlags(self.flags),
            ..FileHeader::default()
        };
        let (mut bytes, mut kinds) = (Vec::new(), Vec::new());
        let (mut dynamic_at, mut strings_at) = (0, 0);
        let head = write(&mut bytes, encoding, &header, count, |writer| {
            let mut segments = Vec::new();
            if let Some(path) = &self.interpreter {
                segments.push(part(writer, elf::PT_INTERP, path, 1));
            }
            for (align, note) in &self.notes {
                segments.push(part(writer, elf::PT_NOTE, note, *align));
            }
            if let Some(entries) = &self.dynamic {
                (strings_at, dynamic_at) = dynamic(writer, entries);
                let size = writer.offset() - dynamic_at;
                segments.push(of_memory(elf::PT_DYNAMIC, dynamic_at, size, 8));
            }
            if let Some((size, align)) = self.tls {
                let tls = of_memory(elf::PT_TLS, 0, 0, align);
                segments.push(ProgramHeader { p_memsz: size, ..tls });
            }
            if self.has_load {
                segments.insert(0, of_memory(elf::PT_LOAD, 0, writer.offset(), 0x1000));
            }
            kinds.extend(segments.iter().map(|segment| segment.p_type));
            segments
        });
        bytes[..head.len()].copy_from_slice(&head);
        let at = |index| encoding.file_header_size() + index * encoding.program_header_size();
        let headers = kinds.into_iter().zip((0..).map(|index| at(index) as usize)).collect();
        let (dynamic_at, strings_at) = (dynamic_at as usize, strings_at as usize);
        Image { bytes, dynamic_at, strings_at, headers, encoding }
    }

    fn encoding(&self) -> Encoding {
        encoding(self.class == Class::Elf64, self.endian == Endian::Big)
    }
}

fn of_memory(kind: ProgramType, offset: u64, size: u64, align: u64) -> ProgramHeader {
    segment(kind, elf::PF_R | elf::PF_W, offset, size, BASE, align)
}

/// Writes a part, and returns its segment.
fn part(
    writer: &mut Writer<'_, SinglePhase>,
    kind: ProgramType,
    bytes: &[u8],
    align: u64,
) -> ProgramHeader {
    let at = writer.write_align(align);
    writer.write(bytes);
    of_memory(kind, at, bytes.len() as u64, align)
}

/// Writes strings and the dynamic entries behind them, and returns the offsets of both.
fn dynamic<'a>(
    writer: &mut Writer<'a, SinglePhase>,
    entries: &'a [(DynamicTag, Value)],
) -> (u64, u64) {
    let mut numbers = Vec::new();
    for (tag, value) in entries {
        let number = match value {
            Value::Number(number) => *number,
            Value::Text(text) => {
                let string = writer.add_dynamic_string(text);
                writer.dynamic_string_offset(Some(string)).into()
            }
        };
        numbers.push((*tag, number));
    }
    let (strings_at, _) = writer.write_dynstr().expect("strings");
    let strings = (elf::DT_STRTAB, BASE + strings_at);
    writer.write_align(8);
    let at = writer.write_align_dynamic();
    for (tag, value) in [strings].into_iter().chain(numbers).chain([(elf::DT_NULL, 0)]) {
        writer.write_dynamic(tag, value).expect("an entry");
    }
    (strings_at, at)
}

impl Image {
    /// Overwrites a field of the first program header of a kind.
    pub(crate) fn patch(&mut self, kind: ProgramType, field: Field, value: u64) {
        let found = self.headers.iter().find(|header| header.0 == kind);
        let at = found.expect("no such program header").1;
        // The order of the fields of `Elf32_Phdr` and `Elf64_Phdr`. In the latter `p_flags` is the
        // second.
        let (offset, size) = match (self.encoding.is_64(), field) {
            (_, Field::Kind) => (0, 4),
            (false, Field::Offset) => (4, 4),
            (false, Field::Address) => (8, 4),
            (false, Field::FileSize) => (16, 4),
            (false, Field::MemorySize) => (20, 4),
            (false, Field::Align) => (28, 4),
            (true, Field::Offset) => (8, 8),
            (true, Field::Address) => (16, 8),
            (true, Field::FileSize) => (32, 8),
            (true, Field::MemorySize) => (40, 8),
            (true, Field::Align) => (48, 8),
        };
        self.patch_at(at + offset, size, value);
    }

    /// Overwrites `size` bytes with a number in the byte order of the image.
    pub(crate) fn patch_at(&mut self, at: usize, size: usize, value: u64) {
        let bytes = number(self.encoding, value, size);
        self.bytes[at..at + size].copy_from_slice(&bytes);
    }
}
