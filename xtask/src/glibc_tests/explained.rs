//! Differences that any audit module causes. Each is listed with its reason, and a module that does
//! nothing shows it too.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Result, ensure};

use crate::loader_tests::outcome::Results;

/// Lines of VERSION, TEST and a reason, separated by blanks; `*` for every release; `#` begins a
/// comment.
const FILE: &str = include_str!("explained.txt");

/// Tests with another result that is no fault, each with its release.
#[derive(Debug)]
pub(super) struct Explained(Vec<(String, String)>);

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
        let of_idle: BTreeSet<_> = idle.differences(audited).into_iter().collect();
        let all: BTreeSet<_> = plain.differences(audited).into_iter().collect();
        self.ours_alone.extend(all.intersection(&of_idle).cloned());
        self.all.extend(all);
    }
}

/// Differences of one release, compared with the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checked {
    explained: Vec<String>,
    unexplained: Vec<String>,
    gone: Vec<String>,
}

impl Explained {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error if a line has no reason.
    pub(super) fn read() -> Result<Self> {
        Self::parse(FILE)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut all = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let words: Vec<&str> = line.splitn(3, ' ').collect();
            ensure!(words.len() == 3, "explained.txt: no reason: {line}");
            all.push((words[0].to_owned(), words[1].to_owned()));
        }
        Ok(Self(all))
    }

    /// Compares the differing tests with the listed ones.
    pub(super) fn check(&self, version: &str, differing: &Differing) -> Checked {
        let applies = |(release, _): &&(String, String)| release == "*" || release == version;
        let known: BTreeSet<String> =
            self.0.iter().filter(applies).map(|(_, test)| test.clone()).collect();
        let inherent: BTreeSet<String> = &differing.all - &differing.ours_alone;
        let explained = &known & &inherent;
        Checked {
            unexplained: (&differing.all - &explained).into_iter().collect(),
            gone: (&known - &differing.all).into_iter().collect(),
            explained: explained.into_iter().collect(),
        }
    }
}

impl Checked {
    /// Returns true if each difference is explained and each explanation is needed.
    pub(super) fn is_clean(&self) -> bool {
        self.unexplained.is_empty() && self.gone.is_empty()
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (explained, unexplained) = (self.explained.len(), self.unexplained.len());
        writeln!(f, "differences: {explained} explained, {unexplained} unexplained")?;
        for test in &self.explained {
            writeln!(f, "  {test}: any audit module changes its result")?;
        }
        for test in &self.unexplained {
            writeln!(f, "  {test}: unexplained")?;
        }
        for test in &self.gone {
            writeln!(f, "  {test}: in explained.txt, but no longer different")?;
        }
        Ok(())
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

    #[test]
    fn a_difference_is_explained_by_a_line_of_its_release() {
        let explained = Explained::parse("# why\n2.36 a counts modules\n").unwrap();
        let checked = explained.check("2.36", &differing("PASS"));
        assert!(checked.is_clean() && checked.explained == ["a"], "{checked}");
        let checked = explained.check("2.41", &differing("PASS"));
        assert_eq!((checked.is_clean(), checked.unexplained), (false, vec!["a".to_owned()]));
    }

    #[test]
    fn a_difference_that_an_idle_module_does_not_make_is_unexplained_even_if_listed() {
        let explained = Explained::parse("* a counts modules\n* b counts modules\n").unwrap();
        let checked = explained.check("2.36", &differing("FAIL"));
        assert_eq!((checked.is_clean(), checked.unexplained), (false, vec!["b".to_owned()]));
    }

    #[test]
    fn an_explained_difference_that_is_gone_fails() {
        let explained = Explained::parse("* a counts modules\n* d is old\n").unwrap();
        let checked = explained.check("2.36", &differing("PASS"));
        assert!(!checked.is_clean());
        assert!(checked.to_string().contains("d: in explained.txt"), "{checked}");
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert!(Explained::parse("* a\n").is_err());
        assert!(Explained::read().is_ok());
    }
}
