//! The entries of the dynamic section after an edit. The old entries keep their order, and new ones
//! replace spare `DT_NULL`s.

use bstr::BString;
use object::elf::{
    DF_1_NODEFLIB, DT_AUDIT, DT_DEBUG, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME,
    DynamicTag,
};

use crate::fields::Fields;
use crate::format::Dyn;
use crate::goal::{Names, Needed};
use crate::image::{Dynamic, Image};
use crate::strings::Strings;
use crate::{Result, RewriteError};

/// `DT_MIPS_RLD_MAP_REL`: the address of the loader's debug pointer, relative to the address of this
/// entry (MIPS psABI supplement).
const DT_MIPS_RLD_MAP_REL: DynamicTag = DynamicTag(0x7000_0035);
const EM_MIPS: u16 = object::elf::EM_MIPS.0;

/// Returns the entries with the new `names`, or those of the original if `names` is `None`, and with the
/// wanted fields.
///
/// # Errors
/// Returns [`RewriteError`] if the string table cannot be read.
pub(crate) fn entries(
    dynamic: &Dynamic,
    names: Option<(&Names, &Names)>,
    fields: &Fields,
    strings: &mut Strings<'_>,
) -> Result<Vec<Dyn>> {
    let mut entries = dynamic.entries.clone();
    if let Some((old, new)) = names {
        let mut offset = |name: &BString| strings.offset(name);
        if old.needed != new.needed {
            entries = needed(&entries, &old.needed, &new.needed, &mut offset)?;
        }
        for (tag, old, new) in [
            (DT_SONAME, &old.soname, &new.soname),
            (DT_RPATH, &old.rpath, &new.rpath),
            (DT_RUNPATH, &old.runpath, &new.runpath),
            (DT_AUDIT, &old.audit, &new.audit),
        ] {
            // An unchanged string keeps its entry and its offset.
            if old != new {
                set(&mut entries, tag, new.as_ref().map(&mut offset).transpose()?);
            }
        }
    }
    if fields.debug_tag {
        entries.push(Dyn { tag: DT_DEBUG, value: 0, from: None });
    }
    if fields.no_default_libraries {
        match entries.iter_mut().rfind(|entry| entry.tag == DT_FLAGS_1) {
            Some(flags) => flags.value |= DF_1_NODEFLIB.0,
            None => entries.push(Dyn { tag: DT_FLAGS_1, value: DF_1_NODEFLIB.0, from: None }),
        }
    }
    Ok(entries)
}

/// Changes the `DT_NEEDED` entries. Added ones come before the first of the original.
fn needed(
    entries: &[Dyn],
    old: &[Needed],
    new: &[Needed],
    offset: &mut impl FnMut(&BString) -> Result<u64>,
) -> Result<Vec<Dyn>> {
    let first = entries.iter().position(|entry| entry.tag == DT_NEEDED).unwrap_or(0);
    let mut result = Vec::with_capacity(entries.len() + new.len());
    let mut count = 0;
    for (index, &entry) in entries.iter().enumerate() {
        if index == first {
            for added in new.iter().filter(|needed| needed.from.is_none()) {
                result.push(Dyn { tag: DT_NEEDED, value: offset(&added.name)?, from: None });
            }
        }
        if entry.tag != DT_NEEDED {
            result.push(entry);
            continue;
        }
        let kept = new.iter().find(|needed| needed.from == Some(count));
        let before = old.get(count).map(|needed| &needed.name);
        count += 1;
        // A removed `DT_NEEDED` leaves no entry.
        let Some(kept) = kept else { continue };
        // An unchanged name keeps its offset, so that an edit without effect changes no byte.
        let is_same = before == Some(&kept.name);
        let value = if is_same { entry.value } else { offset(&kept.name)? };
        result.push(Dyn { value, ..entry });
    }
    Ok(result)
}

/// Sets the only value of a tag at the position of its last entry, or removes the tag.
fn set(entries: &mut Vec<Dyn>, tag: DynamicTag, value: Option<u64>) {
    // A loader uses the last entry of a tag (glibc `elf_get_dynamic_info`).
    let last = entries.iter().rposition(|entry| entry.tag == tag).unwrap_or(entries.len());
    let after = entries.split_off(last);
    let from = after.first().and_then(|entry| entry.from);
    entries.retain(|entry| entry.tag != tag);
    entries.extend(value.map(|value| Dyn { tag, value, from }));
    entries.extend(after.into_iter().skip(1));
}

/// Writes the section for the address `vaddr`, with `DT_NULL`s up to `capacity` entries.
///
/// # Errors
/// Returns [`RewriteError::NoAddressSpace`] if a value exceeds 32 bits in a 32-bit file.
pub(crate) fn bytes(
    image: &Image,
    entries: &[Dyn],
    vaddr: u64,
    capacity: usize,
) -> Result<Vec<u8>> {
    let dynamic = image.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
    let (size, machine) = (image.format.encoder().dyn_size(), image.header.machine);
    let mut bytes = Vec::with_capacity(capacity * size as usize);
    for (index, entry) in entries.iter().enumerate() {
        let mut entry = *entry;
        // This value is relative to its own entry, so it changes if the entry moves.
        if let (EM_MIPS, DT_MIPS_RLD_MAP_REL, Some(from)) = (machine, entry.tag, entry.from) {
            let before = dynamic.vaddr.wrapping_add(from as u64 * size);
            let after = vaddr.wrapping_add(index as u64 * size);
            entry.value = entry.value.wrapping_add(before).wrapping_sub(after);
            if !image.format.is_64() {
                entry.value &= 0xffff_ffff;
            }
        }
        let written = image.format.encoder().dynamic(&mut bytes, entry.tag, entry.value);
        written.map_err(|_| RewriteError::NoAddressSpace)?;
    }
    bytes.resize(bytes.len().max(capacity * size as usize), 0);
    Ok(bytes)
}
