//! The files by which the folder of links gets to the front of `PATH`: a marked block in a file of the
//! user's, or a file of becalm's own. Removing them gives back what was there, to the byte.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use becalm_core::patch::{Patch, Write};
use becalm_host::read_regular;
use becalm_host::write::{Existing, Writer};
use bstr::ByteSlice;
use serde::Serialize;

use crate::index::places;
use crate::json::lossy_os;
use crate::path::{at, path_bytes};

const BEGIN: &str = "# >>> becalm on: programs that start by its index; becalm off removes this";
const END: &str = "# <<< becalm on\n";
/// The ends of the first line: in a file of becalm's, without and with a newline of becalm's before it.
const MADE: &str = " (and the file) >>>\n";
const PLAIN: &str = " >>>\n";
const WITH_NEWLINE: &str = " (and the newline before) >>>\n";

/// A file that changes `PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathFile {
    /// The file.
    #[serde(serialize_with = "lossy_os")]
    pub path: PathBuf,
    /// The processes that read it, and when.
    pub effect: &'static str,
    /// True if it was changed.
    pub changed: bool,
    #[serde(skip)]
    syntax: Syntax,
}

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    Sh,
    Fish,
    Systemd,
}

impl Syntax {
    fn lines(self, folder: &str) -> String {
        match self {
            Self::Sh => format!(
                "case \":$PATH:\" in\n\
                 \x20 *:'{folder}':*) ;;\n\
                 \x20 *) PATH='{folder}'\":$PATH\"; export PATH ;;\n\
                 esac\n"
            ),
            Self::Fish => {
                format!("contains -- '{folder}' $PATH; or set -gx PATH '{folder}' $PATH\n")
            }
            Self::Systemd => format!("PATH={folder}:$PATH\n"),
        }
    }
}

const LOGIN: &str = "shells of the next login";
const DESKTOP: &str = "the next desktop session, and services of the user, if systemd starts them";
const FISH: &str = "the next fish";

/// Returns the files of the user: those of the shells that are in use.
pub(super) fn of_user() -> Option<Vec<PathFile>> {
    let home = places::home_dir()?;
    let config = places::config()?;
    let shell = env::var_os("SHELL").map(PathBuf::from);
    let uses = |name: &str| shell.as_ref().and_then(|it| it.file_name()) == Some(OsStr::new(name));
    let file = PathFile::new;
    let mut files = vec![file(home.join(".profile"), LOGIN, Syntax::Sh)];
    // bash reads the first of these instead of ~/.profile.
    let of_bash = [".bash_profile", ".bash_login"].map(|name| home.join(name));
    files.extend(of_bash.into_iter().find(|it| it.exists()).map(|it| file(it, LOGIN, Syntax::Sh)));
    let of_zsh = env::var_os("ZDOTDIR").map_or(home, PathBuf::from).join(".zprofile");
    if of_zsh.exists() || uses("zsh") {
        files.push(file(of_zsh, LOGIN, Syntax::Sh));
    }
    let of_fish = config.join("fish");
    if of_fish.exists() || uses("fish") {
        files.push(file(of_fish.join("conf.d/becalm-on.fish"), FISH, Syntax::Fish));
    }
    let of_systemd = config.join("environment.d/60-becalm-on.conf");
    files.push(file(of_systemd, DESKTOP, Syntax::Systemd));
    Some(files)
}

/// Returns the files of all users below a root directory.
pub(super) fn of_system(root: &Path) -> Vec<PathFile> {
    let file = |path, effect, syntax| PathFile::new(root.join(path), effect, syntax);
    let mut files = vec![
        file("etc/profile.d/becalm-on.sh", LOGIN, Syntax::Sh),
        file("usr/lib/environment.d/60-becalm-on.conf", DESKTOP, Syntax::Systemd),
    ];
    if root.join("etc/fish").exists() {
        files.push(file("etc/fish/conf.d/becalm-on.fish", FISH, Syntax::Fish));
    }
    files
}

/// True if the folder can be in `PATH` and in the files, with the quotes that they have.
pub(super) fn can_have(folder: &Path) -> bool {
    let is_plain = |c: char| !c.is_control() && !"':$\"\\`".contains(c);
    folder.to_str().is_some_and(|path| path.chars().all(is_plain))
}

impl PathFile {
    fn new(path: PathBuf, effect: &'static str, syntax: Syntax) -> Self {
        Self { path, effect, changed: false, syntax }
    }

    /// Returns the directory of the file.
    pub(super) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Adds the folder.
    pub(super) fn add(&mut self, writer: &Writer, folder: &str) -> Result<()> {
        let lines = self.syntax.lines(folder);
        let Some(old) = self.read()? else {
            let text = format!("{BEGIN}{MADE}{lines}{END}");
            self.changed =
                writer.write_new(&self.path, text.as_bytes(), 0o644, |_: &Existing| false)?;
            return Ok(());
        };
        let mut new = without_block(&old).unwrap_or_else(|| old.clone());
        let is_ended = new.is_empty() || new.ends_with(b"\n");
        let (newline, end) = match is_ended {
            true if new.is_empty() && is_made(&old) => ("", MADE),
            true => ("", PLAIN),
            false => ("\n", WITH_NEWLINE),
        };
        new.extend(format!("{newline}{BEGIN}{end}{lines}{END}").bytes());
        self.write(writer, &old, &new)
    }

    /// Removes the folder again, and a file that becalm made if nothing else is in it.
    pub(super) fn remove(&mut self, writer: &Writer) -> Result<()> {
        let Some(old) = self.read()? else { return Ok(()) };
        let new = without_block(&old).unwrap_or_else(|| old.clone());
        // Only becalm makes files of this name.
        let is_own = || {
            path_bytes(self.path.file_stem().unwrap_or_default().as_ref()).ends_with(b"becalm-on")
        };
        if new.is_empty() && (is_made(&old) || is_own()) {
            writer.remove(&self.path)?;
            self.changed = true;
            return Ok(());
        }
        self.write(writer, &old, &new)
    }

    fn read(&self) -> Result<Option<Vec<u8>>> {
        match read_regular(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(at(&self.path)),
        }
    }

    /// Writes the file as an edit of the old one, whose mode, owner and links stay.
    fn write(&mut self, writer: &Writer, old: &[u8], new: &[u8]) -> Result<()> {
        if old == new {
            return Ok(());
        }
        if self.path.metadata().is_ok_and(|facts| facts.nlink() > 1) {
            bail!(
                "{}: has other names (hard links), which would keep the old file",
                self.path.display()
            );
        }
        let file = writer.open(&self.path)?;
        let from = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let write = Write { offset: from as u64, bytes: new[from..].to_vec() };
        let writes = if from < new.len() { vec![write] } else { Vec::new() };
        writer.apply(file, Patch { writes, length: new.len() as u64 })?;
        self.changed = true;
        Ok(())
    }
}

/// True if the block of a file says that becalm made the file.
fn is_made(text: &[u8]) -> bool {
    text.contains_str([BEGIN, MADE].concat())
}

/// Returns a file without the block; `None` if it has none.
fn without_block(text: &[u8]) -> Option<Vec<u8>> {
    let begin = text.find(BEGIN)?;
    let rest = &text[begin + BEGIN.len()..];
    let length = rest.find(END)? + END.len();
    let has_newline = rest.starts_with(WITH_NEWLINE.as_bytes()) && text[..begin].ends_with(b"\n");
    let after = &rest[length..];
    // Text that was added after the block stays on a line of its own.
    let before = begin - usize::from(has_newline && after.is_empty());
    Some([&text[..before], after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use becalm_host::trust::Rule;
    use becalm_host::write::WriteOptions;

    #[test]
    fn files_are_given_back_to_the_byte_and_removed_if_they_were_new() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::under(Rule::Chosen, WriteOptions::default());
        let syntaxes = [Syntax::Sh, Syntax::Fish, Syntax::Systemd];
        for (at, text) in
            [None, Some(""), Some("a\n"), Some("a"), Some("\n\n")].into_iter().enumerate()
        {
            for syntax in syntaxes {
                let path = dir.path().join(format!("{at}-{syntax:?}"));
                if let Some(text) = text {
                    std::fs::write(&path, text).unwrap();
                }
                let mut file = PathFile { path: path.clone(), effect: "", changed: false, syntax };
                file.add(&writer, "/x/bin").unwrap();
                let once = std::fs::read(&path).unwrap();
                file.add(&writer, "/x/bin").unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), once, "a second block");
                file.add(&writer, "/y/bin").unwrap();
                assert!(!std::fs::read(&path).unwrap().contains_str("/x/bin"));
                file.remove(&writer).unwrap();
                assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), text);
            }
        }
    }

    #[test]
    fn a_change_of_the_user_after_the_block_stays() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::under(Rule::Chosen, WriteOptions::default());
        let path = dir.path().join("profile");
        std::fs::write(&path, "first").unwrap();
        let mut file =
            PathFile { path: path.clone(), effect: "", changed: false, syntax: Syntax::Sh };
        file.add(&writer, "/x/bin").unwrap();
        let text = std::fs::read_to_string(&path).unwrap() + "last\n";
        std::fs::write(&path, text).unwrap();
        file.remove(&writer).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nlast\n");
    }

    #[test]
    fn shells_put_the_folder_in_front_once() {
        let lines = Syntax::Sh.lines("/x y/bin");
        let script = format!("PATH=/usr/bin:/bin\n{lines}{lines}printf %s \"$PATH\"");
        let ran = std::process::Command::new("sh").args(["-euc", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "/x y/bin:/usr/bin:/bin");
    }
}
