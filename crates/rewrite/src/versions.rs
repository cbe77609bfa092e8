//! `.gnu.version_r`: which file each needed version comes from. glibc 2.36
//! `elf/dl-version.c` `_dl_check_map_versions` looks that name up among the loaded
//! objects and asserts that it is there, so it follows a needed string that is renamed.

use becalm_core::patch::Write;
use bstr::BString;
use object::ReadRef;
use object::elf::{DT_VERNEED, DT_VERNEEDNUM};

use crate::RewriteError;
use crate::goal::{Names, string_at};
use crate::image::{Image, bytes_at};
use crate::strings::Strings;

/// Size of `Elf32_Verneed` and `Elf64_Verneed`, which are the same.
const ENTRY: u64 = 16;
/// Where `vn_file` and `vn_next` stand in it.
const FILE: usize = 4;
const NEXT: usize = 12;

/// The file names to be written.
///
/// # Errors
/// [`RewriteError::VersionsNeeded`] where a needed string goes away from which versions
/// are needed; a chain that leaves the file.
pub(crate) fn renamed<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
    old: &Names,
    new: &Names,
    strings: &mut Strings<'data>,
) -> Result<Vec<Write>, RewriteError> {
    let mut writes = Vec::new();
    let Some(dynamic) = image.dynamic.as_ref().filter(|_| old.needed != new.needed) else {
        return Ok(writes);
    };
    let (Some(mut at), Some(count)) = (dynamic.value(DT_VERNEED), dynamic.value(DT_VERNEEDNUM))
    else {
        return Ok(writes);
    };
    let broken = RewriteError::Malformed("its needed versions lie outside the file");
    for _ in 0..count {
        let offset = image.file_offset(at, ENTRY).ok_or(broken.clone())?;
        let entry = bytes_at(data, offset, ENTRY).ok_or(broken.clone())?;
        let file = image.format.read_u32(entry, FILE).ok_or(broken.clone())?;
        let next = image.format.read_u32(entry, NEXT).ok_or(broken.clone())?;
        let name = string_at(image, data, u64::from(file))?;
        if let Some(to) = follow(old, new, name)? {
            let to = strings.offset(image, data, to)?;
            let to = u32::try_from(to).map_err(|_| RewriteError::NoAddressSpace)?;
            writes
                .push(Write { offset: offset + FILE as u64, bytes: image.format.u32(to).to_vec() });
        }
        if next == 0 {
            break;
        }
        at = at.checked_add(u64::from(next)).ok_or(broken.clone())?;
    }
    writes.sort_by_key(|write| write.offset);
    writes.dedup_by_key(|write| write.offset);
    Ok(writes)
}

/// What a needed string became; `None` where it stayed, or is no needed string.
fn follow<'a>(
    old: &Names,
    new: &'a Names,
    name: &[u8],
) -> Result<Option<&'a BString>, RewriteError> {
    let Some(index) = old.needed.iter().position(|needed| needed.name == name) else {
        return Ok(None);
    };
    let now = new.needed.iter().find(|needed| needed.from == Some(index));
    match now {
        Some(now) if now.name == name => Ok(None),
        Some(now) => Ok(Some(&now.name)),
        None if new.needed.iter().any(|needed| needed.name == name) => Ok(None),
        None => Err(RewriteError::VersionsNeeded(name.into())),
    }
}
