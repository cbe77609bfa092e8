//! The `note` carrier: object → the descriptor of its resolution note
//! (`docs/note-format.md`).
//!
//! Each object is planned alone. Its note holds what its own run path answers, which is the
//! same in whatever program it is loaded into (see `own`), and never more than the plain
//! search would give: what may change stays a hint, in its place in the order.

use bstr::{BStr, BString};

use super::own::{self, Ended, Look, OwnDir, OwnPath, Standing};
use super::plan::{FilePlan, Finding, Plan, PlannedAnswer, What};
use super::settings::{self, Settings, Special};
use crate::closure::{Subject, SubjectKind};
use crate::edit::Edit;
use crate::fs::FileSystem;
use crate::search::dst;

/// `PATH_MAX`: a path and its NUL fit into this many bytes.
const PATH_MAX: usize = 4096;

/// Plans the note of one object. `subject.path` may be any path to it; the plan names the
/// file it leads to.
#[must_use]
pub fn plan(fs: &dyn FileSystem, subject: &Subject, settings: &Settings) -> Plan {
    let path = super::real_path(fs, subject.path.as_ref());
    if let Some(what) = passed_over(subject) {
        return taken_away(path, subject, what);
    }
    let own = OwnPath::new(fs, path.as_ref(), subject, settings);
    let names = own::names(&subject.view, &settings.dlopen);
    if names.is_empty() || own.dirs.is_empty() {
        let what = if names.is_empty() { What::NothingNeeded } else { What::NoRunPath };
        return taken_away(path, subject, what);
    }
    let mut plan = Plan::default();
    let mut records = Vec::new();
    let mut answers = Vec::new();
    for needed in names {
        let list = list(&own, needed.as_ref(), subject);
        if let Some(what) = list.left {
            let needed = Some(needed.clone());
            plan.findings.push(Finding { path: path.clone(), needed, what });
        }
        answers.push(PlannedAnswer {
            needed: needed.clone(),
            exact: list.exact.clone(),
            hints: list.hints.clone(),
        });
        if list.exact.is_some() || !list.hints.is_empty() {
            records.push(Record { needed, hints: list.hints, exact: list.exact });
        }
    }
    let wanted = (!records.is_empty()).then(|| descriptor(&records));
    if wanted.is_none() {
        let what = What::NothingToSkip;
        plan.findings.push(Finding { path: path.clone(), needed: None, what });
    }
    let edits = edits(subject, wanted);
    plan.files.push(FilePlan { path, edits, answers });
    plan
}

/// One record of a note: directories to search first, then the file to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The needed string.
    pub needed: BString,
    /// Directories as the run path writes them; empty for the current one.
    pub hints: Vec<BString>,
    /// The file: absolute, or beginning with `$ORIGIN`.
    pub exact: Option<BString>,
}

/// The descriptor of records that are sorted by needed string.
#[must_use]
pub fn descriptor(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        bytes.extend_from_slice(&record.needed);
        bytes.push(0);
        let hints = record.hints.iter().map(|dir| (b'?', dir));
        let exact = record.exact.iter().map(|path| (b'=', path));
        for (index, (mark, text)) in hints.chain(exact).enumerate() {
            if index > 0 {
                bytes.push(b':');
            }
            bytes.push(mark);
            bytes.extend_from_slice(text);
        }
        bytes.push(0);
    }
    bytes.push(0);
    bytes
}

/// Why a file is none for a carrier that speaks of its needed strings.
pub(super) fn passed_over(subject: &Subject) -> Option<What> {
    if subject.kind == SubjectKind::Static {
        return Some(What::StaticProgram);
    }
    let soname = subject.view.dynamic.as_ref().and_then(|dynamic| dynamic.soname.as_ref());
    match soname.and_then(|soname| settings::special(soname)) {
        Some(Special::Loader) => Some(What::Loader),
        Some(Special::Libc) => Some(What::Libc),
        None => None,
    }
}

/// The plan for a file that is to have no note.
fn taken_away(path: BString, subject: &Subject, what: What) -> Plan {
    let mut plan = Plan::only(path.as_ref(), what);
    let edits = edits(subject, None);
    plan.files.push(FilePlan { path, edits, answers: Vec::new() });
    plan
}

fn edits(subject: &Subject, wanted: Option<Vec<u8>>) -> Vec<Edit> {
    if subject.view.notes.resolution == wanted {
        return Vec::new();
    }
    vec![Edit::ResolutionNote(wanted)]
}

/// What is to be recorded for one needed string.
#[derive(Default)]
struct List {
    hints: Vec<BString>,
    exact: Option<BString>,
    left: Option<What>,
}

/// The elements for one needed string, in the order of the run path. The search ends at the
/// first answer that cannot change. Hints alone are worth a record only where they lead to an
/// answer past a directory that is skipped.
fn list(own: &OwnPath<'_>, needed: &BStr, subject: &Subject) -> List {
    let mut list = List::default();
    if let Err(what) = expressible_name(needed) {
        list.left = Some(what);
        return list;
    }
    let (mut skipped, mut found) = (false, None);
    for dir in &own.dirs {
        let look = own.look(dir, needed);
        match (&look, dir.standing) {
            (Look::Hit, Standing::Fixed | Standing::Moves) => match exact_path(dir, needed) {
                Ok(path) => {
                    list.exact = Some(path);
                    return list;
                }
                Err(what) => list.left = Some(what),
            },
            (Look::Nothing, Standing::Fixed) => {
                skipped = true;
                continue;
            }
            (Look::Ends(ended), _) => list.left = Some(ended.what()),
            _ => {}
        }
        if expressible(&dir.written).is_err() {
            // Nothing may be skipped past what cannot be named.
            list.left.get_or_insert_with(|| What::Inexpressible(dir.written.clone()));
            break;
        }
        list.hints.push(dir.written.clone());
        if look == Look::Hit && found.is_none() {
            found = Some((list.hints.len(), skipped));
        }
        if list.left.is_some() {
            break;
        }
    }
    match found {
        Some((keep, true)) => list.hints.truncate(keep),
        _ => list.hints.clear(),
    }
    if found.is_none() && list.left.is_none() && is_needed(subject, needed) {
        list.left = Some(What::NotByRunPath);
    }
    list
}

/// The exact answer that a note may hold for a needed string, if any.
pub(super) fn exact(own: &OwnPath<'_>, needed: &BStr, subject: &Subject) -> Option<BString> {
    list(own, needed, subject).exact
}

/// True for a `DT_NEEDED`; what else is recorded need not be there.
fn is_needed(subject: &Subject, needed: &BStr) -> bool {
    subject.view.needed().any(|name| name == needed)
}

impl Ended {
    pub(super) fn what(&self) -> What {
        match self {
            Ended::Refused(path) => What::GivesUp(path.clone()),
            Ended::Errno(path, errno) => What::Unreadable { path: path.clone(), errno: *errno },
        }
    }
}

/// The exact answer in a directory, written as the run path writes it.
fn exact_path(dir: &OwnDir, needed: &BStr) -> Result<BString, What> {
    let slash: &[u8] = if dir.written.ends_with(b"/") { b"" } else { b"/" };
    let path: BString = [dir.written.as_slice(), slash, needed].concat().into();
    expressible(&path)?;
    let expanded = dir.name.as_ref().map_or(0, |name| name.len()) + needed.len();
    if expanded >= PATH_MAX {
        return Err(What::TooLong(path));
    }
    Ok(path)
}

fn expressible_name(needed: &BStr) -> Result<(), What> {
    if needed.is_empty() {
        return Err(What::EmptyNeeded);
    }
    expressible(needed)
}

/// Refuses what a list could not hold, and control bytes, which no store path has.
pub(super) fn expressible(text: &[u8]) -> Result<(), What> {
    let is_bad = |byte: &u8| matches!(byte, b':' | b';') || byte.is_ascii_control();
    if text.iter().any(is_bad) {
        return Err(What::Inexpressible(text.into()));
    }
    Ok(())
}

/// Refuses an absolute path that the loader would not open as it is written.
pub(super) fn openable(path: &BStr) -> Result<(), What> {
    expressible(path)?;
    if path.len() >= PATH_MAX {
        return Err(What::TooLong(path.to_owned()));
    }
    if path.first() != Some(&b'/') {
        return Err(What::Relative(path.to_owned()));
    }
    if dst::has_token(path) {
        return Err(What::HoldsToken(path.to_owned()));
    }
    Ok(())
}
