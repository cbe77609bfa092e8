//! The sections of the manual that no flag explains: they end `--help` and every
//! manual page.

mod bench;
mod check;
mod compare;
mod fix;
mod index;
mod loader;
mod report;
mod trace;

use std::fmt::Write;

/// One section.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its heading.
    pub title: &'static str,
    /// What it explains, a term and its meaning each.
    pub entries: &'static [(&'static str, &'static str)],
}

const EXIT_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "All is well."),
        (
            "1",
            "Something was found: a needed string that nothing answers, a start that the \
             loader would refuse, a program over --max-misses.",
        ),
        (
            "2",
            "Something could not be done: a path that is not there or is no ELF file, a \
             malformed file, a wrong flag. What else was asked for is done all the same. \
             A folder without ELF files is no failure.",
        ),
        ("130", "Interrupted (SIGINT), as shells tell it."),
        ("128+N", "Ended by signal N; 141 where the reader of the output went away."),
    ],
};

const ENVIRONMENT: Section = Section {
    title: "Environment",
    entries: &[
        (
            "LD_LIBRARY_PATH",
            "Predicted with, as it would take effect for a program started here; not with \
             --sysroot. --library-path overrides it.",
        ),
        ("LD_PRELOAD", "Likewise; --preload overrides it."),
        ("LD_AUDIT", "Likewise; --audit overrides it."),
        (
            "GLIBC_TUNABLES",
            "Likewise of glibc.rtld.resolution, for a loader that has it; --reads overrides it.",
        ),
        ("NO_COLOR", "Where set and not empty, nothing is coloured unless --color=always."),
    ],
};

const FIRST: Section = Section {
    title: "First steps",
    entries: &[
        ("becalm check /usr/bin/git", "What its start costs and what would help; nothing is run."),
        ("becalm report git -o git.html", "The same as a page with a picture."),
        ("becalm trace -- git --version", "What its loader does in a real start."),
        ("becalm run -- git --version", "The same start with an index: no file is changed."),
        ("becalm check /opt/store/*/bin", "All programs of a store, those that miss most first."),
    ],
};

/// What ends the help and the page of becalm itself.
const COMMON: &[&Section] = &[&FIRST, &EXIT_STATUS, &ENVIRONMENT];

/// What ends the help and the page of a command, by its name.
#[must_use]
pub(crate) fn of(command: &str) -> &'static [&'static Section] {
    match command {
        "bench" => bench::BENCH,
        "check" => check::CHECK,
        "compare" => compare::COMPARE,
        "demo" => compare::DEMO,
        "env" => index::ENV,
        "fix" => fix::FIX,
        "index" => index::INDEX,
        "loader" => loader::LOADER,
        "report" => report::REPORT,
        "run" => index::RUN,
        "trace" => trace::TRACE,
        "undo" => fix::UNDO,
        "verify" => fix::VERIFY,
        _ => COMMON,
    }
}

/// Columns of wrapped help text.
const HELP_WIDTH: usize = 80;

/// The sections as help text.
#[must_use]
pub(crate) fn as_help(sections: &[&Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, "{}:", section.title);
        for (term, meaning) in section.entries {
            let _ = writeln!(text, "  {term}");
            for line in wrapped(meaning, HELP_WIDTH - 10) {
                let _ = writeln!(text, "          {line}");
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// The sections in the language of manual pages (man(7)).
#[must_use]
pub(crate) fn as_roff(sections: &[&Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, ".SH \"{}\"", section.title.to_uppercase());
        for (term, meaning) in section.entries {
            let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(meaning));
        }
    }
    text
}

/// Text that roff takes literally: no line of ours starts with a dot or a quote.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_entry_begins_like_a_roff_request() {
        let definition = crate::flags::definition();
        let commands = definition.get_subcommands().map(clap::Command::get_name);
        for section in commands.chain(["becalm"]).flat_map(of) {
            for (term, meaning) in section.entries {
                assert!(!term.starts_with(['.', '\'']), "{term}");
                assert!(!meaning.starts_with(['.', '\'']), "{meaning}");
                assert!(!meaning.contains('\n'), "{meaning}");
            }
        }
    }

    #[test]
    fn help_stays_within_its_width() {
        let widest = as_help(of("check")).lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(HELP_WIDTH), "{widest:?}");
    }
}
