//! The columns of a comparison.

use std::iter;
use std::sync::LazyLock;

use becalm_core::strategy::Strategy;
use becalm_core::strategy::row::Unit;
use serde::Serialize;

use becalm_lib::advice::Scope;
use becalm_lib::fix::options::Resolve;

/// The subject of a column. Three strategies have a second column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The program as it is.
    Control,
    /// The program as it is, under the given loader.
    #[serde(rename = "patched")]
    PatchedControl,
    /// The given static build.
    Static,
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

/// The columns of strategies, in the order of the table.
static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let second = |strategy| match strategy {
        Strategy::Absolute => Some(Kind::AbsoluteLoader),
        Strategy::Farm => Some(Kind::FarmLeaf),
        Strategy::Index => Some(Kind::IndexNobind),
        _ => None,
    };
    let columns = Strategy::ALL.iter();
    columns.flat_map(|&it| iter::once(Kind::Usual(it)).chain(second(it))).collect()
});

impl clap::ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
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
            Self::Control | Self::PatchedControl | Self::Static => return None,
        };
        Some(clap::builder::PossibleValue::new(self.name()).help(help))
    }
}

impl Kind {
    /// Returns the name of the column.
    #[must_use]
    pub(super) fn name(self) -> String {
        becalm_lib::json::name(&self)
    }

    /// True if the column needs a loader that reads notes and caches.
    #[must_use]
    pub(super) fn wants_patched_loader(self) -> bool {
        self == Self::PatchedControl
            || self.strategy().is_some_and(|strategy| strategy.row().format.is_some())
    }

    /// Returns the strategy of the column.
    pub(super) fn strategy(self) -> Option<Strategy> {
        match self {
            Self::Control | Self::PatchedControl | Self::Static => None,
            Self::AbsoluteLoader => Some(Strategy::Absolute),
            Self::FarmLeaf => Some(Strategy::Farm),
            Self::IndexNobind => Some(Strategy::Index),
            Self::Usual(strategy) => Some(strategy),
        }
    }

    /// Returns what the column's strategy plans at once.
    pub(super) fn unit(self) -> Option<Unit> {
        self.strategy().map(|strategy| strategy.row().unit)
    }

    /// True if the strategy is an index beside the store, which changes no file.
    pub(super) fn is_index(self) -> bool {
        matches!(self.unit(), Some(Unit::Stores))
    }

    /// True if the strategy makes an index, which may have symbol bindings.
    pub(super) fn has_bindings(self) -> bool {
        self.unit().is_some_and(|unit| unit.is_index())
    }

    /// Returns the `strategy`, `resolve` and `closure` options of `becalm fix`; `None` for a column
    /// that does not change the store.
    pub(super) fn fix(self) -> Option<(Strategy, Resolve, bool)> {
        let resolve = match self {
            Self::AbsoluteLoader => Resolve::Loader,
            _ => Resolve::Static,
        };
        let strategy = self.strategy().filter(|_| !self.is_index())?;
        Some((strategy, resolve, self.is_of_closure()))
    }

    /// Returns the scope of the files that a strategy changes, as in `becalm advise`.
    pub(super) fn scope(self) -> Option<Scope> {
        self.unit().map(|unit| match unit {
            Unit::Stores => Scope::Nothing,
            Unit::Program => Scope::Program,
            _ => Scope::Closure,
        })
    }

    /// True if `becalm fix` gets the program alone instead of all its objects.
    pub(super) fn is_of_program(self) -> bool {
        self.is_of_closure() || matches!(self.unit(), Some(Unit::Program))
    }

    /// True if all objects of a program are planned together (`--closure`).
    pub(super) fn is_of_closure(self) -> bool {
        self != Self::FarmLeaf && matches!(self.unit(), Some(Unit::ObjectOrClosure(..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_name_of_its_strategy() {
        let farms = [Kind::FarmLeaf, Kind::Usual(Strategy::Farm)];
        assert_eq!(farms.map(Kind::name), ["farm-leaf", "farm"]);
        assert_eq!([Kind::Control, Kind::PatchedControl].map(Kind::name), ["control", "patched"]);
    }
}
