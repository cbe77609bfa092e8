//! The command lines of the compared tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::child;

/// A command line of one tool for a list of files.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tool {
    /// Its name in the tables.
    pub(crate) name: &'static str,
    /// Its work, as far as that matters for the comparison.
    pub(crate) does: &'static str,
    /// The command up to the files, without the paths of this run, which mean nothing elsewhere.
    pub(crate) shown: String,
    /// The command up to the files.
    #[serde(skip)]
    pub(crate) command: Vec<String>,
    /// True if it runs in every round, false if only in the first rounds.
    pub(crate) every_round: bool,
    /// The files; the raw data has them once.
    #[serde(skip)]
    pub(crate) files: Vec<PathBuf>,
}

/// Name of the tool that all others are compared with.
pub(crate) const OURS: &str = "becalm";
/// Name of the same command as a control; its ratio must be 1.
pub(crate) const CONTROL: &str = "becalm again";
/// A folder instead of a list, which the other tools do not accept.
pub(crate) const FOLDER: &str = "becalm, folder";
/// libtree, one process per file.
pub(crate) const LIBTREE_EACH: &str = "libtree, each file";
/// libtree, which repeats every subtree.
pub(crate) const LIBTREE_ALL: &str = "libtree -vvv";
/// libtree, which lists each library once per run.
pub(crate) const LIBTREE_ONCE: &str = "libtree -vv";
/// lddtree.
pub(crate) const LDDTREE: &str = "lddtree";

impl Tool {
    /// Returns the command, ready to start.
    pub(crate) fn command(&self) -> Command {
        let mut command = child::command(&self.command[0]);
        command.args(&self.command[1..]).args(&self.files);
        command
    }
}

/// Returns all tools. `list_file` has one file per line.
///
/// # Errors
/// Returns an error if a tool is not installed where Debian installs it.
pub(crate) fn all(
    becalm: &Path,
    folder: &Path,
    list: &[PathBuf],
    list_file: &Path,
) -> Result<Vec<Tool>> {
    for needed in ["/usr/bin/libtree", "/usr/bin/lddtree", "/usr/bin/python3"] {
        if !Path::new(needed).exists() {
            bail!("{needed} is missing (Debian packages libtree, pax-utils, python3-pyelftools)");
        }
    }
    let (becalm, list_file) = (text(becalm), text(list_file));
    let tool = tools_of(&becalm, &list_file);
    let tool = |name, does, command: &[&str], every_round, files: &[PathBuf]| Tool {
        every_round,
        files: files.to_vec(),
        ..tool(name, does, command)
    };
    let check = [becalm.as_str(), "check"];
    let each = ["xargs", "-n", "1", "-a", &list_file, "/usr/bin/libtree", "-vv"];
    let (once, repeated) = (["/usr/bin/libtree", "-vv"], ["/usr/bin/libtree", "-vvv"]);
    let in_full = "every file's closure";
    Ok(vec![
        tool(OURS, "every file's closure and every probe", &check, true, list),
        tool(CONTROL, "the control", &check, true, list),
        tool("becalm -j 1", "the same, in one thread", &[&becalm, "check", "-j", "1"], true, list),
        tool(LIBTREE_ONCE, "each library once in the whole run", &once, true, list),
        tool(LIBTREE_EACH, in_full, &each, false, &[]),
        tool(LIBTREE_ALL, "every file's closure, subtrees repeated", &repeated, false, list),
        tool(LDDTREE, in_full, &["/usr/bin/python3", "/usr/bin/lddtree"], false, list),
        tool(FOLDER, "finding the files as well", &check, true, &[folder.to_owned()]),
    ])
}

/// Returns the start of the smallest program, and becalm's check of it.
pub(crate) fn starts(becalm: &Path) -> Vec<Tool> {
    let becalm = text(becalm);
    let tool = tools_of(&becalm, "");
    let check = [becalm.as_str(), "check", "/bin/true"];
    vec![
        tool("becalm check /bin/true", "one file, from start to end", &check),
        tool("again", "the control", &check),
        tool("/bin/true", "the program itself", &["/bin/true"]),
    ]
}

/// Returns the function that makes a tool that runs in every round, without files, from its name, its
/// work and its command. The two paths have other names in the text of the command.
fn tools_of(becalm: &str, list_file: &str) -> impl Fn(&'static str, &'static str, &[&str]) -> Tool {
    let show = move |word: &&str| match *word {
        word if word == becalm => "becalm".to_owned(),
        word if word == list_file => "LIST".to_owned(),
        word => word.to_owned(),
    };
    move |name, does, command| Tool {
        name,
        does,
        shown: command.iter().map(show).collect::<Vec<_>>().join(" "),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        every_round: true,
        files: Vec::new(),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
