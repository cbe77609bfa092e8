//! Numbers and headers of small ELF files, for the tests that build some.

/// The class and byte order of a file.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    /// True for `ELFCLASS64`.
    pub is_64: bool,
    /// True for `ELFDATA2MSB`.
    pub is_big: bool,
}

/// The fields of the file header that builders choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    /// `e_type`.
    pub kind: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_entry`.
    pub entry: u64,
    /// `e_flags`.
    pub flags: u32,
    /// `e_shoff`.
    pub section_table: u64,
    /// `e_shnum`; the last section has the names.
    pub sections: u16,
}

/// A program header. `p_paddr` is the address.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// `p_offset`.
    pub offset: u64,
    /// `p_vaddr`.
    pub address: u64,
    /// `p_filesz`.
    pub file_size: u64,
    /// `p_memsz`.
    pub memory_size: u64,
    /// `p_align`.
    pub align: u64,
}

impl Encoding {
    /// The lower `size` bytes of a number, in the byte order of the file.
    #[must_use]
    pub fn number(self, value: u64, size: usize) -> Vec<u8> {
        match self.is_big {
            false => value.to_le_bytes()[..size].to_vec(),
            true => value.to_be_bytes()[8 - size..].to_vec(),
        }
    }

    /// The size of an address.
    #[must_use]
    pub fn word(self) -> usize {
        if self.is_64 { 8 } else { 4 }
    }

    /// The size of the file header.
    #[must_use]
    pub fn header_size(self) -> usize {
        if self.is_64 { 64 } else { 52 }
    }

    /// The size of a program header.
    #[must_use]
    pub fn segment_size(self) -> usize {
        if self.is_64 { 56 } else { 32 }
    }

    /// Returns the file header and the program headers behind it.
    #[must_use]
    pub fn head(self, header: &Header, segments: &[Segment]) -> Vec<u8> {
        let Header { kind, machine, entry, flags, section_table, sections } = *header;
        let (class, data) = (1 + u8::from(self.is_64), 1 + u8::from(self.is_big));
        let mut to = Writer::new(self);
        to.bytes.extend([0x7f, b'E', b'L', b'F', class, data, 1]);
        to.pad(16);
        to.u16(kind);
        to.u16(machine);
        to.u32(1);
        for word in [entry, self.header_size() as u64, section_table] {
            to.word(word);
        }
        to.u32(flags);
        let sizes = [self.header_size(), self.segment_size(), segments.len()];
        sizes.iter().for_each(|&size| to.put(size as u64, 2));
        for half in [if self.is_64 { 64 } else { 40 }, sections, sections.saturating_sub(1)] {
            to.u16(half);
        }
        segments.iter().for_each(|segment| to.segment(segment));
        to.bytes
    }
}

/// Writes numbers in the class and byte order of a file.
#[derive(Clone, Debug)]
pub struct Writer {
    encoding: Encoding,
    /// The bytes that are written.
    pub bytes: Vec<u8>,
}

impl Writer {
    /// Writes to no bytes.
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding, bytes: Vec::new() }
    }

    /// Writes a number of so many bytes.
    pub fn put(&mut self, value: u64, size: usize) {
        self.bytes.extend(self.encoding.number(value, size));
    }

    /// Writes a number of two bytes.
    pub fn u16(&mut self, value: u16) {
        self.put(value.into(), 2);
    }

    /// Writes a number of four bytes.
    pub fn u32(&mut self, value: u32) {
        self.put(value.into(), 4);
    }

    /// Writes an address-sized number, without its upper half in an `ELFCLASS32` file.
    pub fn word(&mut self, value: u64) {
        self.put(value, self.encoding.word());
    }

    /// Writes zeros up to a multiple of a size.
    pub fn pad(&mut self, align: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(align.max(1)), 0);
    }

    fn segment(&mut self, segment: &Segment) {
        let Segment { kind, flags, offset, address, file_size, memory_size, align } = *segment;
        self.u32(kind);
        if self.encoding.is_64 {
            self.u32(flags);
        }
        for word in [offset, address, address, file_size, memory_size] {
            self.word(word);
        }
        if !self.encoding.is_64 {
            self.u32(flags);
        }
        self.word(align);
    }
}
