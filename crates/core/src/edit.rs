//! What is to change in one ELF file: the words between the carriers, which propose, and
//! `becalm-rewrite`, which knows how to do it.

use bstr::{BStr, BString};

/// One step of a proposed change to one object. Strings are written as they are, DSTs
/// unexpanded, without their NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The descriptor of the resolution note (`docs/note-format.md`); `None` takes the
    /// note away.
    ResolutionNote(Option<Vec<u8>>),
    /// The run path; `None` takes it away.
    RunPath {
        /// Which entry holds it afterwards.
        kind: RunPathKind,
        /// `:`-separated directories.
        value: Option<BString>,
    },
    /// Each `DT_NEEDED` that reads `from` reads `to` afterwards; the file names of the
    /// versions needed from it (`.gnu.version_r`) follow.
    ReplaceNeeded {
        /// The needed string as it is.
        from: BString,
        /// The needed string as it is to be.
        to: BString,
    },
    /// A further `DT_NEEDED`, before the others, so that it is searched first.
    AddNeeded(BString),
    /// Takes each `DT_NEEDED` of that name away.
    RemoveNeeded(BString),
    /// `DT_AUDIT`: audit modules, `:`-separated; `None` takes the entry away.
    Audit(Option<BString>),
    /// `PT_INTERP`.
    Interpreter(BString),
    /// `DT_SONAME`.
    Soname(BString),
}

impl Edit {
    /// The elements of the path list that the edit writes: directories of a run path, audit
    /// modules. Empty for other edits.
    pub fn listed(&self) -> impl Iterator<Item = &BStr> {
        let list = match self {
            Self::RunPath { value, .. } | Self::Audit(value) => value.as_ref(),
            _ => None,
        };
        list.into_iter().flat_map(|list| list.split(|&byte| byte == b':')).map(BStr::new)
    }
}

/// Which dynamic entry holds a run path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPathKind {
    /// The one that is there; `DT_RUNPATH` where there is none, or both.
    Keep,
    /// `DT_RPATH`, inherited by what the object loads.
    Rpath,
    /// `DT_RUNPATH`.
    Runpath,
}
