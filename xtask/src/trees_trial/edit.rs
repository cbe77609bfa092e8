//! The edits: each changes the tree through the mount, as a process on the same node does, or in the
//! source below the mount, as another node does.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use fastrand::Rng;

use super::tree::{self, Kind, choice, moved, size, text};
use crate::command::output;
use crate::user::NOBODY;

/// Fewer files than this are not removed any more.
const FEW: usize = 220;
/// Number of files that count as edited last.
const RECENT: usize = 12;
/// Name of a file or directory on its way to its own name.
const NEW: &str = ".becalm-trial-new";

/// The places of a tree that is edited.
pub(super) struct Editor {
    pub(super) source: PathBuf,
    pub(super) mount: PathBuf,
    /// A file on another file system to which a link of the tree leads.
    pub(super) outside: PathBuf,
    /// Relative paths that the program looks at.
    pub(super) listed: Vec<PathBuf>,
    /// Directories that have each other's places. Most are swapped back before others are swapped, because
    /// few listed paths would be left otherwise.
    pub(super) swapped: Option<(PathBuf, PathBuf)>,
    /// Files that were edited last. Many edits are of one of them, because a process that learns reads
    /// these.
    pub(super) recent: Vec<PathBuf>,
}

/// An edit: the place through which it is made, and the state of the tree before it.
struct Edit<'a> {
    editor: &'a mut Editor,
    root: PathBuf,
    tree: Vec<(PathBuf, Kind)>,
    rng: &'a mut Rng,
}

/// An edit by a shell: its name, its arguments and its script. The arguments are a file (`f`), or one if there
/// are many (`F`), or that or seldom a link (`u`), a link (`l`), one beside the file that had its place (`k`), a
/// directory (`d`), mostly one to give its own name back (`m`), any entry (`e`), one beside the argument before it
/// (`s`), and a listed path that does not exist, whose parent is made (`a`). A script calls `none` if it has nothing
/// to do.
type Script = (&'static str, &'static str, &'static str);

const SCRIPTS: [Script; 24] = [
    CREATE,
    ("mkdir", "a", r#"mkdir "$1""#),
    ("overwrite", "f", r#"other "$1" "$1""#),
    ("overwrite, with its time set back,", "f", r#"set_back "$1""#),
    // With about the grain of the file system's clock between two.
    ("overwrite many times", "f", r#"for n in $MANY; do set_back "$1"; sleep .00$n; done"#),
    ("append to", "f", r#"printf '%200s' x >>"$1""#),
    (
        "replace by one of its size and time",
        "f",
        r#"cp -p "$1" "$NEW"; other "$1" "$NEW"; touch -r "$1" "$NEW"; mv -f "$NEW" "$1""#,
    ),
    ("replace", "f", r#"cp "$TEXT" "$NEW"; mv -f "$NEW" "$1""#),
    ("unlink", "u", r#"rm -f "$1""#),
    (
        "replace by a link to it",
        "f",
        r#"case $1 in *.kept) exit;; esac; test ! -e "$1.kept" || exit 0
         mv "$1" "$1.kept"; ln -s "${1##*/}.kept" "$1""#,
    ),
    ("chmod", "f", r#"chmod $MODE "$1""#),
    ("chmod", "d", r#"chmod 1$MODE "$1""#),
    ("chown", "e", r#"chown -h $OWNER:$OWNER "$1""#),
    ("link", "fa", r#"ln "$1" "$2""#),
    ("touch", "e", r#"touch -h -d "@$TIME" "$1""#),
    ("truncate", "f", r#"truncate -s $(($(stat -c %s "$1") * $PART / 100)) "$1""#),
    ("cp -p", "ff", r#"test "$1" -ef "$2" || cp -p "$1" "$2""#),
    ("sed -i s/a/b/", "f", r#"sed -i s/a/b/ "$1""#),
    ("rename over another file", "Ff", r#"test "$1" -ef "$2" || mv -f "$1" "$2""#),
    (
        "remove the directory",
        "d",
        r#"n=$(find "$1" -mindepth 1 | wc -l)
         test $n = 0 || test $n -le 8 -a $DICE = 0 || none; rm -r "$1""#,
    ),
    // A directory gets its other name, or its own again.
    (
        "rename",
        "m",
        r#"case $1 in *.moved) new=${1%.moved};; *) new=$1.moved;; esac
         test ! -e "$new" -a ! -L "$new" || none; mv -T "$1" "$new""#,
    ),
    // By a rename, or with a moment without it.
    (
        "let lead elsewhere, the link and an entry beside it:",
        "ls",
        r#"case $1 in
           */current) set -- "$1" v1 v2 ../versions/v1 nowhere;;
           *) set -- "$1" nowhere "$OUTSIDE" "$LISTED" "${2##*/}";;
         esac
         link=$1; shift $((DICE + 1))
         case $PART in 0) rm "$link"; NEW=$link;; esac
         ln -s "$1" "$NEW"; test "$NEW" = "$link" || mv -T "$NEW" "$link""#,
    ),
    ("replace by its file the link", "k", r#"mv -f "$1.kept" "$1""#),
    // A file becomes a directory, and an empty directory a file.
    (
        "replace by another kind",
        "e",
        r#"test ! -L "$1" || none
         if test -f "$1"; then rm -f "$1"; mkdir "$1"; cp "$TEXT" "$1/below a file"
         else test -z "$(ls -A "$1")" || none; rmdir "$1"; cp "$TEXT" "$1"; fi"#,
    ),
];
const CREATE: Script = ("create", "a", r#"cp "$TEXT" "$1""#);

/// The beginning of scripts. `other` writes other content of the size of a file into a file, `set_back` does so
/// and sets its time back, and `none` ends the script.
const WORDS: &str = r#"
other() { tr a-z b-za <"$1" >"$TEXT"; dd if="$TEXT" of="$2" bs=1M conv=notrunc status=none; }
set_back() { touch -r "$1" "$TEXT.time"; other "$1" "$1"; touch -r "$TEXT.time" "$1"; }
none() { echo nothing; exit; }
NEW=$(dirname "$1")/$NAME
"#;

impl Editor {
    /// Makes one random edit; returns its description.
    ///
    /// # Errors
    /// Returns an error if the edit fails. None is expected to.
    pub(super) fn edit(&mut self, rng: &mut Rng) -> Result<String> {
        loop {
            if rng.u8(..60) == 0 {
                fs::write(&self.outside, text(size(rng), rng))?;
                return Ok("outside of the mount: write the file of a link".to_owned());
            }
            let (place, root) = match rng.bool() {
                true => ("through the mount", self.mount.clone()),
                false => ("in the source", self.source.clone()),
            };
            let tree = tree::walk(&self.source)?;
            let mut edit = Edit { editor: self, root, tree, rng };
            let done = match edit.has_few_files() && edit.rng.bool() {
                true => edit.script(CREATE),
                false => match SCRIPTS.get(edit.rng.usize(..=SCRIPTS.len())) {
                    Some(script) => edit.script(*script),
                    None => edit.swap_directories(),
                },
            };
            if let Some(done) = done.with_context(|| format!("an edit {place}"))? {
                return Ok(format!("{place}: {done}"));
            }
        }
    }
}

impl Edit<'_> {
    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    fn has_few_files(&self) -> bool {
        self.tree.iter().filter(|(_, kind)| *kind == Kind::File).count() < FEW
    }

    fn any(&mut self, wanted: Kind) -> Option<PathBuf> {
        let is_wanted = |path: &&PathBuf| self.kind(path) == Some(wanted);
        let recent: Vec<PathBuf> = self.editor.recent.iter().filter(is_wanted).cloned().collect();
        if wanted == Kind::File && !recent.is_empty() && self.rng.u8(..3) == 0 {
            return Some(choice(&recent, self.rng).clone());
        }
        let path = self.one_of(|_, _, kind| kind == wanted)?;
        if wanted == Kind::File {
            self.editor.recent.truncate(RECENT - 1);
            self.editor.recent.insert(0, path.clone());
        }
        Some(path)
    }

    /// Returns a random entry of those of the tree that are wanted.
    fn one_of(&mut self, is_wanted: impl Fn(&Self, &Path, Kind) -> bool) -> Option<PathBuf> {
        let all = self.tree.iter().filter(|(path, kind)| is_wanted(self, path, *kind));
        let all: Vec<&PathBuf> = all.map(|(path, _)| path).collect();
        (!all.is_empty()).then(|| (*choice(&all, self.rng)).clone())
    }

    fn kind(&self, path: &Path) -> Option<Kind> {
        let at = self.tree.binary_search_by(|(one, _)| one.as_path().cmp(path)).ok()?;
        Some(self.tree[at].1)
    }

    /// Returns a listed path that does not exist and that can be made. A directory that was renamed is
    /// not made again, because it may get its own name back.
    fn absent(&mut self) -> Option<PathBuf> {
        let can_be_above = |path: &Path| match self.kind(path) {
            Some(kind) => kind == Kind::Directory,
            None => self.kind(&moved(path)).is_none(),
        };
        let can_be_made = |path: &&PathBuf| {
            let mut above = path.ancestors().skip(1).filter(|above| *above != Path::new(""));
            self.kind(path).is_none() && above.all(can_be_above)
        };
        let all: Vec<&PathBuf> = self.editor.listed.iter().filter(can_be_made).collect();
        (!all.is_empty()).then(|| (*choice(&all, self.rng)).clone())
    }

    /// Makes an edit by a shell.
    fn script(&mut self, (name, arguments, script): Script) -> Result<Option<String>> {
        let mut paths = Vec::new();
        for argument in arguments.chars() {
            let path = match argument {
                'F' | 'u' if self.has_few_files() => None,
                'u' if self.rng.u8(..8) == 0 => self.any(Kind::Link),
                'f' | 'F' | 'u' => self.any(Kind::File),
                'd' => self.any(Kind::Directory),
                'm' => self.moved().or_else(|| self.any(Kind::Directory)),
                'l' => self.any(Kind::Link),
                'k' => self.one_of(|it, path, kind| {
                    kind == Kind::Link
                        && it.kind(&tree::with_ending(path, "kept")) == Some(Kind::File)
                }),
                's' => {
                    let beside = paths.last().and_then(|it: &PathBuf| it.parent());
                    self.one_of(|_, path, _| path.parent() == beside)
                }
                'a' => self.absent(),
                _ => self.one_of(|_, _, _| true),
            };
            let Some(path) = path else { return Ok(None) };
            if argument == 'a' {
                fs::create_dir_all(self.at(path.parent().context("a parent")?))?;
            }
            paths.push(path);
        }
        let new = self.editor.outside.with_file_name("text");
        fs::write(&new, text(size(self.rng), self.rng))?;
        let many: Vec<String> =
            (0..self.rng.u8(2..20)).map(|_| self.rng.u8(..5).to_string()).collect();
        let mode = format!("{:03o}", choice(&[0o000, 0o644, 0o755], self.rng));
        let time = (self.rng.i64(-1_000_000..1_700_000_000), self.rng.u32(..1_000_000_000));
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", &format!("{WORDS}{script}"), "sh"])
            .args(paths.iter().map(|it| self.at(it)));
        shell.env("TEXT", new).env("NAME", NEW).env("MANY", many.join(" ")).env("MODE", mode);
        shell.env("OWNER", choice(&[0, NOBODY], self.rng).to_string());
        shell.env("TIME", format!("{}.{:09}", time.0, time.1));
        shell.env("PART", (self.rng.u8(..2) * self.rng.u8(..100)).to_string());
        shell.env("DICE", self.rng.u8(..4).to_string()).env("OUTSIDE", &self.editor.outside);
        shell.env("LISTED", self.editor.mount.join(choice(&self.editor.listed, self.rng)));
        if !output(&mut shell)?.stdout.is_empty() {
            return Ok(None);
        }
        let paths: Vec<String> = paths.iter().map(|path| shown(path)).collect();
        Ok(Some(format!("{name} {}", paths.join(" and "))))
    }

    /// Returns, mostly, a directory with its other name whose own is free.
    fn moved(&mut self) -> Option<PathBuf> {
        let is_moved = |it: &Self, path: &Path, kind| {
            let own = path.to_str().and_then(|name| name.strip_suffix(".moved"));
            kind == Kind::Directory && own.is_some_and(|own| it.kind(Path::new(own)).is_none())
        };
        (self.rng.u8(..4) != 0).then(|| self.one_of(is_moved)).flatten()
    }

    fn swap_directories(&mut self) -> Result<Option<String>> {
        let back = self.editor.swapped.take_if(|_| self.rng.u8(..4) != 0);
        let random = (self.any(Kind::Directory), self.any(Kind::Directory));
        let (one, other) = match (&back, random) {
            (Some(pair), _) => pair.clone(),
            (None, (Some(one), Some(other))) => (one, other),
            _ => return Ok(None),
        };
        let are_there = [&one, &other].map(|path| self.kind(path)) == [Some(Kind::Directory); 2];
        if !are_there || one.starts_with(&other) || other.starts_with(&one) {
            return Ok(None);
        }
        let aside = one.with_file_name(NEW);
        for (from, to) in [(&one, &aside), (&other, &one), (&aside, &other)] {
            fs::rename(self.at(from), self.at(to)).with_context(|| shown(from))?;
        }
        let done = format!("swap {} and {}", shown(&one), shown(&other));
        if back.is_none() {
            self.editor.swapped = Some((one, other));
        }
        Ok(Some(done))
    }
}

/// Makes files that have changed within the last hour look older, all of them or half of them at random:
/// becalm copies no others.
pub(super) fn age(source: &Path, all: bool, rng: &mut Rng) -> Result<()> {
    const HOUR: Duration = Duration::from_secs(3600);
    for (path, _) in tree::walk(source)?.into_iter().filter(|(_, kind)| *kind == Kind::File) {
        let Ok(file) = File::open(source.join(&path)) else { continue };
        let is_new = file.metadata()?.modified()?.elapsed().is_ok_and(|age| age < HOUR);
        if is_new && (all || rng.bool()) {
            let time = SystemTime::now() - HOUR * 24 - Duration::from_micros(rng.u64(..1 << 40));
            let accessed = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
            file.set_times(FileTimes::new().set_modified(time).set_accessed(accessed))?;
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
