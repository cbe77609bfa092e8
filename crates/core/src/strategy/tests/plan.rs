//! Tests of merged plans.

use crate::edit::Edit;
use crate::fs::Added;
use crate::strategy::{Created, FilePlan, FindingKind, Plan};

fn file(path: &str, needed: &str) -> Plan {
    let edits = vec![Edit::RemoveNeeded(needed.into())];
    let file = FilePlan { path: path.into(), edits, answers: Vec::new() };
    let creations = vec![
        Created { path: "/d".into(), kind: Added::Directory },
        Created { path: "/d/l".into(), kind: Added::Link { target: needed.into() } },
    ];
    Plan { files: vec![file], creations, ..Plan::default() }
}

#[test]
fn two_different_plans_for_one_file_are_dropped_and_named() {
    let parts = || [file("/b", "x"), file("/a", "x"), file("/b", "y"), file("/b", "x")];
    let gathered = Plan::gather(parts());
    let one_by_one = |whole, part| Plan::gather([whole, part]);
    let merged = parts().into_iter().fold(Plan::default(), one_by_one);
    assert_eq!(gathered, merged);
    let edits: Vec<_> = merged.files.iter().map(|f| (f.path.to_string(), f.edits.len())).collect();
    assert_eq!(edits, [("/a".to_owned(), 1), ("/b".to_owned(), 0)]);
    assert_eq!(merged.creations.len(), 2);
    assert!(merged.findings.iter().all(|f| f.what == FindingKind::TwoPlans));
    assert!(merged.findings.iter().any(|f| f.path == "/d/l"));
}
