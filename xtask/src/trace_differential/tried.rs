//! The results of programs whose starts are compared with plain ones.

use anyhow::Result;

use super::run::Ran;
use crate::tally::{Counts, Tally};

/// The result of a program in words, and what differs.
pub(crate) type Tried = (&'static str, Option<String>);

/// A plain start does not end by itself.
pub(crate) const NO_END: Tried = ("no end", None);

/// Returns the result of a program with a start that differs from the plain one: further plain starts show
/// if it varies by itself.
pub(crate) fn differs(
    plain: &Ran,
    times: usize,
    again: impl Fn() -> Result<Option<Ran>>,
    what: impl FnOnce() -> String,
) -> Result<Tried> {
    for _ in 0..times {
        if again()?.as_ref() != Some(plain) {
            return Ok(("varies by itself", None));
        }
    }
    Ok(("differs", Some(what())))
}

/// Prints the first differences of starts with their groups and names, and the number of each
/// result. Returns these numbers, and true if nothing differs.
pub(crate) fn print(
    results: impl IntoIterator<Item = (String, String, Result<Tried>)>,
) -> (Counts, bool) {
    let (mut tally, mut counts) = (Tally::default(), Counts::default());
    for (group, start, result) in results {
        let failed = |error| ("not tried", Some(format!("{error:#}")));
        let (word, what) = result.unwrap_or_else(failed);
        tally.group(&group, word.to_owned()).add("starts", 1);
        counts.add(word, 1);
        what.into_iter().for_each(|what| tally.differs(start.clone(), what));
    }
    print!("{}", tally.text((44, 7), &["starts"]));
    (counts, tally.differences() == 0)
}
