//! Decodes the JSON of `.note.dlopen`: the sonames that an object may open with `dlopen` (UAPI
//! group specification "ELF Dlopen Metadata").

use bstr::BString;
use serde::Deserialize;

/// One feature and its libraries.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DlopenEntry {
    /// The sonames of alternative libraries, best first.
    pub soname: Vec<String>,
}

/// Decodes the notes of one object ([`super::Notes::dlopen`]). Text that is not a JSON array is
/// skipped, and so are elements without a list of sonames.
#[must_use]
pub fn dlopen_entries(notes: &[BString]) -> Vec<DlopenEntry> {
    notes
        .iter()
        .filter_map(|note| serde_json::from_slice::<Vec<serde_json::Value>>(note).ok())
        .flatten()
        .filter_map(|entry| serde_json::from_value(entry).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<DlopenEntry> {
        dlopen_entries(&[BString::from(text)])
    }

    #[test]
    fn entry_with_every_field() {
        let text = r#"[{"feature":"lz4","description":"Compression","priority":"suggested",
            "soname":["liblz4.so.1","liblz4.so.0"]}]"#;
        assert_eq!(
            entries(text),
            [DlopenEntry { soname: vec!["liblz4.so.1".to_owned(), "liblz4.so.0".to_owned()] }]
        );
    }

    #[test]
    fn malformed_text_and_elements_are_skipped() {
        assert_eq!(entries("not json"), []);
        assert_eq!(entries(r#"{"soname":["a"]}"#), []);
        assert_eq!(entries("\u{0}"), []);
        let mixed = entries(r#"[1, {"soname":"a"}, {"feature":"x"}, {"soname":["b"]}]"#);
        assert_eq!(mixed.len(), 1);
        assert_eq!(mixed[0].soname, ["b"]);
        assert_eq!(entries(&"[".repeat(100_000)), []);
    }
}
