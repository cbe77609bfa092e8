//! The parsed tables of an ELF file: header, segments, sections and dynamic entries, widened to 64
//! bits. Only these ranges are read, so that memory does not grow with the file.

use std::marker::PhantomData;
use std::ops::Range;

use bstr::{BStr, ByteSlice};
use object::elf::{
    DT_FLAGS_1, DT_NULL, DT_STRSZ, DT_STRTAB, DynamicTag, PN_XNUM, PT_DYNAMIC, PT_INTERP, PT_LOAD,
    SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SHT_NULL,
};
use object::read::ReadRef;

use crate::format::{Dyn, Entry, Format, Header, Section, Segment};
use crate::{Result, RewriteError};

use becalm_core::elf::DF_1_PIE;
pub(crate) use becalm_core::elf::{ET_DYN, ET_EXEC};

/// The limit on zero bytes after the last section. More are a payload.
const PADDING: u64 = 4096;
/// The smallest page size of any architecture.
const PAGE: u64 = 4096;
/// The limit on the number of sections in `e_shnum` (gABI, `SHN_LORESERVE`).
pub(crate) const SECTIONS_MAX: u16 = 0xff00;
/// The limit on a dynamic string. A run path of some thousand directories is shorter.
pub(crate) const STRING_MAX: u64 = 1 << 20;
/// The smallest part of a string table that is read.
const STRING_BLOCK: u64 = 4096;
/// The limit on the table of section names.
const NAMES_MAX: u64 = 16 << 20;

/// A file of which ranges are read, whatever reads them.
pub(crate) trait Source {
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Returns [`RewriteError::Malformed`] if the length is unknown.
    fn length(&self) -> Result<u64>;

    /// Reads `size` bytes at `offset`. Returns `None` if they are not all in the file.
    fn bytes_at(&self, offset: u64, size: u64) -> Option<&[u8]>;
}

/// A file of the callers of this crate, or one with a patch.
pub(crate) struct File<'data, R>(R, PhantomData<&'data [u8]>);

impl<'data, R: ReadRef<'data>> File<'data, R> {
    pub(crate) fn new(data: R) -> Self {
        Self(data, PhantomData)
    }
}

impl<'data, R: ReadRef<'data>> Source for File<'data, R> {
    fn length(&self) -> Result<u64> {
        self.0.len().map_err(|()| malformed("its length is unknown"))
    }

    fn bytes_at(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let length = self.0.len().ok()?;
        offset.checked_add(size).filter(|&end| end <= length)?;
        self.0.read_bytes_at(offset, size).ok()
    }
}

/// A file and its parsed tables.
#[derive(Clone)]
pub(crate) struct Image<'data> {
    pub(crate) data: &'data dyn Source,
    pub(crate) format: Format,
    pub(crate) length: u64,
    pub(crate) header: Header,
    pub(crate) segments: Vec<Segment>,
    /// The section headers. Empty if there is no table.
    pub(crate) sections: Vec<Section>,
    /// The bytes of the section names.
    pub(crate) names: Vec<u8>,
    pub(crate) dynamic: Option<Dynamic>,
}

/// `PT_DYNAMIC`.
#[derive(Clone, Debug)]
pub(crate) struct Dynamic {
    pub(crate) offset: u64,
    pub(crate) vaddr: u64,
    /// The entries before `DT_NULL`.
    pub(crate) entries: Vec<Dyn>,
    /// The number of entries that fit, `DT_NULL` included.
    pub(crate) capacity: usize,
}

impl Dynamic {
    /// Returns the value of the last entry with a tag, which is the one that loaders use.
    pub(crate) fn value(&self, tag: DynamicTag) -> Option<u64> {
        self.entries.iter().rfind(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// Returns true for a position-independent program (`DF_1_PIE`).
    pub(crate) fn is_pie(&self) -> bool {
        self.value(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0)
    }
}

fn malformed(reason: &'static str) -> RewriteError {
    RewriteError::Malformed(reason)
}

/// Returns true for a program that relocates itself. Its code expects the dynamic section that it was
/// linked with.
pub(crate) fn is_static_pie(image: &Image) -> bool {
    let Some(dynamic) = &image.dynamic else { return false };
    image.interpreter().is_none() && (image.header.kind != ET_DYN || dynamic.is_pie())
}

impl<'data> Image<'data> {
    /// Parses a program or library.
    ///
    /// # Errors
    /// Returns [`RewriteError`] if the file is neither, or if its structures are invalid.
    pub(crate) fn read(data: &'data dyn Source) -> Result<Self> {
        let ident = data
            .bytes_at(0, 52)
            .and_then(becalm_core::elf::ident)
            .ok_or(malformed("not an ELF file, or its header is truncated"))?;
        // The ELF files of Guile's compiled code have no machine, and only Guile reads them.
        if !matches!(ident.e_type, ET_EXEC | ET_DYN) || ident.machine == 0 {
            return Err(RewriteError::NotLoadable);
        }
        let format = Format { class: ident.class, endian: ident.endian };
        let header = data.bytes_at(0, format.encoder().file_header_size());
        let header: Header =
            header.and_then(|it| format.read(it)).ok_or(RewriteError::Truncated)?;
        if header.phnum == PN_XNUM {
            return Err(malformed("it has more program headers than a loader reads"));
        }
        if header.phnum > 0 && u64::from(header.phentsize) != format.encoder().program_header_size()
        {
            return Err(malformed("its program headers are not of the expected size"));
        }
        let mut image = Self {
            data,
            format,
            length: data.length()?,
            header,
            segments: Vec::new(),
            sections: Vec::new(),
            names: Vec::new(),
            dynamic: None,
        };
        let Header { phoff, phnum, .. } = image.header;
        image.segments = image.table(phoff, phnum, format.encoder().program_header_size())?;
        image.sections = image.read_sections()?;
        image.names = image.read_names()?;
        image.dynamic = image.read_dynamic()?;
        Ok(image)
    }

    /// Reads `size` bytes at `offset`. Returns `None` if they are not all in the file.
    pub(crate) fn bytes_at(&self, offset: u64, size: u64) -> Option<&'data [u8]> {
        self.data.bytes_at(offset, size)
    }

    /// Reads the dynamic string at `offset` of the string table.
    pub(crate) fn string_at(&self, offset: u64) -> Result<&'data BStr> {
        let dynamic = self.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
        let string = || {
            let (table, size) = (dynamic.value(DT_STRTAB)?, dynamic.value(DT_STRSZ)?);
            let room = size.checked_sub(offset)?.min(STRING_MAX);
            let at = self.file_offset(table.checked_add(offset)?, room)?;
            // Most strings are short. A cache of ranges keeps what is read, so those near each other share a block.
            let start = at - at % STRING_BLOCK;
            [STRING_BLOCK, 16 * STRING_BLOCK, STRING_MAX + STRING_BLOCK].into_iter().find_map(
                |length| {
                    let block =
                        self.bytes_at(start, length.min(self.length.checked_sub(start)?))?;
                    let rest = block.get((at - start) as usize..)?;
                    let rest = &rest[..rest.len().min(room as usize)];
                    Some(rest[..rest.find_byte(0)?].as_bstr())
                },
            )
        };
        string().ok_or(malformed("a dynamic string is outside the string table"))
    }

    /// Returns the mapped segments (`PT_LOAD`).
    pub(crate) fn loads(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    /// Returns the file offset of `size` bytes of memory at `vaddr`.
    pub(crate) fn file_offset(&self, vaddr: u64, size: u64) -> Option<u64> {
        let end = vaddr.checked_add(size)?;
        let inside = |load: &&Segment| {
            load.vaddr <= vaddr && load.vaddr.checked_add(load.filesz).is_some_and(|to| end <= to)
        };
        let load = self.loads().find(inside)?;
        load.offset.checked_add(vaddr - load.vaddr)
    }

    /// Returns `PT_INTERP` if it has bytes.
    pub(crate) fn interpreter(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == PT_INTERP && segment.filesz > 0)
    }

    /// Returns the first offset after the program header table.
    pub(crate) fn table_end(&self) -> u64 {
        self.header.phoff + self.segments.len() as u64 * self.format.encoder().program_header_size()
    }

    /// Returns the range of the section headers, which is empty if there are none.
    pub(crate) fn section_table(&self) -> Range<u64> {
        let start = if self.sections.is_empty() { 0 } else { self.header.shoff };
        start..start + self.sections.len() as u64 * self.format.encoder().section_header_size()
    }

    /// Returns the end of all structures that the headers name. Bytes after it are foreign.
    pub(crate) fn extent(&self) -> u64 {
        let sections = self.sections.iter().map(Section::file_end);
        let tables = [
            self.format.encoder().file_header_size(),
            self.table_end(),
            self.section_table().end,
            self.removed_end(),
        ];
        let segments = self.segments.iter().map(Segment::file_end);
        sections.chain(segments).chain(tables).max().unwrap_or(0)
    }

    /// Returns the section with the names of sections.
    pub(crate) fn section_of_names(&self) -> Option<&Section> {
        self.sections.get(usize::from(self.header.shstrndx))
    }

    /// Returns the name of a section.
    pub(crate) fn section_name(&self, section: &Section) -> &[u8] {
        let rest = self.names.get(section.name as usize..).unwrap_or_default();
        rest.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Checks that the file can be edited without harm, for any edit.
    ///
    /// # Errors
    /// Returns [`RewriteError::Truncated`], [`RewriteError::Overlapping`],
    /// [`RewriteError::DebugInformation`], [`RewriteError::Payload`], [`RewriteError::Unnamed`] or
    /// [`RewriteError::Malformed`] if it cannot.
    pub(crate) fn check(&self) -> Result<()> {
        let extent = self.extent();
        if extent > self.length {
            return Err(RewriteError::Truncated);
        }
        self.check_loads()?;
        if self.is_debug_information() {
            return Err(RewriteError::DebugInformation);
        }
        // A loader reads the entries at their address, and a tool reads them at their offset. If these
        // are different bytes, an edit would change only one of them.
        let is_mapped = |dynamic: &Dynamic| {
            let size = dynamic.capacity as u64 * self.format.encoder().dyn_size();
            self.file_offset(dynamic.vaddr, size) == Some(dynamic.offset)
        };
        if !self.dynamic.as_ref().is_none_or(is_mapped) {
            return Err(malformed("its dynamic section is not mapped where it says"));
        }
        let rest = self.length - extent;
        let padding = rest <= PADDING
            && self.bytes_at(extent, rest).is_some_and(|bytes| bytes.iter().all(|&b| b == 0));
        match (padding, self.sections.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => Err(RewriteError::Unnamed { offset: extent }),
            (false, false) => Err(RewriteError::Payload { offset: extent }),
        }
    }

    /// Returns true for a file of `objcopy --only-keep-debug` or `eu-strip -f`.
    fn is_debug_information(&self) -> bool {
        // No code section has bytes. One such section is not enough: the loader writes the `.plt` of
        // 32-bit PowerPC (its ABI supplement, "Procedure Linkage Table").
        let code = SHF_ALLOC.0 | SHF_EXECINSTR.0;
        let mut code = self.sections.iter().filter(|section| section.flags.0 & code == code);
        let first = code.next();
        first.is_some_and(|first| first.kind == SHT_NOBITS)
            && code.all(|section| section.kind == SHT_NOBITS)
    }

    /// Checks that the `PT_LOAD`s are in ascending order without overlap, and that `memsz` is at least
    /// `filesz` (gABI, "Program Header").
    fn check_loads(&self) -> Result<()> {
        let mut end = 0;
        let mut any = false;
        for load in self.loads() {
            if any && load.vaddr < end {
                return Err(RewriteError::Overlapping);
            }
            // The kernel and the loader map whole pages. They would read other bytes at an address than
            // a tool that uses offsets.
            let grain = if load.align.is_power_of_two() { load.align.min(PAGE) } else { 1 };
            if !load.vaddr.wrapping_sub(load.offset).is_multiple_of(grain) {
                return Err(malformed("a segment's offset and address disagree within a page"));
            }
            if load.filesz > load.memsz || load.vaddr.checked_add(load.memsz).is_none() {
                return Err(malformed("a segment is larger in the file than in memory"));
            }
            (any, end) = (true, load.memory_end());
        }
        if any { Ok(()) } else { Err(malformed("nothing of it is ever loaded")) }
    }

    /// Reads `count` entries of `size` bytes.
    fn table<E: Entry>(&self, offset: u64, count: u16, size: u64) -> Result<Vec<E>> {
        let bytes =
            self.bytes_at(offset, u64::from(count) * size).ok_or(RewriteError::Truncated)?;
        Ok(bytes.chunks_exact(size as usize).filter_map(|entry| self.format.read(entry)).collect())
    }

    fn read_sections(&self) -> Result<Vec<Section>> {
        let Header { shoff, shnum, shentsize, .. } = self.header;
        let size = self.format.encoder().section_header_size();
        if shoff == 0 {
            return Ok(Vec::new());
        }
        if shnum == 0 {
            // gABI: if the number exceeds `e_shnum`, `e_shnum` is 0 and `sh_size` of section 0 has it.
            let first: Option<Vec<Section>> = self.table(shoff, 1, size).ok();
            let more = first.is_some_and(|first| first[0].size > 0);
            return if more { Err(RewriteError::TooManySections) } else { Ok(Vec::new()) };
        }
        if shnum >= SECTIONS_MAX {
            return Err(RewriteError::TooManySections);
        }
        if u64::from(shentsize) != size {
            return Err(malformed("its section headers are not of the expected size"));
        }
        self.table(shoff, shnum, size)
    }

    /// Returns the end of the section headers at `e_shoff` and of their sections, although `e_shnum` says
    /// that there are none. Returns 0 if these bytes are not section headers.
    fn removed_end(&self) -> u64 {
        let size = self.format.encoder().section_header_size();
        let (mut at, mut end) = (self.header.shoff, 0);
        // The first header is empty (gABI, `SHN_UNDEF`).
        let is_empty = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let is_removed = self.sections.is_empty() && at != 0;
        if !is_removed || !self.bytes_at(at, size).is_some_and(is_empty) {
            return 0;
        }
        for _ in 1..SECTIONS_MAX {
            at += size;
            let section: Option<Section> =
                self.bytes_at(at, size).and_then(|it| self.format.read(it));
            let is_inside = |it: &Section| it.kind != SHT_NULL && it.file_end() <= self.length;
            let Some(section) = section.filter(is_inside) else { break };
            end = end.max(section.file_end()).max(at + size);
        }
        end
    }

    fn read_names(&self) -> Result<Vec<u8>> {
        let index = usize::from(self.header.shstrndx);
        // `SHN_XINDEX` does not occur: files with so many sections are refused before.
        let Some(section) = self.sections.get(index).filter(|_| index > 0) else {
            return Ok(Vec::new());
        };
        if section.kind == SHT_NOBITS || section.size > NAMES_MAX {
            return Err(malformed("its section names are unreadable"));
        }
        self.bytes_at(section.offset, section.size)
            .map(<[u8]>::to_vec)
            .ok_or(RewriteError::Truncated)
    }

    /// Parses the last `PT_DYNAMIC` with bytes in the file, which loaders use.
    fn read_dynamic(&self) -> Result<Option<Dynamic>> {
        let found = self.segments.iter().rfind(|it| it.kind == PT_DYNAMIC && it.filesz > 0);
        let Some(&Segment { offset, vaddr, filesz, .. }) = found else { return Ok(None) };
        let bytes = self.bytes_at(offset, filesz).ok_or(RewriteError::Truncated)?;
        let all = bytes.chunks_exact(self.format.encoder().dyn_size() as usize);
        let all = all.enumerate().filter_map(|(at, entry)| self.format.dynamic(entry, at));
        let entries: Vec<Dyn> = all.clone().take_while(|entry| entry.tag != DT_NULL).collect();
        if entries.len() == all.clone().count() {
            return Err(malformed("its dynamic section has no end"));
        }
        // An entry after `DT_NULL` that is not zero may be other data.
        let spare = all.skip(entries.len()).take_while(|it| it.tag == DT_NULL && it.value == 0);
        let capacity = entries.len() + spare.count().max(1);
        Ok(Some(Dynamic { offset, vaddr, entries, capacity }))
    }
}
