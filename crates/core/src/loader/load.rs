//! The result of a loader model: the objects, resolutions and probes of one start.

use std::sync::Arc;

use bstr::BString;

use crate::elf::{DependencyKind, ObjectView};
use crate::fs::{FileId, OpenedFile};
use crate::probe::{Call, LoggedProbe, Outcome, SearchSource};

/// The file whose closure is predicted.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The path, as given.
    pub path: BString,
    /// The file.
    pub file: Arc<OpenedFile>,
    /// The object.
    pub view: Arc<ObjectView>,
    /// The way in which it is started.
    pub kind: SubjectKind,
    /// The `PT_INTERP` of a program, or the usual loader of a library's machine, if there is one. A
    /// static program has none.
    pub interpreter: Option<BString>,
}

/// The way in which a subject is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// The kernel maps the program and its interpreter.
    Program,
    /// The loader maps the library, as with `ld.so LIBRARY`.
    Library,
    /// The kernel starts the static program without a loader. There is no search.
    Static,
}

/// The program to start, and its interpreter.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program.
    pub subject: Subject,
    /// The value of `$ORIGIN` for the program. If the kernel maps the program, this is the
    /// directory of its path with every link resolved. If the loader maps it
    /// (`ld.so PROGRAM`), this is the directory of the path as given.
    pub origin: BString,
    /// The path of the interpreter: `PT_INTERP`, or the loader that a library is checked with.
    pub interpreter: BString,
    /// The interpreter's object.
    pub loader: Arc<ObjectView>,
}

/// The objects, resolutions and probes of one start, in the loader's order.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The load set: the program, the loader, then the other objects in load order.
    pub objects: Vec<LoadedObject>,
    /// The list of objects that a symbol lookup walks, as indices of [`Load::objects`]: the
    /// program, the preloads, then the rest breadth first. In glibc this is the program's
    /// `l_searchlist`, in musl the `syms_next` list. It has the loader at the position where the
    /// loader is first needed, or lacks it if no object needs it.
    pub scope: Vec<usize>,
    /// The lookups of needed strings, in order.
    pub resolutions: Vec<Resolution>,
    /// Bytes of the needed strings of [`Load::resolutions`].
    pub needed_bytes: usize,
    /// The probes, in order.
    pub probes: Vec<LoggedProbe>,
    /// Bytes of the paths of [`Load::probes`].
    pub path_bytes: usize,
    /// The package caches that the loader read, each once. The open of a package cache that
    /// exists is not counted as a probe.
    pub package_caches: Vec<BString>,
    /// The reason why the start ends before the program runs, if it does. A missing library is
    /// no such reason: the walk continues past it, as `ldd` does.
    pub stop: Option<Stop>,
}

impl Load {
    /// The limit on the resolutions of one start. A real start has some thousands. A start
    /// reaches the limit if an object has hundreds of thousands of needed strings, or if
    /// auxiliary objects name each other (glibc then runs out of stack).
    pub(super) const MAX_RESOLUTIONS: usize = 100_000;
    /// The limit on the bytes of their needed strings, which may all be one long string of a file.
    pub(super) const MAX_NEEDED_BYTES: usize = 64 << 20;

    /// The limit on probes. Only crafted files make a start with more.
    const MAX_PROBES: usize = 4_000_000;
    /// The limit on the bytes of their paths.
    const MAX_PATH_BYTES: usize = 512 << 20;

    /// Adds a probe. The first `dir_len` bytes of `path` are the search dir.
    ///
    /// # Errors
    /// Returns [`Stop::TooManyProbes`] if the load has reached a limit.
    pub(super) fn probe(
        &mut self,
        resolution: usize,
        (source, call, outcome): (SearchSource, Call, Outcome),
        path: &[u8],
        dir_len: usize,
    ) -> Result<(), Stop> {
        self.path_bytes += path.len();
        if self.probes.len() >= Self::MAX_PROBES || self.path_bytes > Self::MAX_PATH_BYTES {
            return Err(Stop::TooManyProbes);
        }
        let path = path.into();
        self.probes.push(LoggedProbe { resolution, source, call, outcome, path, dir_len });
        Ok(())
    }

    /// Adds a resolution and returns its index. The caller sets its answer.
    ///
    /// # Errors
    /// Returns [`Stop::TooManyProbes`] if the load has reached a limit.
    pub(super) fn begin(
        &mut self,
        needed_by: usize,
        needed: BString,
        reason: Reason,
    ) -> Result<usize, Stop> {
        self.needed_bytes += needed.len();
        let index = self.resolutions.len();
        // Both limits are needed: many short names fill memory with resolutions, and few long names
        // with bytes.
        if index >= Self::MAX_RESOLUTIONS || self.needed_bytes > Self::MAX_NEEDED_BYTES {
            return Err(Stop::TooManyProbes);
        }
        self.resolutions.push(Resolution { needed_by, needed, reason, answer: Answer::Missing });
        Ok(index)
    }
}

/// Returned if a lookup or the start ends early.
pub(super) enum Ended {
    /// The lookup ends with this answer.
    Lookup(Answer),
    /// The start ends.
    Start(Stop),
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        Self::Start(stop)
    }
}

/// A file that a search found, and the path it was opened by.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) file: Arc<OpenedFile>,
    pub(super) path: BString,
    pub(super) source: SearchSource,
}

/// One object of the load set.
#[derive(Clone, Debug)]
pub struct LoadedObject {
    /// The path that the loader opened: `l_name` of glibc's `struct link_map`.
    pub path: BString,
    /// Device and inode.
    pub id: FileId,
    /// The parsed ELF file.
    pub view: Arc<ObjectView>,
    /// The reason why the loader loads it.
    pub role: Role,
    /// Index of the object whose lookup loaded it.
    pub loaded_by: Option<usize>,
    /// The link-map list (`Lmid_t`): 0 for the program, another one for each audit module.
    pub namespace: usize,
}

impl LoadedObject {
    /// Makes an object of the base namespace that no lookup loaded.
    pub(crate) fn new(path: &BString, id: FileId, view: &Arc<ObjectView>, role: Role) -> Self {
        let (path, view) = (path.clone(), Arc::clone(view));
        Self { path, id, view, role, loaded_by: None, namespace: 0 }
    }
}

/// The reason why an object is in the load set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The program itself.
    Program,
    /// The interpreter.
    Loader,
    /// `LD_AUDIT` or `DT_AUDIT` names it, or an audit module needs it.
    Audit,
    /// `LD_PRELOAD` or `/etc/ld.so.preload` names it.
    Preload,
    /// Another object needs it.
    Library,
}

/// One lookup: the requester, the needed string and the answer.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// Index of the requester.
    pub needed_by: usize,
    /// The needed string, its DSTs not expanded.
    pub needed: BString,
    /// The entry that causes the lookup.
    pub reason: Reason,
    /// The answer.
    pub answer: Answer,
}

/// The entry that causes a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An entry of the requester's dynamic section.
    Dependency(DependencyKind),
    /// `LD_PRELOAD` or `/etc/ld.so.preload`; the requester is the program.
    Preload,
    /// `LD_AUDIT`, `DT_AUDIT` or `DT_DEPAUDIT`.
    Audit,
}

/// The answer to a needed string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A loaded object has this name or soname. The loader made no probe.
    AlreadyLoaded(usize),
    /// The kernel's vDSO has this soname.
    Vdso,
    /// The search found the file of an object that is loaded already.
    SameFile(usize, SearchSource),
    /// The search found a file, and the loader loaded it.
    Loaded(usize, SearchSource),
    /// No search source has the file.
    Missing,
    /// The search found a file that the loader refuses.
    Refused(Refusal),
    /// A DST in the needed string has no value. The loader skips the entry.
    Skipped,
}

impl Answer {
    /// Returns the index of the object that the answer names, if there is one.
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

/// The reason why a loader refuses a file that it opened: the message of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(&'static str);

impl Refusal {
    /// The file has fewer bytes than an ELF header.
    pub const TOO_SHORT: Self = Self("file too short");
    /// `read` failed, as it does on a directory.
    pub const UNREADABLE: Self = Self("cannot read file data");
    /// The file lacks the ELF magic.
    pub const NOT_ELF: Self = Self("invalid ELF header");
    /// The byte order, version, OS ABI, padding or program header size is wrong.
    pub const HEADER: Self = Self("unsupported ELF header");
    /// The type is neither `ET_DYN` nor `ET_EXEC`.
    pub const KIND: Self = Self("only ET_DYN and ET_EXEC can be loaded");
    /// A needed string leads to an `ET_EXEC` file.
    pub const EXECUTABLE: Self = Self("cannot dynamically load executable");
    /// A needed string leads to a file with `DF_1_PIE`.
    pub const PIE: Self = Self("cannot dynamically load position-independent executable");
    /// The file has no `PT_LOAD`.
    pub const NO_SEGMENTS: Self = Self("object file has no loadable segments");
    /// The file has no `PT_DYNAMIC`, or an empty one.
    pub const NO_DYNAMIC: Self = Self("object file has no dynamic section");
    /// The header is valid, but the rest of the file is not.
    pub const MALFORMED: Self = Self("malformed ELF file");
    /// A needed string of a set-id program has a DST.
    pub const DST_IN_SECURE_MODE: Self = Self("DST not allowed in SUID/SGID programs");
    /// An object needs an executable stack, and a tunable forbids it.
    pub const EXEC_STACK: Self = Self("cannot enable executable stack as shared object requires");
    /// A DST has no value, in an entry that requires one.
    pub const EMPTY_DST: Self = Self("empty dynamic string token substitution");
}

/// The reason why a start ends before the program's entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The answer of the resolution with this index is fatal to the loader.
    Refused(usize),
    /// The program needs an executable stack, and a tunable forbids it.
    ExecStack,
    /// The start has more probes, resolutions or search dirs than becalm follows.
    TooManyProbes,
}
