//! `.gnu.version_r`: the files that versions are needed from.
//!
//! `_dl_check_map_versions` (glibc 2.36 `elf/dl-version.c`) searches for the file name among the loaded
//! objects and asserts that it is found. The name is therefore changed with a needed string.
//!
//! If a needed string is removed, its versions stay, because symbols refer to them by number. They
//! become weak and get the name of another file that versions are needed from. If there is none, the
//! edit is refused.

use becalm_core::patch::Write;
use bstr::BStr;
use object::elf::{DT_VERNEED, DT_VERNEEDNUM};

use crate::goal::Names;
use crate::image::Image;
use crate::strings::Strings;
use crate::{Result, RewriteError};

/// The size of `Verneed` and of `Vernaux`, in both classes.
const ENTRY: u64 = 16;
/// The limit on files and versions. The largest real objects have hundreds.
const RECORDS_MAX: usize = 1 << 16;
/// `VER_FLG_WEAK`: the version may be missing.
const WEAK: u16 = 2;

/// One `Verneed`.
struct File<'a> {
    offset: u64,
    /// The address of the first `Vernaux`.
    versions: u64,
    count: u16,
    name: &'a BStr,
}

/// Returns the changes for replaced and removed needed strings.
///
/// # Errors
/// Returns [`RewriteError::VersionsNeeded`] if the only file that versions are needed from is removed,
/// and [`RewriteError::Malformed`] if a record is outside the file.
pub(crate) fn follow(
    image: &Image,
    old: &Names,
    new: &Names,
    strings: &mut Strings<'_>,
) -> Result<Vec<Write>> {
    let mut writes = Vec::new();
    if old.needed == new.needed {
        return Ok(writes);
    }
    let files = files(image)?;
    // A file that stays, or gets another name, can take over the versions of a removed one.
    let stays = files.iter().find_map(|file| new_name(old, new, file.name));
    for file in &files {
        let name = match (new_name(old, new, file.name), stays) {
            (Some(name), _) if name == file.name => continue,
            (Some(name), _) => name,
            (None, Some(other)) => {
                weaken(image, file, &mut writes)?;
                other
            }
            (None, None) => return Err(RewriteError::VersionsNeeded(file.name.to_owned())),
        };
        let name = strings.offset(name)?;
        let name = u32::try_from(name).map_err(|_| RewriteError::NoAddressSpace)?;
        // `vn_file` is at offset 4 of `Verneed`.
        let bytes = image.format.u32(name).to_vec();
        writes.push(Write { offset: file.offset + 4, bytes });
    }
    writes.sort_by_key(|write| write.offset);
    // Two files can share the records of their versions.
    writes.dedup_by_key(|write| write.offset);
    Ok(writes)
}

fn broken() -> RewriteError {
    RewriteError::Malformed("its needed versions are outside the file")
}

/// Reads the record of 16 bytes at an address, and returns its file offset as well.
fn record<'data>(image: &Image<'data>, at: u64) -> Result<(u64, &'data [u8])> {
    let offset = image.file_offset(at, ENTRY).ok_or_else(broken)?;
    Ok((offset, image.bytes_at(offset, ENTRY).ok_or_else(broken)?))
}

fn files<'data>(image: &Image<'data>) -> Result<Vec<File<'data>>> {
    let mut files = Vec::new();
    let Some(dynamic) = &image.dynamic else { return Ok(files) };
    let (Some(mut at), Some(count)) = (dynamic.value(DT_VERNEED), dynamic.value(DT_VERNEEDNUM))
    else {
        return Ok(files);
    };
    for _ in 0..count {
        let (offset, entry) = record(image, at)?;
        let word = |at| image.format.endian.u32(entry, at).ok_or_else(broken);
        let name = image.string_at(u64::from(word(4)?))?;
        let versions = at.checked_add(u64::from(word(8)?)).ok_or_else(broken)?;
        let count = image.format.endian.u16(entry, 2).ok_or_else(broken)?;
        files.push(File { offset, versions, count, name });
        let next = word(12)?;
        if next == 0 {
            break;
        }
        // `vn_next` of a hostile file can form a cycle.
        if files.len() > RECORDS_MAX {
            return Err(broken());
        }
        at = at.checked_add(u64::from(next)).ok_or_else(broken)?;
    }
    Ok(files)
}

/// Makes each version of a file weak.
fn weaken(image: &Image, file: &File, writes: &mut Vec<Write>) -> Result<()> {
    let mut at = file.versions;
    for _ in 0..file.count {
        let (offset, entry) = record(image, at)?;
        let flags = image.format.endian.u16(entry, 4).ok_or_else(broken)?;
        // `vna_flags` is at offset 4 of `Vernaux`.
        let bytes = image.format.u16(flags | WEAK).to_vec();
        writes.push(Write { offset: offset + 4, bytes });
        let next = image.format.endian.u32(entry, 12).ok_or_else(broken)?;
        // `vna_next` of a hostile file can form a cycle as well.
        if next == 0 || writes.len() > RECORDS_MAX {
            break;
        }
        at = at.checked_add(u64::from(next)).ok_or_else(broken)?;
    }
    Ok(())
}

/// Returns the new name of a file; `None` if its needed string is removed.
fn new_name<'a>(old: &Names, new: &'a Names, name: &'a BStr) -> Option<&'a BStr> {
    // A version may be needed from a file that another object needs. Its name stays.
    let Some(index) = old.needed.iter().position(|needed| needed.name == name) else {
        return Some(name);
    };
    let same = new.needed.iter().find(|needed| needed.from == Some(index));
    let other = || new.needed.iter().find(|needed| needed.name == name);
    same.or_else(other).map(|needed| needed.name.as_ref())
}

/// Returns the names of the files that versions are needed from.
#[cfg(test)]
pub(crate) fn names(image: &Image) -> Result<Vec<String>> {
    Ok(files(image)?.iter().map(|file| file.name.to_string()).collect())
}
