//! The measurement as a table for a page.

use std::fmt::Write;

use becalm_lib::bench::Report;
use becalm_lib::words::milliseconds;

use crate::bench::output::{WATCHED, name, ratio_words, setting, watched_cells};

/// Returns the table, under a line that describes the measurement.
pub(crate) fn report(report: &Report) -> String {
    let mut text = format!("{}.\n\n", setting(report));
    text.push_str("| variant | median, ms | quartiles, ms | times the first |\n");
    text.push_str("| --- | ---: | ---: | ---: |\n");
    for variant in &report.variants {
        let [low, median, high] =
            [variant.low_ns, variant.median_ns, variant.high_ns].map(milliseconds);
        let (name, ratio) = (escaped(&name(variant)), ratio_words(variant.ratio));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {name} | {median} | {low} to {high} | {ratio} |");
    }
    if report.variants.iter().any(|variant| variant.watched.is_some()) {
        let _ = write!(
            text,
            "\n| variant | {} |\n| --- |{}\n",
            WATCHED.join(" | "),
            " ---: |".repeat(7)
        );
    }
    for variant in &report.variants {
        let Some(watched) = &variant.watched else { continue };
        let cells = watched_cells(watched).join(" | ");
        let _ = writeln!(text, "| {} | {cells} |", escaped(&variant.name));
    }
    for note in &report.notes {
        let _ = write!(text, "\nNote: {note}.\n");
    }
    text
}

/// Formats a name as code, with a fence longer than any in the name. No part of the name can end
/// the cell or be markup.
fn escaped(name: &str) -> String {
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if name.starts_with('`') || name.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", name.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_name_is_no_markup_and_ends_no_cell() {
        assert_eq!(escaped("a|<b>"), "`a\\|<b>`");
        assert_eq!(escaped("x`y"), "``x`y``");
        assert_eq!(escaped("`"), "`` ` ``");
    }
}
