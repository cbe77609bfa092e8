//! Compares the strategies for a program: the misses and the time that each would leave, and the
//! command that applies it. Nothing is written or run.

use becalm_core::cost::SearchCost;
use bstr::BString;
use serde::Serialize;

use crate::advice::{Advice, named_stores};
use crate::assume::{self, Assumptions};
use crate::check::{Kind, start};
use crate::estimate::Estimate;
use crate::first_line::FirstLine;
use crate::json::{self, lossy, lossy_list, lossy_option};
use crate::targets::{Problem, Target};
use crate::trees::begin::is_networked;

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
    /// The estimated time of the start; null for a start that is not by glibc on this machine.
    pub estimate: Option<Estimate>,
    /// The strategies; no options if there is nothing to gain.
    #[serde(flatten)]
    pub advice: Advice,
    /// The stores of `--store`, if they differ from the default. They are in the commands.
    #[serde(serialize_with = "lossy_list")]
    pub named_stores: Vec<BString>,
    /// The best of the strategies that can be proposed, by its position in `options`: the one that
    /// leaves least time. Of two that leave the same, the one that changes less.
    pub best: Option<usize>,
    /// True if the program is on a network file system, as it is named: `becalm run` looks up its files ahead.
    pub networked: bool,
    /// The first line.
    #[serde(skip)]
    pub first_line: FirstLine,
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
    let problem = |reason| Problem::new(target.shown.clone(), reason);
    let session = assumed.fs.session();
    let (mut program, closure) = start(assumed, &session, target, "not a program of Linux")?;
    match program.kind {
        Kind::Library => {
            return Err(problem("a library: strategies are for the programs that load it"));
        }
        Kind::Static => return Err(problem("a static program: no loader is involved")),
        Kind::Program | Kind::MachO => {}
    }
    program.add_estimate(assumed, &session, target, &closure);
    let advice = Advice::of(options, assumed, target, &closure, program.estimate.as_ref());
    let advice = advice.unwrap_or_default();
    Ok(Report {
        path: program.path.clone(),
        calmed_by: program.calmed_by.clone(),
        storm: program.storm,
        estimate: program.estimate,
        best: best(&advice),
        advice,
        named_stores: named_stores(options),
        networked: is_networked(&target.host),
        first_line: FirstLine::of(&program),
    })
}

fn best(advice: &Advice) -> Option<usize> {
    let options = advice.options.iter().enumerate();
    let worth = options.filter(|(_, choice)| advice.is_worth(choice));
    worth.filter_map(|(at, choice)| Some((choice.cost()?, at))).min().map(|(_, at)| at)
}

json::schema!(Report, "becalm/advise/1");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{Choice, Scope, quoted};

    fn choice(scope: Scope, needs_reader: bool, misses: Option<u64>, ms: u64) -> Choice {
        Choice {
            strategy: "absolute".to_owned(),
            scope,
            needs_reader,
            misses,
            loader_ns: misses.map(|_| ms * 1_000_000),
            command: String::new(),
            refused: None,
        }
    }

    fn advice(options: Vec<Choice>) -> Advice {
        Advice { before: 10, before_ns: Some(100_000_000), options, ..Advice::default() }
    }

    #[test]
    fn time_decides_and_of_two_that_leave_the_same_the_first_and_no_reader_is_assumed() {
        let choices = vec![
            choice(Scope::Nothing, false, Some(3), 50),
            choice(Scope::Program, true, Some(0), 20),
            choice(Scope::Program, false, None, 0),
            choice(Scope::Closure, false, Some(0), 50),
        ];
        assert_eq!(best(&advice(choices.clone())), Some(0));
        assert_eq!(best(&advice(choices[1..3].to_vec())), None);
    }

    #[test]
    fn less_than_a_tenth_and_less_than_a_smaller_change_is_not_proposed() {
        let few = advice(vec![choice(Scope::Program, false, Some(0), 91)]);
        assert_eq!((best(&few), few.best(Scope::Program).is_some()), (None, false));
        assert_eq!(few.not_proposed(), ["1 strategy gains nothing here; --json names all"]);
        let larger = advice(vec![
            choice(Scope::Nothing, false, Some(5), 40),
            choice(Scope::Closure, false, Some(0), 80),
        ]);
        assert!(larger.best(Scope::Closure).is_none());
        // Without times the misses decide.
        let fewer = Choice { loader_ns: None, ..choice(Scope::Program, false, Some(9), 0) };
        let counted = Advice { before_ns: None, ..advice(vec![fewer]) };
        assert!(counted.best(Scope::Program).is_some());
    }

    #[test]
    fn files_of_a_package_manager_are_left_to_it() {
        let choices = vec![
            choice(Scope::Nothing, false, Some(0), 40),
            choice(Scope::Program, false, Some(0), 40),
        ];
        let owned = Advice { owner: Some("dpkg"), ..advice(choices) };
        assert!(owned.best(Scope::Program).is_none() && owned.best(Scope::Nothing).is_some());
        let lines = owned.not_proposed();
        assert!(lines.len() == 1 && lines[0].contains("dpkg owns"), "{lines:?}");
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        assert_eq!(quoted(&"/a b".into()), "'/a b'");
        assert_eq!(quoted(&"/a".into()), "/a");
    }
}
