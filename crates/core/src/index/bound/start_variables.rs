//! The environment variables that decide what a start loads.

use bstr::{BString, ByteSlice};

use crate::facts::Environment;

/// The longest text that an index stores: the strings of a table have 16-bit lengths.
const LONGEST: usize = 60_000;
const PRELOAD: &[u8] = b"LD_PRELOAD=";
const LIBRARY_PATH: &[u8] = b"LD_LIBRARY_PATH=";

/// `NAME=VALUE` of both variables, if they are set, joined by NUL, as in an environment block; `None` if
/// none is set, or if they are too long to be stored.
pub(super) fn text(environment: &Environment) -> Option<BString> {
    let one = |name: &[u8], value: &Option<BString>| {
        value.as_ref().map(|value| [name, value.as_slice()].concat())
    };
    let Environment { preload, library_path, .. } = environment;
    let all = [one(PRELOAD, preload), one(LIBRARY_PATH, library_path)];
    let all: Vec<Vec<u8>> = all.into_iter().flatten().collect();
    let text = BString::from(all.join(&0));
    (!text.is_empty() && text.len() <= LONGEST).then_some(text)
}

/// The reverse of [`text`]. Other variables are ignored.
pub(super) fn read(text: &[u8]) -> Environment {
    let value = |name: &[u8]| {
        let mut variables = text.split_str(b"\0");
        variables.find_map(|variable| variable.strip_prefix(name)).map(BString::from)
    };
    let (library_path, preload) = (value(LIBRARY_PATH), value(PRELOAD));
    Environment { library_path, preload, ..Environment::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_again() {
        let (a, b) = (Some(BString::from("/a.so:/b.so")), Some(BString::from("/d:")));
        for (preload, library_path) in [(&a, &b), (&a, &None), (&None, &b)] {
            let (preload, library_path) = (preload.clone(), library_path.clone());
            let variables = Environment { library_path, preload, ..Environment::default() };
            assert_eq!(read(&text(&variables).expect("a text")), variables);
        }
        assert_eq!(text(&Environment::default()), None);
        let long = Some(BString::from("/x".repeat(LONGEST)));
        assert_eq!(text(&Environment { library_path: long, ..Environment::default() }), None);
    }
}
