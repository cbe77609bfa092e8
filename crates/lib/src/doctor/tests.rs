//! Tests of sessions without an index.

use super::*;

fn kinds(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_module_that_is_gone_and_one_that_is_no_index_are_told_apart() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let other = dir.path().join("other.so");
    std::fs::write(&other, "no index").expect("written");
    let mut audit = other.clone().into_os_string();
    audit.push(":/nonexistent/index.so.d/$PLATFORM:");
    let session = Session { audit: Some(audit), ..Session::default() };
    let report = examine(&session, None);
    assert!(!report.calmed);
    let is: Vec<ModuleKind> = report.modules.iter().map(|module| module.is).collect();
    assert_eq!(is, [ModuleKind::Other, ModuleKind::Missing]);
    assert_eq!(report.modules[1].path, "/nonexistent/index.so");
    assert_eq!(kinds(&report)[0], FindingKind::Missing);
}

#[test]
fn a_switch_and_an_unusable_index_are_findings() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let index = dir.path().join("index.so");
    std::fs::write(&index, "no index").expect("written");
    let session = Session { switches: Some("off,nobind".into()), ..Session::default() };
    let report = examine(&session, Some(&index));
    assert_eq!(report.switches, ["off", "nobind"]);
    assert!(kinds(&report).contains(&FindingKind::SwitchedOff), "{report:?}");
    assert!(kinds(&report).contains(&FindingKind::Unusable), "{report:?}");
    assert!(report.index.is_some_and(|index| !index.usable && index.fresh.is_none()));
}

#[test]
fn the_last_value_of_a_tunable_counts() {
    let tunables = "glibc.rtld.optional_static_tls=9:x=1:glibc.rtld.optional_static_tls=512";
    let session = Session { tunables: Some(tunables.into()), ..Session::default() };
    assert_eq!(session.static_tls(), Some(512));
    assert_eq!(Session::default().static_tls(), None);
}
