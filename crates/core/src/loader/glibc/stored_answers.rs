//! The search in stored answers, which a patched loader makes before the search along an object's
//! own run path: in the object's resolution note, or else in the loader cache of its package
//! ([`Environment::reads`]).
//!
//! No released glibc reads them. becalm's patches (`patches/glibc`) read complete notes,
//! and the caches. If an answer is wrong in any way, the plain search follows.
//!
//! [`Environment::reads`]: crate::facts::Environment

use std::rc::Rc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use super::map_object::Request;
use super::open_path::{Search, Step};
use super::{Ended, Process};
use crate::elf::Dynamic;
use crate::elf::resolution_note::{self, Answer, COMPLETE};
use crate::fs::Errno;
use crate::loader::load::Role;
use crate::path;
use crate::probe::{Call, Outcome, SearchSource};
use crate::search::dst;
use crate::search::loader_cache::LoaderCache;

/// The parsed records of a complete and valid note, by needed string.
#[derive(Default)]
pub(super) struct NoteTable(FxHashMap<BString, Vec<Element>>);

#[derive(Clone)]
enum Element {
    Exact(BString),
    Hint(BString),
}

impl NoteTable {
    /// `resolution_lookup`: parses a note. Returns `None` if it has no mark, or if any part of the
    /// descriptor is invalid. If a needed string has two records, the first counts.
    fn parse(descriptor: &[u8]) -> Option<Self> {
        if !descriptor.starts_with(COMPLETE) {
            return None;
        }
        let mut table = Self::default();
        for record in resolution_note::records(descriptor) {
            // A note that is half valid is not trusted: the plain search is always correct.
            let record = record.ok().filter(|record| !record.answers.is_empty())?;
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
    /// Searches the stored answers of the requester.
    pub(super) fn search_stored_answers(
        &mut self,
        search: &Search<'_>,
        request: Request,
    ) -> Result<Step, Ended> {
        let reads = &self.environment.reads;
        if !reads.note && reads.package_caches.is_empty() {
            return Ok(Step::NotHere);
        }
        let object = request.needed_by;
        // An object with a complete note does not use its package cache, even if the note lacks the
        // name or is ignored.
        if let Some(note) = self.note_of(object) {
            return match note.0.get(search.name) {
                Some(list) if !self.environment.secure => self.try_list(search, object, list),
                _ => Ok(Step::NotHere),
            };
        }
        // A set-id program trusts only caches in a store, which its user cannot write.
        match self.package_root(object) {
            Some(root) if !(self.environment.secure && search.secure) => {
                self.search_package_cache(search, object, root)
            }
            _ => Ok(Step::NotHere),
        }
    }

    /// Returns the note of an object, if it is complete and valid. Each note is parsed once.
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

    /// `resolution_try`: tries the elements of a list in order. The list ends at a directory that is
    /// not in the run path, at a file with another name, and at an errno that would end the walk
    /// along the run path.
    fn try_list(
        &mut self,
        search: &Search<'_>,
        object: usize,
        list: &[Element],
    ) -> Result<Step, Ended> {
        let dynamic = self.load.objects[object].view.dynamic.as_ref();
        let run_path = dynamic.and_then(Dynamic::run_path).map(ToOwned::to_owned);
        let run_path = run_path.unwrap_or_default();
        for element in list {
            let dir = match element {
                Element::Hint(dir) => dir.as_bytes(),
                Element::Exact(file) => match file.strip_suffix(search.name.as_bytes()) {
                    Some(dir) if dir.ends_with(b"/") => dir,
                    _ => break,
                },
            };
            if !has_directory(&run_path, dir) {
                break;
            }
            // An absent directory leaves errno unchanged: it must not end the list.
            self.errno = Errno::NOENT;
            let step = match element {
                Element::Exact(path) => match dst::expand(path.as_ref(), &self.tokens(object)) {
                    Some(path) => self.open_verify(search, path.as_ref(), 0, SearchSource::Note)?,
                    None => Step::NotHere,
                },
                Element::Hint(dir) => {
                    let dirs = self.fill_in(object, dir.as_ref(), |_| false)?;
                    self.open_path(search, &dirs, SearchSource::Note)?
                }
            };
            match step {
                Step::Found(_) => return Ok(step),
                Step::NotHere if matches!(self.errno, Errno::NOENT | Errno::ACCES) => {}
                // The patch catches the exception, so that a bad answer cannot stop the program.
                Step::NotHere | Step::Refused(_) => break,
            }
        }
        Ok(Step::NotHere)
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
        if self.requester(object).no_default_dirs && self.facts.is_in_system_dirs(path) {
            return Ok(Step::NotHere);
        }
        let expanded = dst::expand(path, &self.tokens(object));
        let Some(path) = expanded.filter(|path| path.starts_with(b"/")) else {
            return Ok(Step::NotHere);
        };
        match self.open_verify(search, path.as_ref(), 0, SearchSource::PackageCache)? {
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
        let own = self.run_path_of(object)?;
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
            let cache = match self.fs.read(file.as_ref()) {
                Ok(bytes) => {
                    self.load.package_caches.push(file);
                    // An invalid cache costs an open, but is not read again.
                    self.parsed_cache(bytes)
                }
                Err(errno) => {
                    let tried = (SearchSource::PackageCache, Call::Open, Outcome::from(errno));
                    self.probe(search.resolution, tried, &file, 0)?;
                    None
                }
            };
            // A missing cache is remembered too, so that a package costs one failed open and not
            // one for each of its libraries.
            self.package_caches.insert(root.clone(), cache);
        }
        Ok(self.package_caches.get(&root).cloned().flatten())
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
        let stores = &self.environment.reads.package_caches;
        stores.iter().find_map(|prefix| root_below(path, prefix.as_ref(), is_program))
    }
}

/// `resolution_has`: returns true if the run path has this directory. Slashes at its end and one at
/// the end of an element do not count.
fn has_directory(run_path: &[u8], dir: &[u8]) -> bool {
    let is_dir = |element: &[u8]| {
        let without_slash = element.strip_suffix(b"/").filter(|rest| !rest.is_empty());
        without_slash.unwrap_or(element) == path::without_end_slashes(dir)
    };
    run_path.split_str(":").any(is_dir)
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
