//! What `becalm verify` finds of an index: one line a difference, or one JSON object.

use std::io::{self, Write};

use becalm_core::elf::machine_name;
use becalm_lib::escape::shown;
use becalm_lib::json::{ErrorJson, as_json, errors, lossy};
use becalm_lib::words::counted;
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::terminal::style::Look;
use crate::verify::index_report::{Difference, Verified, What};

#[derive(Serialize)]
struct VerifyJson<'a> {
    schema: &'static str,
    indexes: [IndexJson<'a>; 1],
    errors: Vec<ErrorJson<'a>>,
}

/// One index in the JSON.
#[derive(Serialize)]
pub(crate) struct IndexJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    machine: &'static str,
    objects: usize,
    edges: usize,
    stores_changed: bool,
    differences: Vec<DifferenceJson<'a>>,
}

#[derive(Serialize)]
struct DifferenceJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<String>,
    was: Option<String>,
    now: Option<String>,
}

impl<'a> IndexJson<'a> {
    /// What was found of an index.
    #[must_use]
    pub(crate) fn of(verified: &'a Verified) -> Self {
        Self {
            path: &verified.path,
            machine: machine_name(verified.target.machine),
            objects: verified.objects,
            edges: verified.edges,
            stores_changed: verified.stores_changed,
            differences: verified.differences.iter().map(DifferenceJson::of).collect(),
        }
    }
}

impl<'a> DifferenceJson<'a> {
    fn of(difference: &'a Difference) -> Self {
        let text = |bytes: &BString| Some(bytes.to_str_lossy().into_owned());
        let (kind, needed, was, now) = match &difference.what {
            What::Gone => ("gone", None, None, None),
            What::OtherRunPath => ("run-path", None, None, None),
            What::Answer { needed, was, now } => {
                ("answer", text(needed), text(was), now.as_ref().and_then(text))
            }
            What::Conditions { needed } => ("conditions", text(needed), None, None),
            What::StaticTls { was, now } => {
                ("static-tls", None, Some(was.to_string()), Some(now.to_string()))
            }
            What::LoadOrder => ("load-order", None, None, None),
            What::Bindings => ("bindings", None, None, None),
            What::Names => ("names", None, None, None),
            What::Changed => ("changed", None, None, None),
        };
        Self { path: &difference.path, kind, needed, was, now }
    }
}

/// `becalm/verify/1`, for one index.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn json(out: &mut impl Write, verified: &Verified) -> io::Result<()> {
    let json = VerifyJson {
        schema: "becalm/verify/1",
        indexes: [IndexJson::of(verified)],
        errors: errors(&verified.problems),
    };
    out.write_all(&as_json(&json))?;
    out.write_all(b"\n")
}

/// A line a difference, then the verdict.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn text(out: &mut impl Write, look: Look, verified: &Verified) -> io::Result<()> {
    for difference in &verified.differences {
        let path = shown(difference.path.as_ref());
        let path = if path.is_empty() { "the loader cache".to_owned() } else { path };
        writeln!(out, "{}  {path}: {}", look.bad("differs"), words(&difference.what))?;
    }
    let name = look.strong(&shown(verified.path.as_ref()));
    let objects = counted(verified.objects as u64, "object", "objects");
    let answers = counted(verified.edges as u64, "answer", "answers");
    let verdict = match verified.differences.len() as u64 {
        0 => look.good("as the search would answer"),
        number => look.bad(&counted(number, "difference", "differences")),
    };
    writeln!(out, "{name}: {objects}, {answers}: {verdict}")?;
    if verified.stores_changed {
        writeln!(
            out,
            "  packages may have come or gone since; becalm index --update takes them in"
        )?;
    }
    Ok(())
}

fn words(what: &What) -> String {
    match what {
        What::Gone => "not there any more, or asks no longer".to_owned(),
        What::OtherRunPath => "has another run path".to_owned(),
        What::Answer { needed, was, now: Some(now) } => {
            let [needed, was, now] = [needed, was, now].map(|text| shown(text.as_ref()));
            format!("{needed}: was {was}, now {now}")
        }
        What::Answer { needed, was, now: None } => {
            let [needed, was] = [needed, was].map(|text| shown(text.as_ref()));
            format!("{needed}: was {was}, now left to the loader")
        }
        What::Conditions { needed } => {
            format!("{}: the answer holds under other conditions", shown(needed.as_ref()))
        }
        What::StaticTls { was, now } => {
            format!("needs glibc.rtld.optional_static_tls={now} (0: the default), was {was}")
        }
        What::LoadOrder => "its start loads other objects, or in another order".to_owned(),
        What::Bindings => "its symbols bind otherwise, or it is no longer bound".to_owned(),
        What::Names => "a DT_RPATH names it, and it now answers other names".to_owned(),
        What::Changed => "not as it was; what rests on it is searched for".to_owned(),
    }
}
