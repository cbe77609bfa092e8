//! Comparison of the output in a document with the output of its command.

/// Returns the lines that differ, with `-` for the document's and `+` for the command's, or `None`
/// if all lines match.
///
/// A line `…` matches any number of lines, and an `…` in a line any text. Only the last component
/// of a path below `store` counts, because the rest has hash and version of a package. If
/// `figures_vary` is true, numbers and bars match any others.
pub(super) fn differences(
    said: &str,
    printed: &str,
    store: &str,
    figures_vary: bool,
) -> Option<String> {
    let lines = |text: &str| -> Vec<String> {
        let line = |line: &str| comparable(line, store, figures_vary);
        text.trim_end().lines().map(line).collect()
    };
    let (said, printed) = (lines(said), lines(printed));
    if matches(&said, &printed) {
        return None;
    }
    let only = |here: &[String], there: &[String], sign: char| -> String {
        let is_there = |line: &String| there.iter().any(|other| is_same(line, other));
        let new = here.iter().filter(|line| !is_there(line) && *line != ANYTHING);
        new.map(|line| format!("  {sign} {line}\n")).collect()
    };
    let text = only(&said, &printed, '-') + &only(&printed, &said, '+');
    Some(if text.is_empty() { "  the same lines in another order\n".to_owned() } else { text })
}

/// The line that matches any number of lines.
const ANYTHING: &str = "…";

/// Returns true if the lines are the same, or those between two [`ANYTHING`] follow each other in
/// order.
fn matches(said: &[String], printed: &[String]) -> bool {
    let mut parts = said.split(|line| line == ANYTHING);
    let first = parts.next().unwrap_or_default();
    let begin = |printed: &[String], part: &[String]| {
        printed.len() >= part.len() && part.iter().zip(printed).all(|(a, b)| is_same(a, b))
    };
    if !begin(printed, first) {
        return false;
    }
    let mut rest = &printed[first.len()..];
    let mut parts: Vec<&[String]> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        match rest.windows(part.len()).position(|lines| begin(lines, part)) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && begin(&rest[rest.len() - last.len()..], last)
}

/// Returns true if two lines are the same apart from their omissions.
fn is_same(one: &str, other: &str) -> bool {
    let fits = |short: &str, long: &str| match (short.split_once('…'), short.rsplit_once('…')) {
        (Some((start, _)), Some((_, end))) => {
            long.len() >= start.len() + end.len() && long.starts_with(start) && long.ends_with(end)
        }
        _ => short == long,
    };
    fits(one, other) || fits(other, one)
}

fn comparable(line: &str, store: &str, figures_vary: bool) -> String {
    let words = line.split_whitespace().map(|word| match word.find(store) {
        Some(at) => {
            let (before, path) = word.split_at(at);
            let last = path.rsplit('/').next().unwrap_or_default();
            format!("{before}{store}/*/{last}")
        }
        None => word.to_owned(),
    });
    let words = words.filter(|word| !figures_vary || !word.starts_with('■'));
    let words: Vec<String> =
        words.map(|word| if figures_vary { without_numbers(&word) } else { word }).collect();
    words.join(" ")
}

/// The text with `#` for each number.
fn without_numbers(word: &str) -> String {
    let mut text = word.replace(|c: char| c.is_ascii_digit(), "0");
    // A separator between digits belongs to the number.
    for digits in ["00", "0,0", "0.0"] {
        while text.contains(digits) {
            text = text.replace(digits, "0");
        }
    }
    text.replace('0', "#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_path_counts_by_its_last_component_and_figures_count_unless_they_vary() {
        let same = |said: &str, printed: &str, vary: bool| {
            differences(said, printed, "/opt/store", vary).is_none()
        };
        assert!(same("a => /opt/store/12-x-1/lib/l.so  3\n", "a => /opt/store/9…z/l.so  3", false));
        assert!(!same("/opt/store/1/lib", "/opt/store/1/bin", false));
        assert!(!same("1,146 misses", "1,147 misses", false));
        assert!(same("49 ■■ x, 1,146 misses; 1.4 ms.", "5 ■ x, 7 misses; 22.25 ms.", true));
        assert!(!same("3 hits", "3 misses", true));
        assert!(same("a\n…\nd\n…\n", "a\nb\nc\nd\ne\n", false));
        assert!(same("…\nd\n", "a\nd\n", false) && !same("a\n…\nd\n", "d\na\n", false));
        assert!(!same("…\nd\n", "d\ne\n", false));
        assert!(same("2 places, mos… /usr\n", "2 places, most in /usr\n", false));
        assert!(!same("2 places, mos… /usr\n", "3 places, most in /usr\n", false));
        let shown = differences("a\nb\n", "a\nc\n", "/s", false);
        assert_eq!(shown.as_deref(), Some("  - b\n  + c\n"));
    }
}
