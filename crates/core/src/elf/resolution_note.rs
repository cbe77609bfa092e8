//! Decodes the descriptor of a resolution note (`.note.nixos.ldcache`).
//!
//! The descriptor is a sequence of pairs of NUL-terminated strings, a needed string and a list. An
//! empty string ends it. The elements of a list are separated by `:`. `=PATH` is a file to open,
//! `?DIR` a directory to search, and `?` the current directory. A complete note starts with
//! [`COMPLETE`].

use bstr::{BStr, ByteSlice};
use thiserror::Error;

/// The start of a complete note, whose lists name every directory that can change. It is a pair of
/// a name that no lookup has and a valid list, so that older readers skip it.
pub const COMPLETE: &[u8] = b"/complete/1\0?\0";

/// One element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// `=PATH`: a file to open. The path is absolute or starts with a DST.
    Exact(&'a BStr),
    /// `?DIR`: a directory to search, its DSTs not expanded. An empty string is the current
    /// directory.
    Hint(&'a BStr),
}

impl<'a> Answer<'a> {
    /// Returns the directory in which the answer leads to a name, or `None` if it leads to another one.
    pub(crate) fn dir(self, name: &BStr) -> Option<&'a [u8]> {
        match self {
            Self::Exact(path) => path.strip_suffix(name.as_bytes()).filter(|it| it.ends_with(b"/")),
            Self::Hint(dir) => Some(dir.as_bytes()),
        }
    }
}

/// Returned if a descriptor is not a valid resolution note. A loader then ignores the note and
/// makes the plain search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the note {0}")]
pub struct NoteError(pub &'static str);

/// The answers for one needed string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The needed string as in `DT_NEEDED`.
    pub needed: &'a BStr,
    /// The answers in the order in which the loader tries them.
    pub answers: Vec<Answer<'a>>,
}

/// Parses a descriptor ([`super::Notes::resolution`]). The iterator ends at the empty string or
/// after the first error. [`COMPLETE`] and the bytes after the empty string are left out.
pub fn records(descriptor: &[u8]) -> impl Iterator<Item = Result<Record<'_>, NoteError>> {
    let mut left = Some(descriptor.strip_prefix(COMPLETE).unwrap_or(descriptor));
    std::iter::from_fn(move || {
        // After an error `left` stays `None`, which ends the iterator.
        let Some((needed, rest)) = left.take()?.split_once_str("\0") else {
            return Some(Err(NoteError("ends too early")));
        };
        // An empty string ends the table, so that padding after it does no harm.
        if needed.is_empty() {
            return None;
        }
        let Some((list, rest)) = rest.split_once_str("\0") else {
            return Some(Err(NoteError("ends too early")));
        };
        let elements = list.split_str(":").filter(|_| !list.is_empty());
        let answers: Result<_, _> = elements.map(answer).collect();
        left = answers.is_ok().then_some(rest);
        Some(answers.map(|answers| Record { needed: needed.as_bstr(), answers }))
    })
}

/// Returns the answers of a complete note for a name, of the first record if it has two. They are empty
/// if no record has the name. Returns `None` if the note is incomplete, or invalid at any place: a note
/// that is half valid is not trusted, because the plain search is always correct.
pub(crate) fn of_complete<'a>(
    note: &'a [u8],
    name: &BStr,
    is_valid: fn(&Record<'_>) -> bool,
) -> Option<Vec<Answer<'a>>> {
    let note = Some(note).filter(|note| note.starts_with(COMPLETE))?;
    let mut answers = None;
    for record in records(note) {
        let record = record.ok().filter(is_valid)?;
        if record.needed == name {
            answers.get_or_insert(record.answers);
        }
    }
    Some(answers.unwrap_or_default())
}

fn answer(element: &[u8]) -> Result<Answer<'_>, NoteError> {
    match element.split_first() {
        Some((b'=', [])) => Err(NoteError("has an exact answer without a path")),
        Some((b'=', path)) => Ok(Answer::Exact(path.as_bstr())),
        Some((b'?', dir)) => Ok(Answer::Hint(dir.as_bstr())),
        _ => Err(NoteError("has an element that is neither exact nor a hint")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(path: &str) -> Answer<'_> {
        Answer::Exact(path.as_bytes().as_bstr())
    }

    fn hint(dir: &str) -> Answer<'_> {
        Answer::Hint(dir.as_bytes().as_bstr())
    }

    /// The descriptor is that of `patchelf --build-resolution-cache` (0.19.3) for the run path
    /// `/s/a:/s/b:$ORIGIN/x:rel::`, with shorter paths.
    #[test]
    fn descriptor_as_patchelf_writes_it() {
        let descriptor = b"liba.so\0=/s/a/liba.so:?$ORIGIN/x:?rel:?:?\0\
            libb.so\0=/s/b/libb.so:?$ORIGIN/x:?rel:?:?\0\0";
        let read: Vec<_> = records(descriptor).map(Result::unwrap).collect();
        let tail = [hint("$ORIGIN/x"), hint("rel"), hint(""), hint("")];
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].needed, "liba.so");
        assert_eq!(read[0].answers, [&[exact("/s/a/liba.so")], &tail[..]].concat());
        assert_eq!(read[1].needed, "libb.so");
        assert_eq!(read[1].answers, [&[exact("/s/b/libb.so")], &tail[..]].concat());
    }

    #[test]
    fn empty_note_and_empty_list() {
        assert_eq!(records(b"\0").count(), 0);
        let read: Vec<_> = records(b"liba.so\0\0libb.so\0?d\0\0").map(Result::unwrap).collect();
        assert_eq!(read[0].answers, []);
        assert_eq!(read[1].answers, [hint("d")]);
    }

    #[test]
    fn every_truncation_is_an_error_and_ends_the_iterator() {
        let descriptor = b"liba.so\0=/s/a/liba.so\0\0";
        for len in 0..descriptor.len() {
            let mut last = None;
            for (count, record) in records(&descriptor[..len]).enumerate() {
                assert!(count < 2);
                last = Some(record);
            }
            assert_eq!(last, Some(Err(NoteError("ends too early"))), "at {len}");
        }
    }

    #[test]
    fn unknown_elements_are_errors() {
        for (list, error) in [
            ("/s/liba.so", NoteError("has an element that is neither exact nor a hint")),
            ("?d:", NoteError("has an element that is neither exact nor a hint")),
            ("=", NoteError("has an exact answer without a path")),
        ] {
            let descriptor = format!("liba.so\0{list}\0\0");
            let read: Vec<_> = records(descriptor.as_bytes()).collect();
            assert_eq!(read, [Err(error)], "{list}");
        }
    }
}
