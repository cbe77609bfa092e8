//! An edit in place that is cut off: whatever was written, the file is told to be
//! interrupted and comes back.

use becalm_core::edit::RunPathKind;
use becalm_core::patch::Patch;

use super::{edited, note, run_path, undone};
use crate::testing::{Builder, FORMATS};
use crate::{RewriteError, State, edit, edit_in_place, state};

/// The file after the first `budget` bytes of a patch, in the order of an edit in place.
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

fn total(patch: &Patch) -> usize {
    patch.writes.iter().map(|write| write.bytes.len()).sum()
}

#[test]
fn a_first_edit_cut_off_after_any_byte_comes_back() {
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
                // A leader that is not whole is as good as none: zeros or a few bytes.
                continue;
            }
            assert_eq!(state(image.as_slice()), Ok(State::Interrupted), "{budget}");
            assert_eq!(undone(&image), original, "{budget}");
            let whole = patch.applied_to(&original);
            assert_eq!(edited(&image, &steps), whole, "{budget}");
        }
    }
}

#[test]
fn a_second_edit_cut_off_after_any_byte_comes_back() {
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
                Ok(State::Interrupted | State::Edited { .. })
            ));
            let whole = edit(image.as_slice(), &second).expect("an edit").patch;
            let whole = whole.map_or(image.clone(), |patch| patch.applied_to(&image));
            assert_eq!(undone(&whole), original, "{budget}");
        }
    }
}

#[test]
fn an_undo_cut_off_can_be_undone() {
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
