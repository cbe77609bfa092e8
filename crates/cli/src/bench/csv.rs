//! Formats every start of a measurement as a row (RFC 4180).

use std::fmt::Write;

use becalm_lib::bench::Report;

/// Returns the rows, under a heading.
pub(crate) fn report(report: &Report) -> String {
    let mut text = "round,variant,control,wall_ns,cpu_ns\r\n".to_owned();
    for round in 0..report.rounds {
        for variant in &report.variants {
            let (name, control) = (quoted(&variant.name), variant.control);
            let wall_ns = variant.wall_ns[round];
            let cpu_ns = variant.cpu_ns.as_ref().map_or(0, |all| all[round]);
            // Writing to a String cannot fail.
            let _ = write!(text, "{},{name},{control},{wall_ns},{cpu_ns}\r\n", round + 1);
        }
    }
    text
}

/// Quotes a field that contains a comma or a quote.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_comma_or_quote_in_a_name_makes_no_further_field() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted("plain"), "plain");
    }
}
