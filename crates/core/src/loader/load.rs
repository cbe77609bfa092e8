//! What one start of a program loads: the common result of the loader models.

use std::sync::Arc;

use bstr::BString;

use crate::elf::{DependencyKind, ObjectView};
use crate::fs::{FileId, OpenedFile};
use crate::probe::{ProbeLog, SearchSource};

/// The program that is started, and how.
#[derive(Clone, Debug)]
pub struct Start {
    /// The path of the program, as the user or the kernel names it.
    pub path: BString,
    /// What `$ORIGIN` of the program stands for: the directory of the path with
    /// every link resolved where the kernel maps the program, of the path as given
    /// where the loader is told to load it (`ld.so PROGRAM`).
    pub origin: BString,
    /// The program's file.
    pub file: Arc<OpenedFile>,
    /// The program's object.
    pub view: Arc<ObjectView>,
    /// The interpreter: `PT_INTERP`, or the loader a library is checked with.
    pub interpreter: BString,
    /// The interpreter's object.
    pub loader: Arc<ObjectView>,
}

/// All that one start loads and tries, in the loader's order.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The objects; the program first, then the loader, then as they were loaded.
    pub objects: Vec<LoadedObject>,
    /// The list of objects that a symbol lookup walks, as indices of [`Load::objects`]: the
    /// program, the preloads, then the rest breadth first, with the loader where it was needed
    /// (glibc: `l_searchlist` of the program; musl: `syms_next`). The loader is missing if
    /// nothing needs it.
    pub scope: Vec<usize>,
    /// Every question asked, in order.
    pub resolutions: Vec<Resolution>,
    /// Every probe made, in order.
    pub probes: ProbeLog,
    /// The package caches that were read, each once. That costs an open that is no probe.
    pub package_caches: Vec<BString>,
    /// What ends the start early; `None` where the loader goes on to the program.
    /// A missing library is not here: like `ldd`, the walk goes on past it.
    pub stop: Option<Stop>,
}

impl Load {
    /// Questions followed at the most. A real start asks some thousands; what asks more
    /// has hundreds of thousands of needed strings, or auxiliary objects that name each
    /// other (which has glibc run out of stack).
    pub(super) const MAX_QUESTIONS: usize = 500_000;
}

/// One object of the load set.
#[derive(Clone, Debug)]
pub struct LoadedObject {
    /// The path under which the loader knows it.
    pub path: BString,
    /// Device and inode.
    pub id: FileId,
    /// The object.
    pub view: Arc<ObjectView>,
    /// Why it is there.
    pub role: Role,
    /// Index of the object that caused it to be loaded.
    pub loaded_by: Option<usize>,
    /// Link-map list: 0 is the program's, audit modules have one each.
    pub namespace: usize,
}

/// Why an object is in the load set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The program itself.
    Program,
    /// The interpreter.
    Loader,
    /// `LD_AUDIT` or `DT_AUDIT`, or needed by one that is.
    Audit,
    /// `LD_PRELOAD` or `/etc/ld.so.preload`.
    Preload,
    /// Needed by another object.
    Library,
}

/// One question: who needed what, and the answer.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// Index of the asking object.
    pub needed_by: usize,
    /// The needed string, unexpanded.
    pub needed: BString,
    /// What made the object ask.
    pub reason: Reason,
    /// The answer.
    pub answer: Answer,
}

/// What made an object ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An entry of its dynamic section.
    Dependency(DependencyKind),
    /// `LD_PRELOAD` or `/etc/ld.so.preload` (asked for by the program).
    Preload,
    /// `LD_AUDIT`, `DT_AUDIT` or `DT_DEPAUDIT`.
    Audit,
}

/// The answer to a needed string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An object already loaded has the name or soname; no probe was made.
    AlreadyLoaded(usize),
    /// The kernel's vDSO has the name.
    Vdso,
    /// Found, and it is the file of an object already loaded.
    SameFile(usize, SearchSource),
    /// Found and loaded.
    Loaded(usize, SearchSource),
    /// Not found anywhere.
    Missing,
    /// Found, and the loader refuses it.
    Refused(Refusal),
    /// A dynamic string token has no value; the loader passes over the entry.
    Skipped,
}

impl Answer {
    /// The object that answers, if one does.
    #[must_use]
    pub fn object(&self) -> Option<usize> {
        match *self {
            Answer::AlreadyLoaded(object)
            | Answer::SameFile(object, _)
            | Answer::Loaded(object, _) => Some(object),
            Answer::Vdso | Answer::Missing | Answer::Refused(_) | Answer::Skipped => None,
        }
    }
}

/// Why a loader refuses a file it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Fewer bytes than an ELF header.
    #[error("file too short")]
    TooShort,
    /// `read` failed, as it does on a directory.
    #[error("cannot read file data")]
    Unreadable,
    /// No ELF magic.
    #[error("invalid ELF header")]
    NotElf,
    /// Wrong byte order, version, OS ABI, padding or program header size.
    #[error("unsupported ELF header")]
    Header,
    /// Neither `ET_DYN` nor `ET_EXEC`.
    #[error("only ET_DYN and ET_EXEC can be loaded")]
    Kind,
    /// `ET_EXEC` where a library is wanted.
    #[error("cannot dynamically load executable")]
    Executable,
    /// `DF_1_PIE` where a library is wanted.
    #[error("cannot dynamically load position-independent executable")]
    Pie,
    /// No `PT_LOAD`.
    #[error("object file has no loadable segments")]
    NoSegments,
    /// No `PT_DYNAMIC`, or an empty one.
    #[error("object file has no dynamic section")]
    NoDynamic,
    /// The rest of the file contradicts its header.
    #[error("malformed ELF file")]
    Malformed,
    /// A dynamic string token in a set-id program.
    #[error("DST not allowed in SUID/SGID programs")]
    DstInSecureMode,
    /// A dynamic string token without a value where one is required.
    #[error("empty dynamic string token substitution")]
    EmptyDst,
}

/// What ends a start before the program is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The answer of this resolution is fatal to the loader.
    Refused(usize),
    /// More probes, questions or search directories than becalm follows.
    TooManyProbes,
}
