//! `becalm generate`: writes the files that packagers install beside the program.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use becalm_host::trust;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit_code::ExitStatus;
use crate::generate::args::GenerateArgs;
use crate::terminal::manual;

/// Returns the sections of the manual of a command.
type ManualOf = fn(&str) -> &'static [&'static str];

/// Writes the requested files.
///
/// # Errors
/// Returns an error if a file or stdout cannot be written.
pub(crate) fn run(
    args: &GenerateArgs,
    definition: clap::Command,
    manual_of: ManualOf,
) -> Result<ExitStatus> {
    match args {
        GenerateArgs::Man { dir } => manual_pages(dir, definition, manual_of)?,
        GenerateArgs::Completions { shell } => completions(*shell, definition)?,
    }
    Ok(ExitStatus::Fine)
}

/// Writes `becalm.1` and one page a command.
fn manual_pages(dir: &Path, definition: clap::Command, manual_of: ManualOf) -> Result<()> {
    // `becalm help` has no page of its own.
    let mut root = definition.disable_help_subcommand(true);
    root.build();
    for command in root.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        let name = format!("becalm-{}", command.get_name());
        manual_page(dir, &name, command.clone(), manual_of(command.get_name()))?;
    }
    manual_page(dir, "becalm", root, manual_of("becalm"))
}

fn manual_page(dir: &Path, name: &str, command: clap::Command, sections: &[&str]) -> Result<()> {
    let path = dir.join(format!("{name}.1"));
    let file = trust::create(&path)?;
    let write = || -> io::Result<()> {
        let mut out = BufWriter::new(file);
        let has_commands = command.get_subcommands().any(|c| !c.is_hide_set());
        // clap_mangen expects a version here.
        let has_version = command.get_version().is_some();
        let man = Man::new(command).manual("becalm").section("1");
        man.render_title(&mut out)?;
        man.render_name_section(&mut out)?;
        man.render_synopsis_section(&mut out)?;
        man.render_description_section(&mut out)?;
        man.render_options_section(&mut out)?;
        if has_commands {
            man.render_subcommands_section(&mut out)?;
        }
        out.write_all(manual::as_roff(sections).as_bytes())?;
        if has_version {
            man.render_version_section(&mut out)?;
        }
        out.flush()
    };
    write().with_context(|| path.display().to_string())
}

fn completions(shell: Shell, mut definition: clap::Command) -> Result<()> {
    // The generator panics if it cannot write; writing to memory cannot fail.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition, "becalm", &mut script);
    if shell == Shell::Fish {
        script = quoted_for_fish(&String::from_utf8_lossy(&script)).into_bytes();
    }
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    out.flush()?;
    Ok(())
}

/// Returns the script for fish with the help of values escaped. The generator puts lists of values
/// into double quotes, in which fish would run a `$(…)` of a help text.
fn quoted_for_fish(script: &str) -> String {
    const BEGIN: &str = " -a \"";
    const END: &str = "'\"\n";
    let mut result = String::new();
    let mut rest = script;
    while let Some((before, list)) = rest.split_once(BEGIN) {
        result.push_str(before);
        result.push_str(BEGIN);
        rest = list;
        // A value with help is `name\t'help'`; a value without help is only a quoted name.
        let has_help = list.find("\\t'").is_some_and(|help| !list[..help].contains('"'));
        if let (true, Some(end)) = (has_help, list.find(END)) {
            result.push_str(&list[..end].replace('"', "\\\"").replace('$', "\\$"));
            rest = &list[end..];
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fish_runs_nothing_of_a_help_text() {
        let script = "complete -c p -l for -r -a \"sh\\t'eval \"$(p env)\"'\ncsh\\t'other'\"\n\
                      complete -c p -a \"check\" -d 'Predict \"it\"'\n";
        let expected = "complete -c p -l for -r -a \"sh\\t'eval \\\"\\$(p env)\\\"'\ncsh\\t'other'\"\n\
                        complete -c p -a \"check\" -d 'Predict \"it\"'\n";
        assert_eq!(quoted_for_fish(script), expected);
    }
}
