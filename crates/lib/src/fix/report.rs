//! The report of `becalm fix`.

use becalm_core::strategy::{Created, FilePlan, Finding, Plan, PlannedAnswer, Severity, Strategy};
use bstr::BString;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::fix::judge::Start;
use crate::fix::options::Options;
use crate::json::{self, lossy};
use crate::problem::Problem;
use crate::writing::Changed;

/// A strategy applied to some files: the plan and the results. The JSON document of `becalm fix`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The strategy.
    #[serde(rename = "carrier")]
    pub strategy: Strategy,
    /// True if it answers for all libraries that a program loads (`--closure`).
    pub closure: bool,
    /// True if this was a dry run.
    pub dry_run: bool,
    /// True if an interrupt ended the work between two batches.
    pub interrupted: bool,
    /// The files that were examined, with the plan for each.
    pub plan: Vec<PlannedFile>,
    /// Files and directories that the plan creates.
    pub creations: Vec<Created>,
    /// The outcome of each file with edits; empty after a dry run.
    pub files: Vec<Changed>,
    /// The outcome of each creation; empty after a dry run.
    pub made: Vec<Changed>,
    /// Answers and files that the plan leaves out.
    pub findings: Vec<Finding>,
    /// The programs among the files. For `ldcache` the cost after the plan is that with becalm's
    /// loader patch, also with `--closure`: Guix's loader is not predicted.
    pub programs: Vec<Start>,
    /// Files and folders that could not be examined.
    #[serde(rename = "errors")]
    pub problems: Vec<Problem>,
}

/// The plan for one file.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedFile {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The number of edits.
    pub edits: usize,
    /// True if it is outside the named paths and is edited all the same (`--closure`).
    pub outside: bool,
    /// True if its edits were removed from the plan, because they would change the libraries that a
    /// program loads or make its start longer.
    pub withdrawn: bool,
    /// The answers for its needed strings.
    pub answers: Vec<PlannedAnswer>,
}

json::schema!(Report, "becalm/fix/1");

impl Report {
    /// Returns the report of a plan that is not applied yet.
    pub(crate) fn of_plan(
        options: &Options,
        plan: &Plan,
        (outside, edited): (Vec<BString>, &FxHashSet<BString>),
        programs: Vec<Start>,
    ) -> Self {
        let outside: FxHashSet<BString> = plan.edited_of(outside).into_iter().collect();
        let file = |file: &FilePlan| PlannedFile {
            path: file.path.clone(),
            edits: file.edits.len(),
            outside: outside.contains(&file.path),
            withdrawn: file.edits.is_empty() && edited.contains(&file.path),
            answers: file.answers.clone(),
        };
        // Several objects of a program may have the same finding about another object.
        let mut seen = FxHashSet::default();
        let mut findings = plan.findings.clone();
        let said = |finding: &Finding| {
            (finding.path.clone(), finding.needed.clone(), finding.what.to_string())
        };
        findings.retain(|finding| seen.insert(said(finding)));
        Self {
            strategy: options.with,
            closure: options.closure,
            dry_run: true,
            interrupted: false,
            plan: plan.files.iter().map(file).collect(),
            creations: plan.creations.clone(),
            files: Vec::new(),
            made: Vec::new(),
            findings,
            programs,
            problems: Vec::new(),
        }
    }

    /// Returns the findings that the plan refused: they would change the libraries that a program
    /// loads or make its start longer, or two answers contradict each other.
    pub fn refusals(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity >= Severity::Conflict)
    }

    /// Returns true if a file could not be read or written.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let mut files = self.files.iter().chain(&self.made);
        !self.problems.is_empty() || files.any(Changed::has_failed)
    }
}
