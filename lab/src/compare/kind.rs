//! The columns of a comparison.

use becalm_core::strategy::Strategy;
use serde::Serialize;

use becalm_lib::advice::Scope;
use becalm_lib::fix::options::Resolve;

/// A strategy as a column of the table. Three strategies have a second column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Compared {
    /// Absolute needed strings, from the loader's own answers.
    AbsoluteLoader,
    /// A directory of links for each object, with the libraries that the object itself needs.
    FarmLeaf,
    /// An index beside the store, with its symbol bindings switched off.
    IndexNobind,
    /// A strategy: `absolute` from the static walk, `farm` with the libraries of the program's
    /// whole closure.
    #[serde(untagged)]
    Usual(Strategy),
}

impl Compared {
    /// All strategies, in the order of the table.
    pub(super) const ALL: [Self; 9] = [
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
        Some(clap::builder::PossibleValue::new(becalm_lib::json::name(self)).help(help))
    }
}

/// The subject of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// The program as it is.
    Control,
    /// The program as it is, under the given loader.
    #[serde(rename = "patched")]
    PatchedControl,
    /// The given static build.
    Static,
    /// A strategy.
    #[serde(untagged)]
    Strategy(Compared),
}

impl Kind {
    /// Returns the column of a strategy; for `farm`, the one with the whole closure.
    pub(super) const fn of(strategy: Strategy) -> Self {
        Self::Strategy(Compared::Usual(strategy))
    }

    /// Returns the name of the column.
    #[must_use]
    pub(super) fn name(self) -> String {
        becalm_lib::json::name(&self)
    }

    /// True if the column needs a loader that reads notes and caches.
    #[must_use]
    pub(super) fn wants_patched_loader(self) -> bool {
        match self {
            Self::Strategy(Compared::Usual(strategy)) => {
                matches!(strategy, Strategy::Note | Strategy::Ldcache)
            }
            _ => self == Self::PatchedControl,
        }
    }

    /// True if the strategy is an index beside the store, which changes no file.
    pub(super) fn is_index(self) -> bool {
        matches!(self, Self::Strategy(Compared::Usual(Strategy::Index) | Compared::IndexNobind))
    }

    /// True if the strategy makes an index, which may have symbol bindings.
    pub(super) fn has_bindings(self) -> bool {
        self.is_index() || self == Self::of(Strategy::Audit)
    }

    /// Returns the `strategy`, `resolve` and `closure` options of `becalm fix`; `None` for a column
    /// that does not change the store.
    pub(super) fn fix(self) -> Option<(Strategy, Resolve, bool)> {
        let Self::Strategy(strategy) = self else { return None };
        match strategy {
            Compared::AbsoluteLoader => Some((Strategy::Absolute, Resolve::Loader, false)),
            Compared::FarmLeaf => Some((Strategy::Farm, Resolve::Static, false)),
            Compared::Usual(Strategy::Index) | Compared::IndexNobind => None,
            Compared::Usual(with) => Some((with, Resolve::Static, with == Strategy::Farm)),
        }
    }

    /// Returns the scope of the files that a strategy changes, as in `becalm advise`.
    pub(super) fn scope(self) -> Option<Scope> {
        match self {
            _ if self.is_index() => Some(Scope::Nothing),
            Self::Strategy(Compared::Usual(Strategy::Audit)) => Some(Scope::Program),
            Self::Strategy(_) => Some(Scope::Closure),
            _ => None,
        }
    }

    /// True if `becalm fix` gets the program alone instead of all its objects.
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
