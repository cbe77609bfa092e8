//! Compares the strategies for a program: the misses that each would leave, and the command that
//! applies it. Nothing is written or run.

use becalm_core::cost::SearchCost;
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::advice::{Advice, Choice, Scope};
use crate::assume::{self, Assumptions, StorePrefixes};
use crate::check::{Kind, Verdict, check};
use crate::escape::shown;
use crate::json::{self, lossy, lossy_list, lossy_option};
use crate::path::path_bytes;
use crate::targets::{Problem, Target};

/// The strategies for one program: the JSON document of `becalm advise`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The program.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The index that answers at its start in this environment, if there is one.
    #[serde(serialize_with = "lossy_option")]
    pub calmed_by: Option<BString>,
    /// The cost of its start in this environment.
    pub storm: SearchCost,
    /// Misses of the start in this environment without an index; 0 if there is nothing to gain.
    /// Strategies are planned for an empty environment.
    pub before: u64,
    /// The store that is assumed for `--store`, because the directories searched in vain are below
    /// it and below no named store.
    #[serde(serialize_with = "lossy_option")]
    pub assumed_store: Option<BString>,
    /// The stores of `--store`, if they differ from the default. They are in the commands.
    #[serde(serialize_with = "lossy_list")]
    pub named_stores: Vec<BString>,
    /// One for each strategy and scope; none if there is nothing to gain.
    pub options: Vec<Choosable>,
    /// The strategy that leaves fewest misses with the program's own loader, by its position in
    /// `options`. Of two that leave the same, the one that changes less.
    pub best: Option<usize>,
}

/// A strategy and the command that applies it.
#[derive(Clone, Debug, Serialize)]
pub struct Choosable {
    /// The strategy.
    #[serde(flatten)]
    pub choice: Choice,
    /// The shell command.
    pub command: String,
}

/// Predicts each strategy for a program.
///
/// # Errors
/// Returns a [`Problem`] if the file cannot be checked or is not a Linux program.
pub fn advise(
    options: &assume::Options,
    assumed: &Assumptions,
    target: &Target,
) -> Result<Report, Problem> {
    let problem = |reason: &str| Problem { path: target.shown.clone(), reason: reason.to_owned() };
    let (program, closure) = match check(assumed, &assumed.fs.session(), target) {
        (Verdict::Checked(program), Some(closure)) => (program, closure),
        (Verdict::Problem(problem), _) => return Err(problem),
        _ => return Err(problem("not a program of Linux")),
    };
    match program.kind {
        Kind::Library => {
            return Err(problem("a library: strategies are for the programs that load it"));
        }
        Kind::Static => return Err(problem("a static program: no loader is involved")),
        Kind::Program | Kind::MachO => {}
    }
    let advice = Advice::of(options, assumed, target, &closure);
    let (before, assumed_store, choices) = match advice {
        Some(Advice { before, assumed_store, options }) => (before, assumed_store, options),
        None => (0, None, Vec::new()),
    };
    let best = best(&choices);
    let named_stores = named_stores(options);
    let name = quoted(&program.path);
    let stores: Vec<String> = assumed_store.iter().chain(&named_stores).map(quoted).collect();
    let command = |choice: Choice| {
        let command = choice.command(&name, &stores);
        Choosable { choice, command }
    };
    Ok(Report {
        path: program.path.clone(),
        calmed_by: program.calmed_by.clone(),
        storm: program.storm,
        before,
        assumed_store,
        named_stores,
        options: choices.into_iter().map(command).collect(),
        best,
    })
}

/// Returns the prefixes that the command has to name.
fn named_stores(options: &assume::Options) -> Vec<BString> {
    if options.store.0 == StorePrefixes::default().0 {
        return Vec::new();
    }
    options.store.paths().iter().map(|path| path_bytes(path)).collect()
}

fn best(choices: &[Choice]) -> Option<usize> {
    let usable = choices.iter().enumerate().filter(|(_, choice)| !choice.needs_reader);
    let left = usable.filter_map(|(at, choice)| Some((choice.misses?, at)));
    left.min().map(|(_, at)| at)
}

impl json::Report for Report {
    const SCHEMA: &'static str = "becalm/advise/1";
}

impl Report {
    /// Returns the best of the options that change these files only; none if none of them leaves
    /// fewer misses.
    #[must_use]
    pub fn best_of(&self, scope: Scope) -> Option<&Choosable> {
        let of_scope = self.options.iter().filter(|option| option.choice.scope == scope);
        let usable = of_scope.filter(|option| !option.choice.needs_reader);
        let left = usable.filter_map(|option| Some((option.choice.misses?, option)));
        let left = left.filter(|(left, _)| *left < self.before);
        left.min_by_key(|(left, _)| *left).map(|(_, option)| option)
    }
}

/// Quotes a path for a shell. Bytes that are not UTF-8 are shown escaped.
fn quoted(path: &BString) -> String {
    match path.to_str() {
        Ok(path) => {
            shlex::try_quote(path).map_or_else(|_| path.to_owned(), |word| word.into_owned())
        }
        Err(_) => shown(path.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(scope: Scope, needs_reader: bool, misses: Option<u64>) -> Choice {
        Choice { strategy: "absolute".to_owned(), scope, needs_reader, misses, refused: None }
    }

    #[test]
    fn of_two_that_leave_the_same_the_first_is_best_and_no_reader_is_assumed() {
        let choices = [
            choice(Scope::Nothing, false, Some(3)),
            choice(Scope::Program, true, Some(0)),
            choice(Scope::Program, false, None),
            choice(Scope::Closure, false, Some(3)),
        ];
        assert_eq!(best(&choices), Some(0));
        assert_eq!(best(&choices[1..3]), None);
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        assert_eq!(quoted(&"/a b".into()), "'/a b'");
        assert_eq!(quoted(&"/a".into()), "/a");
    }
}
