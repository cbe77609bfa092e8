//! Advice for one program: a sentence about its search cost, and each strategy before and after.

use becalm_lib::advice::{Advice, Choice, Scope};
use becalm_lib::words::grouped;

use crate::check::text::share;
use becalm_lib::report::start::Snapshot;

/// The strategies for one program.
#[derive(Debug)]
pub(crate) struct AdviceView<'a> {
    pub all: &'a Advice,
    /// Each strategy that gains, those with the fewest remaining misses first: with these misses, and whether it is
    /// the best.
    pub rows: Vec<(&'a Choice, u64, bool)>,
    /// The best strategy that changes no file.
    pub beside: Option<&'a Choice>,
    /// The best strategy in files.
    pub in_files: Option<&'a Choice>,
}

impl<'a> AdviceView<'a> {
    /// Makes the view of a program's strategies.
    pub(crate) fn of(advice: &'a Advice) -> Self {
        let best = [Scope::Nothing, Scope::Program, Scope::Closure].map(|scope| advice.best(scope));
        let least = best.iter().flatten().filter_map(|choice| choice.cost()).min();
        let rows = advice.options.iter().filter_map(|choice| {
            let (left, is_worth) = (choice.misses?, advice.is_worth(choice));
            let is_better = choice.needs_reader && left < advice.before;
            (is_worth || is_better).then_some((choice, left, is_worth && choice.cost() == least))
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|(choice, ..)| (choice.needs_reader, choice.cost()));
        Self {
            all: advice,
            rows,
            beside: best[0],
            in_files: best[1..].iter().flatten().min_by_key(|choice| choice.cost()).copied(),
        }
    }
}

/// Formats a release for readers, for example `glibc 2.36`.
fn release(libc: &str) -> String {
    libc.replacen('-', " ", 1)
}

/// Describes the search cost of a program in one sentence.
pub(crate) fn verdict(name: &str, side: &Snapshot) -> String {
    let storm = &side.storm;
    let misses = storm.misses();
    if misses == 0 {
        return format!("The loader finds all that {name} needs without a miss.");
    }
    let tries = match misses {
        1 => "1 path that is not there".to_owned(),
        misses => format!("{} paths that are not there", grouped(misses)),
    };
    let mut text = format!("Before {name} starts, its loader tries {tries}");
    if storm.hwcaps_misses > 0 {
        let libc = side.libc.as_deref().map_or_else(|| "its loader".to_owned(), release);
        text.push_str(&format!(
            ", {}\u{a0}% of them in hwcaps subdirectories that {libc} looks for",
            share(storm)
        ));
        if let Some((newer, left)) = &side.newer_glibc {
            let newer = release(newer);
            text.push_str(&format!(" ({newer} and later would try {})", grouped(*left)));
        }
    }
    let options = side.advice.iter().flat_map(|advice| &advice.options);
    let mut indexes = options.filter(|choice| choice.scope == Scope::Nothing);
    if let Some(left) = indexes.find_map(|choice| choice.misses.filter(|left| *left < misses)) {
        let left = if left == 0 { "none of them".to_owned() } else { grouped(left) };
        text.push_str(&format!("; an index would leave {left} and change no file"));
    }
    text.push('.');
    text
}
