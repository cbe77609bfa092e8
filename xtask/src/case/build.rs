//! Builds the fixture of a case.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use bstr::ByteSlice;

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
    let (at, size) = dynamic(&bytes).with_context(|| format!("{}: no PT_DYNAMIC", change.file))?;
    let entry = (at..at + size)
        .step_by(16)
        .find(|at| word(&bytes, *at) == Some(change.from))
        .with_context(|| format!("{}: no tag {:#x}", change.file, change.from))?;
    bytes[entry..entry + 8].copy_from_slice(&change.to.to_le_bytes());
    fs::write(&path, bytes)?;
    Ok(())
}

/// Returns offset and size of `PT_DYNAMIC`.
fn dynamic(bytes: &[u8]) -> Option<(usize, usize)> {
    const PT_DYNAMIC: u64 = object::elf::PT_DYNAMIC.0 as u64;
    let table = usize::try_from(word(bytes, 32)?).ok()?;
    let count = u16::from_le_bytes(bytes.get(56..58)?.try_into().ok()?);
    let headers = (0..usize::from(count)).map(|index| table + index * 56);
    let mut dynamic = headers.filter(|at| {
        word(bytes, *at).is_some_and(|type_and_flags| type_and_flags & 0xffff_ffff == PT_DYNAMIC)
    });
    let at = dynamic.next()?;
    Some((
        usize::try_from(word(bytes, at + 8)?).ok()?,
        usize::try_from(word(bytes, at + 32)?).ok()?,
    ))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Returns the minor version of this machine's glibc: 36 for glibc 2.36.
pub(super) fn glibc_minor() -> Option<u32> {
    let output = Command::new(super::GLIBC_LOADER).arg("--version").output().ok()?;
    minor(&output.stdout)
}

fn minor(text: &[u8]) -> Option<u32> {
    let line = text.lines().next()?;
    let (_, version) = line.rsplit_once_str(b" 2.")?;
    let digits: Vec<u8> = version.iter().copied().take_while(u8::is_ascii_digit).collect();
    digits.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_the_loaders_version() {
        let text = b"ld.so (Debian GLIBC 2.36-9+deb12u13) stable release version 2.36.\nCopyright";
        assert_eq!(minor(text), Some(36));
        assert_eq!(minor(b"no release"), None);
    }
}
