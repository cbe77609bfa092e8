//! Edits of single fields: `EI_OSABI`, the flags of `PT_GNU_STACK`, `DT_FLAGS_1`, `DT_DEBUG`, and the
//! versions of dynamic symbols (`.gnu.version`).

use becalm_core::patch::Write;
use bstr::{BString, ByteSlice};
use object::elf::{
    DF_1_NODEFLIB, DT_DEBUG, DT_FLAGS_1, DT_SYMTAB, DT_VERSYM, PF_X, PT_GNU_STACK, SHT_DYNSYM,
    VER_NDX_GLOBAL,
};

use crate::format::Section;
use crate::image::Image;
use crate::{Result, RewriteError};

/// The index of `EI_OSABI` in the ELF header.
const OS_ABI: usize = 7;
/// The limit on dynamic symbols. The largest real libraries have fewer than a million.
const SYMBOLS_MAX: u64 = 1 << 24;

/// The wanted fields. The default keeps all of the original's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) os_abi: Option<u8>,
    pub(crate) executable_stack: Option<bool>,
    pub(crate) no_default_libraries: bool,
    pub(crate) debug_tag: bool,
    /// The names of the symbols that lose their version, sorted.
    pub(crate) unversioned: Vec<BString>,
}

impl Fields {
    /// Removes the edits whose result the original already has.
    ///
    /// # Errors
    /// Returns [`RewriteError`] if the original cannot be read.
    pub(crate) fn settle(&mut self, image: &Image) -> Result<()> {
        self.os_abi = self.os_abi.filter(|abi| image.header.ident[OS_ABI] != *abi);
        self.executable_stack =
            self.executable_stack.filter(|&wanted| stack(image) != Some(wanted));
        let value = |tag| image.dynamic.as_ref().and_then(|dynamic| dynamic.value(tag));
        self.no_default_libraries &= value(DT_FLAGS_1).unwrap_or(0) & DF_1_NODEFLIB.0 == 0;
        self.debug_tag &= value(DT_DEBUG).is_none();
        if !self.unversioned.is_empty() {
            let versioned = versioned(image, &self.unversioned)?;
            self.unversioned.retain(|name| versioned.iter().any(|(_, other)| name == other));
        }
        Ok(())
    }

    /// Returns the tables of the original with the wanted header and flags.
    pub(crate) fn changed<'data>(&self, image: &Image<'data>) -> Image<'data> {
        let mut image = image.clone();
        if let Some(abi) = self.os_abi {
            image.header.ident[OS_ABI] = abi;
        }
        if let Some(wanted) = self.executable_stack {
            for segment in image.segments.iter_mut().filter(|it| it.kind == PT_GNU_STACK) {
                segment.flags.0 =
                    if wanted { segment.flags.0 | PF_X.0 } else { segment.flags.0 & !PF_X.0 };
            }
        }
        image
    }

    /// Returns the changes of `.gnu.version`.
    ///
    /// # Errors
    /// Returns [`RewriteError`] if the symbols cannot be read.
    pub(crate) fn versions(&self, image: &Image) -> Result<Vec<Write>> {
        if self.unversioned.is_empty() {
            return Ok(Vec::new());
        }
        let global = image.format.u16(VER_NDX_GLOBAL.0).to_vec();
        let found = versioned(image, &self.unversioned)?;
        Ok(found.into_iter().map(|(offset, _)| Write { offset, bytes: global.clone() }).collect())
    }

    /// Returns true if a finished file has the wanted fields.
    pub(crate) fn hold(&self, after: &Image) -> bool {
        let mut left = self.clone();
        left.settle(after).is_ok() && left == Self::default()
    }
}

/// Returns whether the file requests an executable stack. `None` if it has no `PT_GNU_STACK`.
pub(crate) fn stack(image: &Image) -> Option<bool> {
    let segment = image.segments.iter().find(|segment| segment.kind == PT_GNU_STACK)?;
    Some(segment.flags.0 & PF_X.0 != 0)
}

/// Returns the file offsets of the versions of the symbols with one of the `names`, with the name.
/// Symbols without a version are left out.
fn versioned(image: &Image, names: &[BString]) -> Result<Vec<(u64, BString)>> {
    let broken = || RewriteError::Malformed("its dynamic symbols cannot be read");
    let dynamic = image.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
    let Some(versions) = dynamic.value(DT_VERSYM) else { return Ok(Vec::new()) };
    let symbols = dynamic.value(DT_SYMTAB).ok_or_else(broken)?;
    // The dynamic section does not have the number of symbols.
    let is_table = |section: &&Section| section.kind == SHT_DYNSYM && section.addr == symbols;
    let section = image.sections.iter().find(is_table).ok_or_else(broken)?;
    let size = if image.format.is_64() { 24 } else { 16 };
    let count = section.size / size;
    if count > SYMBOLS_MAX {
        return Err(broken());
    }
    let table = image.file_offset(symbols, count * size).ok_or_else(broken)?;
    let table = image.bytes_at(table, count * size).ok_or_else(broken)?;
    let start = image.file_offset(versions, count * 2).ok_or_else(broken)?;
    let versions = image.bytes_at(start, count * 2).ok_or_else(broken)?;
    let mut found = Vec::new();
    for (at, symbol) in table.chunks_exact(size as usize).enumerate() {
        let version = image.format.endian.u16(versions, at * 2).ok_or_else(broken)?;
        let name = image.format.endian.u32(symbol, 0).ok_or_else(broken)?;
        // The indexes 0 (local) and 1 (global) name no version.
        if version <= VER_NDX_GLOBAL.0 || name == 0 {
            continue;
        }
        let name = image.string_at(u64::from(name))?;
        if names.iter().any(|wanted| wanted.as_bstr() == name) {
            found.push((start + at as u64 * 2, name.to_owned()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use becalm_core::edit::Edit;

    use super::*;
    use crate::tests::builder::{Builder, FORMATS};
    use crate::tests::{edited, read_image, undone, view};

    /// Makes a program whose last program header is a `PT_GNU_STACK`, instead of a note.
    fn with_stack(builder: &Builder) -> Vec<u8> {
        let mut data = builder.build();
        let image = read_image(&data);
        let at = image.segments.iter().rposition(|it| it.kind == object::elf::PT_NOTE).unwrap();
        let at = (image.header.phoff + at as u64 * image.format.encoder().program_header_size())
            as usize;
        data[at..at + 4].copy_from_slice(&image.format.u32(PT_GNU_STACK.0));
        data
    }

    #[test]
    fn fields_change_alone_and_with_other_edits_and_are_undone() {
        let edits = [
            Edit::OsAbi(9),
            Edit::ExecutableStack(true),
            Edit::NoDefaultLibraries,
            Edit::DebugTag,
            Edit::Soname("libself.so.2".into()),
        ];
        for format in FORMATS {
            for spare in [0, 4] {
                let original = with_stack(&Builder { spare, ..Builder::library(format) });
                for edit in &edits {
                    let image = edited(&original, std::slice::from_ref(edit));
                    assert_eq!(undone(&image), original, "{edit:?}");
                    let again = crate::edit(image.as_slice(), std::slice::from_ref(edit));
                    assert_eq!(again.map(|it| it.patch), Ok(None), "{edit:?}");
                }
                let mut step = original.clone();
                for edit in &edits {
                    step = edited(&step, std::slice::from_ref(edit));
                }
                assert_eq!(step, edited(&original, &edits));
                assert_eq!(view(&step).ident.os_abi, 9);
                let image = read_image(&step);
                assert_eq!(stack(&image), Some(true));
                let wanted =
                    Fields { no_default_libraries: true, debug_tag: true, ..Fields::default() };
                assert!(wanted.hold(&image));
                let back = edited(&step, &[Edit::ExecutableStack(false)]);
                assert_eq!(stack(&read_image(&back)), Some(false));
                assert_eq!(undone(&back), original);
            }
        }
    }

    #[test]
    fn a_file_without_a_stack_header_keeps_its_stack() {
        let original = Builder::program(FORMATS[0]).build();
        let refused = crate::edit(original.as_slice(), &[Edit::ExecutableStack(true)]);
        assert_eq!(refused, Err(RewriteError::NoStackHeader));
    }
}
