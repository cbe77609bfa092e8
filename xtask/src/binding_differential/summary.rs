//! The result of all trials, by place, machine and C library.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::compare::Compared;
use super::trial::{Trial, Verdict};

/// The counts of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    programs: usize,
    compared: Compared,
    differ: usize,
    differences: usize,
    failed: usize,
    not_run: usize,
}

/// The result of all trials.
pub(super) struct Summary {
    groups: BTreeMap<(String, String), Counts>,
    wrong: Vec<(String, String)>,
    not_run: BTreeMap<String, usize>,
}

impl Summary {
    /// Adds the verdicts up.
    pub(super) fn of(trials: &[Trial<'_>], verdicts: &[Verdict]) -> Self {
        let mut summary =
            Self { groups: BTreeMap::new(), wrong: Vec::new(), not_run: BTreeMap::new() };
        for (trial, verdict) in trials.iter().zip(verdicts) {
            summary.add(trial, verdict);
        }
        summary
    }

    fn add(&mut self, trial: &Trial<'_>, verdict: &Verdict) {
        let libc = match verdict {
            Verdict::Recorded { libc, .. } | Verdict::Failed { libc } => libc,
            Verdict::NotRun(_) => "unknown",
        };
        let group = format!("{} {libc}", trial.object.machine);
        let counts = self.groups.entry((trial.place.label.clone(), group)).or_default();
        counts.programs += 1;
        let name = format!("{}: {}", trial.place.label, trial.object.path.display());
        match verdict {
            Verdict::Recorded { compared, differences, .. } => {
                counts.compared.add(*compared);
                counts.differ += usize::from(!differences.is_empty());
                counts.differences += differences.len();
                self.wrong.extend(differences.iter().map(|what| (name.clone(), what.clone())));
            }
            Verdict::Failed { .. } => counts.failed += 1,
            Verdict::NotRun(reason) => {
                counts.not_run += 1;
                *self.not_run.entry(reason.clone()).or_default() += 1;
            }
        }
    }

    /// True if nothing differs and every program was run.
    pub(super) fn is_clean(&self) -> bool {
        self.wrong.is_empty() && self.not_run.is_empty()
    }

    /// The table, why programs were not run, then the first `show` differences.
    pub(super) fn text(&self, show: usize) -> String {
        let mut text = format!("{:<42}", "");
        let header = [
            "programs",
            "symbolic",
            "resolved",
            "tls",
            "copies",
            "relative",
            "passed",
            "differ",
            "fail alike",
            "not run",
        ];
        for title in header {
            let _ = write!(text, "{title:>11}");
        }
        text.push('\n');
        for ((place, group), counts) in &self.groups {
            let _ = write!(text, "{:<42}", format!("{place}: {group}"));
            let c = counts.compared;
            for count in [
                counts.programs,
                c.symbolic,
                c.resolved,
                c.tls,
                c.copies,
                c.relative,
                c.passed,
                counts.differ,
                counts.failed,
                counts.not_run,
            ] {
                let _ = write!(text, "{count:>11}");
            }
            text.push('\n');
        }
        for (reason, count) in &self.not_run {
            let _ = writeln!(text, "not run: {count} programs: {reason}");
        }
        for (name, what) in self.wrong.iter().take(show) {
            let _ = writeln!(text, "{name}\n  {what}");
        }
        let _ = writeln!(text, "{} differences", self.wrong.len());
        text
    }

    /// The same as JSON.
    pub(super) fn json(&self, show: usize) -> Value {
        let group = |((place, group), counts): (&(String, String), &Counts)| {
            let c = counts.compared;
            json!({
                "place": place, "group": group, "programs": counts.programs,
                "symbolic": c.symbolic, "resolved": c.resolved, "tls": c.tls, "copies": c.copies,
                "relative": c.relative, "passed": c.passed, "lookups": c.lookups, "differ": counts.differ,
                "differences": counts.differences, "failed": counts.failed,
                "not_run": counts.not_run,
            })
        };
        let wrong = |(name, what): &(String, String)| json!({"start": name, "what": what});
        json!({
            "schema": "becalm/binding-differential/1",
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "not_run": self.not_run,
            "wrong": self.wrong.iter().take(show).map(wrong).collect::<Vec<_>>(),
            "wrong_total": self.wrong.len(),
        })
    }
}
