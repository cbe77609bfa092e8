//! The command lines of the compared tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::child;

/// A command line of one tool for a list of files.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    /// Its name in the tables.
    pub(crate) name: &'static str,
    /// The command up to the files.
    pub(crate) command: Vec<String>,
    /// The files.
    pub(crate) files: Vec<PathBuf>,
    /// True if it runs in every round, false if only in the first rounds.
    pub(crate) every_round: bool,
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
    let check = [becalm.as_str(), "check"];
    let each = ["xargs", "-n", "1", "-a", &list_file, "/usr/bin/libtree", "-vv"];
    Ok(vec![
        tool(OURS, &check, list, true),
        tool(CONTROL, &check, list, true),
        tool("becalm -j 1", &[&becalm, "check", "-j", "1"], list, true),
        tool(LIBTREE_ONCE, &["/usr/bin/libtree", "-vv"], list, true),
        tool(LIBTREE_EACH, &each, &[], false),
        tool(LIBTREE_ALL, &["/usr/bin/libtree", "-vvv"], list, false),
        tool(LDDTREE, &["/usr/bin/python3", "/usr/bin/lddtree"], list, false),
        tool(FOLDER, &check, &[folder.to_owned()], true),
    ])
}

/// Returns the start of the smallest program, and becalm's check of it.
pub(crate) fn starts(becalm: &Path) -> Vec<Tool> {
    let check = [&*text(becalm), "check", "/bin/true"];
    vec![
        tool("becalm check /bin/true", &check, &[], true),
        tool("again", &check, &[], true),
        tool("/bin/true", &["/bin/true"], &[], true),
    ]
}

fn tool(name: &'static str, command: &[&str], files: &[PathBuf], every_round: bool) -> Tool {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    Tool { name, command, files: files.to_vec(), every_round }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
