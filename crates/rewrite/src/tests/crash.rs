//! Tests of interrupted edits in place: the interruption is detected, and an undo restores the
//! original.

use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::patch::Patch;
use bstr::ByteSlice;

use super::{edited, note, read_image, run_path, undone};
use crate::tests::builder::{Builder, FORMATS};
use crate::{RewriteError, State, edit, edit_in_place, state};

/// Writes the first `budget` bytes of a patch, in the order of an edit in place.
fn cut_off(old: &[u8], patch: &Patch, mut budget: usize) -> Vec<u8> {
    let mut image = old.to_vec();
    let (inside, behind): (Vec<_>, Vec<_>) =
        patch.writes.iter().partition(|write| write.offset < old.len() as u64);
    for write in behind.into_iter().chain(inside) {
        let bytes = &write.bytes[..write.bytes.len().min(budget)];
        budget -= bytes.len();
        let at = write.offset as usize;
        if !bytes.is_empty() {
            image.resize(image.len().max(at + bytes.len()), 0);
        }
        if let Some(place) = image.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
    image
}

fn is_interrupted(image: &[u8]) -> bool {
    matches!(state(image), Ok(State::Appending | State::Torn))
}

fn total(patch: &Patch) -> usize {
    patch.writes.iter().map(|write| write.bytes.len()).sum()
}

#[test]
fn a_first_edit_interrupted_after_any_byte_is_undone() {
    for format in FORMATS {
        let original = Builder::program(format).build();
        let steps = [note("a\0=/b\0\0"), run_path(RunPathKind::Keep, "/x")];
        let patch = edit_in_place(original.as_slice(), &steps).expect("an edit").patch;
        let patch = patch.expect("a change");
        for budget in 0..total(&patch) {
            let image = cut_off(&original, &patch, budget);
            if image == original {
                continue;
            }
            if budget < 48 {
                // A file with an incomplete leader counts as not edited.
                continue;
            }
            assert!(is_interrupted(&image), "{budget}");
            assert_eq!(undone(&image), original, "{budget}");
            let whole = patch.applied_to(&original);
            assert_eq!(edited(&image, &steps), whole, "{budget}");
        }
    }
}

/// Writes the leader of a patch, and those of the following sectors that `there` selects.
fn with_holes(old: &[u8], patch: &Patch, there: u64) -> Vec<u8> {
    let behind: Vec<_> =
        patch.writes.iter().filter(|write| write.offset >= old.len() as u64).collect();
    let mut image = old.to_vec();
    image.extend(&behind[0].bytes);
    for write in &behind[1..] {
        let start = write.offset as usize;
        for at in start..start + write.bytes.len() {
            if there & (1 << (at / 512 % 64)) != 0 {
                image.resize(image.len().max(at + 1), 0);
                image[at] = write.bytes[at - start];
            }
        }
    }
    image
}

#[test]
fn a_first_edit_with_any_sectors_missing_is_undone() {
    for format in FORMATS {
        let original = Builder::program(format).build();
        let long = note(&"a\0=/b\0".repeat(400));
        let edits = [long, run_path(RunPathKind::Keep, "/x")];
        let patch = edit_in_place(original.as_slice(), &edits).expect("an edit").patch;
        let patch = patch.expect("a change");
        let first = original.len() / 512;
        let last = patch.length as usize / 512;
        assert!(last - first > 3, "a record of several sectors");
        for subset in 0..1_u64 << (last - first + 1) {
            let image = with_holes(&original, &patch, subset.rotate_left(first as u32 % 64));
            assert!(is_interrupted(&image), "{subset:b}");
            assert_eq!(undone(&image), original, "{subset:b}");
        }
    }
}

#[test]
fn a_record_damaged_after_its_edit_is_not_an_interrupted_one() {
    // A foreign note after the hashed first bytes: a note of becalm without its record.
    let builder = Builder { hash: 5000, ..Builder::program(FORMATS[0]) };
    let mut original = edited(&builder.build(), &[note("a\0=/b\0\0")]);
    let image = read_image(&original);
    let found = crate::notes::resolution(&image);
    assert!(found.iter().all(|note| note.offset > 4096) && found.len() == 1);
    let head = original.find(b"\x7fbecalmS").expect("our segment");
    original[head..head + 8].fill(0);
    original.truncate(image.extent() as usize);
    assert_eq!(state(original.as_slice()), Ok(State::Untouched));

    // Removing it adds no segment, and changes only the note's type.
    let patch = edit_in_place(original.as_slice(), &[Edit::ResolutionNote(None)]);
    let patch = patch.expect("an edit").patch.expect("a change");
    let mut image = patch.applied_to(&original);
    assert_eq!(undone(&image), original);
    let last = image.len() - 1;
    image[last] ^= 1;
    assert_eq!(state(image.as_slice()), Ok(State::ChangedSince));
    assert_eq!(crate::undo(image.as_slice()), Err(RewriteError::ChangedSince));
}

#[test]
fn a_second_edit_interrupted_after_any_byte_is_undone() {
    let original = Builder::program(FORMATS[0]).build();
    let first = [note("a\0=/b\0\0"), run_path(RunPathKind::Keep, "/x")];
    for base in [edited(&original, &first), edited(&original, &first[1..])] {
        let second = [note("another, longer than the first one was"), first[1].clone()];
        let patch = edit_in_place(base.as_slice(), &second).expect("an edit").patch;
        let patch = patch.expect("a change");
        assert!(patch.writes.iter().all(|write| {
            write.offset < original.len() as u64 || write.offset >= base.len() as u64
        }));
        for budget in 1..=total(&patch) {
            let image = cut_off(&base, &patch, budget);
            assert_eq!(undone(&image), original, "{budget}");
            assert!(matches!(
                state(image.as_slice()),
                Ok(State::Appending | State::Torn | State::Edited { .. })
            ));
            let whole = edit(image.as_slice(), &second).expect("an edit").patch;
            let whole = whole.map_or(image.clone(), |patch| patch.applied_to(&image));
            assert_eq!(undone(&whole), original, "{budget}");
        }
    }
}

#[test]
fn an_interrupted_undo_can_be_repeated() {
    let original = Builder::program(FORMATS[0]).build();
    let image = edited(&original, &[note("a"), run_path(RunPathKind::Keep, "/x")]);
    let patch = crate::undo(image.as_slice()).expect("a patch");
    for budget in 0..total(&patch) {
        let torn = cut_off(&image, &patch, budget);
        assert_eq!(undone(&torn), original, "{budget}");
    }
}

#[test]
fn a_torn_file_is_undone_before_it_is_edited_in_place() {
    let original = Builder::program(FORMATS[0]).build();
    let steps = [note("a\0=/b\0\0")];
    let patch = edit_in_place(original.as_slice(), &steps).expect("an edit").patch;
    let patch = patch.expect("a change");
    let torn = cut_off(&original, &patch, total(&patch) - 1);
    assert_eq!(edit_in_place(torn.as_slice(), &steps), Err(RewriteError::Interrupted));
}
