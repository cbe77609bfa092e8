//! The sections of the manual that no flag explains; they are last in `--help` and in every manual
//! page.

use std::fmt::Write;

/// Returns the heading of a section, and its terms, each with its meaning. The heading is the first line. A term is a
/// line, and its meaning is in the lines below it, indented.
pub(crate) fn read(section: &str) -> (&str, Vec<(&str, String)>) {
    let (title, rest) = section.split_once('\n').unwrap_or((section, ""));
    let mut entries: Vec<(&str, String)> = Vec::new();
    for line in rest.lines() {
        match (line.strip_prefix("    "), entries.last_mut()) {
            (Some(part), Some((_, meaning))) if meaning.is_empty() => meaning.push_str(part),
            (Some(part), Some((_, meaning))) => meaning.extend([" ", part]),
            _ => entries.push((line, String::new())),
        }
    }
    (title, entries)
}

pub(crate) const EXIT_STATUS: &str = "Exit status
0
    Success.
1
    There is a finding: a missing library, a start that the loader would refuse, a program over a
    budget.
2
    A failure: a path that does not exist or is not an ELF file, a malformed file, a wrong flag. The
    other files are processed all the same. A folder without ELF files is not a failure.
130
    Interrupted (SIGINT), as shells report it.
128+N
    Ended by signal N; 141 if the reader of the output has closed it.";

pub(crate) const ENVIRONMENT: &str = "Environment
LD_LIBRARY_PATH
    Part of the prediction, with its effect on a program started here; not with --sysroot.
    --library-path overrides it.
LD_PRELOAD
    Likewise; --preload overrides it.
LD_AUDIT
    Likewise; --audit overrides it.
GLIBC_TUNABLES
    Likewise: hwcaps, executable stacks, and glibc.rtld.resolution if the loader has it, which
    --reads overrides.
NO_COLOR
    If set and not empty, nothing is coloured unless --color=always.";

pub(crate) const JSON: &str = "JSON
--json
    One object; schema names the command and the version of its fields. docs/json.md, which
    is installed with the documentation, describes each field.";

/// Columns of wrapped help text.
pub(crate) const HELP_WIDTH: usize = 80;

/// Returns the sections as help text.
pub(crate) fn as_help(sections: &[&str]) -> String {
    let mut text = String::new();
    for (title, entries) in sections.iter().map(|section| read(section)) {
        let _ = writeln!(text, "{title}:");
        for (term, meaning) in entries {
            let _ = writeln!(text, "  {term}");
            for line in wrapped(&meaning, HELP_WIDTH - 10) {
                let _ = writeln!(text, "          {line}");
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the sections in the language of manual pages (man(7)).
pub(crate) fn as_roff(sections: &[&str]) -> String {
    let mut text = String::new();
    for (title, entries) in sections.iter().map(|section| read(section)) {
        let _ = writeln!(text, ".SH \"{}\"", title.to_uppercase());
        for (term, meaning) in entries {
            let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(&meaning));
        }
    }
    text
}

/// Escapes text for roff; no line of ours starts with a dot or a quote.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.extend([" ", word]);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
