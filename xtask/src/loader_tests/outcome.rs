//! Compares the results of the tests with and without the patch.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The result of a test that could not be built or whose run was interrupted.
const NONE: &str = "no result";

/// Tests by name, each with the result that glibc prints (`scripts/evaluate-test.sh`): PASS, FAIL,
/// XFAIL, XPASS, UNSUPPORTED.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Results(BTreeMap<String, String>);

impl FromIterator<(String, String)> for Results {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(pairs: T) -> Self {
        Results(pairs.into_iter().collect())
    }
}

impl Results {
    /// Reads the results of these tests.
    pub(crate) fn read(elf: &Path, names: &[String]) -> Self {
        let one = |name: &String| {
            let text = fs::read_to_string(elf.join(format!("{name}.test-result")));
            let text = text.unwrap_or_default();
            let word = text.split_once(':').map_or(NONE, |(word, _)| word);
            (name.clone(), word.to_owned())
        };
        names.iter().map(one).collect()
    }

    /// Returns true if no test has a result.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.values().all(|word| word == NONE)
    }

    /// Returns the names of the tests that have another result in `other`, or that only one of them
    /// has.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut names: Vec<_> = self.0.keys().chain(other.0.keys()).collect();
        names.sort();
        names.dedup();
        let differs = |name: &&&String| self.0.get(**name) != other.0.get(**name);
        names.iter().filter(differs).map(|name| (*name).clone()).collect()
    }

    /// Returns the number of requested tests.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn count(&self, word: &str) -> usize {
        self.0.values().filter(|other| *other == word).count()
    }

    /// Returns the names of the tests whose result is a failure.
    pub(crate) fn failed(&self) -> Vec<String> {
        let fails = |word: &str| !matches!(word, "PASS" | "XFAIL" | "UNSUPPORTED");
        let failed = self.0.iter().filter(|(_, word)| fails(word));
        failed.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the same names, each with its result.
    fn failures(&self) -> Vec<String> {
        self.failed().iter().map(|name| format!("{name} ({})", self.0[name])).collect()
    }
}

/// The results of one release with and without the patch.
#[derive(Debug)]
pub(super) struct Compared {
    version: String,
    plain: Results,
    patched: Results,
    /// The tests with another result.
    pub(super) different: Vec<String>,
}

impl Compared {
    /// Compares the patched tree's results with the plain one's.
    pub(super) fn new(version: &str, plain: Results, patched: Results) -> Self {
        let different = plain.differences(&patched);
        Self { version: version.to_owned(), plain, patched, different }
    }
}

/// Returns the counts by result, the names of the failures, and the differences.
pub(super) fn table(all: &[Compared]) -> String {
    const WORDS: [&str; 5] = ["PASS", "FAIL", "XFAIL", "UNSUPPORTED", NONE];
    let mut text = String::from("| glibc | | tests |");
    for word in WORDS {
        let _ = write!(text, " {word} |");
    }
    text += "\n| --- | --- |";
    text += &" ---: |".repeat(WORDS.len() + 1);
    text += "\n";
    for Compared { version, plain, patched, .. } in all {
        for (kind, results) in [("plain", plain), ("patched", patched)] {
            let _ = write!(text, "| {version} | {kind} | {} |", results.0.len());
            for word in WORDS {
                let _ = write!(text, " {} |", results.count(word));
            }
            text += "\n";
        }
    }
    for Compared { version, plain, patched, different } in all {
        for (kind, results) in [("plain", plain), ("patched", patched)] {
            let failures = results.failures();
            let none = if failures.is_empty() { "none".into() } else { failures.join(", ") };
            let _ = writeln!(text, "{version}, {kind}: failed: {none}");
        }
        let none = if different.is_empty() { "none".into() } else { different.join(", ") };
        let _ = writeln!(text, "{version}: another result with the patch: {none}");
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
        let read = Results::read(elf.path(), &names);
        assert_eq!(read, results(&[("a", "PASS"), ("b", "XFAIL"), ("c", NONE)]));
        assert!(!read.is_empty() && results(&[("c", NONE)]).is_empty());
    }

    #[test]
    fn a_test_with_another_result_is_a_difference_and_a_common_failure_is_none() {
        let plain = results(&[("a", "PASS"), ("b", "FAIL")]);
        let same = Compared::new("2.41", plain.clone(), plain.clone());
        assert!(same.different.is_empty());
        let worse = Compared::new("2.41", plain, results(&[("a", "FAIL"), ("b", "FAIL")]));
        assert_eq!(worse.different, ["a"]);
        let text = table(&[worse]);
        assert!(text.contains("| 2.41 | patched | 2 | 0 | 2 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("patched: failed: a (FAIL), b (FAIL)"), "{text}");
    }

    #[test]
    fn a_test_that_only_one_tree_ran_is_a_difference() {
        let plain = results(&[("a", "PASS")]);
        assert!(!Compared::new("2.41", plain, results(&[("a", NONE)])).different.is_empty());
    }
}
