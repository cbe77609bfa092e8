//! Counts the results of all trials by place, machine and C library.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::trial::{Trial, Verdict, Wrong};

/// The counts of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    objects: usize,
    starts: usize,
    probes: usize,
    misses: usize,
    differences: usize,
    unpredicted: usize,
    not_run: usize,
}

/// The result of all trials.
pub(super) struct Summary {
    groups: BTreeMap<(String, String), Counts>,
    wrong: Vec<(String, String)>,
}

impl Summary {
    /// Adds the verdicts up.
    pub(super) fn of(trials: &[Trial<'_>], verdicts: &[Verdict]) -> Self {
        let mut summary = Summary { groups: BTreeMap::new(), wrong: Vec::new() };
        for (trial, verdict) in trials.iter().zip(verdicts) {
            let group = format!("{} {}", trial.machine, verdict.libc);
            let key = (trial.place.label.clone(), group);
            let counts = summary.groups.entry(key).or_default();
            counts.objects += usize::from(!trial.has_library_path());
            counts.starts += 1;
            counts.probes += verdict.probes;
            counts.misses += verdict.misses;
            let what = match &verdict.wrong {
                None => continue,
                Some(Wrong::Differs(what)) => {
                    counts.differences += 1;
                    what.clone()
                }
                Some(Wrong::NoPrediction(what)) => {
                    counts.unpredicted += 1;
                    format!("no prediction: {what}")
                }
                Some(Wrong::NoRecord(what)) => {
                    counts.not_run += 1;
                    format!("not run: {what}")
                }
            };
            let with = if trial.has_library_path() { " with LD_LIBRARY_PATH" } else { "" };
            summary.wrong.push((format!("{}: {:?}{with}", trial.place.label, trial.object), what));
        }
        summary
    }

    /// Returns true if every start was predicted and run, and nothing differs.
    pub(super) fn is_clean(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Returns the table, then the first `show` differences in full.
    pub(super) fn text(&self, show: usize) -> String {
        let mut text = String::new();
        let header = ["objects", "starts", "probes", "misses", "differ", "no answer", "not run"];
        let _ = write!(text, "{:<46}", "");
        for title in header {
            let _ = write!(text, "{title:>11}");
        }
        text.push('\n');
        for ((place, group), c) in &self.groups {
            let _ = write!(text, "{:<46}", format!("{place}: {group}"));
            for count in
                [c.objects, c.starts, c.probes, c.misses, c.differences, c.unpredicted, c.not_run]
            {
                let _ = write!(text, "{count:>11}");
            }
            text.push('\n');
        }
        for (name, what) in self.wrong.iter().take(show) {
            let _ = writeln!(text, "\n{name}\n  {what}");
        }
        if self.wrong.len() > show {
            let _ = writeln!(text, "\n… and {} more", self.wrong.len() - show);
        }
        text
    }

    /// Returns the same as JSON.
    pub(super) fn json(&self, show: usize) -> Value {
        let group = |((place, group), c): (&(String, String), &Counts)| {
            json!({
                "place": place, "group": group, "objects": c.objects, "starts": c.starts,
                "probes": c.probes, "misses": c.misses, "differences": c.differences,
                "unpredicted": c.unpredicted, "not_run": c.not_run,
            })
        };
        let wrong = |(name, what): &(String, String)| json!({"start": name, "what": what});
        json!({
            "schema": "becalm/differential/1",
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "wrong": self.wrong.iter().take(show).map(wrong).collect::<Vec<_>>(),
            "wrong_total": self.wrong.len(),
        })
    }
}
