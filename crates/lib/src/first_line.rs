//! The first line of every command about one program: the loader's time before `main`, where it
//! goes, and what an index changes.

use std::fmt;

use crate::check::{Kind, Program};
use crate::escape::shown;
use crate::estimate::{PART, is_gain};
use crate::words::{counted, grouped};

/// The numbers of the line. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstLine {
    /// The path of the program; the line has its last name.
    pub program: String,
    /// The loader's time before `main`; `None` if the start has no loader, or nothing is known.
    pub loader: Option<Loader>,
    /// The time of the same start with an index, or the reason why there is none.
    pub indexed: Indexed,
    /// The times of the whole start, without and with the index, if they were measured.
    pub whole: Option<(u64, Option<u64>)>,
    /// True if the whole start ends at the first idle moment, and not at the exit.
    pub until_idle: bool,
    /// The work of an interpreter after the entry point, if the start was traced.
    pub imports: Option<Imports>,
}

/// The file calls of an interpreter for its modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imports {
    /// The time from the entry point to the end.
    pub ns: u64,
    /// The number of calls.
    pub calls: u64,
    /// Their purpose, as a title.
    pub what: &'static str,
}

/// Fewer file calls of an interpreter are not worth a word.
pub const MANY_CALLS: u64 = 100;

/// The loader's time in a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loader {
    /// From the `execve` to the entry point.
    pub ns: u64,
    /// Of that, if it is known, the time of symbol lookups or, if it was measured, of all relocation.
    pub lookups_ns: Option<u64>,
    /// Of that, the time of misses.
    pub misses_ns: u64,
    /// The number of misses.
    pub misses: u64,
    /// True if the times were measured.
    pub is_measured: bool,
}

/// The start with an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Indexed {
    /// Nothing is said.
    #[default]
    Unknown,
    /// The time until the entry point, and true if it was measured.
    Takes(u64, bool),
    /// The start already uses one; the time without it.
    Used(u64),
    /// An index has no effect, for this reason.
    None(&'static str),
}

impl FirstLine {
    /// Returns the line of a prediction, with its estimate.
    #[must_use]
    pub fn of(program: &Program) -> Self {
        let misses = program.storm.misses();
        let none = Loader { misses, ..Loader::default() };
        let loader = program.estimate.map_or(none, |estimate| Loader {
            ns: estimate.loader_ns,
            lookups_ns: Some(estimate.lookups_ns),
            misses_ns: estimate.misses_ns,
            ..none
        });
        let is_used = program.calmed_by.is_some();
        let (loader, indexed) = match program.estimate.and_then(|it| it.indexed_ns) {
            Some(ns) if is_used => {
                let with = Loader { ns, lookups_ns: None, misses_ns: 0, ..loader };
                (with, Indexed::Used(loader.ns))
            }
            Some(ns) => (loader, Indexed::Takes(ns, false)),
            None if loader.ns == 0 => (loader, Indexed::Unknown),
            None if program.secure => (loader, Indexed::None("it starts in secure-execution mode")),
            None => (loader, Indexed::None("its glibc is older than 2.31")),
        };
        let has_loader = !matches!(program.kind, Kind::Static | Kind::MachO);
        Self {
            program: program.path.to_string(),
            loader: has_loader.then_some(loader),
            indexed,
            ..Self::default()
        }
    }

    /// False if an index would not make the start quicker, or not enough to be worth a command.
    #[must_use]
    pub fn gains(&self) -> bool {
        match (&self.loader, &self.indexed) {
            (None, _) | (_, Indexed::None(_)) => false,
            (Some(loader), Indexed::Takes(ns, _)) => is_gain(*ns, loader.ns),
            _ => true,
        }
    }

    /// Returns the line with measured times; a start without a loader has none of it. An estimate of the start with
    /// an index keeps its factor.
    pub(crate) fn with_measured(self, loader: Loader, whole: Option<(u64, Option<u64>)>) -> Self {
        let known = self.loader.map_or(0, |known| known.ns).max(1);
        let scaled = |ns: u64| (ns as f64 * loader.ns as f64 / known as f64) as u64;
        let indexed = match self.indexed {
            Indexed::Takes(ns, false) => Indexed::Takes(scaled(ns), false),
            Indexed::Used(plain) => Indexed::Used(scaled(plain)),
            other => other,
        };
        Self { loader: Some(loader).filter(|it| it.ns > 0).or(self.loader), indexed, whole, ..self }
    }
}

impl Loader {
    fn words(&self) -> String {
        if self.ns == 0 {
            let misses = counted(self.misses, "miss", "misses");
            return format!("{misses} of the loader before main; no times of it on this machine");
        }
        let about = if self.is_measured { "" } else { "about " };
        let mut parts = vec![format!("{about}{} ms of loader before main", ms(self.ns))];
        let is_worth_a_word = |ns: u64| ns as f64 >= PART * self.ns as f64;
        if let Some(lookups) = self.lookups_ns.filter(|ns| is_worth_a_word(*ns)) {
            let what = if self.is_measured { "relocation" } else { "symbol lookups" };
            parts.push(format!("{} of them {what}", ms(lookups)));
        }
        if is_worth_a_word(self.misses_ns) && self.misses > 0 {
            let of_them = if parts.len() == 1 { " of them" } else { "" };
            let misses = counted(self.misses, "miss", "misses");
            parts.push(format!("{}{of_them} for {misses}", ms(self.misses_ns)));
        }
        parts.join(", ")
    }
}

impl fmt::Display for FirstLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.program.rsplit('/').next().unwrap_or_default();
        write!(f, "{}: ", shown(name.into()))?;
        let loader = self.loader.unwrap_or_default();
        match &self.loader {
            Some(loader) => f.write_str(&loader.words())?,
            None => f.write_str("no loader before main")?,
        }
        match self.indexed {
            _ if self.loader.is_none() => {}
            Indexed::Unknown => {}
            Indexed::Used(plain) => {
                let factor = loader.ns as f64 / plain.max(1) as f64;
                write!(f, ", with the index in use ({factor:.2} of a plain start)")?;
            }
            Indexed::None(why) => write!(f, "; an index has no effect: {why}")?,
            Indexed::Takes(ns, is_measured) => {
                let factor = ns as f64 / loader.ns.max(1) as f64;
                let about = if is_measured { "" } else { "about " };
                let time = format!("{about}{} ms ({factor:.2})", ms(ns));
                match self.gains() {
                    true => write!(f, "; with an index {time}")?,
                    false => write!(f, "; an index gains nothing here: {time}")?,
                }
            }
        }
        if let Some(Imports { ns, calls, what }) = self.imports {
            write!(f, "; then {} ms, with {} file calls for {what}", ms(ns), grouped(calls))?;
        }
        let to = if self.until_idle { "to its first idle moment" } else { "in all" };
        match self.whole {
            Some((plain, Some(indexed))) => {
                write!(f, "; from {} to {} ms {to}", ms(plain), ms(indexed))
            }
            Some((plain, None)) => write!(f, "; {} ms {to}", ms(plain)),
            None => Ok(()),
        }
    }
}

/// Formats milliseconds with two significant digits, or all before the point.
fn ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        ms if ms < 0.995 => format!("{ms:.2}"),
        ms if ms < 9.95 => format!("{ms:.1}"),
        ms => grouped(ms.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADER: Loader = Loader {
        ns: 58_000_000,
        lookups_ns: Some(40_200_000),
        misses_ns: 200_000,
        misses: 42,
        is_measured: true,
    };

    fn line(loader: Loader, indexed: Indexed, whole: Option<(u64, Option<u64>)>) -> String {
        let program = "/usr/bin/app".to_owned();
        FirstLine { program, loader: Some(loader), indexed, whole, ..FirstLine::default() }
            .to_string()
    }

    #[test]
    fn the_line_names_both_factors_and_what_was_measured() {
        assert_eq!(
            line(LOADER, Indexed::Takes(24_000_000, true), Some((108_000_000, Some(46_400_000)))),
            "app: 58 ms of loader before main, 40 of them relocation; with an index 24 ms (0.41); \
             from 108 to 46 ms in all"
        );
        let idle = FirstLine {
            whole: Some((2_000_000_000, None)),
            until_idle: true,
            ..FirstLine::default()
        };
        assert_eq!(
            FirstLine { loader: Some(LOADER), ..idle }.to_string(),
            ": 58 ms of loader before main, 40 of them relocation; 2,000 ms to its first idle moment"
        );
        let traced = FirstLine {
            loader: Some(LOADER),
            imports: Some(Imports { ns: 459_000_000, calls: 2_525, what: "Python imports" }),
            whole: Some((517_000_000, None)),
            ..FirstLine::default()
        };
        assert_eq!(
            traced.to_string(),
            ": 58 ms of loader before main, 40 of them relocation; then 459 ms, with 2,525 file calls for Python imports; \
             517 ms in all"
        );
        let estimated = Loader { is_measured: false, misses_ns: 9_000_000, ..LOADER };
        assert_eq!(
            line(estimated, Indexed::Takes(24_000_000, false), None),
            "app: about 58 ms of loader before main, 40 of them symbol lookups, 9.0 for 42 misses; \
             with an index about 24 ms (0.41)"
        );
    }

    #[test]
    fn an_index_that_gains_nothing_is_not_praised() {
        let small = Loader { ns: 800_000, lookups_ns: Some(40_000), ..LOADER };
        assert_eq!(
            line(small, Indexed::Takes(850_000, true), None),
            "app: 0.80 ms of loader before main, 0.20 of them for 42 misses; an index gains nothing \
             here: 0.85 ms (1.06)"
        );
        assert_eq!(
            line(LOADER, Indexed::None("musl"), Some((60_000_000, None))),
            "app: 58 ms of loader before main, 40 of them relocation; an index has no effect: musl; 60 ms in all"
        );
        assert_eq!(
            FirstLine { program: "static".to_owned(), ..FirstLine::default() }.to_string(),
            "static: no loader before main"
        );
        let measured = FirstLine { program: "static".to_owned(), ..FirstLine::default() }
            .with_measured(Loader::default(), Some((7_900_000, None)));
        assert_eq!(measured.to_string(), "static: no loader before main; 7.9 ms in all");
    }
}
