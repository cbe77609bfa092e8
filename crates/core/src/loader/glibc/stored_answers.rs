//! The search in stored answers, which a patched loader makes before the search along an object's
//! own run path: in the object's resolution note, or else in the loader cache of its package
//! ([`Environment::reads`]).
//!
//! No released glibc reads them. becalm's patches (`patches/glibc`) read complete notes,
//! and the caches. If an answer is wrong in any way, the plain search follows.
//!
//! [`Environment::reads`]: crate::facts::Environment

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::Process;
use super::open_path::Request;
use crate::elf::resolution_note::{Answer, of_complete};
use crate::elf::{Dynamic, ObjectView};
use crate::fs::Errno;
use crate::loader::load::{Ended, Found, Role};
use crate::path;
use crate::probe::SearchSource;
use crate::search::{Stores, dst};

impl Process<'_> {
    /// Searches the stored answers of the requester.
    pub(super) fn search_stored_answers(
        &mut self,
        request: Request<'_>,
    ) -> Result<Option<Found>, Ended> {
        let reads = &self.environment.reads;
        if !reads.note && reads.package_caches.is_empty() {
            return Ok(None);
        }
        // An object with a complete note does not use its package cache, even if the note lacks the
        // name or is ignored.
        let view = Arc::clone(&self.load.objects[request.needed_by].view);
        let note = view.notes.resolution.as_ref().filter(|_| reads.note);
        // `resolution_lookup` takes a note with an empty list for invalid.
        let list = note
            .and_then(|note| of_complete(note, request.name, |record| !record.answers.is_empty()));
        if let Some(list) = list {
            // A set-id program ignores its note.
            let list = if self.environment.secure { Vec::new() } else { list };
            return self.try_list(request, &view, list);
        }
        // A set-id program trusts only caches in a store, which its user cannot write.
        match self.package_root(request.needed_by) {
            Some(root) if !(self.environment.secure && request.is_secure()) => {
                self.search_package_cache(request, root)
            }
            _ => Ok(None),
        }
    }

    /// `resolution_try`: tries the elements of a list in order. The list ends at a directory that is
    /// not in the run path, at a file with another name, and at an errno that would end the walk
    /// along the run path.
    fn try_list(
        &mut self,
        request: Request<'_>,
        view: &ObjectView,
        list: Vec<Answer<'_>>,
    ) -> Result<Option<Found>, Ended> {
        let object = request.needed_by;
        let run_path = view.dynamic.as_ref().and_then(Dynamic::run_path);
        let run_path: &[u8] = run_path.map_or(b"", |path| path.as_slice());
        for answer in list {
            if !answer.dir(request.name).is_some_and(|dir| has_directory(run_path, dir)) {
                break;
            }
            // An absent directory leaves errno unchanged: it must not end the list.
            self.errno = Errno::NOENT;
            let found = match answer {
                Answer::Exact(path) => match dst::expand(path, &self.tokens(object)) {
                    Some(path) => self.open_verify(request, path.as_ref(), 0, SearchSource::Note),
                    None => Ok(None),
                },
                Answer::Hint(dir) => {
                    let dirs = self.fill_in(object, dir, |_| false)?;
                    self.open_path(request, &dirs, SearchSource::Note)
                }
            };
            match found {
                Ok(None) if matches!(self.errno, Errno::NOENT | Errno::ACCES) => {}
                // The patch catches the exception, so that a bad answer cannot stop the program.
                Ok(None) | Err(Ended::Lookup(_)) => break,
                found => return found,
            }
        }
        Ok(None)
    }

    /// Searches `etc/ld.so.cache` at the root of a package.
    fn search_package_cache(
        &mut self,
        request: Request<'_>,
        root: BString,
    ) -> Result<Option<Found>, Ended> {
        let object = request.needed_by;
        let file: BString = [root.as_slice(), b"/etc/ld.so.cache"].concat().into();
        // A missing cache costs one failed open for the package, and not one for each of its libraries.
        let cache = self.cache_at(&file, request, SearchSource::PackageCache)?;
        let Some(cache) = cache else { return Ok(None) };
        let Some(path) = self.cached(&cache, request) else { return Ok(None) };
        // The cache may have an answer that the plain search of this object would not give: one
        // that another object of the package needs. Its writer has resolved the needed strings of
        // this one.
        let is_needed = self.load.objects[object].view.needed().any(|it| it == request.name);
        if !is_needed && !self.is_searched_for(request, path)? {
            return Ok(None);
        }
        let expanded = dst::expand(path, &self.tokens(object));
        let Some(path) = expanded.filter(|path| path.starts_with(b"/")) else { return Ok(None) };
        match self.open_verify(request, path.as_ref(), 0, SearchSource::PackageCache) {
            // The patch catches the exception, so that a bad answer cannot stop the program.
            Err(Ended::Lookup(_)) => Ok(None),
            found => found,
        }
    }

    /// Returns true if a search along the requester's own run path would probe this path.
    fn is_searched_for(&mut self, request: Request<'_>, path: &BStr) -> Result<bool, Ended> {
        let own = self.run_path_of(request.needed_by)?;
        let dir = path.strip_suffix(request.name.as_bytes());
        let is_dir = |&it: &usize| dir == Some(self.dirs.list[it].name.as_slice());
        Ok(!own.tried.borrow().is_empty() && own.dirs.iter().any(is_dir))
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
        // Relative prefixes are left out: they would depend on the current directory, which the user of a
        // set-id program chooses.
        let stores = Stores::of(&self.environment.reads.package_caches);
        let root = stores.package_of(path)?;
        let inside = &path[root.len()..];
        // The rest of the path must not leave the package.
        let is_outside = matches!(path::name(root).as_bytes(), b"." | b"..") || leaves(inside);
        let is_file = inside.is_empty() && !is_program;
        (!is_outside && !is_file).then(|| root.to_owned())
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

/// Returns true if a `..` leaves the directory that a relative path starts in.
fn leaves(path: &[u8]) -> bool {
    let mut depth = 0_isize;
    path.split_str("/").any(|name| {
        depth += match name {
            b"" | b"." => 0,
            b".." => -1,
            _ => 1,
        };
        // A path such as `/store/pkg/../other` names a file that can change independently of the
        // package.
        depth < 0
    })
}
