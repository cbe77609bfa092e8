//! The entries of the dynamic section after an edit. The old entries keep their order, and new ones
//! replace spare `DT_NULL`s.

use bstr::BString;
use object::ReadRef;
use object::elf::{
    DF_1_NODEFLIB, DT_AUDIT, DT_DEBUG, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME,
    DynamicTag,
};

use crate::RewriteError;
use crate::fields::Fields;
use crate::format::Dyn;
use crate::goal::Names;
use crate::image::Image;
use crate::strings::Strings;

/// `DT_MIPS_RLD_MAP_REL`: the address of the loader's debug pointer, relative to the address of this
/// entry (MIPS psABI supplement).
const DT_MIPS_RLD_MAP_REL: DynamicTag = DynamicTag(0x7000_0035);
const EM_MIPS: u16 = object::elf::EM_MIPS.0;

/// An entry, and its index in the original if it is not new.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) entry: Dyn,
    pub(crate) from: Option<usize>,
}

impl Entry {
    fn new(tag: DynamicTag, value: u64) -> Self {
        Self { entry: Dyn { tag, value }, from: None }
    }
}

/// Returns the entries with the new `names`, or those of the original if `names` is `None`.
///
/// # Errors
/// Returns [`RewriteError`] if the string table cannot be read.
pub(crate) fn entries<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
    names: Option<(&Names, &Names)>,
    strings: &mut Strings<'data>,
) -> Result<Vec<Entry>, RewriteError> {
    let dynamic = image.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
    let old = dynamic.entries.iter().copied().enumerate();
    let mut entries: Vec<Entry> =
        old.map(|(index, entry)| Entry { entry, from: Some(index) }).collect();
    let Some((old, new)) = names else { return Ok(entries) };
    needed(&mut entries, old, new, image, data, strings)?;
    for (tag, old, new) in [
        (DT_SONAME, &old.soname, &new.soname),
        (DT_RPATH, &old.rpath, &new.rpath),
        (DT_RUNPATH, &old.runpath, &new.runpath),
        (DT_AUDIT, &old.audit, &new.audit),
    ] {
        // An unchanged string keeps its entry and its offset.
        if old != new {
            let value = new.as_ref().map(|new| strings.offset(image, data, new)).transpose()?;
            set(&mut entries, tag, value);
        }
    }
    Ok(entries)
}

/// Changes the `DT_NEEDED` entries. Added ones come before the first of the original.
fn needed<'data, R: ReadRef<'data>>(
    entries: &mut Vec<Entry>,
    old: &Names,
    new: &Names,
    image: &Image,
    data: R,
    strings: &mut Strings<'data>,
) -> Result<(), RewriteError> {
    if old.needed == new.needed {
        return Ok(());
    }
    let mut offset = |name: &BString| strings.offset(image, data, name);
    let first = entries.iter().position(|entry| entry.entry.tag == DT_NEEDED).unwrap_or(0);
    let mut result = Vec::with_capacity(entries.len() + new.needed.len());
    let mut count = 0;
    for (index, entry) in entries.iter().enumerate() {
        if index == first {
            for added in new.needed.iter().filter(|needed| needed.from.is_none()) {
                result.push(Entry::new(DT_NEEDED, offset(&added.name)?));
            }
        }
        if entry.entry.tag != DT_NEEDED {
            result.push(*entry);
            continue;
        }
        let kept = new.needed.iter().find(|needed| needed.from == Some(count));
        let before = old.needed.get(count).map(|needed| &needed.name);
        count += 1;
        // A removed `DT_NEEDED` leaves no entry.
        let Some(kept) = kept else { continue };
        let mut entry = *entry;
        // An unchanged name keeps its offset, so that an edit without effect changes no byte.
        if before != Some(&kept.name) {
            entry.entry.value = offset(&kept.name)?;
        }
        result.push(entry);
    }
    *entries = result;
    Ok(())
}

/// Sets the only value of a tag at the position of its last entry, or removes the tag.
fn set(entries: &mut Vec<Entry>, tag: DynamicTag, value: Option<u64>) {
    // A loader uses the last entry of a tag (glibc `elf_get_dynamic_info`).
    let last = entries.iter().rposition(|entry| entry.entry.tag == tag);
    match (last, value) {
        (Some(last), Some(value)) => entries[last].entry.value = value,
        (None, Some(value)) => entries.push(Entry::new(tag, value)),
        (_, None) => {}
    }
    let mut index = 0;
    entries.retain(|entry| {
        let keep = entry.entry.tag != tag || (value.is_some() && Some(index) == last);
        index += 1;
        keep || last.is_none()
    });
}

/// Sets `DT_FLAGS_1` and `DT_DEBUG`.
pub(crate) fn set_fields(entries: &mut Vec<Entry>, fields: &Fields) {
    if fields.debug_tag {
        entries.push(Entry::new(DT_DEBUG, 0));
    }
    if fields.no_default_libraries {
        match entries.iter_mut().rfind(|entry| entry.entry.tag == DT_FLAGS_1) {
            Some(entry) => entry.entry.value |= DF_1_NODEFLIB.0,
            None => entries.push(Entry::new(DT_FLAGS_1, DF_1_NODEFLIB.0)),
        }
    }
}

/// Writes the section for the address `vaddr`, with `DT_NULL`s up to `capacity` entries.
///
/// # Errors
/// Returns [`RewriteError::NoAddressSpace`] if a value exceeds 32 bits in a 32-bit file.
pub(crate) fn bytes(
    image: &Image,
    entries: &[Entry],
    vaddr: u64,
    capacity: usize,
) -> Result<Vec<u8>, RewriteError> {
    let dynamic = image.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
    let size = image.format.dyn_size();
    let mut bytes = Vec::with_capacity(capacity * size as usize);
    for (index, entry) in entries.iter().enumerate() {
        let mut value = entry.entry;
        // This value is relative to its own entry, so it changes if the entry moves.
        if let (EM_MIPS, DT_MIPS_RLD_MAP_REL, Some(from)) = (image.machine, value.tag, entry.from) {
            let before = dynamic.vaddr.wrapping_add(from as u64 * size);
            let after = vaddr.wrapping_add(index as u64 * size);
            value.value = value.value.wrapping_add(before).wrapping_sub(after);
            if !image.format.is_64() {
                value.value &= 0xffff_ffff;
            }
        }
        bytes.extend(image.format.entry(value)?);
    }
    bytes.resize(bytes.len().max(capacity * size as usize), 0);
    Ok(bytes)
}
