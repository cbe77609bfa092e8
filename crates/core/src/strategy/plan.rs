//! What a carrier proposes.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

use crate::edit::Edit;
use crate::fs::Errno;

/// What is to be done, and what was found out on the way. Paths are as the file system that
/// was planned on names them (see [`crate::fs::MappedFs`] for trees that lie elsewhere).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One for each real file that was looked at, sorted by path; those without edits have
    /// nothing to do.
    pub files: Vec<FilePlan>,
    /// What is to be made, in an order in which it can be made.
    pub creations: Vec<Creation>,
    /// What the plan does not do, and why.
    pub findings: Vec<Finding>,
}

/// The change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlan {
    /// The file, links resolved.
    pub path: BString,
    /// The edits, none where the file is already as it should be.
    pub edits: Vec<Edit>,
    /// What becomes of each needed string that was looked at, sorted.
    pub answers: Vec<PlannedAnswer>,
}

/// What one resolution will become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedAnswer {
    /// The needed string.
    pub needed: BString,
    /// The file that is opened without a search, as it is written (a DST stays); `None` where
    /// the loader searches as before.
    pub exact: Option<BString>,
    /// Directories that the loader still searches before that, as they are written.
    pub hints: Vec<BString>,
}

/// Something new in the file system. What is already there as described is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// A directory, its parent being there.
    Directory(BString),
    /// A symbolic link.
    Link {
        /// Where it lies.
        path: BString,
        /// What it says: absolute, or relative to its directory.
        target: BString,
    },
    /// A regular file.
    File {
        /// Where it lies.
        path: BString,
        /// All its bytes.
        bytes: Vec<u8>,
    },
}

impl Creation {
    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &BStr {
        match self {
            Creation::Directory(path)
            | Creation::Link { path, .. }
            | Creation::File { path, .. } => path.as_ref(),
        }
    }
}

/// Something the plan leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file it is about.
    pub path: BString,
    /// The needed string it is about, where it is one.
    pub needed: Option<BString>,
    /// What it is.
    pub what: What,
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file is none for this carrier; nobody loses anything.
    PassedOver,
    /// One needed string is left to the plain search.
    Left,
    /// Two answers contradict each other; what they are about is left to the plain search.
    Conflict,
    /// The file is not changed though it was asked for.
    Refused,
}

/// What a plan leaves out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum What {
    /// No loader starts it.
    #[error("a static program: no loader searches for it")]
    StaticProgram,
    /// The loader itself.
    #[error("the loader itself")]
    Loader,
    /// The C library, which needs nothing but its loader.
    #[error("the C library needs nothing but its loader")]
    Libc,
    /// No `DT_NEEDED`, no soname opened while it runs.
    #[error("it needs nothing")]
    NothingNeeded,
    /// No run path.
    #[error("no run path: its search has nothing to skip")]
    NoRunPath,
    /// No directory of the run path may be skipped, or none holds an answer.
    #[error("no directory of its run path may be skipped")]
    NothingToSkip,
    /// The file lies under no store prefix.
    #[error("it lies under no store prefix (--store)")]
    OutsideStores,
    /// Nothing answers the needed string.
    #[error("nothing answers it")]
    Missing,
    /// The object's own run path does not answer the needed string; what else does depends on
    /// the program and the machine.
    #[error("its own run path does not answer it")]
    NotByRunPath,
    /// The keep list names it.
    #[error("stays short (--keep)")]
    Kept,
    /// The answer depends on what else is loaded.
    #[error("the answer {0} is that of this program, not of the object alone")]
    OfThisProgram(BString),
    /// The loader would raise an error about what it finds there, and still does.
    #[error("{0}: the loader gives up here")]
    GivesUp(BString),
    /// The search of the directory ends with an unusual errno.
    #[error("{path}: cannot be opened: errno {}", errno.0)]
    Unreadable {
        /// The candidate.
        path: BString,
        /// Why.
        errno: Errno,
    },
    /// A needed string that is empty.
    #[error("an empty needed string")]
    EmptyNeeded,
    /// A string that the carrier has no way to write.
    #[error("{0:?} cannot be written: it holds a separator or a control byte")]
    Inexpressible(BString),
    /// A path that holds a dynamic string token, which the loader would replace.
    #[error("{0:?} cannot be written: the loader would replace its token")]
    HoldsToken(BString),
    /// Longer than the kernel takes.
    #[error("{0}: longer than PATH_MAX")]
    TooLong(BString),
    /// A relative answer, which depends on the current directory.
    #[error("{0}: relative to the current directory")]
    Relative(BString),
    /// Of another byte order than the rest of its package, whose cache has but one.
    #[error("of another byte order than the rest of its package")]
    OtherByteOrder,
    /// A library that speaks of its own directory, which would be another one by a link.
    #[error("{0} speaks of its own directory ($ORIGIN) and cannot be reached by a link")]
    UsesOrigin(BString),
    /// One of several files that the loader chooses from by the CPU.
    #[error("{0} is one of several variants, and the CPU decides which is loaded")]
    Variant(BString),
    /// Two files for one soname.
    #[error("{one} and {other} both answer it")]
    TwoAnswers {
        /// One of them.
        one: BString,
        /// The other.
        other: BString,
    },
    /// An element of the run path that may change stands before the answer.
    #[error("{0} may change, or has variants, and is searched before the answer")]
    MutableBefore(BString),
    /// Something is there in the way of what would be made.
    #[error("{0} is there and is not ours")]
    InTheWay(BString),
    /// Two plans for one file that differ.
    #[error("two plans for this file differ")]
    TwoPlans,
    /// The file is outside the paths that were named.
    #[error("it is outside the named paths")]
    OutsidePaths,
    /// The plan would change what a program loads.
    #[error("the program would load other objects: {0}")]
    LoadedSetChanges(String),
    /// The plan would leave more failing calls than there are.
    #[error("not changed: its start would make {after} failing calls instead of {before}")]
    MoreMisses {
        /// Failing calls as it is.
        before: u64,
        /// Failing calls with the plan carried out.
        after: u64,
    },
}

impl What {
    /// How much it weighs.
    #[must_use]
    pub fn severity(&self) -> Severity {
        use What::*;
        match self {
            StaticProgram | Loader | Libc | NothingNeeded | NoRunPath | NothingToSkip
            | OtherByteOrder => Severity::PassedOver,
            Missing
            | NotByRunPath
            | Kept
            | OfThisProgram(_)
            | GivesUp(_)
            | Unreadable { .. }
            | EmptyNeeded
            | Inexpressible(_)
            | HoldsToken(_)
            | TooLong(_)
            | Relative(_)
            | MutableBefore(_)
            | UsesOrigin(_)
            | Variant(_) => Severity::Left,
            TwoAnswers { .. } => Severity::Conflict,
            OutsideStores
            | OutsidePaths
            | InTheWay(_)
            | TwoPlans
            | LoadedSetChanges(_)
            | MoreMisses { .. } => Severity::Refused,
        }
    }
}

impl Plan {
    /// True where carrying it out would change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.creations.is_empty() && self.files.iter().all(|file| file.edits.is_empty())
    }

    /// Adds another plan, of other objects or of another program. A file that both change
    /// differently is changed by neither, and named.
    pub fn merge(&mut self, other: Plan) {
        let Plan { files, creations, findings } = other;
        self.findings.extend(findings);
        for file in files {
            self.add_file(file);
        }
        for creation in creations {
            self.add_creation(creation);
        }
    }

    /// Merges many plans at once, as [`Plan::merge`] does two.
    #[must_use]
    pub fn gather(parts: impl IntoIterator<Item = Plan>) -> Plan {
        let mut whole = Plan::default();
        let mut files: BTreeMap<BString, FilePlan> = BTreeMap::new();
        let mut made: FxHashMap<BString, usize> = FxHashMap::default();
        for part in parts {
            whole.findings.extend(part.findings);
            for file in part.files {
                let known = files.get_mut(&file.path);
                whole.findings.extend(known.and_then(|known| known.reconcile(&file)));
                files.entry(file.path.clone()).or_insert(file);
            }
            for creation in part.creations {
                match made.get(creation.path()) {
                    Some(&at) => {
                        whole.findings.extend(contradiction(&whole.creations[at], &creation))
                    }
                    None => {
                        made.insert(creation.path().to_owned(), whole.creations.len());
                        whole.creations.push(creation);
                    }
                }
            }
        }
        whole.files = files.into_values().collect();
        whole
    }

    /// Those of the paths whose files the plan edits.
    #[must_use]
    pub fn edited_of(&self, mut paths: Vec<BString>) -> Vec<BString> {
        let is_edited = |path: &BString| {
            let at = self.files.binary_search_by(|file| file.path.cmp(path));
            at.is_ok_and(|at| !self.files[at].edits.is_empty())
        };
        paths.retain(is_edited);
        paths
    }

    /// Removes the edits of the files that `is_meant` names, and what would be made for these
    /// edits alone. Returns false if none of them has edits.
    pub fn withdraw(&mut self, is_meant: impl Fn(&BString) -> bool) -> bool {
        let mut listed: FxHashSet<BString> = FxHashSet::default();
        let mut is_changed = false;
        for file in self.files.iter_mut().filter(|file| is_meant(&file.path)) {
            is_changed |= !file.edits.is_empty();
            listed.extend(file.edits.drain(..).flat_map(|e| owned(e.listed())));
        }
        let edits = self.files.iter().flat_map(|file| &file.edits);
        let kept: FxHashSet<&BStr> = edits.flat_map(Edit::listed).collect();
        listed.retain(|place| !kept.contains(place.as_bstr()));
        let lists = owned(listed.iter().filter_map(|farm| super::farm::list_of(farm.as_ref())));
        listed.extend(lists);
        self.creations.retain(|creation| {
            let path = creation.path();
            let dir = path.rfind_byte(b'/').map_or(path, |at| path[..at].as_bstr());
            !listed.contains(path.as_bytes()) && !listed.contains(dir.as_bytes())
        });
        self.drop_empty_directories();
        is_changed
    }

    /// Drops directories in which nothing would be made. A directory precedes what is in it.
    fn drop_empty_directories(&mut self) {
        let mut parents: FxHashSet<BString> = FxHashSet::default();
        let mut kept: Vec<Creation> = Vec::new();
        for creation in std::mem::take(&mut self.creations).into_iter().rev() {
            let path = creation.path();
            if matches!(creation, Creation::Directory(_)) && !parents.contains(path.as_bytes()) {
                continue;
            }
            parents.extend(path.rfind_byte(b'/').map(|at| BString::from(&path[..at])));
            kept.push(creation);
        }
        kept.reverse();
        self.creations = kept;
    }

    fn add_file(&mut self, file: FilePlan) {
        match self.files.binary_search_by(|known| known.path.cmp(&file.path)) {
            Err(at) => self.files.insert(at, file),
            Ok(at) => self.findings.extend(self.files[at].reconcile(&file)),
        }
    }

    fn add_creation(&mut self, creation: Creation) {
        let known = self.creations.iter().find(|known| known.path() == creation.path());
        match known {
            None => self.creations.push(creation),
            Some(known) => self.findings.extend(contradiction(known, &creation)),
        }
    }

    /// A plan that only says why a file is none for the carrier.
    pub(super) fn only(path: &BStr, what: What) -> Self {
        let finding = Finding { path: path.to_owned(), needed: None, what };
        Self { findings: vec![finding], ..Self::default() }
    }
}

impl FilePlan {
    /// Leaves the file alone where another plan for it differs, and says so.
    fn reconcile(&mut self, other: &FilePlan) -> Option<Finding> {
        if self.edits == other.edits {
            return None;
        }
        self.edits.clear();
        Some(Finding { path: self.path.clone(), needed: None, what: What::TwoPlans })
    }
}

fn owned<T: Into<BString>>(paths: impl Iterator<Item = T>) -> Vec<BString> {
    paths.map(Into::into).collect()
}

/// What is wrong with making one path twice.
fn contradiction(known: &Creation, other: &Creation) -> Option<Finding> {
    let path = known.path().to_owned();
    (known != other).then_some(Finding { path, needed: None, what: What::TwoPlans })
}
