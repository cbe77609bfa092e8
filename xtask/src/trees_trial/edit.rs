//! The edits: each changes the tree through the mount, as a process on the same node does, or in the
//! source below the mount, as another node does.

use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use fastrand::Rng;

use super::tree::{self, Kind, choice, moved, size, text};
use crate::command::succeed;
use crate::user::NOBODY;

/// Fewer files than this are not removed any more.
const FEW: usize = 220;
/// Number of files that count as edited last.
const RECENT: usize = 12;
/// Entries of a directory that is removed with them.
const MOST_REMOVED: usize = 8;
/// Ending of a file that a link has taken the place of.
const KEPT: &str = "kept";
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

type Change = fn(&mut Edit<'_>) -> Result<Option<String>>;

/// Kinds of edits. Each returns a description, or `None` if the tree has nothing to which it applies.
const CHANGES: [Change; 24] = [
    |edit| edit.overwrite(None, false),
    |edit| edit.overwrite(None, true),
    |edit| edit.overwrite(Some(20), true),
    |edit| edit.append(),
    |edit| edit.replace(true),
    |edit| edit.replace(false),
    |edit| edit.unlink(),
    |edit| edit.create(),
    |edit| edit.make_directory(),
    |edit| edit.remove_directory(),
    |edit| edit.move_directory(),
    |edit| edit.swap_directories(),
    |edit| edit.retarget(),
    |edit| edit.replace_by_link(),
    |edit| edit.restore_from_link(),
    |edit| edit.chmod(),
    |edit| edit.chown(),
    |edit| edit.hard_link(),
    |edit| edit.touch(),
    |edit| edit.truncate(),
    |edit| edit.copy_over(),
    |edit| edit.sed(),
    |edit| edit.move_over(),
    |edit| edit.file_or_directory(),
];

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
            let done = match edit.of(Kind::File).len() < FEW && edit.rng.bool() {
                true => edit.create(),
                false => choice(&CHANGES, edit.rng)(&mut edit),
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

    fn of(&self, wanted: Kind) -> Vec<PathBuf> {
        let kinds = self.tree.iter().filter(|(_, kind)| *kind == wanted);
        kinds.map(|(path, _)| path.clone()).collect()
    }

    fn any(&mut self, wanted: Kind) -> Option<PathBuf> {
        let is_wanted = |path: &&PathBuf| self.kind(path) == Some(wanted);
        let recent: Vec<PathBuf> = self.editor.recent.iter().filter(is_wanted).cloned().collect();
        if wanted == Kind::File && !recent.is_empty() && self.rng.u8(..3) == 0 {
            return Some(choice(&recent, self.rng).clone());
        }
        let all = self.of(wanted);
        let path = (!all.is_empty()).then(|| choice(&all, self.rng).clone())?;
        if wanted == Kind::File {
            self.editor.recent.truncate(RECENT - 1);
            self.editor.recent.insert(0, path.clone());
        }
        Some(path)
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

    /// Makes the parent of a path.
    fn make_parent(&self, path: &Path) -> Result<()> {
        let parent = path.parent().context("a parent")?;
        fs::create_dir_all(self.at(parent)).with_context(|| shown(path))
    }

    /// Returns a file with its metadata.
    fn file(&mut self) -> Result<Option<(PathBuf, Metadata)>> {
        let Some(path) = self.any(Kind::File) else { return Ok(None) };
        let facts = fs::symlink_metadata(self.at(&path)).with_context(|| shown(&path))?;
        Ok(Some((path, facts)))
    }

    /// Writes other content of the same size into a file, and may set its time back. With `most`, does so
    /// many times, with about the grain of the file system's clock between two.
    fn overwrite(&mut self, most: Option<usize>, is_set_back: bool) -> Result<Option<String>> {
        let Some((path, facts)) = self.file()? else { return Ok(None) };
        let often = most.map(|most| self.rng.usize(2..most));
        for _ in 0..often.unwrap_or(1) {
            let file = File::options().write(true).open(self.at(&path)).context(shown(&path))?;
            file.write_all_at(&text(facts.size() as usize, self.rng), 0)?;
            if is_set_back {
                set_modified(&file, facts.modified()?)?;
            }
            if often.is_some() {
                sleep(Duration::from_micros(self.rng.u64(..5000)));
            }
        }
        let times = often.map(|count| format!(" {count} times")).unwrap_or_default();
        let how = if is_set_back { ", its time set back" } else { "" };
        Ok(Some(format!("overwrite {}{times}{how}", shown(&path))))
    }

    fn append(&mut self) -> Result<Option<String>> {
        let Some((path, _)) = self.file()? else { return Ok(None) };
        let mut file = File::options().append(true).open(self.at(&path)).context(shown(&path))?;
        let more = self.rng.usize(1..200);
        file.write_all(&text(more, self.rng))?;
        Ok(Some(format!("append to {}", shown(&path))))
    }

    /// Replaces a file by a new one; by one with the same size, mode and time if `is_alike`.
    fn replace(&mut self, is_alike: bool) -> Result<Option<String>> {
        let Some((path, facts)) = self.file()? else { return Ok(None) };
        let new = path.with_file_name(NEW);
        let length = if is_alike { facts.size() as usize } else { size(self.rng) };
        fs::write(self.at(&new), text(length, self.rng)).context(shown(&path))?;
        if is_alike {
            fs::set_permissions(self.at(&new), facts.permissions())?;
            let file = File::options().write(true).open(self.at(&new))?;
            set_modified(&file, facts.modified()?)?;
        }
        fs::rename(self.at(&new), self.at(&path)).context(shown(&path))?;
        let how = if is_alike { " by one of its size and time" } else { "" };
        Ok(Some(format!("replace {}{how}", shown(&path))))
    }

    fn unlink(&mut self) -> Result<Option<String>> {
        if self.of(Kind::File).len() < FEW {
            return Ok(None);
        }
        let wanted = if self.rng.u8(..8) == 0 { Kind::Link } else { Kind::File };
        let Some(path) = self.any(wanted) else { return Ok(None) };
        fs::remove_file(self.at(&path)).context(shown(&path))?;
        Ok(Some(format!("unlink {}", shown(&path))))
    }

    fn create(&mut self) -> Result<Option<String>> {
        let Some(path) = self.absent() else { return Ok(None) };
        self.make_parent(&path)?;
        fs::write(self.at(&path), text(size(self.rng), self.rng)).context(shown(&path))?;
        Ok(Some(format!("create {}", shown(&path))))
    }

    fn make_directory(&mut self) -> Result<Option<String>> {
        let Some(path) = self.absent() else { return Ok(None) };
        fs::create_dir_all(self.at(&path)).context(shown(&path))?;
        Ok(Some(format!("mkdir {}", shown(&path))))
    }

    fn remove_directory(&mut self) -> Result<Option<String>> {
        let Some(path) = self.any(Kind::Directory) else { return Ok(None) };
        let count = self.tree.iter().filter(|(one, _)| one.starts_with(&path)).count() - 1;
        match count {
            0 => fs::remove_dir(self.at(&path)).context(shown(&path))?,
            1..=MOST_REMOVED if self.rng.u8(..4) == 0 => {
                fs::remove_dir_all(self.at(&path)).context(shown(&path))?;
            }
            _ => return Ok(None),
        }
        Ok(Some(format!("rmdir {} with {count} entries", shown(&path))))
    }

    /// Gives a directory its other name, or its own again.
    fn move_directory(&mut self) -> Result<Option<String>> {
        let directories = self.of(Kind::Directory);
        let are_moved = directories.iter().filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".moved")?;
            Some((path.clone(), path.with_file_name(name)))
        });
        let back: Vec<_> = are_moved.filter(|(_, own)| self.kind(own).is_none()).collect();
        let (from, to) = match self.any(Kind::Directory) {
            _ if !back.is_empty() && self.rng.u8(..4) != 0 => choice(&back, self.rng).clone(),
            Some(path) if path.extension().is_none_or(|it| it != "moved") => {
                (path.clone(), moved(&path))
            }
            _ => return Ok(None),
        };
        if self.kind(&to).is_some() {
            return Ok(None);
        }
        fs::rename(self.at(&from), self.at(&to)).context(shown(&from))?;
        Ok(Some(format!("rename {} to {}", shown(&from), shown(&to))))
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

    /// Lets a link lead elsewhere, by a rename or with a moment without it.
    fn retarget(&mut self) -> Result<Option<String>> {
        let Some(path) = self.any(Kind::Link) else { return Ok(None) };
        let target = match self.rng.u8(..5) {
            _ if path.ends_with("current") => {
                PathBuf::from(*choice(&["v1", "v2", "../versions/v1", "nowhere"], self.rng))
            }
            0 => PathBuf::from("nowhere"),
            1 => self.editor.outside.clone(),
            2 => self.editor.mount.join(choice(&self.editor.listed, self.rng)),
            _ => {
                let siblings: Vec<_> =
                    self.tree.iter().filter(|(one, _)| one.parent() == path.parent()).collect();
                PathBuf::from(choice(&siblings, self.rng).0.file_name().unwrap_or_default())
            }
        };
        let new = path.with_file_name(NEW);
        let (made, is_renamed) = if self.rng.bool() { (&new, true) } else { (&path, false) };
        if !is_renamed {
            fs::remove_file(self.at(&path)).context(shown(&path))?;
        }
        symlink(&target, self.at(made)).context(shown(&path))?;
        if is_renamed {
            fs::rename(self.at(&new), self.at(&path)).context(shown(&path))?;
        }
        Ok(Some(format!("let {} lead to {}", shown(&path), shown(&target))))
    }

    fn replace_by_link(&mut self) -> Result<Option<String>> {
        let Some(path) = self.any(Kind::File) else { return Ok(None) };
        let kept = kept(&path);
        if self.kind(&kept).is_some() || path.extension().is_some_and(|it| it == KEPT) {
            return Ok(None);
        }
        fs::rename(self.at(&path), self.at(&kept)).context(shown(&path))?;
        symlink(kept.file_name().unwrap_or_default(), self.at(&path)).context(shown(&path))?;
        Ok(Some(format!("replace {} by a link to it", shown(&path))))
    }

    fn restore_from_link(&mut self) -> Result<Option<String>> {
        let links = self.of(Kind::Link);
        let of_kept = links.iter().filter(|path| self.kind(&kept(path)) == Some(Kind::File));
        let of_kept: Vec<&PathBuf> = of_kept.collect();
        if of_kept.is_empty() {
            return Ok(None);
        }
        let path = *choice(&of_kept, self.rng);
        fs::rename(self.at(&kept(path)), self.at(path)).context(shown(path))?;
        Ok(Some(format!("replace the link {} by its file", shown(path))))
    }

    fn chmod(&mut self) -> Result<Option<String>> {
        let is_directory = self.rng.u8(..5) == 0;
        let (wanted, modes) = match is_directory {
            true => (Kind::Directory, [0o700, 0o755, 0o1777]),
            false => (Kind::File, [0o000, 0o644, 0o755]),
        };
        let Some(path) = self.any(wanted) else { return Ok(None) };
        let mode = *choice(&modes, self.rng);
        fs::set_permissions(self.at(&path), Permissions::from_mode(mode)).context(shown(&path))?;
        Ok(Some(format!("chmod {mode:03o} {}", shown(&path))))
    }

    fn chown(&mut self) -> Result<Option<String>> {
        let (path, _) = choice(&self.tree, self.rng).clone();
        let owner = Some(*choice(&[0, NOBODY], self.rng));
        lchown(self.at(&path), owner, owner).context(shown(&path))?;
        Ok(Some(format!("chown {}", shown(&path))))
    }

    fn hard_link(&mut self) -> Result<Option<String>> {
        let (Some(file), Some(new)) = (self.any(Kind::File), self.absent()) else {
            return Ok(None);
        };
        self.make_parent(&new)?;
        fs::hard_link(self.at(&file), self.at(&new)).context(shown(&new))?;
        Ok(Some(format!("link {} to {}", shown(&new), shown(&file))))
    }

    fn touch(&mut self) -> Result<Option<String>> {
        let (path, _) = choice(&self.tree, self.rng).clone();
        let seconds = self.rng.i64(-1_000_000..1_700_000_000);
        let date = format!("@{seconds}.{:09}", self.rng.u32(..1_000_000_000));
        succeed(Command::new("touch").args(["-h", "-d", &date]).arg(self.at(&path)))?;
        Ok(Some(format!("touch -d {date} {}", shown(&path))))
    }

    fn truncate(&mut self) -> Result<Option<String>> {
        let Some((path, facts)) = self.file()? else { return Ok(None) };
        let length = if self.rng.bool() { 0 } else { self.rng.u64(..=facts.size()) };
        let file = File::options().write(true).open(self.at(&path)).context(shown(&path))?;
        file.set_len(length)?;
        Ok(Some(format!("truncate {} to {length} bytes", shown(&path))))
    }

    fn copy_over(&mut self) -> Result<Option<String>> {
        let (Some((from, one)), Some((to, other))) = (self.file()?, self.file()?) else {
            return Ok(None);
        };
        if one.ino() == other.ino() {
            return Ok(None);
        }
        succeed(Command::new("cp").arg("-p").args([self.at(&from), self.at(&to)]))?;
        Ok(Some(format!("cp -p {} {}", shown(&from), shown(&to))))
    }

    fn sed(&mut self) -> Result<Option<String>> {
        let Some(path) = self.any(Kind::File) else { return Ok(None) };
        succeed(Command::new("sed").args(["-i", "s/a/b/"]).arg(self.at(&path)))?;
        Ok(Some(format!("sed -i s/a/b/ {}", shown(&path))))
    }

    fn move_over(&mut self) -> Result<Option<String>> {
        let (Some(from), Some(to)) = (self.any(Kind::File), self.any(Kind::File)) else {
            return Ok(None);
        };
        if self.of(Kind::File).len() < FEW {
            return Ok(None);
        }
        fs::rename(self.at(&from), self.at(&to)).context(shown(&from))?;
        Ok(Some(format!("rename {} over {}", shown(&from), shown(&to))))
    }

    /// Replaces a file by a directory, or an empty directory by a file.
    fn file_or_directory(&mut self) -> Result<Option<String>> {
        let (path, kind) = choice(&self.tree, self.rng).clone();
        let count = self.tree.iter().filter(|(one, _)| one.starts_with(&path)).count() - 1;
        match kind {
            Kind::File => {
                fs::remove_file(self.at(&path)).context(shown(&path))?;
                fs::create_dir(self.at(&path)).context(shown(&path))?;
                fs::write(self.at(&path).join("below a file"), text(100, self.rng))?;
                Ok(Some(format!("replace the file {} by a directory", shown(&path))))
            }
            Kind::Directory if count == 0 => {
                fs::remove_dir(self.at(&path)).context(shown(&path))?;
                fs::write(self.at(&path), text(size(self.rng), self.rng)).context(shown(&path))?;
                Ok(Some(format!("replace the directory {} by a file", shown(&path))))
            }
            _ => Ok(None),
        }
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
            set_modified(&file, time)?;
        }
    }
    Ok(())
}

/// Sets the time of the last change of content, to the nanosecond.
fn set_modified(file: &File, time: SystemTime) -> Result<()> {
    let accessed = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    Ok(file.set_times(FileTimes::new().set_modified(time).set_accessed(accessed))?)
}

/// Returns the path at which a file is kept while a link has its place.
fn kept(path: &Path) -> PathBuf {
    tree::with_ending(path, KEPT)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
