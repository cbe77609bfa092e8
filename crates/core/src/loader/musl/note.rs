//! The search of musl with becalm's patch (`patches/musl`), which reads the complete note
//! of an object before its run path.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::{Walk, paths};
use crate::elf::resolution_note::of_complete;
use crate::loader::load::{Ended, Found};
use crate::path;
use crate::probe::SearchSource;

impl Walk<'_> {
    /// `note_open`: opens the name in the directories that the object's note lists. Whatever is
    /// wrong with a list leads to the search of the run path.
    pub(super) fn note_open(&mut self, object: usize, name: &BStr) -> Result<Option<Found>, Ended> {
        let view = Arc::clone(&self.load.objects[object].view);
        let note = view.notes.resolution.as_ref().filter(|_| self.reads_note && !self.secure);
        let run_path = view.dynamic.as_ref().and_then(|dynamic| dynamic.run_path());
        // `note_list`.
        let list = note.and_then(|note| of_complete(note, name, |_| true));
        let (Some(list), Some(run_path)) = (list, run_path) else {
            return Ok(None);
        };
        let separates = |byte: &u8| matches!(byte, b':' | b'\n');
        let origin = self.origin(object).filter(|_| run_path.contains(&b'$'));
        // `note_dir`: the elements of the expanded run path would not be those of `run_path`.
        if origin.as_ref().is_some_and(|origin| origin.iter().any(separates)) {
            return Ok(None);
        }
        for answer in list {
            let Some(dir) = answer.dir(name) else { break };
            // Only directories of the run path count, so that a corrupt note cannot lead elsewhere.
            let mut elements = run_path.split(separates);
            let is_dir = |element: &&[u8]| {
                path::without_end_slashes(element) == path::without_end_slashes(dir)
            };
            let Some(element) = elements.find(is_dir) else { break };
            let origin = origin.as_ref().map(|origin| origin.as_bstr());
            let expanded = paths::expand(element.as_bstr(), origin, &mut self.run_path_bytes)?;
            let Some(dir) = expanded else { break };
            if dir.is_empty() || !paths::fits_buffer(&dir, name.len()) {
                continue;
            }
            let candidate: BString = [dir.as_slice(), b"/", name].concat().into();
            match self.try_open(SearchSource::Note, candidate, dir.len() + 1) {
                Ok(None) => {}
                Err(Ended::Lookup(_)) => break,
                found => return found,
            }
        }
        Ok(None)
    }
}
