//! The section headers after an edit. The headers of moved sections are changed, and the new sections
//! have headers at the end, so that no index changes. Without these headers `strip` would remove the
//! new segment.

use object::elf::{
    PF_W, PF_X, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_DYNAMIC, SHT_NOBITS, SHT_NOTE, SHT_NULL,
    SHT_PROGBITS, SectionFlags,
};

use crate::Result;
use crate::format::{Place, Section, Segment};
use crate::image::Image;
use crate::notes::NOTE_NAME;
use crate::segment::{Appended, HEAD_SIZE};

/// The new name of the section of a hidden note. It has the same length.
pub(crate) const VOID_NAME: &[u8] = b".note.becalm.voided";
/// The name of the section with the head of the new segment.
const HEAD_NAME: &[u8] = b".becalm";
/// The name of a section with the old bytes of a segment whose sections have all moved.
const OLD_NAME: &[u8] = b".becalm.old";

/// The new sections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    pub(crate) note: Option<Place>,
    pub(crate) dynamic: Option<Place>,
}

/// Appends the names and headers, and returns the offset of the table and its number of entries.
/// `table_end` is the end of the new program header table.
///
/// # Errors
/// Returns [`RewriteError::NoAddressSpace`] if an offset exceeds 32 bits in a 32-bit file.
pub(crate) fn append(
    image: &Image,
    mut names: Vec<u8>,
    news: &News,
    table_end: u64,
    appended: &mut Appended,
) -> Result<(u64, usize)> {
    let mut sections: Vec<Section> =
        image.sections.iter().map(|section| followed(section, news, appended)).collect();
    let emptied = emptied(image, &sections);
    let mut name = |name: &[u8]| {
        let at = names.len() as u32;
        names.extend(name);
        names.push(0);
        at
    };
    let mut add = |Place { offset, vaddr, size }, kind, flags, called, align| {
        let (name, addr) = (name(called), vaddr);
        let (link, info, entsize) = (0, 0, 0);
        let new = Section { name, kind, flags, addr, offset, size, link, info, align, entsize };
        sections.push(new);
    };
    if let Some(&Segment { offset, vaddr, .. }) = appended.loads.first() {
        let head = Place { offset, vaddr, size: HEAD_SIZE };
        add(head, SHT_PROGBITS, SHF_ALLOC, HEAD_NAME, HEAD_SIZE);
    }
    if let Some(note) = news.note {
        add(note, SHT_NOTE, SHF_ALLOC, NOTE_NAME, 4);
    }
    for load in emptied {
        let old = old_bytes(image, &load, table_end);
        if old.size > 0 {
            add(old, SHT_PROGBITS, flags(&load), OLD_NAME, 1);
        }
    }
    // `.shstrtab` grows, so it moves to the end. It is not mapped and needs no address.
    let Place { offset, size, .. } = appended.push(&names, 1);
    if let Some(section) = sections.get_mut(usize::from(image.header.shstrndx)) {
        (section.offset, section.size) = (offset, size);
    }
    let table = image.format.table(&sections)?;
    Ok((appended.push(&table, image.format.encoder().address_size()).offset, sections.len()))
}

/// Returns a section header with the new position of its bytes.
fn followed(section: &Section, news: &News, appended: &Appended) -> Section {
    let mut section = *section;
    if section.kind == SHT_NULL || section.kind == SHT_NOBITS || section.flags.0 & SHF_ALLOC.0 == 0
    {
        return section;
    }
    let moved = || appended.moved(section.offset, section.size).filter(|_| section.size > 0);
    let dynamic = news.dynamic.filter(|_| section.kind == SHT_DYNAMIC);
    if let Some(Place { offset, vaddr, size }) = dynamic.or_else(moved) {
        (section.addr, section.offset, section.size) = (vaddr, offset, size);
    }
    section
}

/// Returns the mapped segments that had sections and have none of the new `sections`. BFD's `strip`
/// would write them at offsets that do not agree with their addresses.
pub(crate) fn emptied(image: &Image, sections: &[Section]) -> Vec<Segment> {
    let is_in = |load: &Segment, section: &Section| {
        section.flags.0 & SHF_ALLOC.0 != 0
            && section.size > 0
            && (load.vaddr..load.memory_end()).contains(&section.addr)
    };
    let any = |load: &Segment, sections: &[Section]| sections.iter().any(|it| is_in(load, it));
    image
        .loads()
        .filter(|load| any(load, &image.sections) && !any(load, sections))
        .copied()
        .collect()
}

/// Returns the bytes of a segment in the file, without the headers at its start.
pub(crate) fn old_bytes(image: &Image, load: &Segment, table_end: u64) -> Place {
    let inside = |end: &u64| (load.offset..=load.file_end()).contains(end);
    let headers = [image.format.encoder().file_header_size(), table_end];
    let offset = headers.into_iter().filter(inside).fold(load.offset, u64::max);
    let vaddr = load.vaddr + (offset - load.offset);
    Place { offset, vaddr, size: load.file_end() - offset }
}

fn flags(load: &Segment) -> SectionFlags {
    let mut flags = SHF_ALLOC;
    for (of_segment, of_section) in [(PF_W, SHF_WRITE), (PF_X, SHF_EXECINSTR)] {
        if load.flags.0 & of_segment.0 != 0 {
            flags |= of_section;
        }
    }
    flags
}
