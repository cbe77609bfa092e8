//! A builder of small ELF images for the tests of this crate. One `PT_LOAD` covers the whole file, so
//! that an address is an offset plus [`BASE`].

use becalm_testing::elf::{Encoding, Header, Segment, Writer};
use object::elf::{self, DynamicTag, ProgramType};

use super::{Class, Endian};

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
        let mut out = Writer::new(self.encoding());
        out.u32(owner.len() as u32 + 1);
        out.u32(descriptor.len() as u32);
        out.u32(kind);
        out.bytes.extend_from_slice(owner.as_bytes());
        out.bytes.push(0);
        out.pad(align as usize);
        out.bytes.extend_from_slice(descriptor);
        out.pad(align as usize);
        self.notes.push((align, out.bytes));
        self
    }

    pub(crate) fn build(self) -> Image {
        let encoding = self.encoding();
        let count = usize::from(self.has_load)
            + usize::from(self.interpreter.is_some())
            + usize::from(self.dynamic.is_some())
            + usize::from(self.tls.is_some())
            + self.notes.len();
        let body_at = encoding.header_size() + count * encoding.segment_size();
        let mut body = Body::new(&self, body_at);
        if let Some(path) = &self.interpreter {
            body.add(elf::PT_INTERP, path, 1);
        }
        for (align, note) in &self.notes {
            body.add(elf::PT_NOTE, note, *align);
        }
        let strings_at = self.dynamic.as_ref().map_or(0, |_| body.add_strings(&self));
        let dynamic_at = self.dynamic.as_ref().map_or(0, |_| body.add_dynamic(&self, strings_at));
        if let Some((size, align)) = self.tls {
            let segment = segment(elf::PT_TLS, 0, 0, align);
            body.segments.push(Segment { memory_size: size, ..segment });
        }
        if self.has_load {
            let size = body.out.bytes.len() as u64;
            body.segments.insert(0, segment(elf::PT_LOAD, 0, size, 0x1000));
        }
        let (kind, machine, flags) = (self.e_type, self.machine, self.flags);
        let header = Header { kind, machine, flags, ..Header::default() };
        let head = encoding.head(&header, &body.segments);
        let mut bytes = body.out.bytes;
        bytes[..body_at].copy_from_slice(&head);
        let at = |index| encoding.header_size() + index * encoding.segment_size();
        let kinds = body.segments.iter().map(|segment| ProgramType(segment.kind)).enumerate();
        let headers = kinds.map(|(index, kind)| (kind, at(index))).collect();
        Image { bytes, dynamic_at, strings_at, headers, encoding }
    }

    fn encoding(&self) -> Encoding {
        Encoding { is_64: self.class == Class::Elf64, is_big: self.endian == Endian::Big }
    }
}

/// A segment of so many bytes.
fn segment(kind: ProgramType, at: usize, size: u64, align: u64) -> Segment {
    let offset = at as u64;
    Segment {
        kind: kind.0,
        flags: 6,
        offset,
        address: BASE + offset,
        file_size: size,
        memory_size: size,
        align,
    }
}

/// The bytes after the headers, and the segments in them.
struct Body {
    out: Writer,
    segments: Vec<Segment>,
}

impl Body {
    fn new(builder: &Builder, at: usize) -> Self {
        let mut out = Writer::new(builder.encoding());
        out.bytes.resize(at, 0);
        Self { out, segments: Vec::new() }
    }

    fn add(&mut self, kind: ProgramType, bytes: &[u8], align: u64) -> usize {
        self.out.pad(align as usize);
        let at = self.out.bytes.len();
        self.out.bytes.extend_from_slice(bytes);
        self.segments.push(segment(kind, at, bytes.len() as u64, align));
        at
    }

    fn add_strings(&mut self, builder: &Builder) -> usize {
        let at = self.out.bytes.len();
        self.out.bytes.push(0);
        for text in builder.texts() {
            self.out.bytes.extend_from_slice(text);
            self.out.bytes.push(0);
        }
        at
    }

    fn add_dynamic(&mut self, builder: &Builder, strings_at: usize) -> usize {
        let mut out = Writer::new(builder.encoding());
        let mut next = 1;
        out.word(elf::DT_STRTAB.0 as u64);
        out.word(BASE + strings_at as u64);
        for (tag, value) in builder.dynamic.iter().flatten() {
            out.word(tag.0 as u64);
            match value {
                Value::Number(number) => out.word(*number),
                Value::Text(text) => {
                    out.word(next);
                    next += text.len() as u64 + 1;
                }
            }
        }
        out.word(0);
        out.word(0);
        self.add(elf::PT_DYNAMIC, &out.bytes, 8)
    }
}

impl Builder {
    fn texts(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.dynamic.iter().flatten().filter_map(|(_, value)| match value {
            Value::Number(_) => None,
            Value::Text(text) => Some(text),
        })
    }
}

impl Image {
    /// Overwrites a field of the first program header of a kind.
    pub(crate) fn patch(&mut self, kind: ProgramType, field: Field, value: u64) {
        let found = self.headers.iter().find(|header| header.0 == kind);
        let at = found.expect("no such program header").1;
        // The order of the fields of `Elf32_Phdr` and `Elf64_Phdr`. In the latter `p_flags` is the
        // second.
        let (offset, size) = match (self.encoding.is_64, field) {
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
        let bytes = self.encoding.number(value, size);
        self.bytes[at..at + size].copy_from_slice(&bytes);
    }
}
