//! The columns of a comparison.

use becalm_core::strategy::Strategy;
use serde::Serialize;

use crate::advice::Scope;
use crate::fix::options::Resolve;

/// A strategy as the table has it: one column each. Three strategies have a second column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// Absolute needed strings, from the loader's own answers.
    AbsoluteLoader,
    /// A directory of links an object, of what it needs itself.
    FarmLeaf,
    /// An index beside the store, its symbol bindings switched off.
    IndexNobind,
    /// A strategy: `absolute` from the static walk, `farm` of what the program's whole closure needs.
    #[serde(untagged)]
    Usual(Strategy),
}

impl Compared {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Usual(Strategy::Absolute),
        Self::AbsoluteLoader,
        Self::FarmLeaf,
        Self::Usual(Strategy::Farm),
        Self::Usual(Strategy::Note),
        Self::Usual(Strategy::Ldcache),
        Self::Usual(Strategy::Index),
        Self::IndexNobind,
        Self::Usual(Strategy::Audit),
    ];
}

#[cfg(feature = "clap")]
impl clap::ValueEnum for Compared {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let help = match self {
            Self::AbsoluteLoader => "Absolute needed strings, from the loader's own answers",
            Self::IndexNobind => "An index beside the store, its symbol bindings switched off",
            Self::FarmLeaf => "A directory of links an object, of what it needs itself",
            Self::Usual(Strategy::Farm) => {
                "A directory of links an object, of what the program's whole closure needs (`becalm \
                 fix --with farm --closure`)"
            }
            Self::Usual(strategy) => return strategy.to_possible_value(),
        };
        Some(clap::builder::PossibleValue::new(crate::json::name(self)).help(help))
    }
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
    /// Returns the column of a strategy: that of a whole closure for `farm`.
    pub(super) const fn of(strategy: Strategy) -> Self {
        Self::Strategy(Compared::Usual(strategy))
    }

    /// The name of the column.
    #[must_use]
    pub fn name(self) -> String {
        crate::json::name(&self)
    }

    /// Whether only a loader that reads notes and caches makes use of it.
    #[must_use]
    pub fn wants_patched_loader(self) -> bool {
        match self {
            Self::Strategy(Compared::Usual(strategy)) => {
                matches!(strategy, Strategy::Note | Strategy::Ldcache)
            }
            _ => self == Self::PatchedControl,
        }
    }

    /// True if an index beside the store is used, which changes no file.
    pub(super) fn is_index(self) -> bool {
        matches!(self, Self::Strategy(Compared::Usual(Strategy::Index) | Compared::IndexNobind))
    }

    /// True if an index is made, which may have symbol bindings.
    pub(super) fn has_bindings(self) -> bool {
        self.is_index() || self == Self::of(Strategy::Audit)
    }

    /// The options of `becalm fix`; none for a column that does not change the store.
    pub(super) fn fix(self) -> Option<(Strategy, Resolve, bool)> {
        let Self::Strategy(strategy) = self else { return None };
        match strategy {
            Compared::AbsoluteLoader => Some((Strategy::Absolute, Resolve::Loader, false)),
            Compared::FarmLeaf => Some((Strategy::Farm, Resolve::Static, false)),
            Compared::Usual(Strategy::Index) | Compared::IndexNobind => None,
            Compared::Usual(with) => Some((with, Resolve::Static, with == Strategy::Farm)),
        }
    }

    /// The files that a strategy changes, in the words of `becalm advise`.
    pub(super) fn scope(self) -> Option<Scope> {
        match self {
            _ if self.is_index() => Some(Scope::Nothing),
            Self::Strategy(Compared::Usual(Strategy::Audit)) => Some(Scope::Program),
            Self::Strategy(_) => Some(Scope::Closure),
            _ => None,
        }
    }

    /// Whether the program alone is handed to `becalm fix`, not all that it loads.
    pub(super) fn is_of_program(self) -> bool {
        [Strategy::Farm, Strategy::Audit].map(Self::of).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_name_of_its_strategy() {
        let farms = [Kind::Strategy(Compared::FarmLeaf), Kind::of(Strategy::Farm)];
        assert_eq!(farms.map(Kind::name), ["farm-leaf", "farm"]);
        assert_eq!([Kind::Control, Kind::PatchedControl].map(Kind::name), ["control", "patched"]);
    }
}
