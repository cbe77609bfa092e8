//! The section headers after an edit. The headers of moved sections are changed, and the new sections
//! have headers at the end, so that no index changes. Without these headers `strip` would remove the
//! new segment.

use object::elf::{
    SHF_ALLOC, SHT_DYNAMIC, SHT_NOBITS, SHT_NOTE, SHT_NULL, SHT_PROGBITS, SectionFlags,
};

use crate::RewriteError;
use crate::format::Section;
use crate::image::Image;
use crate::notes::NOTE_NAME;
use crate::segment::{Appended, HEAD_SIZE};

/// The new name of the section of a hidden note. It has the same length.
pub(crate) const VOID_NAME: &[u8] = b".note.becalm.voided";
/// The name of the section with the head of the new segment.
const HEAD_NAME: &[u8] = b".becalm";

/// A range of the appended bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) vaddr: u64,
    pub(crate) size: u64,
}

/// The new sections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    pub(crate) head: Option<Place>,
    pub(crate) note: Option<Place>,
    pub(crate) dynamic: Option<Place>,
}

/// Appends the names and headers, and returns the offset of the table and its number of entries.
///
/// # Errors
/// Returns [`RewriteError::NoAddressSpace`] if an offset exceeds 32 bits in a 32-bit file.
pub(crate) fn append(
    image: &Image,
    names: &[u8],
    news: &News,
    appended: &mut Appended,
) -> Result<(u64, usize), RewriteError> {
    let mut sections: Vec<Section> =
        image.sections.iter().map(|section| followed(section, news, appended)).collect();
    let mut names = names.to_vec();
    let mut name = |name: &[u8]| {
        let at = names.len() as u32;
        names.extend(name);
        names.push(0);
        at
    };
    for (place, kind, called, align) in
        [(news.head, SHT_PROGBITS, HEAD_NAME, HEAD_SIZE), (news.note, SHT_NOTE, NOTE_NAME, 4)]
    {
        let Some(place) = place else { continue };
        sections.push(Section {
            name: name(called),
            kind,
            flags: SectionFlags(SHF_ALLOC.0),
            addr: place.vaddr,
            offset: place.offset,
            size: place.size,
            link: 0,
            info: 0,
            align,
            entsize: 0,
        });
    }
    // `.shstrtab` grows, so it moves to the end. It is not mapped and needs no address.
    let (offset, _) = appended.push(&names, 1);
    if let Some(section) = sections.get_mut(image.names_index) {
        (section.offset, section.size) = (offset, names.len() as u64);
    }
    let mut table = Vec::with_capacity(sections.len() * 64);
    for section in &sections {
        table.extend(image.format.section(section)?);
    }
    let (offset, _) = appended.push(&table, image.format.word_align());
    Ok((offset, sections.len()))
}

/// Returns a section header with the new position of its bytes.
fn followed(section: &Section, news: &News, appended: &Appended) -> Section {
    let mut section = *section;
    if section.kind == SHT_NULL || section.kind == SHT_NOBITS || section.flags.0 & SHF_ALLOC.0 == 0
    {
        return section;
    }
    if let (SHT_DYNAMIC, Some(place)) = (section.kind, news.dynamic) {
        (section.addr, section.offset, section.size) = (place.vaddr, place.offset, place.size);
        return section;
    }
    // A section that has moved as a whole may have another size, such as a longer `.dynstr`.
    let whole =
        appended.moves.iter().find(|it| it.old == (section.offset..section.offset + section.size));
    if let Some(whole) = whole.filter(|_| section.size > 0) {
        (section.addr, section.offset, section.size) = (whole.vaddr, whole.offset, whole.size);
    } else if let Some((offset, vaddr)) =
        appended.moved(section.offset, section.size).filter(|_| section.size > 0)
    {
        (section.addr, section.offset) = (vaddr, offset);
    }
    section
}
