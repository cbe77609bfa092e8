//! Reads the strings of an ELF file's dynamic section.
//!
//! This uses the `object` crate and not becalm's own parser, so that a store, which is the baseline
//! of every measurement, does not depend on becalm.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind};

use crate::words::naming;

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
        let data = std::fs::read(path).with_context(naming(path))?;
        let parsed = match FileKind::parse(&*data) {
            Ok(FileKind::Elf64) => from_header::<FileHeader64<Endianness>>(&data),
            Ok(FileKind::Elf32) => from_header::<FileHeader32<Endianness>>(&data),
            _ => Err(anyhow!("not an ELF file")),
        };
        parsed.with_context(naming(path))
    }
}

fn from_header<H: FileHeader<Endian = Endianness>>(data: &[u8]) -> Result<Dynamic> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let mut found = Dynamic::default();
    for segment in header.program_headers(endian, data)? {
        if let Some(bytes) = segment.interpreter(endian, data)? {
            found.interpreter = Some(String::from_utf8_lossy(bytes).into_owned());
        }
    }
    let table = header.sections(endian, data)?.dynamic_table(endian, data)?;
    ensure!(!table.is_empty(), "no dynamic section (statically linked?)");
    for entry in &table {
        let string = || anyhow::Ok(String::from_utf8(table.string(entry)?.to_vec())?);
        match entry.tag {
            DT_NEEDED => found.needed.push(string()?),
            DT_SONAME => found.soname = Some(string()?),
            DT_RPATH => found.rpath = Some(string()?),
            DT_RUNPATH => found.runpath = Some(string()?),
            _ => {}
        }
    }
    Ok(found)
}
