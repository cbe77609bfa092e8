//! `cargo xtask documents`: runs the commands of README.md and the how-to pages as a newcomer
//! would, and compares their output with the documents.
//!
//! [`parse`] reads the blocks and their markers, and [`compare`] finds the differences. The
//! commands of one document run one after the other in one shell, with a home of its own. They run
//! in a scratch directory that has the checkout's files by links. README.md uses a store at
//! `/opt/store`. It is made in a mount namespace in which `/opt` is another directory, so the
//! machine is not changed.

mod compare;
mod parse;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use self::parse::Block;
use crate::command::given_or_beside;
use crate::user::is_root;
use crate::walk::walk;

/// Path of the store in the documents.
const STORE: &str = "/opt/store";
/// The time limit of the blocks of a document, in seconds.
const PATIENCE: &str = "1800";

/// Options of the check.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The becalm that the commands run.
    #[arg(long, value_name = "FILE")]
    becalm: PathBuf,
    /// The lab, which makes the store [default: beside this program].
    #[arg(long, value_name = "FILE")]
    lab: Option<PathBuf>,
    /// The documents [default: README.md and docs/howto-*.md].
    #[arg(value_name = "FILE")]
    documents: Vec<PathBuf>,
}

/// Runs the documents. Returns false if a command fails, or if its output differs from its
/// document.
///
/// # Errors
/// Returns an error if a document cannot be read, or the store cannot be made.
pub fn run(options: &Options) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let scratch = tempfile::tempdir()?;
    let place = scratch.path().canonicalize()?;
    let lab = given_or_beside(options.lab.as_deref(), "lab")?;
    for made in ["opt", "bin", "home"] {
        fs::create_dir(place.join(made))?;
    }
    symlink(options.becalm.canonicalize()?, place.join("bin/becalm"))?;
    let namespace = Namespace { place, lab };
    let documents = match options.documents.as_slice() {
        [] => defaults(&root)?,
        named => named.to_vec(),
    };
    let mut is_fine = true;
    for path in &documents {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let shown = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        is_fine &= namespace.run(&root, &shown, &parse::blocks(&text))?;
    }
    Ok(is_fine)
}

/// README.md and the how-to pages.
fn defaults(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for (path, _) in walk(&root.join("docs"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("howto-") && name.ends_with(".md") {
            pages.push(path);
        }
    }
    pages.insert(0, root.join("README.md"));
    Ok(pages)
}

/// The mount namespace in which the commands run.
struct Namespace {
    /// A scratch directory.
    place: PathBuf,
    lab: PathBuf,
}

impl Namespace {
    /// Runs the blocks of a document and prints the differences. Returns true if there are none. The exit
    /// status of a command counts if the document gives no output.
    fn run(&self, root: &Path, shown: &str, blocks: &[Block]) -> Result<bool> {
        for block in blocks {
            if let Some(why) = block.markers.get("not run") {
                println!("{shown}:{}: not run: {why}", block.line);
            }
        }
        let is_run = |block: &&Block| !block.markers.contains_key("not run");
        let wanted: Vec<&Block> = blocks.iter().filter(is_run).collect();
        if wanted.is_empty() {
            return Ok(true);
        }
        let mut ends = self.outputs(root, &wanted)?.into_iter();
        let home = self.place.join("home").display().to_string();
        let commands =
            wanted.iter().flat_map(|block| block.commands.iter().map(move |it| (block, it)));
        let (mut count, mut failed) = (0, 0);
        for (block, (command, prints)) in commands {
            let Some((printed, status)) = ends.next() else {
                bail!("{shown}:{}: the shell ended before it: {}", block.line, command);
            };
            count += 1;
            let (printed, vary) =
                (printed.replace(&home, "~"), block.markers.contains_key("figures vary"));
            let what = match prints {
                Some(said) => compare::differences(said, &printed, STORE, vary),
                None if status == 0 => None,
                None => Some(format!("  exit status {status}\n{printed}")),
            };
            if let Some(what) = what {
                failed += 1;
                println!("{shown}:{}: $ {command}\n{what}", block.line);
            }
        }
        println!("{shown}: {count} commands, {failed} differ from what it says");
        Ok(failed == 0)
    }

    /// Runs each command of the blocks; returns its output and its exit status.
    fn outputs(&self, root: &Path, blocks: &[&Block]) -> Result<Vec<End>> {
        let cwd = tempfile::tempdir_in(&self.place)?;
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            symlink(entry.path(), cwd.path().join(entry.file_name()))?;
        }
        let script = cwd.path().with_extension("sh");
        fs::write(&script, self.script(cwd.path(), blocks))?;
        let mut shell = Command::new("timeout");
        shell.args([PATIENCE, "unshare", "--mount"]);
        if !is_root() {
            shell.args(["--user", "--map-root-user"]);
        }
        shell.arg("--").arg("bash").arg(&script).stdin(Stdio::null());
        let of_loader = ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "BECALM"];
        let of_home = ["XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"];
        for name in of_loader.iter().chain(&of_home) {
            shell.env_remove(name);
        }
        let ran =
            shell.stderr(Stdio::inherit()).output().context("unshare (Debian: util-linux)")?;
        let text = String::from_utf8_lossy(&ran.stdout);
        ensure!(ran.status.success(), "the commands could not be run:\n{text}");
        Ok(ends(&text))
    }

    /// The shell's script: it makes the store once, then runs each command in the same shell.
    fn script(&self, cwd: &Path, blocks: &[&Block]) -> String {
        let place = self.place.display();
        let lab = quoted(&self.lab.display().to_string());
        let mut text = format!(
            "set -e\n\
             mount --bind {place}/opt /opt\n\
             test -d {STORE} || {lab} import --store {STORE} >{place}/import.log 2>&1 || {{\n\
             \x20 cat {place}/import.log\n  exit 1\n}}\n\
             set +e\n\
             export HOME={place}/home PATH={place}/bin:$PATH LC_ALL=C.UTF-8\n\
             cd {}\n\
             exec 2>&1\nstatus=0\n",
            quoted(&cwd.display().to_string())
        );
        for block in blocks {
            if let Some(before) = block.markers.get("before") {
                text.push_str(&format!("eval {} >/dev/null\n", quoted(before)));
            }
            for (command, prints) in &block.commands {
                let what = quoted(command);
                text.push_str(&match prints {
                    Some(_) => format!("(exit $status); eval {what}\nstatus=$?\n"),
                    None => format!("(set -e; eval {what})\nstatus=$?\n"),
                });
                text.push_str("printf '\\n\\001%d\\n' $status\n");
            }
        }
        text.push_str("exit 0\n");
        text
    }
}

/// The output of a command and its exit status, which the script prints on a line of its own after U+0001.
type End = (String, i32);

fn ends(text: &str) -> Vec<End> {
    let mut parts = text.split("\n\u{1}");
    let mut printed = parts.next().unwrap_or_default();
    let mut ends = Vec::new();
    for part in parts {
        let (status, next) = part.split_once('\n').unwrap_or((part, ""));
        ends.push((format!("{printed}\n"), status.parse().unwrap_or(-1)));
        printed = next;
    }
    ends
}

/// In single quotes for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_print_is_told_apart() {
        let text = "one\n\n\u{1}0\n\n\u{1}3\nlast\n\n\u{1}0\n";
        let end = |printed: &str, status| (printed.to_owned(), status);
        assert_eq!(ends(text), [end("one\n\n", 0), end("\n", 3), end("last\n\n", 0)]);
    }
}
