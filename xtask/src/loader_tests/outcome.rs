//! Compares the results of the tests with and without the patch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The result of a test that could not be built or whose run was interrupted.
pub(super) const NONE: &str = "no result";

/// Tests by name, each with the result that glibc prints (`scripts/evaluate-test.sh`): PASS, FAIL,
/// XFAIL, XPASS, UNSUPPORTED.
pub(crate) type Results = BTreeMap<String, String>;

/// Reads the results of these tests.
pub(super) fn read(elf: &Path, names: &[String]) -> Results {
    let one = |name: &String| {
        let text = fs::read_to_string(elf.join(format!("{name}.test-result")));
        let text = text.unwrap_or_default();
        let word = text.split_once(':').map_or(NONE, |(word, _)| word);
        (name.clone(), word.to_owned())
    };
    names.iter().map(one).collect()
}

/// Returns the names of the tests that have another result in `other`, or that only one of them
/// has.
pub(crate) fn differences(one: &Results, other: &Results) -> BTreeSet<String> {
    let differs = |name: &&String| one.get(*name) != other.get(*name);
    one.keys().chain(other.keys()).filter(differs).cloned().collect()
}

pub(crate) fn count(results: &Results, word: &str) -> usize {
    results.values().filter(|other| *other == word).count()
}

/// Returns the names of the tests whose result is a failure.
pub(super) fn failed(results: &Results) -> Vec<String> {
    let fails = |word: &str| !matches!(word, "PASS" | "XFAIL" | "UNSUPPORTED");
    let failed = results.iter().filter(|(_, word)| fails(word));
    failed.map(|(name, _)| name.clone()).collect()
}

/// The results of a release without the patch and with it.
pub(super) type Compared = (&'static str, [Results; 2]);

/// Returns the counts by result, the names of the failures, and the differences.
pub(super) fn table(all: &[Compared]) -> String {
    const WORDS: [&str; 5] = ["PASS", "FAIL", "XFAIL", "UNSUPPORTED", NONE];
    const KINDS: [&str; 2] = ["plain", "patched"];
    let mut text = format!("| glibc | | tests | {} |\n| --- | --- |", WORDS.join(" | "));
    text += &" ---: |".repeat(WORDS.len() + 1);
    text += "\n";
    for (version, both) in all {
        for (kind, results) in KINDS.iter().zip(both) {
            let counts = WORDS.map(|word| count(results, word).to_string()).join(" | ");
            let _ = writeln!(text, "| {version} | {kind} | {} | {counts} |", results.len());
        }
    }
    let joined =
        |names: Vec<String>| if names.is_empty() { "none".into() } else { names.join(", ") };
    for (version, both) in all {
        for (kind, results) in KINDS.iter().zip(both) {
            let failures = failed(results).into_iter().map(|it| format!("{it} ({})", results[&it]));
            let _ = writeln!(text, "{version}, {kind}: failed: {}", joined(failures.collect()));
        }
        let different = joined(differences(&both[0], &both[1]).into_iter().collect());
        let _ = writeln!(text, "{version}: another result with the patch: {different}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(pairs: &[(&str, &str)]) -> Results {
        pairs.iter().map(|(name, word)| ((*name).into(), (*word).into())).collect()
    }

    #[test]
    fn a_result_is_the_word_before_the_test_s_name() {
        let elf = tempfile::tempdir().unwrap();
        fs::write(elf.path().join("a.test-result"), "PASS: elf/a\noriginal exit status 0\n")
            .unwrap();
        fs::write(elf.path().join("b.test-result"), "XFAIL: elf/b\n").unwrap();
        let names = ["a", "b", "c"].map(String::from);
        let read = read(elf.path(), &names);
        assert_eq!(read, results(&[("a", "PASS"), ("b", "XFAIL"), ("c", NONE)]));
    }

    #[test]
    fn a_test_with_another_result_is_a_difference_and_a_common_failure_is_none() {
        let plain = results(&[("a", "PASS"), ("b", "FAIL")]);
        assert!(differences(&plain, &plain).is_empty());
        let worse = results(&[("a", "FAIL"), ("b", "FAIL")]);
        assert_eq!(differences(&plain, &worse), BTreeSet::from(["a".to_owned()]));
        let text = table(&[("2.41", [plain, worse])]);
        assert!(text.contains("| 2.41 | patched | 2 | 0 | 2 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("patched: failed: a (FAIL), b (FAIL)"), "{text}");
    }

    #[test]
    fn a_test_that_only_one_tree_ran_is_a_difference() {
        let plain = results(&[("a", "PASS")]);
        assert!(!differences(&plain, &results(&[("a", NONE)])).is_empty());
        assert!(!differences(&plain, &Results::new()).is_empty());
    }
}
