//! The columns of a comparison.

use serde::Serialize;

use crate::advice::Scope;
use crate::fix::options::{Resolve, Strategy};

/// A strategy as the table has it: one column each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Compared {
    /// Absolute needed strings, from the static walk.
    Absolute,
    /// Absolute needed strings, from the loader's own answers.
    AbsoluteLoader,
    /// A directory of links an object, of what it needs itself.
    FarmLeaf,
    /// A directory of links an object, of what the program's whole closure needs (`becalm fix --with
    /// farm --closure`).
    Farm,
    /// A note in each object.
    Note,
    /// A loader cache in each package.
    Ldcache,
    /// An index beside the store.
    Index,
    /// A DT_AUDIT entry in the program, and an index of its start beside it.
    Audit,
}

impl Compared {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Absolute,
        Self::AbsoluteLoader,
        Self::FarmLeaf,
        Self::Farm,
        Self::Note,
        Self::Ldcache,
        Self::Index,
        Self::Audit,
    ];
}

/// The subject of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The program as it is.
    Control,
    /// The program as it is, under the loader that was given.
    #[serde(rename = "patched")]
    PatchedControl,
    /// The static build that was given.
    Static,
    /// A strategy.
    #[serde(untagged)]
    Strategy(Compared),
}

impl Kind {
    /// The name of the column.
    #[must_use]
    pub fn name(self) -> String {
        crate::json::name(&self)
    }

    /// Whether only a loader that reads notes and caches makes use of it.
    #[must_use]
    pub fn wants_patched_loader(self) -> bool {
        matches!(self, Self::PatchedControl | Self::Strategy(Compared::Note | Compared::Ldcache))
    }

    /// The options of `becalm fix`; none for a column that does not change the store.
    pub(super) fn fix(self) -> Option<(Strategy, Resolve, bool)> {
        let Self::Strategy(strategy) = self else { return None };
        let (with, resolve, closure) = match strategy {
            Compared::Absolute => (Strategy::Absolute, Resolve::Static, false),
            Compared::AbsoluteLoader => (Strategy::Absolute, Resolve::Loader, false),
            Compared::FarmLeaf => (Strategy::Farm, Resolve::Static, false),
            Compared::Farm => (Strategy::Farm, Resolve::Static, true),
            Compared::Note => (Strategy::Note, Resolve::Static, false),
            Compared::Ldcache => (Strategy::Ldcache, Resolve::Static, false),
            Compared::Audit => (Strategy::Audit, Resolve::Static, false),
            Compared::Index => return None,
        };
        Some((with, resolve, closure))
    }

    /// The files that a strategy changes, in the words of `becalm advise`.
    pub(super) fn scope(self) -> Option<Scope> {
        match self {
            Self::Strategy(Compared::Index) => Some(Scope::Nothing),
            Self::Strategy(Compared::Audit) => Some(Scope::Program),
            Self::Strategy(_) => Some(Scope::Closure),
            _ => None,
        }
    }

    /// Whether the program alone is handed to `becalm fix`, not all that it loads.
    pub(super) fn is_of_program(self) -> bool {
        matches!(self, Self::Strategy(Compared::Farm | Compared::Audit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_name_of_its_strategy() {
        let kinds = [Kind::Control, Kind::PatchedControl, Kind::Strategy(Compared::FarmLeaf)];
        assert_eq!(kinds.map(Kind::name), ["control", "patched", "farm-leaf"]);
    }
}
