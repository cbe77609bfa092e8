//! The commands of a Markdown document: the `console` and `sh` blocks, and the markers before them.
//!
//! A marker is an HTML comment on the line above a block:
//!
//! - `<!-- not run: REASON -->`: the block is listed and not run;
//! - `<!-- figures vary: REASON -->`: numbers are not compared;
//! - `<!-- before: COMMANDS -->`: commands that a reader has run already; they run first.

use std::collections::BTreeMap;

/// A block with commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of its first command, from 1 on.
    pub(super) line: usize,
    /// The commands to run: of a `console` block each command by itself, an `sh` block as a whole.
    pub(super) commands: Vec<Command>,
    /// The texts of its markers by their names.
    pub(super) markers: BTreeMap<String, String>,
}

/// A command and its output, or `None` if it only has to succeed.
pub(super) type Command = (String, Option<String>);

/// The blocks of a document, in order.
pub(super) fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut markers = BTreeMap::new();
    let mut lines = document.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let commands = match language {
                "console" => of_console(&inside),
                "sh" => vec![(inside.join("\n"), None)],
                _ => Vec::new(),
            };
            let markers = std::mem::take(&mut markers);
            if !commands.is_empty() {
                blocks.push(Block { line: at + 2, commands, markers });
            }
        } else if let Some((name, text)) = marker(line) {
            markers.insert(name.to_owned(), text.to_owned());
        } else if !line.trim().is_empty() {
            markers.clear();
        }
    }
    blocks
}

/// Name and text of a comment `<!-- NAME: TEXT -->`.
fn marker(line: &str) -> Option<(&str, &str)> {
    let (name, text) = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.split_once(':')?;
    Some((name.trim(), text.trim()))
}

/// Parses commands: each line after `$ ` is a command, and the following lines are its output. A
/// line that ends with a backslash continues on the next one.
fn of_console(lines: &[&str]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut is_continued = false;
    for line in lines {
        let last = commands.last_mut();
        match (line.strip_prefix("$ "), last) {
            (_, Some((text, _))) if is_continued => {
                text.push('\n');
                text.push_str(line);
            }
            (Some(text), _) => commands.push((text.to_owned(), Some(String::new()))),
            (None, Some((_, Some(prints)))) => {
                prints.push_str(line);
                prints.push('\n');
            }
            (None, _) => {}
        }
        is_continued = line.ends_with('\\') && (is_continued || line.starts_with("$ "));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_what_they_print_and_their_markers() {
        let document = "\
text\n\n<!-- figures vary: times -->\n\n```console\n$ one\n1\n2\n$ two \\\n  more\n```\n\n\
<!-- not run: takes minutes -->\ntext\n```sh\na\nb\n```\n```nix\nx\n```\n\
<!-- before: mkdir d -->\n<!-- not run: no network -->\n```sh\nc\n```\n";
        let command =
            |text: &str, prints: Option<&str>| (text.to_owned(), prints.map(str::to_owned));
        let markers = |all: &[(&str, &str)]| {
            all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let expected = [
            Block {
                line: 6,
                commands: vec![command("one", Some("1\n2\n")), command("two \\\n  more", Some(""))],
                markers: markers(&[("figures vary", "times")]),
            },
            // A marker counts for the block right below it.
            Block { line: 16, commands: vec![command("a\nb", None)], markers: markers(&[]) },
            Block {
                line: 25,
                commands: vec![command("c", None)],
                markers: markers(&[("before", "mkdir d"), ("not run", "no network")]),
            },
        ];
        assert_eq!(blocks(document), expected);
    }
}
