//! Reverts edited files that were tampered with, without a panic. The result must be no longer than
//! the file and inside it.

#![no_main]

use becalm_core::edit::Edit;
use becalm_rewrite::{State, edit, state, undo};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<(u32, u8)>, bool)| {
    let (mut data, changes, edited_first) = input;
    if edited_first {
        let Ok(edited) = edit(data.as_slice(), &[Edit::ResolutionNote(Some(vec![1, 2, 3]))]) else {
            return;
        };
        if let Some(patch) = edited.patch {
            data = patch.applied_to(&data);
        }
    }
    for (at, byte) in changes {
        if let Some(place) = data.get_mut(at as usize) {
            *place = byte;
        }
    }
    let told = state(data.as_slice());
    match undo(data.as_slice()) {
        Ok(patch) => {
            assert!(matches!(told, Ok(State::Edited { .. } | State::Appending | State::Torn)));
            assert!(patch.length <= data.len() as u64);
            let inside = |write: &becalm_core::patch::Write| {
                write.offset + write.bytes.len() as u64 <= patch.length
            };
            assert!(patch.writes.iter().all(inside));
        }
        Err(_) => assert!(matches!(told, Err(_) | Ok(State::Untouched | State::ChangedSince))),
    }
    let _ = edit(data.as_slice(), &[Edit::ResolutionNote(None)]);
});
