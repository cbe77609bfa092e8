//! The `note` strategy: writes a resolution note into each object (`docs/note-format.md`).
//!
//! Each object is planned on its own. Its note has the answers of its own run path, which hold in
//! every program (see `own`). The note never gives another answer than the plain search: a directory
//! that may change becomes a hint at its position in the order, so that the note is complete.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::applied::{Applied, Verdict};
use super::own::{self, OwnDir, OwnPath, Standing};
use super::plan::{FilePlan, Finding, FindingKind, Plan, PlannedAnswer};
use super::row::{Row, Unit};
use super::settings::{self, Settings};
use crate::closure::{Subject, SubjectKind};
use crate::edit::Edit;
use crate::elf::resolution_note::{self, Answer, COMPLETE};
use crate::facts::Format;
use crate::fs::{FileSystem, OpenedFile};
use crate::path::{self, PATH_MAX};
use crate::search::dst;

/// The row of `note`.
pub const ROW: Row = Row {
    unit: Unit::Object(plan),
    format: Some(Format::Notes),
    file: None,
    verify,
    unnamed: |_| None,
};

/// Plans the note of one object. `subject.path` may be any path to the object. The plan has the path
/// with links resolved.
#[must_use]
pub fn plan(fs: &dyn FileSystem, subject: &Subject, settings: &Settings) -> Plan {
    let path = super::real_path(fs, subject.path.as_ref());
    let own = OwnPath::new(fs, subject, settings);
    let names = own::names(&subject.view, &settings.dlopen);
    let reason = match reason_to_skip(subject) {
        None if names.is_empty() => Some(FindingKind::NothingNeeded),
        None if own.dirs.is_empty() => Some(FindingKind::NoRunPath),
        reason => reason,
    };
    let (mut plan, mut answers) = (Plan::default(), Vec::new());
    for needed in names.into_iter().filter(|_| reason.is_none()) {
        let (answer, finding) = answer(&own, needed);
        plan.findings.extend(finding.map(|what| Finding::of(&path, &answer.needed, what)));
        answers.push(answer);
    }
    let is_recorded = |answer: &&PlannedAnswer| answer.exact.is_some() || !answer.hints.is_empty();
    let records: Vec<&PlannedAnswer> = answers.iter().filter(is_recorded).collect();
    // A note without records would only cost the loader time.
    let wanted = (!records.is_empty()).then(|| descriptor(&records));
    if wanted.is_none() {
        let what = reason.unwrap_or(FindingKind::NothingToSkip);
        plan.findings.push(Finding::of_file(path.as_ref(), what));
    }
    // A file that gets no note loses an existing one.
    let is_changed = subject.view.notes.resolution != wanted;
    let edits = is_changed.then_some(Edit::ResolutionNote(wanted)).into_iter().collect();
    plan.files.push(FilePlan { path, edits, answers });
    plan
}

/// Writes the descriptor of a complete note with a record for each of these answers, which are sorted by
/// needed string: the directories to search first, then the file to open.
fn descriptor(records: &[&PlannedAnswer]) -> Vec<u8> {
    let list = |record: &&PlannedAnswer| -> Vec<Vec<u8>> {
        let hints = record.hints.iter().map(|dir| [b"?", dir.as_slice()].concat());
        hints.chain(record.exact.iter().map(|path| [b"=", path.as_slice()].concat())).collect()
    };
    let records = records.iter().map(|record| (record.needed.as_ref(), list(record)));
    write(COMPLETE.to_vec(), records)
}

/// Writes the records of a descriptor, each with its needed string and its list, and the end.
pub(super) fn write<'a>(
    mut bytes: Vec<u8>,
    records: impl IntoIterator<Item = (&'a BStr, Vec<Vec<u8>>)>,
) -> Vec<u8> {
    for (needed, list) in records {
        bytes.extend([needed.as_bytes(), b"\0", &list.join(&b':'), b"\0"].concat());
    }
    bytes.push(0);
    bytes
}

/// Returns the reason why this file is skipped, if it is.
pub(super) fn reason_to_skip(subject: &Subject) -> Option<FindingKind> {
    if subject.kind == SubjectKind::Static {
        return Some(FindingKind::StaticProgram);
    }
    subject.view.soname().and_then(|soname| settings::special(soname))
}

/// Makes the answer to one needed string, in the order of the run path. It ends at the first file
/// that cannot change. An answer of hints only is kept if it leads to a file and skips a directory.
fn answer(own: &OwnPath<'_>, needed: BString) -> (PlannedAnswer, Option<FindingKind>) {
    let mut answer = PlannedAnswer { needed, ..PlannedAnswer::default() };
    let needed = answer.needed.as_bstr();
    let mut finding = expressible(needed).err();
    if finding.is_some() {
        return (answer, finding);
    }
    let (mut skipped, mut found) = (false, None);
    for dir in &own.dirs {
        let look = own.look(dir, needed);
        match (&look, dir.standing) {
            (Ok(Some(_)), Standing::Fixed | Standing::Moves) => match exact_path(dir, needed) {
                Ok(path) => {
                    answer.exact = Some(path);
                    return (answer, finding);
                }
                Err(what) => finding = Some(what),
            },
            (Ok(None), Standing::Fixed) => {
                skipped = true;
                continue;
            }
            (Err(what), _) => finding = Some(what.clone()),
            _ => {}
        }
        if expressible(&dir.written).is_err() {
            // The note cannot name this directory, so it must not answer from a later one.
            finding.get_or_insert_with(|| FindingKind::Inexpressible(dir.written.clone()));
            break;
        }
        answer.hints.push(dir.written.clone());
        if matches!(look, Ok(Some(_))) && found.is_none() {
            found = Some((answer.hints.len(), skipped));
        }
        if finding.is_some() {
            break;
        }
    }
    match found {
        // Hints after the answer would only repeat the plain search.
        Some((keep, true)) => answer.hints.truncate(keep),
        _ => answer.hints.clear(),
    }
    // Only a `DT_NEEDED` must be found. The other recorded names may be missing.
    if found.is_none() && finding.is_none() && own.view.needed().any(|name| name == needed) {
        finding = Some(FindingKind::NotByRunPath);
    }
    (answer, finding)
}

/// Makes the exact answer in a directory, with the directory as in the run path.
fn exact_path(dir: &OwnDir, needed: &BStr) -> Result<BString, FindingKind> {
    let path = path::join(&dir.written, needed);
    expressible(&path)?;
    let expanded = dir.name.as_ref().map_or(0, |name| name.len()) + needed.len();
    if expanded >= PATH_MAX {
        return Err(FindingKind::TooLong(path));
    }
    Ok(path)
}

/// Returns an error for separators of a list and for control bytes, which no store path has.
pub(super) fn expressible(text: &[u8]) -> Result<(), FindingKind> {
    let is_bad = |byte: &u8| matches!(byte, b':' | b';') || byte.is_ascii_control();
    if text.iter().any(is_bad) {
        return Err(FindingKind::Inexpressible(text.into()));
    }
    Ok(())
}

/// Returns an error for a path that the loader would not open as written.
pub(super) fn openable(path: &BStr) -> Result<(), FindingKind> {
    expressible(path)?;
    if path.len() >= PATH_MAX {
        return Err(FindingKind::TooLong(path.to_owned()));
    }
    if path.first() != Some(&b'/') {
        return Err(FindingKind::Relative(path.to_owned()));
    }
    if dst::has_token(path) {
        return Err(FindingKind::HoldsToken(path.to_owned()));
    }
    Ok(())
}

/// Opens a file that the loader would open as written.
pub(super) fn opened(fs: &dyn FileSystem, path: &BString) -> Result<Arc<OpenedFile>, FindingKind> {
    openable(path.as_ref())?;
    fs.open(path.as_ref()).map_err(|errno| FindingKind::Unreadable { path: path.clone(), errno })
}

/// Checks the note of an object: one of becalm, of patchelf 0.19.3 or of the hook of nixpkgs.
fn verify(applied: &Applied<'_>) -> Vec<(BString, Verdict)> {
    let Some(descriptor) = &applied.subject.view.notes.resolution else { return Vec::new() };
    let mut checked: Vec<(BString, Verdict)> = Vec::new();
    for record in resolution_note::records(descriptor) {
        match record {
            // A loader ignores the whole note, so earlier verdicts do not count.
            Err(error) => {
                return vec![(BString::default(), Verdict::Malformed { says: error.to_string() })];
            }
            Ok(record) => checked.push((record.needed.to_owned(), verify_record(applied, &record))),
        }
    }
    let recorded = checked.len();
    for name in &applied.names {
        if checked[..recorded].iter().any(|(needed, _)| needed == name) {
            continue;
        }
        if let Some(is) = answer(&applied.own, name.clone()).0.exact {
            checked.push((name.clone(), Verdict::Missing { is }));
        }
    }
    checked
}

/// Follows one list as the loader does.
fn verify_record(applied: &Applied<'_>, record: &resolution_note::Record<'_>) -> Verdict {
    let Applied { own, names, .. } = applied;
    let needed = record.needed;
    if !names.iter().any(|name| name == needed) {
        return Verdict::Superfluous;
    }
    let mut hints: Vec<&BStr> = Vec::new();
    let mut gone = false;
    for answer in &record.answers {
        let found = match *answer {
            Answer::Exact(path) => {
                let path = own.expand(path).filter(|path| applied.is_fit(path.as_ref()));
                gone |= path.is_none();
                path
            }
            Answer::Hint(dir) => {
                hints.push(dir);
                own.look(&own.dir(dir), needed).ok().flatten()
            }
        };
        if found.is_some() {
            let is_hint = |dir: &OwnDir| {
                hints.iter().any(|hint| own.dir(hint) == *dir || *hint == dir.written)
            };
            return applied.compare_skipping(needed, found, is_hint);
        }
    }
    // The plain search replaces a missing answer. An answer whose file is gone is stale.
    if gone {
        return Verdict::Stale { says: None, is: own.answer(needed).map(|(_, is)| is) };
    }
    Verdict::True
}
