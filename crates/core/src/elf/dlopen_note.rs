//! The JSON of `.note.dlopen` → [`DlopenEntry`]: which sonames an object may open
//! while it runs (UAPI group specification "ELF Dlopen Metadata").

use bstr::BString;
use serde::Deserialize;

/// One feature and the libraries that bring it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DlopenEntry {
    /// Sonames, each an alternative to the others, best first.
    pub soname: Vec<String>,
    /// Short name of the feature.
    pub feature: Option<String>,
    /// What the feature is for, in words.
    pub description: Option<String>,
    /// How much the object wants it.
    #[serde(default)]
    pub priority: Priority,
}

/// How much an object wants a library it opens while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The object is of no use without it.
    Required,
    /// For rarely used features.
    Suggested,
    /// The default where a note names none, or one that is not known here.
    #[default]
    #[serde(other)]
    Recommended,
}

/// The entries of the notes of one object ([`super::Notes::dlopen`]) in order. Text
/// that is no JSON array, and elements without a list of sonames, are passed over.
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
            [DlopenEntry {
                soname: vec!["liblz4.so.1".to_owned(), "liblz4.so.0".to_owned()],
                feature: Some("lz4".to_owned()),
                description: Some("Compression".to_owned()),
                priority: Priority::Suggested,
            }]
        );
    }

    #[test]
    fn priority_is_recommended_unless_known() {
        let text = r#"[{"soname":["a"]},{"soname":["b"],"priority":"vital"},
            {"soname":["c"],"priority":"required"}]"#;
        let priorities: Vec<_> = entries(text).iter().map(|entry| entry.priority).collect();
        assert_eq!(priorities, [Priority::Recommended, Priority::Recommended, Priority::Required]);
    }

    #[test]
    fn malformed_text_and_elements_are_passed_over() {
        assert_eq!(entries("not json"), []);
        assert_eq!(entries(r#"{"soname":["a"]}"#), []);
        assert_eq!(entries("\u{0}"), []);
        let mixed = entries(r#"[1, {"soname":"a"}, {"feature":"x"}, {"soname":["b"]}]"#);
        assert_eq!(mixed.len(), 1);
        assert_eq!(mixed[0].soname, ["b"]);
        assert_eq!(entries(&"[".repeat(100_000)), []);
    }
}
