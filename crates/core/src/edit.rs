//! The changes to one ELF file. A strategy proposes them, and `becalm-rewrite` makes them.

use bstr::{BStr, BString};

/// One change to one object. Strings have no NUL, and their DSTs are not expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Sets the descriptor of the resolution note (`docs/note-format.md`). `None` removes the note.
    ResolutionNote(Option<Vec<u8>>),
    /// Sets the run path. `None` removes it.
    RunPath {
        /// The dynamic entry that has the run path afterwards.
        kind: RunPathKind,
        /// The directories, separated by `:`.
        value: Option<BString>,
    },
    /// Replaces each `DT_NEEDED` of `from` by `to`, and the file names of the versions needed from
    /// it (`.gnu.version_r`).
    ReplaceNeeded {
        /// The old needed string.
        from: BString,
        /// The new needed string.
        to: BString,
    },
    /// Adds a `DT_NEEDED` before the others, so that the loader searches for it first.
    AddNeeded(BString),
    /// Removes each `DT_NEEDED` of this name.
    RemoveNeeded(BString),
    /// Sets `DT_AUDIT`, the audit modules separated by `:`. `None` removes the entry.
    Audit(Option<BString>),
    /// Sets `PT_INTERP`.
    Interpreter(BString),
    /// Sets `DT_SONAME`.
    Soname(BString),
    /// Sets the operating system of the ELF header (`EI_OSABI`).
    OsAbi(u8),
    /// Requests an executable stack, or does not (the flags of `PT_GNU_STACK`).
    ExecutableStack(bool),
    /// Sets `DF_1_NODEFLIB`: the loader searches neither its cache nor the system directories for
    /// the object's needed strings.
    NoDefaultLibraries,
    /// Adds `DT_DEBUG`, in which the loader of a program stores an address for debuggers.
    DebugTag,
    /// Removes the version from each dynamic symbol of this name.
    ClearSymbolVersion(BString),
}

impl Edit {
    /// Returns the directories of a run path or the audit modules that the edit writes. Other edits
    /// have none.
    pub fn listed(&self) -> impl Iterator<Item = &BStr> {
        let list = match self {
            Self::RunPath { value, .. } | Self::Audit(value) => value.as_ref(),
            _ => None,
        };
        list.into_iter().flat_map(|list| list.split(|&byte| byte == b':')).map(BStr::new)
    }
}

/// The dynamic entry of a run path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPathKind {
    /// The existing entry. `DT_RUNPATH` if the object has none, or both.
    Keep,
    /// `DT_RPATH`, which the objects loaded by this one inherit.
    Rpath,
    /// `DT_RUNPATH`.
    Runpath,
}

impl RunPathKind {
    /// Sets the run path of an object, which has these entries.
    pub fn set(
        self,
        value: Option<BString>,
        rpath: &mut Option<BString>,
        runpath: &mut Option<BString>,
    ) {
        let is_rpath = match self {
            Self::Keep => rpath.is_some() && runpath.is_none(),
            Self::Rpath => true,
            Self::Runpath => false,
        };
        (*rpath, *runpath) = if is_rpath { (value, None) } else { (None, value) };
    }
}
