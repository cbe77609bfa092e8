//! Differences that any audit module causes. Each is listed with its reason, and a module that does
//! nothing shows it too.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::loader_tests::outcome::{Results, differences};

/// Lines of VERSION, TEST and a reason, separated by blanks; `*` for every release; `#` begins a
/// comment.
const FILE: &str = include_str!("explained.txt");

/// Returns the tests of a release with another result that is no fault.
///
/// # Errors
/// Returns an error if a line has no reason.
pub(super) fn known(version: &str) -> Result<BTreeSet<String>> {
    parse(FILE, version)
}

fn parse(text: &str, version: &str) -> Result<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [release, test, _] = words[..] else { bail!("explained.txt: no reason: {line}") };
        known.extend((release == "*" || release == version).then(|| test.to_owned()));
    }
    Ok(known)
}

/// Tests of one release whose results with becalm's module differ from those without a module.
#[derive(Debug, Default)]
pub(super) struct Differing {
    all: BTreeSet<String>,
    /// Those whose results also differ from those with a module that does nothing.
    ours_alone: BTreeSet<String>,
}

impl Differing {
    /// Adds one run's results: without a module, with one that does nothing, with becalm's.
    pub(super) fn add(&mut self, plain: &Results, idle: &Results, audited: &Results) {
        let all = differences(plain, audited);
        self.ours_alone.extend(&all & &differences(idle, audited));
        self.all.extend(all);
    }

    /// Compares the differing tests with the known ones. Returns a description, and true if each difference
    /// is explained and each explanation is needed.
    pub(super) fn checked(&self, known: &BTreeSet<String>) -> (String, bool) {
        let explained = known & &(&self.all - &self.ours_alone);
        let (unexplained, gone) = (&self.all - &explained, known - &self.all);
        let mut text = format!(
            "differences: {} explained, {} unexplained\n",
            explained.len(),
            unexplained.len()
        );
        for (tests, what) in [
            (&explained, "any audit module changes its result"),
            (&unexplained, "unexplained"),
            (&gone, "in explained.txt, but no longer different"),
        ] {
            tests.iter().for_each(|test| text += &format!("  {test}: {what}\n"));
        }
        (text, unexplained.is_empty() && gone.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(pairs: &[(&str, &str)]) -> Results {
        pairs.iter().map(|&(name, word)| (name.to_owned(), word.to_owned())).collect()
    }

    /// `a` fails with any module, `b` only with becalm's.
    fn differing(b: &str) -> Differing {
        let mut differing = Differing::default();
        let plain = results(&[("a", "PASS"), ("b", "PASS"), ("c", "FAIL")]);
        let idle = results(&[("a", "FAIL"), ("b", "PASS"), ("c", "PASS")]);
        differing.add(&plain, &idle, &results(&[("a", "FAIL"), ("b", b), ("c", "FAIL")]));
        differing.add(&plain, &plain, &plain);
        differing
    }

    /// Compares with the lines of an explanation. Returns the description, and whether all is explained.
    fn checked(text: &str, version: &str, b: &str) -> (String, bool) {
        differing(b).checked(&parse(text, version).unwrap())
    }

    #[test]
    fn a_difference_is_explained_by_a_line_of_its_release() {
        let text = "# why\n2.36 a counts modules\n";
        let expected = "differences: 1 explained, 0 unexplained\n  \
                        a: any audit module changes its result\n";
        assert_eq!(checked(text, "2.36", "PASS"), (expected.to_owned(), true));
        let expected = "differences: 0 explained, 1 unexplained\n  a: unexplained\n";
        assert_eq!(checked(text, "2.41", "PASS"), (expected.to_owned(), false));
    }

    #[test]
    fn a_difference_that_an_idle_module_does_not_make_is_unexplained_even_if_listed() {
        let (said, is_clean) = checked("* a counts modules\n* b counts modules\n", "2.36", "FAIL");
        assert!(!is_clean && said.contains("1 unexplained"), "{said}");
        assert!(said.contains("b: unexplained"), "{said}");
    }

    #[test]
    fn an_explained_difference_that_is_gone_fails() {
        let (said, is_clean) = checked("* a counts modules\n* d is old\n", "2.36", "PASS");
        assert!(!is_clean && said.contains("d: in explained.txt"), "{said}");
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert!(parse("* a\n", "2.36").is_err());
        assert!(known("2.36").is_ok());
    }
}
