//! Makes any edits of any bytes. The edit must be refused, or the new file must parse and have the
//! edited values. A second edit must leave it unchanged, and undo must restore every byte.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf;
use becalm_rewrite::{State, edit, edit_in_place, state, undo};
use libfuzzer_sys::{arbitrary, fuzz_target};
use object::read::ReadCache;

fn text(from: &mut Unstructured) -> Result<bstr::BString> {
    Ok(<&[u8]>::arbitrary(from)?.into())
}

fn step(from: &mut Unstructured) -> Result<Edit> {
    Ok(match from.int_in_range(0..=7)? {
        0 => Edit::ResolutionNote(Option::<Vec<u8>>::arbitrary(from)?),
        1 => {
            let kinds = [RunPathKind::Keep, RunPathKind::Rpath, RunPathKind::Runpath];
            let kind = *from.choose(&kinds)?;
            let value = if bool::arbitrary(from)? { Some(text(from)?) } else { None };
            Edit::RunPath { kind, value }
        }
        2 => Edit::ReplaceNeeded { from: text(from)?, to: text(from)? },
        3 => Edit::AddNeeded(text(from)?),
        4 => Edit::RemoveNeeded(text(from)?),
        5 => Edit::Audit(Some(text(from)?)),
        6 => Edit::Interpreter(text(from)?),
        _ => Edit::Soname(text(from)?),
    })
}

fuzz_target!(|input: &[u8]| {
    // The last bytes choose the edits, so that a corpus of plain ELF files is useful.
    let (data, tail) = input.split_at(input.len().saturating_sub(64));
    let mut from = Unstructured::new(tail);
    let mut steps = Vec::new();
    for _ in 0..3 {
        steps.extend(step(&mut from));
    }
    steps.push(Edit::ResolutionNote(Some(tail.to_vec())));
    let before = state(data);
    let cache = ReadCache::new(std::io::Cursor::new(data));
    let edited = edit(data, &steps);
    assert_eq!(edited, edit(&cache, &steps), "a cache reads the same");
    let Ok(edited) = edited else { return };
    let Some(patch) = edited.patch else { return };
    let image = patch.applied_to(data);
    let image = image.as_slice();
    let view = elf::parse(image).expect("it parses");
    assert_eq!(view.notes.resolution.as_deref(), Some(tail));
    if before == Ok(State::Untouched) {
        assert_eq!(undo(image).expect("it can be undone").applied_to(image), data);
    }
    let again = edit(image, &steps[steps.len() - 1..]).expect("it can be edited again");
    assert_eq!(again.patch, None);
    let further = edit_in_place(image, &[Edit::ResolutionNote(None)]);
    if let Some(patch) = further.expect("it can be edited again").patch {
        elf::parse(patch.applied_to(image).as_slice()).expect("it parses");
    }
});
