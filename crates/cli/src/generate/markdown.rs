//! The reference of the book: a page a command, from the same definition as the manual pages.
//!
//! `becalm.md` lists the commands, `becalm-<command>.md` has one each; `SUMMARY.md` is the list of
//! the pages in mdBook's format.

use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_host::trust;
use clap::{Arg, Command};

use crate::generate::command_line::CommandLine;
use crate::terminal::manual::Section;

/// Heading of the flags without a heading of their own.
const OTHER_FLAGS: &str = "Options";

/// Writes the pages into `dir`.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub(crate) fn write(dir: &Path, cli: &CommandLine) -> Result<()> {
    let mut root = (cli.definition)().disable_help_subcommand(true);
    root.build();
    let mut commands = String::from("## Commands\n\n| command | does |\n| --- | --- |\n");
    let mut summary = String::from("- [All commands](becalm.md)\n");
    for command in listed(&root) {
        let name = command.get_name();
        let does = one_line(&about(command)).replace('|', "\\|");
        let _ = writeln!(commands, "| [`becalm {name}`](becalm-{name}.md) | {does} |");
        let _ = writeln!(summary, "- [becalm {name}](becalm-{name}.md)");
        let page = page(command, (cli.manual_of)(name), "");
        file(dir, &format!("becalm-{name}.md"), &page)?;
    }
    commands.push('\n');
    file(dir, "becalm.md", &page(&root, (cli.manual_of)("becalm"), &commands))?;
    file(dir, "SUMMARY.md", &summary)
}

fn file(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    let written = trust::create(&path)?.write_all(text.as_bytes());
    written.with_context(|| path.display().to_string())
}

/// Returns the subcommands that the help lists.
fn listed(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help")
}

/// Returns the whole page of a command; `commands` follows its description.
fn page(command: &Command, sections: &[&Section], commands: &str) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = format!("# {name}\n\n");
    body(&mut text, command);
    text.push_str(commands);
    // The commands of `becalm loader` are described on its own page.
    if commands.is_empty() {
        for inner in listed(command) {
            let _ = write!(text, "## {name} {}\n\n", inner.get_name());
            body(&mut text, inner);
        }
    }
    for section in sections {
        let _ = write!(text, "## {}\n\n", section.title);
        for (term, meaning) in section.entries {
            let _ = write!(text, "- `{term}`\n\n  {}\n\n", escaped(meaning));
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Writes the description, usage, arguments and flags of a command.
fn body(text: &mut String, command: &Command) {
    let _ = write!(text, "{}\n\n", escaped(&about(command)));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = write!(text, "```text\n{usage}\n```\n\n");
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let positional = shown.iter().copied().filter(|arg| arg.is_positional()).collect();
    list(text, "Arguments", positional);
    let flags = shown.iter().copied().filter(|arg| !arg.is_positional());
    let mut headings: Vec<&str> = vec![OTHER_FLAGS];
    for flag in flags.clone() {
        let heading = flag.get_help_heading().unwrap_or(OTHER_FLAGS);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    // The common flags have no heading; they are last, as in the help.
    headings.rotate_left(1);
    for heading in headings {
        let has_heading = |arg: &&Arg| arg.get_help_heading().unwrap_or(OTHER_FLAGS) == heading;
        list(text, heading, flags.clone().filter(has_heading).collect());
    }
}

fn list(text: &mut String, heading: &str, args: Vec<&Arg>) {
    if args.is_empty() {
        return;
    }
    let _ = write!(text, "**{heading}**\n\n");
    for arg in args {
        let help = arg.get_long_help().or_else(|| arg.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let _ = write!(text, "- {}\n\n  {}\n\n", signature(arg), indented(&escaped(&help)));
        let values: Vec<String> = possible_values(arg);
        if !values.is_empty() {
            let _ = write!(text, "  {}\n\n", values.join("; "));
        }
    }
}

/// Names of a flag and of its values: `` `-n`, `--dry-run` `` or `` `--store <A:B>` ``.
fn signature(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let takes_values = arg.get_action().takes_values();
    let values: String = match (takes_values, names) {
        (false, _) | (true, []) => String::new(),
        (true, names) => names.iter().map(|name| format!(" <{name}>")).collect(),
    };
    let short = arg.get_short().map(|short| format!("`-{short}`"));
    let long = arg.get_long().map(|long| format!("`--{long}{values}`"));
    let both: Vec<String> = short.into_iter().chain(long).collect();
    if both.is_empty() { format!("`{}`", values.trim()) } else { both.join(", ") }
}

/// Returns the possible values of a flag, each with its meaning, and the default.
fn possible_values(arg: &Arg) -> Vec<String> {
    if !arg.get_action().takes_values() {
        return Vec::new();
    }
    let values = arg.get_possible_values();
    let mut parts: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {}", value.get_name(), escaped(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if !defaults.is_empty() {
        parts.push(format!("default: {}", defaults.join(", ")));
    }
    parts
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    about.map(ToString::to_string).unwrap_or_default()
}

/// Returns the first line of a help text.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Escapes help text for Markdown: outside of code, tags and emphasis are literal.
fn escaped(text: &str) -> String {
    let mut result = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at > 0 {
            result.push('`');
        }
        if at % 2 == 1 {
            result.push_str(part);
            continue;
        }
        for c in part.chars() {
            if matches!(c, '<' | '*' | '_' | '[') {
                result.push('\\');
            }
            result.push(c);
        }
    }
    result
}

/// Indents the further lines of a list item.
fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_text_is_literal_outside_of_code() {
        assert_eq!(escaped("a <b> *c* `--d_e <F>` g_h"), "a \\<b> \\*c\\* `--d_e <F>` g\\_h");
    }

    #[test]
    fn a_flag_has_its_names_and_its_value() {
        let flag = Arg::new("output").short('o').long("output").value_name("FILE");
        assert_eq!(signature(&flag), "`-o`, `--output <FILE>`");
        assert_eq!(signature(&Arg::new("path").value_name("PATH")), "`<PATH>`");
        let alone = Arg::new("json").long("json").action(clap::ArgAction::SetTrue);
        assert_eq!(signature(&alone), "`--json`");
    }
}
