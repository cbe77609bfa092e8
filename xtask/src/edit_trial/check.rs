//! Compares an edited image with the original, without any other program: it has the requested
//! values, the old segments are the same in memory except for the parts that an edit owns, a second
//! edit changes nothing, and undoing is exact.

use std::ops::Range;

use becalm_core::elf;
use becalm_rewrite::{RewriteError, State, edit, state, undo};
use object::elf::{FileHeader32, FileHeader64, PT_DYNAMIC, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, pod};

use super::kind::{Kind, missing};
use super::tally::{What, failed};

/// An edited image.
pub(super) struct Done {
    pub(super) image: Vec<u8>,
    /// True if the program header table had to move: tools that rewrite files break it.
    pub(super) table_moved: bool,
}

/// Returns the edited image, or the reason why there is no correct one.
pub(super) fn edited(original: &[u8], kind: &Kind) -> Result<Done, What> {
    let (patch, warning) = match edit(original, &kind.edits) {
        Ok(edited) => (edited.patch, edited.warning),
        Err(RewriteError::Invariant(rule)) => return Err(wrong("invariant", rule)),
        Err(error) => return Err(("refused", variant(&error))),
    };
    let patch = patch.ok_or_else(|| ("nothing", String::new()))?;
    let image = patch.applied_to(original);
    let image = image.as_slice();
    let view = elf::parse(image).map_err(|error| wrong("parses", error))?;
    if let Some(what) = missing(&view, &kind.edits) {
        return Err(wrong("has the requested values", what));
    }
    match state(image) {
        Ok(State::Edited { original_length }) if original_length == original.len() as u64 => {}
        other => return Err(wrong("state", format!("{other:?}"))),
    }
    match edit(image, &kind.edits) {
        Ok(again) if again.patch.is_none() => {}
        other => return Err(wrong("a second time changes nothing", short(&format!("{other:?}")))),
    }
    let back = undo(image).map_err(|error| wrong("undo", error))?.applied_to(image);
    if back != original {
        return Err(wrong("undo", "not byte for byte"));
    }
    same_memory(original, image, patch.writes.len())?;
    let table_moved = warning.is_some();
    Ok(Done { image: image.to_vec(), table_moved })
}

fn wrong(rule: &str, what: impl ToString) -> What {
    failed(rule, &what.to_string())
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Returns a refusal without the parts that differ from file to file.
fn variant(error: &RewriteError) -> String {
    match error {
        RewriteError::Payload { .. } => "something is appended to the ELF file".to_owned(),
        RewriteError::Unnamed { .. } => "bytes that no header names".to_owned(),
        RewriteError::VersionsNeeded(_) => "versions are needed from what is removed".to_owned(),
        other => other.to_string(),
    }
}

/// Offset, address, size in the file and in memory, and flags of a `PT_LOAD`.
type Load = (u64, u64, u64, u64, u32);

struct Table {
    loads: Vec<Load>,
    /// The header, the program headers and the dynamic section.
    owned: Vec<Range<u64>>,
}

fn table(image: &[u8]) -> Option<Table> {
    match image.get(4)? {
        1 => read::<FileHeader32<Endianness>>(image),
        _ => read::<FileHeader64<Endianness>>(image),
    }
}

fn read<Elf: FileHeader<Endian = Endianness>>(image: &[u8]) -> Option<Table> {
    let (header, _) = pod::from_bytes::<Elf>(image).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, image).ok()?;
    let at: u64 = header.e_phoff(endian).into();
    let mut owned = vec![0..64, at..at + size_of_val(segments) as u64];
    let mut loads = Vec::new();
    for segment in segments {
        let (offset, filesz): (u64, u64) =
            (segment.p_offset(endian).into(), segment.p_filesz(endian).into());
        if segment.p_type(endian) == PT_DYNAMIC {
            owned.push(offset..offset + filesz);
        }
        if segment.p_type(endian) == PT_LOAD {
            let (vaddr, memsz) = (segment.p_vaddr(endian).into(), segment.p_memsz(endian).into());
            let flags = segment.p_flags(endian).0;
            loads.push((offset, vaddr, filesz, memsz, flags));
        }
    }
    Some(Table { loads, owned })
}

/// Checks that every old segment is unchanged. Inside the file only the header, the program
/// headers, the dynamic section and numbers of four bytes may change: the file names of needed
/// versions, and the type of a void note.
fn same_memory(original: &[u8], image: &[u8], written: usize) -> Result<(), What> {
    let (Some(old), Some(new)) = (table(original), table(image)) else {
        return Err(wrong("memory", "the headers cannot be read"));
    };
    if old.loads.iter().any(|load| !new.loads.contains(load)) {
        return Err(wrong("memory", "an old segment is gone"));
    }
    let top = old.loads.iter().map(|(_, vaddr, _, memsz, _)| vaddr + memsz).max().unwrap_or(0);
    let mut added = new.loads.iter().filter(|load| !old.loads.contains(load));
    if added.any(|(_, vaddr, filesz, memsz, _)| *vaddr < top || memsz != filesz) {
        return Err(wrong("memory", "a new segment lies among the old ones"));
    }
    let owned = |at: usize| {
        let ranges = old.owned.iter().chain(&new.owned);
        ranges.clone().any(|range| range.contains(&(at as u64)))
    };
    let mut run = 0;
    for (at, (before, after)) in original.iter().zip(image).enumerate() {
        let differs = before != after && !owned(at);
        run = if differs { run + 1 } else { 0 };
        if run > 4 {
            let what = format!("{at:#x} changed; {written} ranges were written");
            return Err(wrong("memory", what));
        }
    }
    Ok(())
}
