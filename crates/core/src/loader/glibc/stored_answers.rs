//! The search in stored answers, which a patched loader makes before the search along an object's
//! own run path: in the object's resolution note, or else in the loader cache of its package
//! ([`Environment::reads`]).
//!
//! No released glibc reads them. nixpkgs patches its loader to read notes, and becalm's patch
//! (`crates/lib/patches/glibc`) reads both. If an answer is wrong in any way, the plain search
//! follows.
//!
//! [`Environment::reads`]: crate::facts::Environment

use std::rc::Rc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use super::map_object::Request;
use super::open_path::{Search, Step};
use super::{CacheState, Ended, Process};
use crate::elf::Dynamic;
use crate::elf::resolution_note::{self, Answer};
use crate::fs::Errno;
use crate::loader::load::Role;
use crate::path;
use crate::probe::{Call, Outcome, SearchSource};
use crate::search::dst;
use crate::search::loader_cache::LoaderCache;

/// The limit on a path in a note, its NUL included.
const PATH_MAX: usize = 4096;

/// The parsed records of a valid note, by needed string.
#[derive(Default)]
pub(super) struct NoteTable(FxHashMap<BString, Vec<Element>>);

#[derive(Clone)]
enum Element {
    Exact(BString),
    Hint(BString),
}

impl NoteTable {
    /// Parses a note. Returns `None` if any part of the descriptor is invalid. If a needed string
    /// has two records, the first counts.
    fn parse(descriptor: &[u8]) -> Option<Self> {
        let mut table = Self::default();
        for record in resolution_note::records(descriptor) {
            // A note that is half valid is not trusted: the plain search is always correct.
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
    /// Searches the stored answers of the requester. `in_rpath` is true for the call before the
    /// search along `DT_RPATH`, and false for the call before `DT_RUNPATH`. The answers of an object
    /// are used in one of the two calls only.
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
        // The answers replace a search of the object's own run path and so must come at its place:
        // before `LD_LIBRARY_PATH` for `DT_RPATH`, after it for `DT_RUNPATH`.
        if has_rpath != in_rpath {
            return Ok(Step::NotHere);
        }
        // A set-id program trusts only files in a store, which its user cannot write.
        let root = self.package_root(object);
        if self.environment.secure && (search.secure || root.is_none()) {
            return Ok(Step::NotHere);
        }
        // An object with a valid note does not use its package cache, even if the note lacks the
        // name.
        if let Some(note) = self.note_of(object) {
            let Some(list) = note.0.get(search.name) else { return Ok(Step::NotHere) };
            return self.try_list(search, object, list);
        }
        let reads_package_caches = !self.environment.reads.package_caches.is_empty();
        match root {
            Some(root) if reads_package_caches && (has_runpath || has_rpath) => {
                self.search_package_cache(search, object, root)
            }
            _ => Ok(Step::NotHere),
        }
    }

    /// Returns the note of an object, if it is valid. Each note is parsed once.
    fn note_of(&mut self, object: usize) -> Option<Rc<NoteTable>> {
        if !self.environment.reads.note {
            return None;
        }
        if self.maps[object].note.is_none() {
            let bytes = self.load.objects[object].view.notes.resolution.as_ref();
            let table = bytes.and_then(|bytes| NoteTable::parse(bytes));
            self.maps[object].note = Some(table.map(Rc::new));
        }
        self.maps[object].note.clone().flatten()
    }

    /// Tries the elements of a list in order. An errno that would end the walk along the run path
    /// ends the list as well.
    fn try_list(
        &mut self,
        search: &Search<'_>,
        object: usize,
        list: &[Element],
    ) -> Result<Step, Ended> {
        let mut cursor = self.run_path_cursor(object);
        for element in list {
            if !cursor.reaches(element) {
                break;
            }
            let step = match element {
                Element::Exact(path) if path.len() < PATH_MAX => {
                    self.open_stored_answer(search, object, path.as_ref(), SearchSource::Note)?
                }
                Element::Hint(dir) if dir.len() < PATH_MAX => {
                    // An absent directory leaves errno unchanged: it must not end the list.
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

    /// Opens the path of a stored answer.
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
            // An errno of 0 ends the list in `try_list`: a relative path is not a valid answer.
            _ => {
                self.errno = Errno(0);
                Ok(Step::NotHere)
            }
        }
    }

    /// Searches `etc/ld.so.cache` at the root of a package.
    fn search_package_cache(
        &mut self,
        search: &Search<'_>,
        object: usize,
        root: BString,
    ) -> Result<Step, Ended> {
        let Some(cache) = self.package_cache(search, root)? else { return Ok(Step::NotHere) };
        let Some(path) = cache.lookup(search.name, &self.cache_query) else {
            return Ok(Step::NotHere);
        };
        // The cache may have an answer that the plain search of this object would not give: one
        // that another object of the package needs.
        if !self.is_needed(search, object) && !self.is_searched_for(search, object, path)? {
            return Ok(Step::NotHere);
        }
        if self.is_nodeflib(object)
            && self.facts.system_dirs.iter().any(|dir| path.starts_with(dir))
        {
            return Ok(Step::NotHere);
        }
        match self.open_stored_answer(search, object, path, SearchSource::PackageCache)? {
            // The patch catches the exception, so that a bad answer cannot stop the program.
            Step::Refused(_) => Ok(Step::NotHere),
            step => Ok(step),
        }
    }

    /// Returns true if the name is a needed string of the object. The writer of the package cache
    /// has resolved those.
    fn is_needed(&self, search: &Search<'_>, object: usize) -> bool {
        self.load.objects[object].view.needed().any(|needed| needed == search.name)
    }

    /// Returns true if a search along the object's own run path would probe this path.
    fn is_searched_for(
        &mut self,
        search: &Search<'_>,
        object: usize,
        path: &BStr,
    ) -> Result<bool, Ended> {
        // An object with both entries has no `DT_RPATH` for the loader.
        let own = match self.has_runpath(object) {
            true => self.runpath_of(object)?,
            false => self.rpath_of(object)?,
        };
        let names = |dir: &usize| {
            path.strip_prefix(self.dirs.list[*dir].name.as_slice()) == Some(search.name.as_bytes())
        };
        Ok(!own.is_empty() && own.all().iter().any(names))
    }

    /// Returns the loader cache of a package. Each is read once; a missing one costs one failed
    /// open.
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
                    // An invalid cache costs an open, but is not read again.
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
            // A missing cache is remembered too, so that a package costs one failed open and not
            // one for each of its libraries.
            self.package_caches.insert(root.clone(), state);
        }
        Ok(match self.package_caches.get(&root) {
            Some(CacheState::Read(cache)) => Some(Rc::clone(cache)),
            _ => None,
        })
    }

    /// Returns the root of the package that contains an object, without resolving links.
    fn package_root(&self, object: usize) -> Option<BString> {
        // The loader has no path for a program that the kernel mapped, only its `l_origin`.
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

    /// Returns a cursor at the start of an object's run path.
    fn run_path_cursor(&self, object: usize) -> RunPathCursor {
        let dynamic = self.load.objects[object].view.dynamic.as_ref();
        let text = dynamic.and_then(Dynamic::run_path).filter(|text| !text.is_empty());
        let element = |element: &[u8]| {
            let expanded = dst::expand(element.into(), &self.tokens(object));
            let is_immutable = element.len() < PATH_MAX
                && expanded.is_some_and(|path| self.root_in_store(path.as_ref(), true).is_some());
            (path::without_end_slashes(element).into(), is_immutable)
        };
        let elements = text.into_iter().flat_map(|text| text.split_str(":")).map(element);
        RunPathCursor { elements: elements.collect(), searched: 0 }
    }
}

/// The position in an object's run path that a note's list has reached (`resolution_is_in_turn` of
/// `crates/lib/patches/glibc/common/0001/elf/dl-resolution-open.h`).
///
/// patchelf leaves each directory out of a list that lacks the library when it writes the note,
/// whether the directory is in a store or not. A library that is added to such a directory later
/// would not be found, so the note is not used. The fixture `prog-mutable` in the tests of nixpkgs'
/// `ldcache.patch` requires the same of nixpkgs' loader.
struct RunPathCursor {
    /// The elements of the run path. The flag is true if the element is in a package of a store.
    elements: Vec<(BString, bool)>,
    /// The elements before this one are in a store, or a hint has searched them.
    searched: usize,
}

impl RunPathCursor {
    /// Returns true if the plain search would reach the directory of this element without
    /// searching a mutable directory that the list leaves out.
    fn reaches(&mut self, element: &Element) -> bool {
        let rest = &self.elements[self.searched..];
        self.searched += rest.iter().take_while(|(_, is_immutable)| *is_immutable).count();
        let Some((mutable, _)) = self.elements.get(self.searched) else { return true };
        let directory = match element {
            Element::Hint(directory)
                if path::without_end_slashes(directory) == mutable.as_slice() =>
            {
                self.searched += 1;
                return true;
            }
            Element::Hint(directory) => path::without_end_slashes(directory),
            Element::Exact(path) => {
                path::without_end_slashes(&path[..path.rfind_byte(b'/').map_or(0, |at| at + 1)])
            }
        };
        self.elements[..self.searched].iter().any(|(known, _)| known == directory)
    }
}

/// Returns the store prefix of a path and one component below it. Returns `None` if the path is
/// outside the prefix, or if the rest of the path leaves the package.
fn root_below(path: &BStr, prefix: &BStr, is_directory: bool) -> Option<BString> {
    let prefix = prefix.trim_end_with(|c| c == '/');
    // A relative prefix would depend on the current directory, which the user of a set-id program
    // chooses.
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

/// Returns true if a `..` leaves the directory that a relative path starts in.
fn leaves(path: &[u8]) -> bool {
    let mut depth = 0_usize;
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            // A path such as `/store/pkg/../other` names a file that can change independently of
            // the package.
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}
