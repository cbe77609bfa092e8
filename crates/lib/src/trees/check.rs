//! Looks at the recorded paths, many at once, and publishes what is found.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use becalm_host::tree::look::{self, Changes, Facts, Identity};
use becalm_host::tree::table::{Found, NewEntry, Table};
use rustc_hash::FxHashMap;
use rustix::fs::{Advice, CWD, fadvise, readlinkat};

use crate::trees::record::{Kind, Record, RecordedPath};
use crate::trees::{c_path, copies, in_parallel, times_count};

/// Maximum length of a file that is read ahead although it has no copy.
const MOST_AHEAD: u64 = 32 << 20;

/// A directory while paths are looked at, open and watched. The error is [`ErrorKind::NotFound`] if there is nothing at
/// its path, and what could appear there is seen in a watched directory.
type Opened = Result<OwnedFd, ErrorKind>;

/// The directories while paths are looked at.
struct Look<'a> {
    paths: &'a Paths<'a>,
    opened: Vec<OnceLock<Opened>>,
    changes: &'a Changes,
}

/// The findings of a start.
#[derive(Default)]
pub(super) struct Looked {
    /// At the recorded paths.
    pub(super) found: Vec<Found>,
    /// The real paths of directories.
    pub(super) real: FxHashMap<PathBuf, PathBuf>,
}

/// A recorded path, ready to be looked at.
struct Known {
    /// The last component of the path.
    name: CString,
    copy: Option<(CString, Identity)>,
    /// Its place in the folder of a pack, from which libraries are mapped.
    place: Option<CString>,
    /// The directory that it is in, and its own number if it is one.
    parent: Option<usize>,
    own: Option<usize>,
}

impl Known {
    /// Returns the file that is mapped instead of a library.
    fn mapped(&self) -> Option<&CString> {
        self.place.as_ref().or(self.copy.as_ref().map(|(copy, _)| copy))
    }
}

/// True for a path in which the loader would expand nothing.
fn is_plain(path: &CString) -> bool {
    !path.as_bytes().contains(&b'$')
}

/// True if the end of a link is in a known directory, or is one, and a file does not change by another name.
pub(super) fn is_settled(end: &Path, facts: &Facts, is_known: impl Fn(&Path) -> bool) -> bool {
    match look::kind(facts) {
        look::DIRECTORY => is_known(end),
        look::FILE => facts.stx_nlink == 1 && end.parent().is_some_and(is_known),
        _ => false,
    }
}

/// The paths of a start.
pub(super) struct Paths<'a> {
    record: &'a Record,
    known: Vec<Known>,
    directories: Vec<PathBuf>,
    numbers: FxHashMap<PathBuf, usize>,
    /// The number of directories, the first ones, to which links on the way lead.
    of_links: usize,
    /// Directories on the way to the trees.
    outer: Vec<PathBuf>,
    /// The devices of trees in which times of files count.
    timed: Vec<u64>,
    /// True if what is found counts as long as the table.
    pub(super) lasts: bool,
    /// True for the paths of a pack that are not compared with the tree.
    pub(super) is_packed: bool,
    /// The directories as they were opened first. The program opens them by these descriptors.
    held: OnceLock<Vec<OnceLock<Opened>>>,
}

impl<'a> Paths<'a> {
    /// Sets the places from which libraries are mapped, which have the directories of the tree.
    pub(super) fn map_from(&mut self, place: impl Fn(&str) -> PathBuf) {
        for (known, recorded) in self.known.iter_mut().zip(&self.record.paths) {
            // Of a packed directory it is not known what is mapped. A link's copy is another file than its target's.
            let may_be = recorded.added || recorded.is_executable();
            let is_library = recorded.mapped || (may_be && recorded.kind == Kind::File);
            let is_mapped = is_library && known.copy.is_some();
            known.place = c_path(&place(&recorded.path)).filter(|_| is_mapped);
        }
    }

    /// Lets the loader map libraries from these places, whatever is in them.
    pub(super) fn let_map(&self, table: &Table) {
        let has_place = |at: &usize| self.known[*at].place.as_ref().is_some_and(is_plain);
        if self.is_code() {
            (0..self.known.len()).filter(has_place).for_each(|at| table.let_map(at));
        }
    }

    /// Returns the paths of a record, and their directories in the trees that are looked at.
    pub(super) fn of(record: &'a Record, folder: &Path, is_looked_at: fn(&Path) -> bool) -> Self {
        let trees = record.header.trees.iter().map(Path::new);
        let trees: &[&Path] = &trees.filter(|tree| is_looked_at(tree)).collect::<Vec<_>>();
        let outer: BTreeSet<_> = trees.iter().flat_map(|it| it.ancestors().skip(1)).collect();
        let timed = trees.iter().filter(|tree| times_count(tree));
        let timed = timed.filter_map(|tree| look::at(CWD, *tree, true).ok());
        let mut paths = Self {
            record,
            known: Vec::new(),
            directories: Vec::new(),
            numbers: FxHashMap::default(),
            of_links: 0,
            outer: outer.into_iter().map(Into::into).collect(),
            timed: timed.map(|it| look::device(&it)).collect(),
            lasts: false,
            is_packed: false,
            held: OnceLock::new(),
        };
        for watched in &record.watched {
            paths.directory(Path::new(watched), trees);
        }
        paths.of_links = paths.directories.len();
        for recorded in &record.paths {
            let Some((parent, name)) = RecordedPath::split(&recorded.path) else { continue };
            let path = Path::new(&recorded.path);
            let is_directory = recorded.kind == Kind::Directory;
            let own = if is_directory { paths.directory(path, trees) } else { None };
            let parent = paths.directory(Path::new(parent), trees);
            let copy = recorded
                .copy
                .as_ref()
                .and_then(|copy| Some((c_path(&copies::path(folder, &copy.name))?, copy.of)));
            let name = CString::new(name).unwrap_or_default();
            paths.known.push(Known { name, copy, place: None, parent, own });
        }
        paths
    }

    /// Returns the number of a directory in a tree.
    fn directory(&mut self, path: &Path, trees: &[&Path]) -> Option<usize> {
        if !trees.iter().any(|tree| path.starts_with(tree)) {
            return None;
        }
        if let Some(&number) = self.numbers.get(path) {
            return Some(number);
        }
        path.parent().and_then(|above| self.directory(above, trees));
        let number = self.directories.len();
        self.directories.push(path.to_owned());
        self.numbers.insert(path.to_owned(), number);
        Some(number)
    }

    /// Writes the paths into the table. Returns false if they do not fit.
    pub(super) fn fill(&self, table: &Table) -> bool {
        let is_code = self.is_code();
        let all = self.known.iter().zip(&self.record.paths);
        let entries = all.map(|(known, recorded)| NewEntry {
            path: &recorded.path,
            copy: known.mapped().map(CString::as_c_str),
            target: recorded.target.as_deref(),
            is_mapped: recorded.mapped,
            loads: is_code
                && recorded.loads().is_some_and(|loads| self.is_packed || loads)
                && known.mapped().is_some_and(is_plain),
        });
        table.fill(&self.record.header.trees, entries)
    }

    /// True if copies can be mapped as code.
    fn is_code(&self) -> bool {
        let copy = self.known.iter().find_map(|known| known.copy.as_ref());
        copy.is_some_and(|(copy, _)| {
            look::open(CWD, copy).is_ok_and(|file| look::is_mapped_as_code(file.as_fd()))
        })
    }

    /// Returns what the last look has found. No path is looked up.
    pub(super) fn looked(&self, table: &Table) -> Looked {
        let real = |(directory, opened): (&PathBuf, &OnceLock<Opened>)| {
            let opened = opened.get()?.as_ref().ok()?;
            Some((directory.clone(), look::real(opened.as_fd())?))
        };
        let opened = self.held.get().into_iter().flatten();
        Looked {
            found: (0..self.known.len()).map(|at| table.found(at)).collect(),
            real: self.directories.iter().zip(opened).filter_map(real).collect(),
        }
    }

    /// Watches directories, looks at paths in them, and publishes what is there: at `all` of them, or at those
    /// that the programs have not used as often as starts did. What is there cannot change without an event.
    pub(super) fn look(&self, table: &Table, changes: &Changes, all: bool) {
        self.outer.iter().for_each(|outer| changes.watch_itself(outer));
        let opened = self.directories.iter().map(|_| OnceLock::new()).collect();
        let look = Look { paths: self, opened, changes };
        let time = if self.lasts { Table::ALWAYS } else { look::now() };
        let programs = table.programs();
        let is_wanted = |at: &usize| {
            let of_start = u64::from(self.record.paths[*at].uses.max(1));
            all || u64::from(table.uses(*at)) < of_start * programs
        };
        // Paths that the last start used come first, whatever other paths earlier starts have used.
        let is_recent = |&at: &usize| self.record.paths[at].unused == 0;
        let wanted = (0..self.known.len()).filter(is_wanted);
        let (recent, others): (Vec<usize>, Vec<usize>) = wanted.partition(is_recent);
        in_parallel(&Vec::from_iter(0..self.of_links), |&at| {
            look.opened(at);
        });
        // A path waits for its directory only.
        for wanted in [recent, others] {
            in_parallel(&wanted, |&at| table.publish(at, &look.at(at), time));
        }
        if self.held.get().is_none() {
            for (at, known) in self.known.iter().enumerate() {
                if let Some(directory) = look.watched(known.own) {
                    table.hold(at, directory);
                }
            }
            let _ = self.held.set(look.opened);
        }
    }
}

impl Look<'_> {
    fn opened(&self, at: usize) -> &Opened {
        self.opened[at].get_or_init(|| self.open(&self.paths.directories[at]))
    }

    /// Opens a directory and watches it: by its name in the one above it, if that is open, because then no other
    /// name of the path is looked up. Below a missing directory nothing is looked up.
    fn open(&self, directory: &Path) -> Opened {
        let above = directory.parent().and_then(|above| self.paths.numbers.get(above));
        let (opened, above) = match above.map(|&above| self.opened(above)) {
            Some(Err(ErrorKind::NotFound)) => return Err(ErrorKind::NotFound),
            Some(Ok(above)) => {
                let name = directory.file_name().unwrap_or_default();
                (look::directory(above.as_fd(), Path::new(name)), Some((above, name)))
            }
            Some(Err(_)) | None => (look::directory(CWD, directory), None),
        };
        // A link that leads nowhere is not missing: what it leads to can appear anywhere.
        let is_missing = || {
            let found = above.map(|(above, name)| look::at(above.as_fd(), name, false));
            found.is_some_and(|it| it.is_err_and(|it| it.kind() == ErrorKind::NotFound))
        };
        match opened {
            Ok(directory) if self.changes.watch(directory.as_fd()).is_ok() => Ok(directory),
            Err(error) if error.kind() == ErrorKind::NotFound && is_missing() => Err(error.kind()),
            Ok(_) | Err(_) => Err(ErrorKind::Other),
        }
    }

    /// Returns a directory that is watched.
    fn watched(&self, directory: Option<usize>) -> Option<BorrowedFd<'_>> {
        self.opened(directory?).as_ref().ok().map(AsFd::as_fd)
    }

    fn at(&self, at: usize) -> Found {
        let known = &self.paths.known[at];
        let parent = match known.parent.map(|parent| self.opened(parent)) {
            Some(Ok(parent)) => parent.as_fd(),
            Some(Err(ErrorKind::NotFound)) => return Found::Absent,
            Some(Err(_)) | None => return Found::Unknown,
        };
        match look::at(parent, &known.name, false) {
            Err(error) if error.kind() == ErrorKind::NotFound => Found::Absent,
            Ok(facts) => self.there(parent, at, facts).unwrap_or(Found::Unknown),
            Err(_) => Found::Unknown,
        }
    }

    /// Returns what is found at a path where there is something.
    fn there(&self, parent: BorrowedFd<'_>, at: usize, mut facts: Facts) -> Option<Found> {
        let (known, recorded) = (&self.paths.known[at], &self.paths.record.paths[at]);
        match look::kind(&facts) {
            look::DIRECTORY => self.watched(known.own).map(drop)?,
            look::LINK => return self.link(parent, at, facts),
            look::FILE if facts.stx_nlink > 1 => {
                // It can be changed by another name.
                let file = look::open(parent, &known.name).ok()?;
                self.changes.watch(file.as_fd()).ok()?;
                facts = look::at(parent, &known.name, false).ok()?;
            }
            look::FILE => {}
            _ => return None,
        }
        let copied = self.copy(parent, at, &facts);
        let is_read = recorded.read && copied.is_none();
        let is_mapped = recorded.mapped && !(copied.is_some() && recorded.loads() == Some(true));
        if (is_read || is_mapped)
            && look::kind(&facts) == look::FILE
            && facts.stx_size <= MOST_AHEAD
        {
            let file = look::open(parent, &known.name).ok();
            file.map(|file| fadvise(file, 0, None, Advice::WillNeed));
        }
        let (facts, copy) = copied.map_or((facts, None), |(facts, copy)| (facts, Some(copy)));
        Some(Found::There { facts, followed: None, copy })
    }

    /// Returns what is found at a link, and where it leads to, if that is watched.
    fn link(&self, parent: BorrowedFd<'_>, at: usize, facts: Facts) -> Option<Found> {
        let (known, recorded) = (&self.paths.known[at], &self.paths.record.paths[at]);
        let target = readlinkat(parent, &known.name, Vec::new()).ok()?;
        let target = target.to_str().ok()?;
        (Some(target) == recorded.target.as_deref()).then_some(())?;
        let target = Path::new(&recorded.path).parent()?.join(target);
        let is_watched =
            |path: &Path| self.watched(self.paths.numbers.get(path).copied()).is_some();
        let followed = look::at(parent, &known.name, true).ok();
        let followed = followed.filter(|facts| is_settled(&target, facts, is_watched));
        let copied = followed.and_then(|followed| self.copy(parent, at, &followed));
        let followed = copied.map(|it| it.0).or(followed);
        Some(Found::There { facts, followed, copy: copied.map(|it| it.1) })
    }

    /// Returns the state of an unchanged regular file, and device and inode of its copy. The file is opened,
    /// so that a network's file system asks its server.
    fn copy(
        &self,
        parent: BorrowedFd<'_>,
        at: usize,
        facts: &Facts,
    ) -> Option<(Facts, (u64, u64))> {
        let Known { name, copy, .. } = &self.paths.known[at];
        let (copy, identity) = copy.as_ref()?;
        let is_same = |facts: &Facts| {
            Identity::of_regular(facts) == Some(*identity)
                && self.paths.timed.contains(&look::device(facts))
        };
        is_same(facts).then_some(())?;
        let copied = copies::whole(copy, identity)?;
        let file = look::open(parent, name).ok()?;
        let facts = look::open_file(file.as_fd()).ok().filter(is_same)?;
        Some((facts, copied))
    }
}
