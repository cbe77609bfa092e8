//! `.gnu.version_r`: which file each needed version comes from. glibc 2.36
//! `elf/dl-version.c` `_dl_check_map_versions` looks that name up among the loaded
//! objects and asserts that it is there, so it follows a needed string that is renamed.
//!
//! Where a needed string is removed, its versions stay, since symbols name them by
//! number: they become weak, and are asked of another file that has versions. Where there
//! is none, the edit is refused: sections and symbols would speak of versions of no file.

use becalm_core::patch::Write;
use bstr::{BStr, BString};
use object::ReadRef;
use object::elf::{DT_VERNEED, DT_VERNEEDNUM};

use crate::RewriteError;
use crate::goal::{Names, string_at};
use crate::image::{Image, bytes_at};
use crate::strings::Strings;

/// Size of `Elf32_Verneed` and `Elf64_Verneed`, which are the same, and of `Vernaux`.
const ENTRY: u64 = 16;
/// The most files and versions that are followed; the largest real objects have hundreds.
const RECORDS_MAX: usize = 1 << 16;
/// `VER_FLG_WEAK`: a version that may be missing.
const WEAK: u16 = 2;

/// One `Verneed`.
struct File<'a> {
    offset: u64,
    /// Address of the first `Vernaux`.
    versions: u64,
    count: u16,
    name: &'a BStr,
}

/// What follows from needed strings that were renamed or removed.
///
/// # Errors
/// [`RewriteError::VersionsNeeded`] where a needed string goes away from which alone
/// versions are needed; a chain that leaves the file.
pub(crate) fn follow<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
    old: &Names,
    new: &Names,
    strings: &mut Strings<'data>,
) -> Result<Vec<Write>, RewriteError> {
    let mut writes = Vec::new();
    if old.needed == new.needed {
        return Ok(writes);
    }
    let files = files(image, data)?;
    let stays = files.iter().find_map(|file| match fate(old, new, file.name) {
        Fate::Gone => None,
        Fate::Stays => Some(file.name.to_owned()),
        Fate::Becomes(name) => Some(name.clone()),
    });
    for file in &files {
        let name = match (fate(old, new, file.name), &stays) {
            (Fate::Stays, _) => continue,
            (Fate::Becomes(name), _) => name,
            (Fate::Gone, Some(other)) => {
                weaken(image, data, file, &mut writes)?;
                other
            }
            (Fate::Gone, None) => return Err(RewriteError::VersionsNeeded(file.name.to_owned())),
        };
        let name = strings.offset(image, data, name)?;
        let name = u32::try_from(name).map_err(|_| RewriteError::NoAddressSpace)?;
        let bytes = image.format.u32(name).to_vec();
        writes.push(Write { offset: file.offset + 4, bytes });
    }
    writes.sort_by_key(|write| write.offset);
    writes.dedup_by_key(|write| write.offset);
    Ok(writes)
}

fn broken() -> RewriteError {
    RewriteError::Malformed("its needed versions are outside the file")
}

/// The record of 16 bytes at an address, and where it stands in the file.
fn record<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
    at: u64,
) -> Result<(u64, &'data [u8]), RewriteError> {
    let offset = image.file_offset(at, ENTRY).ok_or_else(broken)?;
    Ok((offset, bytes_at(data, offset, ENTRY).ok_or_else(broken)?))
}

fn files<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
) -> Result<Vec<File<'data>>, RewriteError> {
    let mut files = Vec::new();
    let Some(dynamic) = &image.dynamic else { return Ok(files) };
    let (Some(mut at), Some(count)) = (dynamic.value(DT_VERNEED), dynamic.value(DT_VERNEEDNUM))
    else {
        return Ok(files);
    };
    for _ in 0..count {
        let (offset, entry) = record(image, data, at)?;
        let word = |at| image.format.read_u32(entry, at).ok_or_else(broken);
        let name = string_at(image, data, u64::from(word(4)?))?;
        let versions = at.checked_add(u64::from(word(8)?)).ok_or_else(broken)?;
        let count = image.format.read_u16(entry, 2).ok_or_else(broken)?;
        files.push(File { offset, versions, count, name });
        let next = word(12)?;
        if next == 0 {
            break;
        }
        if files.len() > RECORDS_MAX {
            return Err(broken());
        }
        at = at.checked_add(u64::from(next)).ok_or_else(broken)?;
    }
    Ok(files)
}

/// Makes each version of a file one that may be missing.
fn weaken<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
    file: &File,
    writes: &mut Vec<Write>,
) -> Result<(), RewriteError> {
    let mut at = file.versions;
    for _ in 0..file.count {
        let (offset, entry) = record(image, data, at)?;
        let flags = image.format.read_u16(entry, 4).ok_or_else(broken)?;
        let bytes = image.format.u16(flags | WEAK).to_vec();
        writes.push(Write { offset: offset + 4, bytes });
        let next = image.format.read_u32(entry, 12).ok_or_else(broken)?;
        if next == 0 || writes.len() > RECORDS_MAX {
            break;
        }
        at = at.checked_add(u64::from(next)).ok_or_else(broken)?;
    }
    Ok(())
}

/// What becomes of a needed string.
enum Fate<'a> {
    Stays,
    Becomes(&'a BString),
    Gone,
}

/// A file that was no needed string (it was loaded through another) stays.
fn fate<'a>(old: &Names, new: &'a Names, name: &BStr) -> Fate<'a> {
    let Some(index) = old.needed.iter().position(|needed| needed.name == name) else {
        return Fate::Stays;
    };
    let now = new.needed.iter().find(|needed| needed.from == Some(index));
    match now {
        Some(now) if now.name == name => Fate::Stays,
        Some(now) => Fate::Becomes(&now.name),
        None if new.needed.iter().any(|needed| needed.name == name) => Fate::Stays,
        None => Fate::Gone,
    }
}

/// The names of the files that versions are needed from.
#[cfg(test)]
pub(crate) fn names<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
) -> Result<Vec<String>, RewriteError> {
    Ok(files(image, data)?.iter().map(|file| file.name.to_string()).collect())
}
