//! The environment variables that decide what a start loads.

use bstr::{BString, ByteSlice};

use crate::facts::Environment;

/// The longest text that an index stores: the strings of a table have 16-bit lengths.
const LONGEST: usize = 60_000;
const PRELOAD: &[u8] = b"LD_PRELOAD=";
const LIBRARY_PATH: &[u8] = b"LD_LIBRARY_PATH=";

/// The variables that a program's start was predicted with.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartVariables {
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<BString>,
    /// `LD_PRELOAD`.
    pub preload: Option<BString>,
}

impl StartVariables {
    /// The variables of an environment.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let Environment { library_path, preload, .. } = environment;
        Self { library_path: library_path.clone(), preload: preload.clone() }
    }

    /// An environment with these variables alone.
    #[must_use]
    pub fn environment(&self) -> Environment {
        let Self { library_path, preload } = self.clone();
        Environment { library_path, preload, ..Environment::default() }
    }

    /// `NAME=VALUE` of each variable that is set, joined by NUL, as in an environment block; `None`
    /// if none is set, or if they are too long to be stored.
    pub(super) fn text(&self) -> Option<BString> {
        let one = |name: &[u8], value: &Option<BString>| {
            value.as_ref().map(|value| [name, value.as_slice()].concat())
        };
        let all = [one(PRELOAD, &self.preload), one(LIBRARY_PATH, &self.library_path)];
        let all: Vec<Vec<u8>> = all.into_iter().flatten().collect();
        let text = BString::from(all.join(&0));
        (!text.is_empty() && text.len() <= LONGEST).then_some(text)
    }

    /// The reverse of [`Self::text`]. Other variables are ignored.
    pub(super) fn read(text: &[u8]) -> Self {
        let value = |name: &[u8]| {
            text.split_str(b"\0")
                .find_map(|variable| variable.strip_prefix(name))
                .map(BString::from)
        };
        Self { library_path: value(LIBRARY_PATH), preload: value(PRELOAD) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_again() {
        let (a, b) = (Some(BString::from("/a.so:/b.so")), Some(BString::from("/d:")));
        for (preload, library_path) in [(&a, &b), (&a, &None), (&None, &b)] {
            let (preload, library_path) = (preload.clone(), library_path.clone());
            let variables = StartVariables { library_path, preload };
            assert_eq!(StartVariables::read(&variables.text().expect("a text")), variables);
        }
        assert_eq!(StartVariables::default().text(), None);
        let long = Some(BString::from("/x".repeat(LONGEST)));
        assert_eq!(StartVariables { library_path: long, preload: None }.text(), None);
    }
}
