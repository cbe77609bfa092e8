//! What a loader that knows of carriers reads before an object's own run path: the object's
//! resolution note, else the loader cache of its package ([`Environment::reads`]).
//!
//! No released glibc does this: it is the loader patch of nixpkgs for notes, and becalm's own
//! for both (`crates/lib/patches/glibc`). Whatever is wrong with an answer, the plain search follows.
//!
//! [`Environment::reads`]: crate::facts::Environment

use std::rc::Rc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use super::map_object::Request;
use super::open_path::{Search, Step};
use super::{CacheState, Ended, Process};
use crate::elf::resolution_note::{self, Answer};
use crate::fs::Errno;
use crate::loader::load::Role;
use crate::probe::{Call, Outcome, SearchSource};
use crate::search::dst;
use crate::search::loader_cache::LoaderCache;

/// Longest path taken from a note, its NUL included.
const PATH_MAX: usize = 4096;

/// A note that is well-formed from end to end.
#[derive(Default)]
pub(super) struct NoteTable(FxHashMap<BString, Vec<Element>>);

#[derive(Clone)]
enum Element {
    Exact(BString),
    Hint(BString),
}

impl NoteTable {
    /// `None` where anything in the descriptor is wrong: such a note is none. Of two records
    /// for a needed string the first counts.
    fn read(descriptor: &[u8]) -> Option<Self> {
        let mut table = Self::default();
        for record in resolution_note::records(descriptor) {
            let record = record.ok()?;
            let own = |answer: &Answer<'_>| match *answer {
                Answer::Exact(path) => Element::Exact(path.to_owned()),
                Answer::Hint(dir) => Element::Hint(dir.to_owned()),
            };
            let elements = record.answers.iter().map(own).collect();
            table.0.entry(record.needed.to_owned()).or_insert(elements);
        }
        Some(table)
    }
}

impl Process<'_> {
    /// The answer that a carrier brings for a name, asked in the place of the object's own
    /// `DT_RPATH` or of its `DT_RUNPATH`: an object answers in one of them.
    pub(super) fn search_stored_answers(
        &mut self,
        search: &Search<'_>,
        request: Request,
        in_rpath: bool,
    ) -> Result<Step, Ended> {
        let reads = &self.environment.reads;
        if !reads.note && reads.package_caches.is_empty() {
            return Ok(Step::NotHere);
        }
        let object = request.needed_by;
        let dynamic = self.load.objects[object].view.dynamic.as_ref();
        let has_runpath = dynamic.is_some_and(|d| d.runpath.is_some());
        let has_rpath = !has_runpath && dynamic.is_some_and(|d| d.rpath.is_some());
        if has_rpath != in_rpath {
            return Ok(Step::NotHere);
        }
        let root = self.package_root(object);
        if self.environment.secure && (search.secure || root.is_none()) {
            return Ok(Step::NotHere);
        }
        // A note, whatever it holds, leaves nothing to ask the cache.
        if let Some(note) = self.note_of(object) {
            let Some(list) = note.0.get(search.name) else { return Ok(Step::NotHere) };
            return self.try_list(search, object, list);
        }
        let asks_packages = !self.environment.reads.package_caches.is_empty();
        match root {
            Some(root) if asks_packages && (has_runpath || has_rpath) => {
                self.ask_package(search, object, root)
            }
            _ => Ok(Step::NotHere),
        }
    }

    /// Read once an object.
    fn note_of(&mut self, object: usize) -> Option<Rc<NoteTable>> {
        if !self.environment.reads.note {
            return None;
        }
        if self.maps[object].note.is_none() {
            let bytes = self.load.objects[object].view.notes.resolution.as_ref();
            let table = bytes.and_then(|bytes| NoteTable::read(bytes));
            self.maps[object].note = Some(table.map(Rc::new));
        }
        self.maps[object].note.clone().flatten()
    }

    /// The elements of a list in order. An error other than a file that is not there would
    /// have ended the walk of the run path, and ends this one.
    fn try_list(
        &mut self,
        search: &Search<'_>,
        object: usize,
        list: &[Element],
    ) -> Result<Step, Ended> {
        let mut turn = self.turn(object);
        for element in list {
            if !turn.reaches(element) {
                break;
            }
            let step = match element {
                Element::Exact(path) if path.len() < PATH_MAX => {
                    self.open_stored_answer(search, object, path.as_ref(), SearchSource::Note)?
                }
                Element::Hint(dir) if dir.len() < PATH_MAX => {
                    self.errno = Errno::NOENT;
                    let dirs = self.fill_in(object, dir.as_ref(), |_| false)?;
                    self.open_path(search, &dirs, SearchSource::Note)?
                }
                _ => break,
            };
            match step {
                Step::Found(_) => return Ok(step),
                Step::NotHere if matches!(self.errno, Errno::NOENT | Errno::ACCES) => {}
                Step::NotHere | Step::Refused(_) => break,
            }
        }
        Ok(Step::NotHere)
    }

    /// Opens a path that a carrier gave; what is refused there is only not here.
    fn open_stored_answer(
        &mut self,
        search: &Search<'_>,
        object: usize,
        path: &BStr,
        source: SearchSource,
    ) -> Result<Step, Ended> {
        let expanded = dst::expand(path, &self.tokens(object));
        match expanded {
            Some(path) if path.starts_with(b"/") => {
                self.open_verify(search, path.as_ref(), 0, source)
            }
            _ => {
                self.errno = Errno(0);
                Ok(Step::NotHere)
            }
        }
    }

    /// The answer of `etc/ld.so.cache` at a package's root.
    fn ask_package(
        &mut self,
        search: &Search<'_>,
        object: usize,
        root: BString,
    ) -> Result<Step, Ended> {
        let Some(cache) = self.package_cache(search, root)? else { return Ok(Step::NotHere) };
        let Some(path) = cache.lookup(search.name, &self.cache_query) else {
            return Ok(Step::NotHere);
        };
        if !self.is_needed(search, object) && !self.is_searched_for(search, object, path)? {
            return Ok(Step::NotHere);
        }
        if self.is_nodeflib(object)
            && self.facts.system_dirs.iter().any(|dir| path.starts_with(dir))
        {
            return Ok(Step::NotHere);
        }
        match self.open_stored_answer(search, object, path, SearchSource::PackageCache)? {
            Step::Refused(_) => Ok(Step::NotHere),
            step => Ok(step),
        }
    }

    /// True for a name among those that the object needs, which the writer of its package's
    /// cache saw.
    fn is_needed(&self, search: &Search<'_>, object: usize) -> bool {
        self.load.objects[object].view.needed().any(|needed| needed == search.name)
    }

    /// True where a search along the object's own run path would look for the name under this
    /// path.
    fn is_searched_for(
        &mut self,
        search: &Search<'_>,
        object: usize,
        path: &BStr,
    ) -> Result<bool, Ended> {
        let own = match self.has_runpath(object) {
            true => self.runpath_of(object)?,
            false => self.rpath_of(object)?,
        };
        let names = |dir: &usize| {
            path.strip_prefix(self.dirs.list[*dir].name.as_slice()) == Some(search.name.as_bytes())
        };
        Ok(!own.is_spent() && own.all().iter().any(names))
    }

    /// Mapped once a package; one that is not there costs one failed open.
    fn package_cache(
        &mut self,
        search: &Search<'_>,
        root: BString,
    ) -> Result<Option<Rc<LoaderCache>>, Ended> {
        if !self.package_caches.contains_key(&root) {
            let file: BString = [root.as_slice(), b"/etc/ld.so.cache"].concat().into();
            let state = match self.fs.read(file.as_ref()) {
                Ok(bytes) => {
                    self.load.package_caches.push(file);
                    match LoaderCache::parse_for(bytes, &self.start.view.ident) {
                        Some(cache) => CacheState::Read(Rc::new(cache)),
                        None => CacheState::Absent,
                    }
                }
                Err(errno) => {
                    let tried = (SearchSource::PackageCache, Call::Open, Outcome::from(errno));
                    self.probe(search.resolution, tried, &file, 0)?;
                    CacheState::Absent
                }
            };
            self.package_caches.insert(root.clone(), state);
        }
        Ok(match self.package_caches.get(&root) {
            Some(CacheState::Read(cache)) => Some(Rc::clone(cache)),
            _ => None,
        })
    }

    /// The package root of an object by the letters of its path; of the program, whose path
    /// the kernel does not tell, by those of its directory.
    fn package_root(&self, object: usize) -> Option<BString> {
        let is_program = self.load.objects[object].role == Role::Program;
        let path: &BStr = if is_program {
            self.maps[object].origin.as_ref()
        } else {
            self.load.objects[object].path.as_ref()
        };
        self.root_in_store(path, is_program)
    }

    fn root_in_store(&self, path: &BStr, is_directory: bool) -> Option<BString> {
        let stores = &self.environment.reads.stores;
        stores.iter().find_map(|prefix| root_below(path, prefix.as_ref(), is_directory))
    }

    /// The run path that a note's list stands for.
    fn turn(&self, object: usize) -> Turn {
        let dynamic = self.load.objects[object].view.dynamic.as_ref();
        let text = dynamic.and_then(|d| d.runpath.as_ref().or(d.rpath.as_ref()));
        let text = text.filter(|text| !text.is_empty());
        let element = |element: &[u8]| {
            let expanded = dst::expand(element.into(), &self.tokens(object));
            let is_steady = element.len() < PATH_MAX
                && expanded.is_some_and(|path| self.root_in_store(path.as_ref(), true).is_some());
            (without_slashes(element).into(), is_steady)
        };
        let elements = text.into_iter().flat_map(|text| text.split_str(":")).map(element);
        Turn { elements: elements.collect(), searched: 0 }
    }
}

/// How far a note's list has come along the run path of its object (`resolution_is_in_turn` of
/// `crates/lib/patches/glibc/common/elf/dl-resolution-open.h`).
///
/// patchelf leaves out of a list each directory that lacks the library as it writes the note, be it
/// one of a store or not. A library that comes into such a directory later would be passed over, so
/// the note is declined: the fixture `prog-mutable` of the tests of nixpkgs' `ldcache.patch` demands
/// the same of nixpkgs' loader.
struct Turn {
    /// The elements of the run path, and whether each lies in a package of a store.
    elements: Vec<(BString, bool)>,
    /// The elements before this one are in a store, or were searched by a hint.
    searched: usize,
}

impl Turn {
    /// True where the run path would have come to this element of the list without a search of a
    /// directory that may change and is not on the list.
    fn reaches(&mut self, element: &Element) -> bool {
        let rest = &self.elements[self.searched..];
        self.searched += rest.iter().take_while(|(_, is_steady)| *is_steady).count();
        let Some((unsteady, _)) = self.elements.get(self.searched) else { return true };
        let directory = match element {
            Element::Hint(directory) if without_slashes(directory) == unsteady.as_slice() => {
                self.searched += 1;
                return true;
            }
            Element::Hint(directory) => without_slashes(directory),
            Element::Exact(path) => {
                without_slashes(&path[..path.rfind_byte(b'/').map_or(0, |at| at + 1)])
            }
        };
        self.elements[..self.searched].iter().any(|(known, _)| known == directory)
    }
}

/// A directory without the slashes at its end, `/` aside.
fn without_slashes(directory: &[u8]) -> &[u8] {
    let end = directory.iter().rposition(|byte| *byte != b'/').map_or(1, |at| at + 1);
    &directory[..end.min(directory.len())]
}

/// A prefix and the component below it, where the rest of the path does not lead back out.
fn root_below(path: &BStr, prefix: &BStr, is_directory: bool) -> Option<BString> {
    let prefix = prefix.trim_end_with(|c| c == '/');
    if !prefix.starts_with(b"/") {
        return None;
    }
    let below = path.strip_prefix(prefix)?.strip_prefix(b"/")?;
    let (name, inside) = match below.split_once_str("/") {
        Some((name, inside)) => (name, inside),
        None if is_directory => (below, &b""[..]),
        None => return None,
    };
    if matches!(name, b"" | b"." | b"..") || leaves(inside) {
        return None;
    }
    Some(path[..prefix.len() + 1 + name.len()].into())
}

/// True where `..` leads out of the directory that a path starts in.
fn leaves(path: &[u8]) -> bool {
    let mut depth = 0_usize;
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}
