//! Reads the strings of an ELF file's dynamic section.
//!
//! This uses the `object` crate and not becalm's own parser, so that a store, which is the baseline
//! of every measurement, does not depend on becalm.

use std::path::Path;

use anyhow::{Context, Result, bail};
use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DynamicTag,
    FileHeader32, FileHeader64, PT_LOAD,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind};

/// The dynamic section of one object, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dynamic {
    /// `PT_INTERP`; programs and a few executable libraries have it.
    pub(crate) interpreter: Option<String>,
    /// Every `DT_NEEDED` string.
    pub(crate) needed: Vec<String>,
    /// `DT_SONAME`.
    pub(crate) soname: Option<String>,
    /// `DT_RPATH`, not split.
    pub(crate) rpath: Option<String>,
    /// `DT_RUNPATH`, not split.
    pub(crate) runpath: Option<String>,
}

impl Dynamic {
    /// Reads the dynamic section of the file at `path`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not an ELF file, or has no dynamic section
    /// (a static program, an object file, a file of debug information).
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let data = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
        Self::parse(&data).with_context(|| format!("{}", path.display()))
    }

    /// Parses the dynamic section of a whole file's bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Dynamic::read`], except those of reading the file.
    pub(crate) fn parse(data: &[u8]) -> Result<Self> {
        match FileKind::parse(data) {
            Ok(FileKind::Elf64) => from_header::<FileHeader64<Endianness>>(data),
            Ok(FileKind::Elf32) => from_header::<FileHeader32<Endianness>>(data),
            _ => bail!("not an ELF file"),
        }
    }
}

fn from_header<H: FileHeader<Endian = Endianness>>(data: &[u8]) -> Result<Dynamic> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let mut found = Dynamic::default();
    let mut entries: Option<Vec<(DynamicTag, u64)>> = None;
    for segment in segments {
        if let Some(bytes) = segment.interpreter(endian, data)? {
            found.interpreter = Some(String::from_utf8_lossy(bytes).into_owned());
        }
        if let Some(table) = segment.dynamic(endian, data)? {
            let pair = |entry: &<H as FileHeader>::Dyn| (entry.tag(endian), entry.val(endian));
            entries = Some(table.iter().map(pair).take_while(|(tag, _)| *tag != DT_NULL).collect());
        }
    }
    let Some(entries) = entries else { bail!("no dynamic section (statically linked?)") };
    let value = |tag: DynamicTag| entries.iter().find(|(t, _)| *t == tag).map(|(_, v)| *v);
    let (Some(address), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else {
        bail!("a dynamic section without a string table");
    };
    let strings = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == PT_LOAD)
        .find_map(|segment| segment.data_range(endian, data, address, size).ok().flatten())
        .context("the dynamic string table lies outside the file")?;
    for (tag, offset) in entries {
        let slot = match tag {
            DT_NEEDED => {
                found.needed.push(string_at(strings, offset)?);
                continue;
            }
            DT_SONAME => &mut found.soname,
            DT_RPATH => &mut found.rpath,
            DT_RUNPATH => &mut found.runpath,
            _ => continue,
        };
        *slot = Some(string_at(strings, offset)?);
    }
    Ok(found)
}

fn string_at(strings: &[u8], offset: u64) -> Result<String> {
    let tail = usize::try_from(offset).ok().and_then(|at| strings.get(at..));
    let tail = tail.context("a dynamic string starts outside the string table")?;
    let end = tail.iter().position(|byte| *byte == 0).context("a dynamic string has no end")?;
    Ok(String::from_utf8(tail[..end].to_vec())?)
}
