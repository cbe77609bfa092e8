//! The tables of fields in `docs/json.md` are those of the reports' definitions: their names as
//! serde writes them, their doc comments as meanings. So are the classes of the Python package.
//! `BECALM_BLESS=1` writes both anew.
//!
//! A table stands between `<!-- fields: FILE TYPE -->` and `<!-- end of fields -->`.

mod definitions;
mod python;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use definitions::Definitions;

const BEGIN: &str = "<!-- fields: ";
const END: &str = "<!-- end of fields -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder above").to_owned()
}

/// The page with each of its tables made anew.
fn page(text: &str, definitions: &Definitions) -> String {
    let mut page = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (marker, after) = after.split_once(" -->\n").expect("the marker ends its line");
        let (_, after) = after.split_once(END).expect("a table has an end");
        let (file, name) = marker.split_once(' ').expect("a file and a type");
        let _ = write!(page, "{before}{BEGIN}{marker} -->\n\n");
        page.push_str("| field | meaning |\n| --- | --- |\n");
        for (field, meaning) in definitions.fields(file, name) {
            let _ = writeln!(page, "| `{field}` | {meaning} |");
        }
        let _ = write!(page, "\n{END}");
        rest = after;
    }
    page + rest
}

#[test]
fn the_page_has_the_fields_of_the_reports() {
    compare("docs/json.md", |text| page(text, &Definitions::new(root())));
}

#[test]
fn the_python_package_has_the_fields_of_the_reports() {
    let module = "packaging/python/becalm/_reports.py";
    compare(module, |_| python::module(&Definitions::new(root())));
}

/// Compares a file with what it should be, or writes it.
fn compare(file: &str, made: impl Fn(&str) -> String) {
    let path = root().join(file);
    let text = fs::read_to_string(&path).expect("the file");
    let now = made(&text);
    if std::env::var_os("BECALM_BLESS").is_some() {
        fs::write(&path, &now).expect("the file is written");
    } else {
        assert_eq!(text, now, "{file} is out of date; BECALM_BLESS=1 writes it");
    }
}

#[test]
fn a_table_has_nested_lists_flattened_enums_and_values() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    fs::write(
        dir.path().join("a.rs"),
        r#"
            struct Report {
                /// Their
                /// list.
                #[serde(rename = "others")]
                parts: Vec<Part>,
                /// How it went.
                #[serde(flatten)]
                outcome: Outcome,
            }
            struct Part {
                /// The kind.
                #[serde(skip_serializing_if = "Option::is_none")]
                kind: Option<Kind>,
            }
            /// Of what kind.
            #[derive(Serialize)]
            #[serde(rename_all = "kebab-case")]
            enum Kind {
                /// Plain.
                Plain,
                /// Not plain.
                NotPlain,
            }
            /// How.
            #[derive(Serialize)]
            #[serde(tag = "status", rename_all = "kebab-case")]
            enum Outcome {
                /// Fine.
                Fine,
                /// Bad.
                Bad {
                    /// Why.
                    why: String,
                },
            }
        "#,
    )
    .expect("written");
    let fields = Definitions::new(dir.path().to_owned()).fields("a.rs", "Report");
    let fields: Vec<(&str, &str)> = fields.iter().map(|(f, m)| (f.as_str(), m.as_str())).collect();
    assert_eq!(
        fields,
        [
            ("others[]", "Their list."),
            (
                "others[].kind",
                "The kind. `plain`: Plain. `not-plain`: Not plain. Absent if there is none."
            ),
            ("status", "How. `fine`: Fine. `bad`: Bad."),
            ("why", "If `bad`: Why."),
        ]
    );
}
