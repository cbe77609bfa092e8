//! Decodes the JSON of `.note.dlopen`: the sonames that an object may open with `dlopen` (UAPI
//! group specification "ELF Dlopen Metadata").

use bstr::BString;

/// Decodes the notes of one object ([`super::Notes::dlopen`]). Returns the sonames of the alternative
/// libraries of each feature, best first. Text that is not a JSON array is skipped, and so are elements
/// without a list of sonames.
#[must_use]
pub fn dlopen_sonames(notes: &[BString]) -> Vec<Vec<String>> {
    notes
        .iter()
        .filter_map(|note| serde_json::from_slice::<Vec<serde_json::Value>>(note).ok())
        .flatten()
        .filter_map(|mut entry| serde_json::from_value(entry.get_mut("soname")?.take()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<Vec<String>> {
        dlopen_sonames(&[BString::from(text)])
    }

    #[test]
    fn entry_with_every_field() {
        let text = r#"[{"feature":"lz4","description":"Compression","priority":"suggested",
            "soname":["liblz4.so.1","liblz4.so.0"]}]"#;
        assert_eq!(entries(text), [["liblz4.so.1".to_owned(), "liblz4.so.0".to_owned()]]);
    }

    #[test]
    fn malformed_text_and_elements_are_skipped() {
        assert!(entries("not json").is_empty());
        assert!(entries(r#"{"soname":["a"]}"#).is_empty());
        assert!(entries("\u{0}").is_empty());
        let mixed = entries(r#"[1, {"soname":"a"}, {"feature":"x"}, {"soname":["b"]}]"#);
        assert_eq!(mixed.len(), 1);
        assert_eq!(mixed[0], ["b"]);
        assert!(entries(&"[".repeat(100_000)).is_empty());
    }
}
