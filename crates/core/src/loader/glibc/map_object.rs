//! One needed string: `_dl_map_object` (2.36), `_dl_map_new_object` (2.43) of glibc's
//! `elf/dl-load.c`, in the order of that function.

use std::rc::Rc;
use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::dirs::PathList;
use super::open_path::{Found, Search, Step};
use super::verify;
use super::{CacheState, Ended, Named, Process, dirname};
use crate::elf::DF_1_NODEFLIB;
use crate::loader::GlibcVersion;
use crate::loader::load::{Answer, LoadedObject, Refusal, Role};
use crate::probe::{Call, Outcome, SearchSource};
use crate::search::dst;
use crate::search::loader_cache::LoaderCache;

/// How an object is asked for.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// Index of the resolution.
    pub(super) resolution: usize,
    /// `loader`: the object whose run paths are searched.
    pub(super) needed_by: usize,
    /// The role of what gets loaded.
    pub(super) role: Role,
    /// The list of link maps it goes into.
    pub(super) namespace: usize,
}

impl Process<'_> {
    /// Resolves `name` and loads what answers.
    pub(super) fn map_object(&mut self, name: &BStr, request: Request) -> Result<Answer, Ended> {
        if let Some(&named) = self.namespaces[request.namespace].names.get(name) {
            return Ok(match named {
                Named::Object(object) => Answer::AlreadyLoaded(object),
                Named::Vdso => Answer::Vdso,
            });
        }
        // Audit modules are asked first (`_dl_audit_objsearch` with `LA_SER_ORIG`).
        let needed_by = self.load.objects[request.needed_by].path.as_ref();
        let answered = match request.namespace {
            0 => self.environment.audit_answers.get(needed_by, name),
            _ => None,
        };
        let search = Search {
            resolution: request.resolution,
            name: answered.unwrap_or(name),
            secure: matches!(request.role, Role::Preload | Role::Audit),
        };
        let step = if search.name.contains(&b'/') {
            self.open_direct(&search, request.needed_by)?
        } else {
            self.search_sources(&search, request)?
        };
        Ok(match step {
            Step::Found(found) => self.map_from_fd(name, found, request),
            Step::NotHere => Answer::Missing,
            Step::Refused(refusal) => Answer::Refused(refusal),
        })
    }

    /// A string with a slash is a path; only its tokens are replaced.
    fn open_direct(&mut self, search: &Search<'_>, needed_by: usize) -> Result<Step, Ended> {
        match dst::expand(search.name, &self.tokens(needed_by)) {
            Some(path) => self.open_verify(search, path.as_ref(), 0, SearchSource::Direct),
            None => Ok(Step::NotHere),
        }
    }

    /// The search sources in order; the first that has the object wins.
    fn search_sources(&mut self, search: &Search<'_>, request: Request) -> Result<Step, Ended> {
        match self.search_stored_answers(search, request, true)? {
            Step::NotHere => {}
            end => return Ok(end),
        }
        const ORDER: [SearchSource; 6] = [
            SearchSource::Rpath,
            SearchSource::LibraryPath,
            SearchSource::Note,
            SearchSource::Runpath,
            SearchSource::LoaderCache,
            SearchSource::System,
        ];
        for source in ORDER {
            let step = match source {
                SearchSource::Rpath => self.search_rpaths(search, request)?,
                SearchSource::LibraryPath => self.search_library_path(search)?,
                SearchSource::Note | SearchSource::PackageCache => {
                    self.search_stored_answers(search, request, false)?
                }
                SearchSource::Runpath => self.search_runpath(search, request)?,
                SearchSource::LoaderCache => self.search_loader_cache(search, request)?,
                SearchSource::System | SearchSource::Direct => {
                    self.search_system_dirs(search, request)?
                }
            };
            match step {
                Step::NotHere => {}
                end => return Ok(end),
            }
        }
        Ok(Step::NotHere)
    }

    /// `DT_RPATH` of the asking object, of the one that loaded it and on up, then of the
    /// program; all of it only where the asking object has no `DT_RUNPATH`.
    fn search_rpaths(&mut self, search: &Search<'_>, request: Request) -> Result<Step, Ended> {
        if self.has_runpath(request.needed_by) {
            return Ok(Step::NotHere);
        }
        let mut did_program = false;
        let (mut below, mut next) = (None::<usize>, Some(request.needed_by));
        while let Some(object) = next {
            next = self.maps[object].rpath_above;
            let dirs = self.rpath_of(object)?;
            match self.open_path(search, &dirs, SearchSource::Rpath)? {
                Step::NotHere => did_program |= object == 0,
                end => return Ok(end),
            }
            match below {
                // Nothing is left to search here: the way up leads past it from now on.
                Some(below) if dirs.is_spent() => self.maps[below].rpath_above = next,
                _ => below = Some(object),
            }
        }
        if did_program {
            return Ok(Step::NotHere);
        }
        let dirs = self.rpath_of(0)?;
        match self.open_path(search, &dirs, SearchSource::Rpath)? {
            Step::NotHere => {}
            end => return Ok(end),
        }
        // An audit module itself is also looked for along the program's DT_RUNPATH.
        let is_audit_module = request.role == Role::Audit && request.needed_by == 1;
        if is_audit_module && self.version >= AUDIT_ALONG_RUNPATH {
            let dirs = self.runpath_of(0)?;
            return self.open_path(search, &dirs, SearchSource::Runpath);
        }
        Ok(Step::NotHere)
    }

    fn search_library_path(&mut self, search: &Search<'_>) -> Result<Step, Ended> {
        let dirs = Rc::clone(&self.library_path);
        self.open_path(search, &dirs, SearchSource::LibraryPath)
    }

    fn search_runpath(&mut self, search: &Search<'_>, request: Request) -> Result<Step, Ended> {
        let dirs = self.runpath_of(request.needed_by)?;
        self.open_path(search, &dirs, SearchSource::Runpath)
    }

    /// The answer of `ld.so.cache`, which is opened at the first question that gets here.
    fn search_loader_cache(
        &mut self,
        search: &Search<'_>,
        request: Request,
    ) -> Result<Step, Ended> {
        if search.secure && self.environment.secure {
            return Ok(Step::NotHere);
        }
        let Some(cache) = self.loader_cache(search)? else { return Ok(Step::NotHere) };
        let Some(path) = cache.lookup(search.name, &self.cache_query) else {
            return Ok(Step::NotHere);
        };
        if self.is_nodeflib(request.needed_by)
            && self.facts.system_dirs.iter().any(|dir| path.starts_with(dir))
        {
            return Ok(Step::NotHere);
        }
        self.open_verify(search, path, 0, SearchSource::LoaderCache)
    }

    fn search_system_dirs(&mut self, search: &Search<'_>, request: Request) -> Result<Step, Ended> {
        if self.is_nodeflib(request.needed_by) {
            return Ok(Step::NotHere);
        }
        let dirs = Rc::clone(&self.system_dirs);
        self.open_path(search, &dirs, SearchSource::System)
    }

    /// The first half of `_dl_load_cache_lookup`. Up to 2.43 the loader opens the cache once a start.
    /// From 2.44 on it calls `stat` on the cache in each lookup that reaches it
    /// (`_dl_check_ldsocache_needs_loading`), and opens it again until it is read.
    fn loader_cache(&mut self, search: &Search<'_>) -> Result<Option<Rc<LoaderCache>>, Ended> {
        let facts = self.facts;
        if self.version >= CACHE_IS_LOOKED_AT_EACH_TIME
            && let Some(path) = &facts.cache_path
        {
            let found = self.fs.stat(path.as_ref());
            let outcome = found.map_or_else(Outcome::from, |_| Outcome::Hit);
            let tried = (SearchSource::LoaderCache, Call::Stat, outcome);
            self.probe(search.resolution, tried, path, 0)?;
            if let Err(errno) = found {
                self.errno = errno;
                return Ok(None);
            }
            if let CacheState::Absent = self.cache {
                self.cache = CacheState::Unread;
            }
        }
        if let CacheState::Unread = self.cache {
            self.cache = CacheState::Absent;
            if let Some(path) = &facts.cache_path {
                match self.fs.read(path.as_ref()) {
                    Ok(bytes) => {
                        if let Some(cache) = LoaderCache::parse_for(bytes, &self.start.view.ident) {
                            self.cache = CacheState::Read(Rc::new(cache));
                        }
                    }
                    Err(errno) => {
                        self.errno = errno;
                        let tried = (SearchSource::LoaderCache, Call::Open, Outcome::from(errno));
                        self.probe(search.resolution, tried, path, 0)?;
                    }
                }
            }
        }
        Ok(match &self.cache {
            CacheState::Read(cache) => Some(Rc::clone(cache)),
            CacheState::Unread | CacheState::Absent => None,
        })
    }

    pub(super) fn is_nodeflib(&self, object: usize) -> bool {
        let dynamic = self.load.objects[object].view.dynamic.as_ref();
        dynamic.is_some_and(|dynamic| dynamic.flags_1 & DF_1_NODEFLIB != 0)
    }

    pub(super) fn has_runpath(&self, object: usize) -> bool {
        let dynamic = self.load.objects[object].view.dynamic.as_ref();
        dynamic.is_some_and(|dynamic| dynamic.runpath.is_some())
    }

    /// `cache_rpath` for `DT_RPATH`, which `DT_RUNPATH` switches off.
    pub(super) fn rpath_of(&mut self, object: usize) -> Result<PathList, Ended> {
        if let Some(dirs) = &self.maps[object].rpath {
            return Ok(Rc::clone(dirs));
        }
        let dynamic = self.load.objects[object].view.dynamic.as_ref();
        let rpath = dynamic.filter(|d| d.runpath.is_none()).and_then(|d| d.rpath.clone());
        let dirs = self.decompose(object, rpath)?;
        self.maps[object].rpath = Some(Rc::clone(&dirs));
        Ok(dirs)
    }

    /// `cache_rpath` for `DT_RUNPATH`.
    pub(super) fn runpath_of(&mut self, object: usize) -> Result<PathList, Ended> {
        if let Some(dirs) = &self.maps[object].runpath {
            return Ok(Rc::clone(dirs));
        }
        let dynamic = self.load.objects[object].view.dynamic.as_ref();
        let runpath = dynamic.and_then(|d| d.runpath.clone());
        let dirs = self.decompose(object, runpath)?;
        self.maps[object].runpath = Some(Rc::clone(&dirs));
        Ok(dirs)
    }

    /// `decompose_rpath`: an empty run path is none.
    fn decompose(&mut self, object: usize, path: Option<BString>) -> Result<PathList, Ended> {
        match path {
            Some(path) if !path.is_empty() => {
                self.fill_in(object, path.as_ref(), |byte| byte == b':')
            }
            _ => Ok(PathList::default()),
        }
    }

    /// `_dl_map_object_from_fd`: the same file under another name, or a new object.
    fn map_from_fd(&mut self, name: &BStr, found: Found, request: Request) -> Answer {
        let Found { file, path, source } = found;
        if let Some(&object) = self.namespaces[request.namespace].files.get(&file.id) {
            self.add_name(request.namespace, object, name);
            return Answer::SameFile(object, source);
        }
        if request.namespace != 0 && self.is_the_loader(name) {
            self.add_name(request.namespace, 1, name);
            return Answer::SameFile(1, source);
        }
        let view = match &file.object {
            Ok(view) => Arc::clone(view),
            Err(_) => return Answer::Refused(Refusal::Malformed),
        };
        if let Err(refusal) = verify::map_from_fd(&view) {
            return Answer::Refused(refusal);
        }
        let origin = self.origin_of(&path);
        let object = LoadedObject {
            path,
            id: file.id,
            view,
            role: request.role,
            loaded_by: Some(request.needed_by),
            namespace: request.namespace,
        };
        let index = self.add_object(object, origin);
        self.add_name(request.namespace, index, name);
        self.namespaces[request.namespace].files.insert(file.id, index);
        Answer::Loaded(index, source)
    }

    /// There is one loader in a process: in another list its name finds the first one's.
    fn is_the_loader(&self, name: &BStr) -> bool {
        matches!(self.namespaces[0].names.get(name), Some(Named::Object(1)))
    }

    /// `l_origin` of a library: the directory of the path it was found under, links not
    /// resolved; a relative path starts at the current directory.
    fn origin_of(&self, path: &BString) -> BString {
        if path.first() == Some(&b'/') {
            return dirname(path);
        }
        let mut absolute = self.fs.current_dir();
        if absolute.last() != Some(&b'/') {
            absolute.push(b'/');
        }
        absolute.extend_from_slice(path.as_bytes());
        dirname(&absolute)
    }

    /// Fills in a search path on behalf of an object.
    pub(super) fn fill_in(
        &mut self,
        object: usize,
        path: &BStr,
        is_separator: impl Fn(u8) -> bool,
    ) -> Result<PathList, Ended> {
        // The tokens borrow the object's origin while the directories are extended.
        let mut dirs = std::mem::take(&mut self.dirs);
        let list = dirs.fill_in(path, is_separator, &self.tokens(object));
        self.dirs = dirs;
        list.ok_or_else(|| self.too_much())
    }
}

/// The release from which audit modules are also looked for along the program's
/// `DT_RUNPATH`.
const AUDIT_ALONG_RUNPATH: GlibcVersion = GlibcVersion { major: 2, minor: 32 };

/// The release from which a changed loader cache is noticed between two lookups.
const CACHE_IS_LOOKED_AT_EACH_TIME: GlibcVersion = GlibcVersion { major: 2, minor: 44 };
