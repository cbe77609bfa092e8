//! The proposal of a strategy.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::farm_place::list_of;
use crate::edit::Edit;
use crate::fs::{Added, Errno};
use crate::lossy::{lossy, lossy_list, lossy_option};
use crate::path;

/// The changes to make and the findings. Paths are those of the file system given to the strategy
/// (see [`crate::fs::MappedFs`] for trees with another final path).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The file plans, sorted by path, one for each file that the strategy checked. A file plan
    /// without edits changes nothing.
    pub files: Vec<FilePlan>,
    /// The files to create. Parents come first. An existing file that is equal stays unchanged.
    pub creations: Vec<Created>,
    /// The parts that the plan leaves out.
    pub findings: Vec<Finding>,
}

/// The change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlan {
    /// The file, links resolved.
    pub path: BString,
    /// The edits. A file that needs no change has none.
    pub edits: Vec<Edit>,
    /// The planned answers to the needed strings, sorted.
    pub answers: Vec<PlannedAnswer>,
}

/// The answer for one needed string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlannedAnswer {
    /// The needed string.
    #[serde(serialize_with = "lossy")]
    pub needed: BString,
    /// The path that is opened without a search; none if the needed string is searched for.
    ///
    /// Its DSTs are not expanded.
    #[serde(serialize_with = "lossy_option")]
    pub exact: Option<BString>,
    /// Directories that are still searched before it.
    ///
    /// Their DSTs are not expanded.
    #[serde(serialize_with = "lossy_list")]
    pub hints: Vec<BString>,
}

/// A file or directory that a plan creates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Created {
    /// Its path.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The kind of creation.
    #[serde(flatten)]
    pub kind: Added,
}

/// An answer or file that a plan leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The needed string, if there is one.
    #[serde(serialize_with = "lossy_option")]
    pub needed: Option<BString>,
    /// The severity.
    pub severity: Severity,
    /// A description of the omission and its reason.
    #[serde(serialize_with = "text")]
    pub what: FindingKind,
}

fn text<S: Serializer>(what: &FindingKind, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(what)
}

impl Finding {
    /// Makes a finding about one needed string of a file.
    pub(super) fn of(path: &BString, needed: &BString, what: FindingKind) -> Self {
        Self { needed: Some(needed.clone()), ..Self::of_file(path.as_ref(), what) }
    }

    /// Makes a finding about a whole file.
    pub fn of_file(path: &BStr, what: FindingKind) -> Self {
        Self { path: path.to_owned(), needed: None, severity: what.severity(), what }
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The strategy does not apply to the file, or would not change its search.
    #[serde(rename = "passed-over")]
    Skipped,
    /// One needed string is left to the plain search.
    #[serde(rename = "left")]
    Deferred,
    /// Two answers differ. The needed string is left to the plain search.
    Conflict,
    /// A named file is not changed.
    Refused,
}

/// The kind of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FindingKind {
    /// The kernel starts the program without a loader.
    #[error("a static program: no loader searches for it")]
    StaticProgram,
    /// The file is the loader itself.
    #[error("the loader itself")]
    Loader,
    /// The file is the C library, which needs only its loader.
    #[error("the C library needs only its loader")]
    Libc,
    /// The object has no `DT_NEEDED`, and opens no soname with `dlopen` as far as is known.
    #[error("it needs no library")]
    NothingNeeded,
    /// The object has no run path.
    #[error("no run path: its search has nothing to skip")]
    NoRunPath,
    /// No directory of the run path may be skipped, or none of them has an answer.
    #[error("no directory of its run path may be skipped")]
    NothingToSkip,
    /// The file is not below a store prefix.
    #[error("it is not below a store prefix (--store)")]
    OutsideStores,
    /// The search finds no file for the needed string.
    #[error("the search finds no file")]
    Missing,
    /// The object's own run path has no file for the needed string. Any other answer depends on the
    /// program and the machine.
    #[error("its own run path does not answer it")]
    NotByRunPath,
    /// The keep list names it.
    #[error("keeps its short name (--keep)")]
    Kept,
    /// The answer depends on the other objects of the program.
    #[error("the answer {0} is that of this program, not of the object alone")]
    OfThisProgram(BString),
    /// The loader raises an error about this file, with or without the plan.
    #[error("{0}: the loader gives up here")]
    GivesUp(BString),
    /// The search of the directory ends with an unusual errno.
    #[error("{path}: cannot be opened: errno {}", errno.0)]
    Unreadable {
        /// The candidate.
        path: BString,
        /// The errno of `open`.
        errno: Errno,
    },
    /// The needed string is empty.
    #[error("an empty needed string")]
    EmptyNeeded,
    /// The format of the strategy cannot express the string.
    #[error("{0:?} cannot be written: it contains a separator or a control byte")]
    Inexpressible(BString),
    /// The path contains a dynamic string token, which the loader would replace.
    #[error("{0:?} cannot be written: the loader would replace its token")]
    HoldsToken(BString),
    /// The path exceeds the kernel's limit.
    #[error("{0}: longer than PATH_MAX")]
    TooLong(BString),
    /// The answer is relative and depends on the current directory.
    #[error("{0}: relative to the current directory")]
    Relative(BString),
    /// The object has another byte order than the rest of its package. A cache has only one.
    #[error("of another byte order than the rest of its package")]
    OtherByteOrder,
    /// The library uses `$ORIGIN`, which would have another value if a link led to the library.
    #[error("{0} uses its own directory ($ORIGIN) and cannot be reached by a link")]
    UsesOrigin(BString),
    /// The loader chooses one of several files by the CPU.
    #[error("{0} is one of several variants, and the CPU decides which is loaded")]
    Variant(BString),
    /// The program cannot name an audit module, for this reason.
    #[error("no DT_AUDIT entry: {0}")]
    NoAuditEntry(String),
    /// Two objects find different files for one needed string.
    #[error("{one} and {other} both answer it")]
    TwoAnswers {
        /// The first file.
        one: BString,
        /// The other file.
        other: BString,
    },
    /// A mutable element of the run path stands before the answer.
    #[error("{0} may change, or has variants, and is searched before the answer")]
    MutableBefore(BString),
    /// A foreign file exists at the path of a file to create.
    #[error("{0} exists and was not made by becalm")]
    InTheWay(BString),
    /// Two plans for this file differ.
    #[error("two plans for this file differ")]
    TwoPlans,
    /// The file is outside the paths that were named.
    #[error("it is outside the named paths")]
    OutsidePaths,
    /// The plan would change the load set of a program.
    #[error("the program would load other objects: {0}")]
    LoadedSetChanges(String),
    /// The plan would increase the number of failing calls.
    #[error("not changed: its start would make {after} failing calls instead of {before}")]
    MoreMisses {
        /// The failing calls without the plan.
        before: u64,
        /// The failing calls with the plan.
        after: u64,
    },
}

impl FindingKind {
    /// Returns the severity.
    #[must_use]
    fn severity(&self) -> Severity {
        use FindingKind::*;
        match self {
            StaticProgram | Loader | Libc | NothingNeeded | NoRunPath | NothingToSkip
            | OtherByteOrder | NoAuditEntry(_) => Severity::Skipped,
            TwoAnswers { .. } => Severity::Conflict,
            OutsideStores
            | OutsidePaths
            | InTheWay(_)
            | TwoPlans
            | LoadedSetChanges(_)
            | MoreMisses { .. } => Severity::Refused,
            // The others are about one needed string.
            _ => Severity::Deferred,
        }
    }
}

impl Plan {
    /// Merges plans of several objects or programs. If two change a file in different ways, the file
    /// is not changed and a finding names it.
    #[must_use]
    pub fn gather(parts: impl IntoIterator<Item = Plan>) -> Plan {
        let mut whole = Plan::default();
        let mut files: BTreeMap<BString, FilePlan> = BTreeMap::new();
        let mut made: FxHashMap<BString, usize> = FxHashMap::default();
        for part in parts {
            whole.findings.extend(part.findings);
            for file in part.files {
                let known = files.entry(file.path.clone()).or_insert_with(|| file.clone());
                if known.edits != file.edits {
                    known.edits.clear();
                    let path = file.path.as_ref();
                    whole.findings.push(Finding::of_file(path, FindingKind::TwoPlans));
                }
            }
            for creation in part.creations {
                match made.get(&creation.path) {
                    Some(&at) if whole.creations[at] == creation => {}
                    Some(_) => {
                        let finding =
                            Finding::of_file(creation.path.as_ref(), FindingKind::TwoPlans);
                        whole.findings.push(finding);
                    }
                    None => {
                        made.insert(creation.path.clone(), whole.creations.len());
                        whole.creations.push(creation);
                    }
                }
            }
        }
        whole.files = files.into_values().collect();
        whole
    }

    /// Returns the paths whose files the plan edits.
    #[must_use]
    pub fn edited_of(&self, mut paths: Vec<BString>) -> Vec<BString> {
        let is_edited = |path: &BString| {
            let at = self.files.binary_search_by(|file| file.path.cmp(path));
            at.is_ok_and(|at| !self.files[at].edits.is_empty())
        };
        paths.retain(is_edited);
        paths
    }

    /// Removes the edits of the files that `is_meant` selects, and the creations that only these edits
    /// use. Returns false if none of the files has edits.
    pub fn withdraw(&mut self, is_meant: impl Fn(&BString) -> bool) -> bool {
        let mut listed: FxHashSet<BString> = FxHashSet::default();
        let mut is_changed = false;
        for file in self.files.iter_mut().filter(|file| is_meant(&file.path)) {
            is_changed |= !file.edits.is_empty();
            let edits = std::mem::take(&mut file.edits);
            listed.extend(edits.iter().flat_map(Edit::listed).map(ToOwned::to_owned));
        }
        let edits = self.files.iter().flat_map(|file| &file.edits);
        let kept: FxHashSet<&BStr> = edits.flat_map(Edit::listed).collect();
        listed.retain(|place| !kept.contains(place.as_bstr()));
        // The list of changed objects goes with the farm of a whole closure.
        let lists: Vec<_> = listed.iter().filter_map(|farm| list_of(farm.as_ref())).collect();
        listed.extend(lists);
        self.creations.retain(|creation| {
            let path: &BStr = creation.path.as_ref();
            !listed.contains(path.as_bytes()) && !listed.contains(path::parent(path).as_bytes())
        });
        // Directories that would stay empty go as well. The content of one follows it.
        let mut parents: FxHashSet<BString> = FxHashSet::default();
        self.creations.reverse();
        self.creations.retain(|creation| {
            let path = &creation.path;
            let is_kept = creation.kind != Added::Directory || parents.contains(path);
            if is_kept {
                parents.insert(path::parent(path.as_ref()).to_owned());
            }
            is_kept
        });
        self.creations.reverse();
        is_changed
    }

    /// Makes a plan for one file.
    pub fn of_file(file: FilePlan) -> Self {
        Self { files: vec![file], ..Self::default() }
    }

    /// Makes a plan with one finding about a file.
    pub fn only(path: &BStr, what: FindingKind) -> Self {
        Self { findings: vec![Finding::of_file(path, what)], ..Self::default() }
    }
}
