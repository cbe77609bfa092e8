//! Builds the fixture of a case.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use object::LittleEndian;
use object::elf::{Dyn64, FileHeader64, PT_DYNAMIC};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use super::{Case, CaseLibc, Retag};
use crate::command::succeed;

/// Runs `build.sh` with the shell functions of `tests/cases/lib.sh`, then changes tags.
pub(super) fn fixture(case: &Case, scratch: &Path, out: &Path) -> Result<()> {
    let work = scratch.join("work");
    fs::create_dir(out)?;
    fs::create_dir(&work)?;
    let words = case.folder.join("../lib.sh").canonicalize()?;
    let script = case.folder.join("build.sh").canonicalize()?;
    let compiler = match case.description.libc {
        CaseLibc::Glibc => "gcc",
        CaseLibc::Musl => "musl-gcc",
    };
    let mut build = Command::new("sh");
    build
        .args(["-euc", ". \"$1\"; . \"$2\"", "build"])
        .args([&words, &script])
        .env("OUT", out)
        .env("WORK", &work)
        .env("CC", compiler);
    succeed(&mut build).with_context(|| format!("{} cannot be built", case.name()))?;
    case.description.retag.iter().try_for_each(|change| retag(out, change))
}

/// Changes the first dynamic entry of a tag in a little-endian 64-bit object.
fn retag(out: &Path, change: &Retag) -> Result<()> {
    let path = out.join(&change.file);
    let mut bytes = fs::read(&path)?;
    let headers = FileHeader64::<LittleEndian>::parse(&*bytes)?;
    let mut headers = headers.program_headers(LittleEndian, &*bytes)?.iter();
    let dynamic = headers.find(|it| it.p_type(LittleEndian) == PT_DYNAMIC);
    let dynamic = dynamic.with_context(|| format!("{}: no PT_DYNAMIC", change.file))?;
    let mut entries = dynamic.dynamic(LittleEndian, &*bytes)?.unwrap_or_default().iter();
    let found = entries.position(|it| it.d_tag.get(LittleEndian).0 == change.from as i64);
    let found = found.with_context(|| format!("{}: no tag {:#x}", change.file, change.from))?;
    let entry = dynamic.p_offset(LittleEndian) as usize + found * size_of::<Dyn64<LittleEndian>>();
    bytes[entry..entry + 8].copy_from_slice(&change.to.to_le_bytes());
    fs::write(&path, bytes)?;
    Ok(())
}
