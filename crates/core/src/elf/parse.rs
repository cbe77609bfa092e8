//! Parses an object as a loader does. [`super::dynamic`] and [`super::notes`] parse the segments.

use bstr::{BString, ByteSlice};
use object::elf::{PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_NOTE, PT_TLS};
use object::read::ReadRef;

use super::image::Image;
use super::segment::{Segment, segments};
use super::source::Source;
use super::{ET_DYN, ET_EXEC, ElfError, Ident, ObjectView, Tls, dynamic, notes};

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
    let (source, ident) = Source::open(data)?;
    // A file that no loader maps (`ET_REL`, `ET_CORE`) keeps these empty fields.
    let mut view = ObjectView::new(ident);
    if matches!(ident.e_type, ET_EXEC | ET_DYN) {
        fill(&mut view, &Image::of(source, ident)?)?;
    }
    Ok(view)
}

/// Parses what the kernel reads to start a program: the header, and the path of its interpreter if there is
/// one. Returns `None` if the bytes lack a part of that. They may be the first ones of a file, where linkers
/// put all of it.
#[must_use]
pub fn start<'data, R: ReadRef<'data>>(data: R) -> Option<(Ident, Option<BString>)> {
    let (source, ident) = Source::open(data).ok()?;
    let segments = segments(&source, &ident).ok()?;
    let found = segments.iter().find(|segment| segment.kind == PT_INTERP);
    Some((ident, found.map(|segment| interpreter(&source, segment)).transpose().ok()?))
}

/// Fills in the fields of a view from the program headers and their segments.
fn fill<'data, R: ReadRef<'data>>(
    view: &mut ObjectView,
    image: &Image<'data, R>,
) -> Result<(), ElfError> {
    let Image { source, segments, .. } = image;
    view.has_load = segments.iter().any(|segment| segment.kind == PT_LOAD);
    if segments.iter().any(|segment| is_cut(segment, source.len())) {
        return Err(ElfError::Malformed("it is truncated before the .bss of a segment"));
    }
    if let Some(segment) = segments.iter().find(|segment| segment.kind == PT_INTERP) {
        // A bad `PT_INTERP` is no error here: in a library no loader reads it.
        match interpreter(source, segment) {
            Ok(path) => view.interpreter = Some(path),
            Err(reason) => view.interpreter_fault = Some(reason),
        }
    }
    // glibc 2.36 `elf/dl-load.c` `_dl_map_object_from_fd`: the last one that is not empty.
    let tls = segments.iter().rfind(|segment| segment.kind == PT_TLS && segment.memsz > 0);
    view.tls = tls.map(|segment| Tls { size: segment.memsz, align: segment.align });
    let stack = segments.iter().rfind(|segment| segment.kind == PT_GNU_STACK);
    view.exec_stack = stack.map(|segment| segment.is_executable);
    view.dynamic = image.dynamic.map(|_| dynamic::read(image)).transpose()?;
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

/// Reads a `PT_INTERP` by the kernel's rules (Linux `fs/binfmt_elf.c` `load_elf_binary`): it
/// has 2 to 4096 bytes and the last one is a NUL. The error names the broken rule. The kernel fails
/// with `ENOEXEC` then, or with `EIO` if the file is too short.
fn interpreter<'data, R: ReadRef<'data>>(
    source: &Source<'data, R>,
    segment: &Segment,
) -> Result<BString, &'static str> {
    if !(2..=INTERPRETER_MAX).contains(&segment.filesz) {
        return Err("its PT_INTERP is empty or longer than 4096 bytes");
    }
    let bytes =
        source.bytes(segment.offset, segment.filesz).ok_or("its PT_INTERP is outside the file")?;
    if bytes.last() != Some(&0) {
        return Err("its PT_INTERP does not end in a NUL");
    }
    // The kernel passes the bytes on as a C string, which ends at the first NUL.
    Ok(bytes.split_str("\0").next().unwrap_or_default().into())
}
