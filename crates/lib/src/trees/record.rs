//! The record of what starts of a command looked up in trees on network file systems.
//!
//! A record is lines of JSON: a [`Header`], the list of directories to be watched, then a
//! [path](RecordedPath) each, in the order of their use.

use std::fs::File;
use std::path::Path;

use becalm_host::secure::gives_privileges;
use becalm_host::tree::look::{self, Facts, Identity, Numbers};
use becalm_host::tree::table::{MOST_BASES, Sizes};
use becalm_host::write::WriteError;
use rustc_hash::FxHashMap;
use rustix::fs::CWD;
use serde::{Deserialize, Serialize};

use crate::records::{self, Place};
use crate::trees::copies;

/// The form of a record.
pub const SCHEMA: &str = "becalm/tree/2";
/// The ending of the name of a record.
pub(super) const ENDING: &str = "tree";
/// Maximum length of a record, and of its first line.
pub(super) const MOST_BYTES: u64 = 32 << 20;
const MOST_HEADER: u64 = 128 << 10;
/// Maximum number of paths.
pub(super) const MOST_PATHS: usize = 30_000;
/// Starts that tell every path that they look up; later ones tell those in the trees.
const ENOUGH: u32 = 3;
/// Starts that did not use a path after which it is forgotten.
const UNUSED: u32 = 16;

/// The first line of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// The path of the command.
    pub command: String,
    /// The time of the last start that was learned, in seconds since 1970.
    pub learned: u64,
    /// The number of starts that were learned.
    pub starts: u32,
    /// The number of paths.
    pub paths: u32,
    /// The number of programs of this command that began together in the last start.
    #[serde(default)]
    pub together: u64,
    /// Bytes of the paths, copies, targets and trees in the table.
    pub text: u32,
    /// The trees: the topmost directories on network file systems.
    pub trees: Vec<String>,
    /// Programs that the command starts: two starts have started each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Programs that one start has started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<String>,
    /// In a pack: a file that changes whenever the tree does, and its identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<(String, Identity)>,
}

/// The kind of what was found at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing.
    #[default]
    Absent,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else, or it could not be looked at.
    Other,
}

impl Kind {
    /// Returns the kind of a file in this state.
    pub(super) fn of(facts: &Facts) -> Self {
        match look::kind(facts) {
            look::FILE => Self::File,
            look::DIRECTORY => Self::Directory,
            look::LINK => Self::Link,
            _ => Self::Other,
        }
    }

    /// Returns the kind of what is at a path.
    pub(super) fn at(path: &Path) -> Self {
        look::at(CWD, path, false).map_or(Self::Other, |facts| Self::of(&facts))
    }
}

/// Returns the target of a link.
pub(super) fn target_of(path: &Path) -> Option<String> {
    path.read_link().ok().and_then(|it| it.to_str().map(ToOwned::to_owned))
}

/// The copy of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// The name in the folder of copies.
    pub name: String,
    /// The identity of the file that was copied.
    pub of: Identity,
    /// True if the loader may map the copy instead of the file; not yet known without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loads: Option<bool>,
}

/// A path that starts looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPath {
    /// The path, as the program spells it.
    pub path: String,
    /// The kind of what was there.
    pub kind: Kind,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// True if the program reads it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read: bool,
    /// True if the loader maps it after the start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mapped: bool,
    /// True if it has no copy: a program had it open long after it began, and may read what is added later; or
    /// only a pack has it, for its state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// The copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Copied>,
    /// How often a start asked for it.
    #[serde(default)]
    pub uses: u32,
    /// The number of starts since it was used.
    #[serde(default)]
    pub unused: u32,
    /// True if no start looked it up: only a pack has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub added: bool,
    /// In a pack: the state when it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PathState>,
}

/// The state of a path when the pack was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// The result of `lstat`.
    pub(super) found: Numbers,
    /// The result of `stat`, if the first is a link that leads to something that was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) followed: Option<Numbers>,
    /// The names in a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) names: Option<Vec<String>>,
}

impl PathState {
    /// Returns the identity of the regular file that the path leads to.
    pub(super) fn identity(&self) -> Option<Identity> {
        Identity::of_regular(&self.facts())
    }

    fn facts(&self) -> Facts {
        look::facts(self.followed.as_ref().unwrap_or(&self.found))
    }
}

impl RecordedPath {
    /// Returns the directory and the name in it; `None` for a path whose meaning depends on links on the way
    /// (`..`), or that ends in no name.
    pub(super) fn split(path: &str) -> Option<(&str, &str)> {
        let (directory, name) = path.rsplit_once('/')?;
        let is_plain = path.split('/').all(|it| it != "..") && !matches!(name, "" | ".");
        (is_plain && path.starts_with('/')).then_some((directory, name))
    }

    /// True for a file that a program reads, or that the loader maps.
    pub(super) fn is_used(&self) -> bool {
        self.read || self.mapped
    }

    /// True if the loader may map the copy, which is there.
    pub(super) fn loads(&self) -> Option<bool> {
        self.copy.as_ref().map(|copy| copy.loads == Some(true))
    }

    /// True for a file that can be executed.
    pub(super) fn is_executable(&self) -> bool {
        let facts = self.state.as_ref().map(PathState::facts);
        facts.is_some_and(|it| look::kind(&it) == look::FILE && it.stx_mode & 0o111 != 0)
    }

    /// True for a program with privileges that a copy would not have.
    pub(super) fn is_privileged(&self) -> bool {
        let mode = self.state.as_ref().map_or(0, |it| it.facts().stx_mode.into());
        self.is_executable() && gives_privileges(Path::new(&self.path), mode)
    }
}

/// A record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The first line.
    pub header: Header,
    /// Directories to be watched besides those of the paths: where links lead.
    pub watched: Vec<String>,
    /// The paths.
    pub paths: Vec<RecordedPath>,
}

/// Adds paths to a record, each once.
pub(super) struct Adding<'a> {
    pub(super) record: &'a mut Record,
    numbers: FxHashMap<String, usize>,
}

impl<'a> Adding<'a> {
    pub(super) fn to(record: &'a mut Record) -> Self {
        let numbers = record.paths.iter().enumerate().map(|(at, it)| (it.path.clone(), at));
        Self { numbers: numbers.collect(), record }
    }

    /// Adds a path if it can be in a record. Returns the one that is there already.
    pub(super) fn add(&mut self, new: RecordedPath) -> Option<&mut RecordedPath> {
        if self.numbers.contains_key(&new.path) {
            return self.known(&new.path);
        }
        if RecordedPath::split(&new.path).is_some() {
            self.numbers.insert(new.path.clone(), self.record.paths.len());
            self.record.paths.push(new);
        }
        None
    }

    pub(super) fn known(&mut self, path: &str) -> Option<&mut RecordedPath> {
        self.record.paths.get_mut(*self.numbers.get(path)?)
    }
}

/// Returns the place of a command's record.
pub(super) fn place(folder: &Path, command: &Path) -> Place {
    Place::of(folder, command, ENDING)
}

impl Header {
    /// Reads the header of the record at a place; `None` if there is none that can be trusted.
    pub(super) fn at(place: &Place) -> Option<Self> {
        Self::read(&mut place.open().ok()??)
    }

    /// Reads the header from the beginning of a record; `None` if it has none of this version.
    pub(crate) fn read(file: &mut File) -> Option<Self> {
        records::first(file, MOST_HEADER).filter(Self::is_ours)
    }

    fn is_ours(&self) -> bool {
        self.schema == SCHEMA
            && self.paths as usize <= MOST_PATHS
            && u64::from(self.text) <= MOST_BYTES
    }

    /// True if every path that the program looks up should be told.
    pub(super) fn is_wanting(&self) -> bool {
        self.starts < ENOUGH
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes { entries: self.paths, text: self.text }
    }
}

impl Record {
    /// Reads a record; `None` if it is damaged or of another version.
    pub(crate) fn read(file: File) -> Option<Self> {
        Self::parse(&records::whole(file, MOST_BYTES)?)
    }

    /// Reads the record at a place; `None` also if there is none that can be trusted.
    pub(super) fn at(place: &Place) -> Option<Self> {
        Self::read(place.open().ok()??)
    }

    pub(super) fn write(&self, place: &Place) -> Result<(), WriteError> {
        place.write(&self.text(), 0o600)
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = serde_json::Deserializer::from_slice(bytes);
        let header = Header::deserialize(&mut lines).ok().filter(Header::is_ours)?;
        let watched = Vec::deserialize(&mut lines).ok()?;
        let paths: Vec<RecordedPath> = lines.into_iter().collect::<Result<_, _>>().ok()?;
        let is_sound = |it: &RecordedPath| {
            RecordedPath::split(&it.path).is_some()
                && it.copy.as_ref().is_none_or(|copy| !copy.name.contains('/'))
        };
        let is_whole = paths.len() == header.paths as usize && paths.iter().all(is_sound);
        is_whole.then_some(Self { header, watched, paths })
    }

    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        records::add_line(&mut text, &self.header);
        records::add_line(&mut text, &self.watched);
        self.paths.iter().for_each(|path| records::add_line(&mut text, path));
        text
    }

    /// True if a path is in one of the trees.
    pub(super) fn has_in_tree(&self, path: &Path) -> bool {
        self.header.trees.iter().any(|tree| path.starts_with(tree))
    }

    /// Adds a tree, unless it is there. Returns false if the record has as many trees as a table can have, and not this one.
    #[must_use]
    pub(super) fn add_tree(&mut self, tree: &Path) -> bool {
        let tree = tree.to_string_lossy().into_owned();
        let is_known = self.header.trees.contains(&tree);
        let has_room = self.header.trees.len() < MOST_BASES;
        if !is_known && has_room {
            self.header.trees.push(tree);
        }
        is_known || has_room
    }

    /// Drops paths that starts no longer use, and sets the counts of the header.
    pub(super) fn finish(&mut self, folder: &Path) {
        self.paths.retain(|path| path.unused < UNUSED);
        self.paths.truncate(MOST_PATHS);
        let length = |path: &RecordedPath| {
            let of_copy = |copy: &Copied| copies::path(folder, &copy.name).as_os_str().len() + 1;
            let copy = path.copy.as_ref().map_or(0, of_copy);
            path.path.len() + 1 + copy + path.target.as_ref().map_or(0, |it| it.len() + 1)
        };
        let trees: usize = self.header.trees.iter().map(|tree| tree.len() + 1).sum();
        let text = trees + self.paths.iter().map(length).sum::<usize>();
        self.header.schema = SCHEMA.to_owned();
        self.header.paths = self.paths.len() as u32;
        self.header.text = text as u32;
    }
}
