//! Parses the ELF header and the program headers. [`super::dynamic`] and [`super::notes`] parse the
//! segments.

use super::segment::Segment;
use bstr::{BString, ByteSlice};
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PN_XNUM, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE};
use object::elf::{PF_W, PF_X, PT_GNU_STACK, PT_TLS};
use object::pod;
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader};

use super::dynamic::{self, Memory};
use super::source::Source;
use super::{Class, ET_DYN, ET_EXEC, ElfError, Endian, Ident, ObjectView, Tls, notes};

/// `PATH_MAX`: the kernel's limit on the size of `PT_INTERP`, NUL included.
const INTERPRETER_MAX: u64 = 4096;

/// The smallest page size of any architecture.
const PAGE: u64 = 4096;

/// Parses an object as a loader does, without its sections.
///
/// Only the needed ranges are read, most of them as aligned blocks of 4 KiB. `data` may therefore be
/// an `object::ReadCache` over a file. The view of an object that a loader never maps (`ET_REL`,
/// `ET_CORE`) has its header only. The rules by which a loader refuses a file later (class, machine,
/// `e_version`, alignment) are *not* checked here.
///
/// Malformed notes are skipped. A note outside every `PT_NOTE` is not found, even if a section has
/// it, as for the GNU build id of Go's linker.
///
/// # Errors
/// Returns [`ElfError::NotElf`] if the file lacks the magic bytes. Returns [`ElfError::Malformed`]
/// if the header is truncated, if the program headers have an unexpected size, are more than
/// 65,534 or are outside the file, if the file ends before the `.bss` of a
/// segment, if `PT_DYNAMIC` or one of its strings cannot be read, or if the
/// strings and notes exceed 16 MiB. A malformed `PT_INTERP` is not an error but
/// [`ObjectView::interpreter_fault`].
pub fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<ObjectView, ElfError> {
    let (source, ident) = source(data)?;
    // A file that no loader maps (`ET_REL`, `ET_CORE`) keeps these empty fields.
    let mut view = ObjectView::new(ident);
    if matches!(ident.e_type, ET_EXEC | ET_DYN) {
        match ident.class {
            Class::Elf32 => fill::<FileHeader32<Endianness>, R>(&mut view, &source)?,
            Class::Elf64 => fill::<FileHeader64<Endianness>, R>(&mut view, &source)?,
        }
    }
    Ok(view)
}

/// Reads the first fields of the header.
pub(super) fn source<'data, R: ReadRef<'data>>(
    data: R,
) -> Result<(Source<'data, R>, Ident), ElfError> {
    let source = Source::new(data)?;
    let head = source.bytes(0, source.len().min(64)).unwrap_or_default();
    if !head.starts_with(b"\x7fELF") {
        return Err(ElfError::NotElf);
    }
    let ident = ident(head).ok_or(ElfError::Malformed("its header is truncated or unknown"))?;
    Ok((source, ident))
}

/// The parts of a file's first bytes that the kernel reads to start a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The identification and machine fields.
    pub ident: Ident,
    /// Offset and size of `PT_INTERP`.
    pub interpreter: Option<(u64, u64)>,
}

/// Parses the header and finds `PT_INTERP` in the first bytes of a file, where linkers put the
/// program headers. Returns `None` if the bytes are not an ELF header and all program headers.
#[must_use]
pub fn head(bytes: &[u8]) -> Option<Head> {
    fn interpreter<H: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<Option<(u64, u64)>> {
        let header = H::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, bytes).ok()?;
        let found = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP);
        Some(found.map(|segment| segment.file_range(endian)))
    }
    let ident = ident(bytes)?;
    let interpreter = match ident.class {
        Class::Elf32 => interpreter::<FileHeader32<Endianness>>(bytes)?,
        Class::Elf64 => interpreter::<FileHeader64<Endianness>>(bytes)?,
    };
    Some(Head { ident, interpreter })
}

/// Parses the identification and machine fields in the first bytes of a file; 52 bytes are enough.
/// Returns `None` if the magic bytes are missing or the class or byte order is unknown.
#[must_use]
pub fn ident(head: &[u8]) -> Option<Ident> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let (class, endian) = (Class::of(*head.get(4)?)?, Endian::of(*head.get(5)?)?);
    // `e_flags` follows three addresses, whose size depends on the class.
    let flags_at = match class {
        Class::Elf32 => 36,
        Class::Elf64 => 48,
    };
    Some(Ident {
        class,
        endian,
        os_abi: *head.get(7)?,
        abi_version: *head.get(8)?,
        e_type: endian.u16(head, 16)?,
        machine: endian.u16(head, 18)?,
        flags: endian.u32(head, flags_at)?,
    })
}

/// Fills in the fields of a view from the program headers and their segments.
fn fill<'data, Elf, R>(view: &mut ObjectView, source: &Source<'data, R>) -> Result<(), ElfError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let endian = view.ident.endian.into();
    let segments = segments::<Elf, R>(source, endian)?;
    view.has_load = segments.iter().any(|segment| segment.kind == PT_LOAD);
    if segments.iter().any(|segment| is_cut(segment, source.len())) {
        return Err(ElfError::Malformed("it is truncated before the .bss of a segment"));
    }
    // A bad `PT_INTERP` is no error here: in a library no loader reads it.
    match interpreter(source, &segments) {
        Ok(path) => view.interpreter = path,
        Err(reason) => view.interpreter_fault = Some(reason),
    }
    view.tls = tls(&segments);
    let stack = segments.iter().rfind(|segment| segment.kind == PT_GNU_STACK);
    view.exec_stack = stack.map(|segment| segment.is_executable);
    if let Some(place) = dynamic_segment(&segments) {
        let memory = Memory::new(&segments, view.ident.class);
        view.dynamic = Some(dynamic::read::<Elf, R>(source, endian, &memory, place)?);
    }
    for segment in segments.iter().filter(|segment| segment.kind == PT_NOTE) {
        notes::read(view, source, segment)?;
    }
    Ok(())
}

/// Returns true for a segment whose `.bss` begins in a page after the end of the file. The loader maps the
/// segment, fills the rest of that page with zeros (`_dl_map_segments`, musl's `map_library`) and dies of
/// `SIGBUS`. It accepts a cut at any other place, and a smaller one: the rest of the last page is zero.
fn is_cut(segment: &Segment, length: u64) -> bool {
    let mapped = length.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    let end = segment.offset.saturating_add(segment.filesz);
    segment.kind == PT_LOAD
        && segment.memsz > segment.filesz
        && !end.is_multiple_of(PAGE)
        && end > mapped
}

/// Parses the program header table.
pub(super) fn segments<'data, Elf, R>(
    source: &Source<'data, R>,
    endian: Endianness,
) -> Result<Vec<Segment>, ElfError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header =
        source.structure::<Elf>(0).ok_or(ElfError::Malformed("its header is truncated"))?;
    let count = header.e_phnum(endian);
    if count == 0 {
        return Ok(Vec::new());
    }
    // Only core files use `PN_XNUM`. No loader reads the count in section 0.
    if count == PN_XNUM {
        return Err(ElfError::Malformed("it has more program headers than a loader reads"));
    }
    let entry = size_of::<Elf::ProgramHeader>();
    if usize::from(header.e_phentsize(endian)) != entry {
        return Err(ElfError::Malformed("its program headers are not of the expected size"));
    }
    let outside = ElfError::Malformed("its program headers are outside the file");
    let size = u64::from(count) * entry as u64;
    let bytes = source.bytes(header.e_phoff(endian).into(), size).ok_or(outside.clone())?;
    let (table, _) = pod::slice_from_bytes::<Elf::ProgramHeader>(bytes, usize::from(count))
        .map_err(|()| outside)?;
    Ok(table.iter().map(|entry| segment(entry, endian)).collect())
}

fn segment<P: ProgramHeader<Endian = Endianness>>(entry: &P, endian: Endianness) -> Segment {
    Segment {
        kind: entry.p_type(endian),
        is_executable: entry.p_flags(endian).0 & PF_X.0 != 0,
        is_writable: entry.p_flags(endian).0 & PF_W.0 != 0,
        offset: entry.p_offset(endian).into(),
        vaddr: entry.p_vaddr(endian).into(),
        filesz: entry.p_filesz(endian).into(),
        memsz: entry.p_memsz(endian).into(),
        align: entry.p_align(endian).into(),
    }
}

/// Reads the first `PT_INTERP` by the kernel's rules (Linux `fs/binfmt_elf.c` `load_elf_binary`): it
/// has 2 to 4096 bytes and the last one is a NUL. The error names the broken rule. The kernel fails
/// with `ENOEXEC` then, or with `EIO` if the file is too short.
fn interpreter<'data, R: ReadRef<'data>>(
    source: &Source<'data, R>,
    segments: &[Segment],
) -> Result<Option<BString>, &'static str> {
    let present = |segment: &&Segment| segment.kind == PT_INTERP;
    let Some(segment) = segments.iter().find(present) else { return Ok(None) };
    if !(2..=INTERPRETER_MAX).contains(&segment.filesz) {
        return Err("its PT_INTERP is empty or longer than 4096 bytes");
    }
    let bytes =
        source.bytes(segment.offset, segment.filesz).ok_or("its PT_INTERP is outside the file")?;
    if bytes.last() != Some(&0) {
        return Err("its PT_INTERP does not end in a NUL");
    }
    // The kernel passes the bytes on as a C string, which ends at the first NUL.
    let path = bytes.split_str("\0").next().unwrap_or_default();
    Ok(Some(path.into()))
}

/// Returns the last `PT_TLS` that is not empty (glibc 2.36 `elf/dl-load.c`
/// `_dl_map_object_from_fd`).
fn tls(segments: &[Segment]) -> Option<Tls> {
    let segment = segments.iter().rfind(|segment| segment.kind == PT_TLS && segment.memsz > 0)?;
    Some(Tls { size: segment.memsz, align: segment.align })
}

/// Returns the last `PT_DYNAMIC` with bytes in the file. `_dl_map_object_from_fd` (glibc 2.36
/// `elf/dl-load.c`) skips an empty one, which files of separate debug information have.
pub(super) fn dynamic_segment(segments: &[Segment]) -> Option<&Segment> {
    segments.iter().rfind(|segment| segment.kind == PT_DYNAMIC && segment.filesz > 0)
}
