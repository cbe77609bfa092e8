//! What a check of an index reports.

use becalm_core::index::Target;
use becalm_lib::targets::Problem;
use bstr::BString;

/// All that is told of an index.
pub(crate) struct Verified {
    /// The index.
    pub path: BString,
    /// Its machine.
    pub target: Target,
    /// Objects in it.
    pub objects: usize,
    /// Answers in it.
    pub edges: usize,
    /// True where packages came or went since: the module then looks at each answer before
    /// it gives it.
    pub stores_changed: bool,
    /// What is otherwise now.
    pub differences: Vec<Difference>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// One thing that is otherwise now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The object, or what is watched.
    pub path: BString,
    /// What.
    pub what: What,
}

/// In what way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The object is not there, or no longer one that asks by a run path.
    Gone,
    /// It has another run path: the module does not answer for it.
    OtherRunPath,
    /// Another answer; `None` where the question is now the loader's.
    Answer {
        /// The needed string.
        needed: BString,
        /// As indexed.
        was: BString,
        /// Now.
        now: Option<BString>,
    },
    /// The answer is the same, and rests on other conditions.
    Conditions {
        /// The needed string.
        needed: BString,
    },
    /// The program needs another `glibc.rtld.optional_static_tls`.
    StaticTls {
        /// As indexed; 0: the default does.
        was: u32,
        /// Now.
        now: u32,
    },
    /// The program's start loads other objects, or in another order.
    LoadOrder,
    /// The program's symbols bind otherwise, or it is no longer bound.
    Bindings,
    /// A directory that a `DT_RPATH` names has other names that answer, or under other conditions.
    Names,
    /// A directory, file or absence that answers rest on is not as it was: the module leaves
    /// those questions to the loader.
    Changed,
}
