//! The files behind the addresses of a process.

use std::collections::BTreeMap;
use std::sync::Arc;

use bstr::BString;

/// Ranges of addresses by their starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Maps(BTreeMap<u64, Mapping>);

/// The end of a range and the file that it is of, if it is of one.
#[derive(Clone, Debug)]
struct Mapping {
    end: u64,
    file: Option<Arc<BString>>,
}

impl Maps {
    /// Maps a range, which replaces what was there.
    pub(super) fn insert(&mut self, start: u64, end: u64, file: Option<BString>) {
        let before = self.0.range(..start).next_back().map(|(start, _)| *start);
        let inside = self.0.range(start..end).map(|(start, _)| *start);
        for old in inside.chain(before).collect::<Vec<_>>() {
            let Some(mapping) = self.0.remove(&old) else { continue };
            if mapping.end > end {
                self.0.insert(end, mapping.clone());
            }
            if old < start {
                self.0.insert(old, Mapping { end: mapping.end.min(start), ..mapping });
            }
        }
        self.0.insert(start, Mapping { end, file: file.map(Arc::new) });
    }

    /// Returns the file at an address.
    pub(super) fn file(&self, address: u64) -> Option<&Arc<BString>> {
        let (_, mapping) = self.0.range(..=address).next_back()?;
        mapping.file.as_ref().filter(|_| address < mapping.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_replaces_the_middle_of_another() {
        let mut maps = Maps::default();
        maps.insert(10, 50, Some("/whole".into()));
        maps.insert(20, 30, Some("/middle".into()));
        maps.insert(28, 40, None);
        let file = |at| maps.file(at).map(|file| file.to_string());
        let found = [9, 10, 19, 20, 27, 28, 39, 40, 49, 50].map(file);
        let whole = || Some("/whole".to_owned());
        let middle = || Some("/middle".to_owned());
        assert_eq!(
            found,
            [None, whole(), whole(), middle(), middle(), None, None, whole(), whole(), None]
        );
    }
}
