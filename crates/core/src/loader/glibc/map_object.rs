//! The lookup of one needed string, in the order of `_dl_map_object` in glibc's `elf/dl-load.c`
//! (2.36; in 2.43 `_dl_map_new_object` has the search).

use std::rc::Rc;
use std::sync::Arc;

use bstr::{BStr, BString};

use super::Process;
use super::dirs::PathList;
use super::open_path::Request;
use super::run_path::RunPath;
use super::verify;
use crate::loader::GlibcVersion;
use crate::loader::load::{Answer, Ended, Found, LoadedObject, Refusal, Role, Stop};
use crate::path;
use crate::probe::{Call, Outcome, SearchSource};
use crate::search::dst;
use crate::search::loader_cache::LoaderCache;
use crate::search::order::{Requester, Source};

impl Process<'_> {
    /// `_dl_map_object`: finds the object for a name, and loads it if it is new.
    pub(super) fn map_object(&mut self, request: Request<'_>) -> Result<Answer, Ended> {
        // `_dl_name_match_p` and the sonames: a name that a loaded object has costs no search.
        if let Some(answer) = self.namespaces[request.namespace].names.get(request.name) {
            return Ok(answer.clone());
        }
        // `_dl_audit_objsearch` with LA_SER_ORIG: an audit module may replace the name. becalm's
        // module does so in the program's namespace only.
        let needed_by = self.load.objects[request.needed_by].path.as_ref();
        let answered = match request.namespace {
            0 => self.environment.audit_answers.get(needed_by, request.name),
            _ => None,
        };
        match self.find(Request { name: answered.unwrap_or(request.name), ..request }) {
            Ok(Some(found)) => Ok(self.map_from_fd(found, request)),
            // `_dl_map_object` raises an error here, or adds a faked object in trace mode
            // (`l_faked`). The model continues as in trace mode, so that one run finds every
            // missing library.
            Ok(None) => Ok(Answer::Missing),
            Err(Ended::Lookup(answer)) => Ok(answer),
            Err(stop) => Err(stop),
        }
    }

    /// The search of `_dl_map_object`, for a name that no loaded object has. Returns `None` if `fd`
    /// is -1 at its end.
    pub(super) fn find(&mut self, request: Request<'_>) -> Result<Option<Found>, Ended> {
        // `strchr (name, '/')`: a name with a slash is a path and is not searched for.
        if request.name.contains(&b'/') {
            return match dst::expand(request.name, &self.tokens(request.needed_by)) {
                Some(path) => self.open_verify(request, path.as_ref(), 0, SearchSource::Direct),
                None => Ok(None),
            };
        }
        if let Some(found) = self.found_before(request) {
            return Ok(Some(found));
        }
        let found = self.search_sources(request)?;
        if let Some(found) = &found {
            self.keep(request, found);
        }
        Ok(found)
    }

    /// Searches for a name without a slash.
    fn search_sources(&mut self, request: Request<'_>) -> Result<Option<Found>, Ended> {
        let requester = self.requester(request.needed_by);
        for source in requester.sources(request.is_secure() && self.environment.secure) {
            let found = match source {
                Source::StoredAnswers => self.search_stored_answers(request)?,
                Source::Rpath => self.search_rpaths(request)?,
                Source::LibraryPath => {
                    let dirs = Rc::clone(&self.library_path);
                    self.open_path(request, &dirs, SearchSource::LibraryPath)?
                }
                Source::Runpath => {
                    let dirs = self.cache_rpath(request.needed_by, SearchSource::Runpath)?;
                    self.open_path(request, &dirs, SearchSource::Runpath)?
                }
                Source::LoaderCache => self.search_loader_cache(request)?,
                Source::SystemDirs => {
                    let dirs = Rc::clone(&self.system_dirs);
                    self.open_path(request, &dirs, SearchSource::System)?
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Searches the `DT_RPATH` of the requester, of the objects that loaded it, and of the program.
    fn search_rpaths(&mut self, request: Request<'_>) -> Result<Option<Found>, Ended> {
        let mut did_program = false;
        let mut next = Some(request.needed_by);
        // `for (l = loader; l; l = l->l_loader)`.
        while let Some(object) = next {
            // The requester itself is the first object of the chain: its own `DT_RPATH` wins over
            // an inherited one.
            next = self.maps[object].rpath_above;
            let dirs = self.cache_rpath(object, SearchSource::Rpath)?;
            if let Some(found) = self.open_path(request, &dirs, SearchSource::Rpath)? {
                return Ok(Some(found));
            }
            // glibc sets `did_main_map` only if the program has a `DT_RPATH`. Without one the
            // second search of the program has no directories, so the result is the same.
            did_program |= object == 0;
        }
        // `did_main_map`: the chain has searched the program's DT_RPATH already.
        if did_program {
            return Ok(None);
        }
        // The chain of an audit module ends at the loader, yet the program's DT_RPATH counts in
        // every namespace.
        let dirs = self.cache_rpath(0, SearchSource::Rpath)?;
        let found = self.open_path(request, &dirs, SearchSource::Rpath)?;

        // `mode & __RTLD_AUDIT`: for the module itself, the DT_RUNPATH of the program as well.
        let is_audit_module = request.role == Role::Audit && request.needed_by == 1;
        if found.is_none() && is_audit_module && self.version >= AUDIT_ALONG_RUNPATH {
            let dirs = self.cache_rpath(0, SearchSource::Runpath)?;
            return self.open_path(request, &dirs, SearchSource::Runpath);
        }
        Ok(found)
    }

    /// Opens the answer of `ld.so.cache`, which is read at the first lookup in it.
    fn search_loader_cache(&mut self, request: Request<'_>) -> Result<Option<Found>, Ended> {
        let Some(cache) = self.loader_cache(request)? else { return Ok(None) };
        match self.cached(&cache, request) {
            // A stale cache is not fatal: if the file is gone, `fd` stays -1 and the system
            // directories follow.
            Some(path) => self.open_verify(request, path, 0, SearchSource::LoaderCache),
            None => Ok(None),
        }
    }

    /// Returns the answer of a cache, unless `DF_1_NODEFLIB` of the requester rules it out.
    pub(super) fn cached<'c>(
        &self,
        cache: &'c LoaderCache,
        request: Request<'_>,
    ) -> Option<&'c BStr> {
        let no_default_dirs = self.requester(request.needed_by).no_default_dirs;
        let path = cache.lookup(request.name, &self.cache_query);
        path.filter(|path| !no_default_dirs || !self.facts.is_in_system_dirs(path))
    }

    /// Reads the loader cache, as the first half of `_dl_load_cache_lookup` does. Up to 2.43 the
    /// loader opens the cache once in a start. Since 2.44 it calls `stat` on the cache in each lookup
    /// that reaches it (`_dl_check_ldsocache_needs_loading`), and opens it again until it is read.
    fn loader_cache(&mut self, request: Request<'_>) -> Result<Option<Rc<LoaderCache>>, Ended> {
        let facts = self.facts;
        let Some(path) = &facts.cache_path else { return Ok(None) };
        // `_dl_check_ldsocache_needs_loading`.
        if self.version >= STATS_CACHE_EACH_TIME {
            let found = self.fs.stat(path.as_ref());
            let outcome = found.map_or_else(Outcome::from, |_| Outcome::Hit);
            let tried = (SearchSource::LoaderCache, Call::Stat, outcome);
            self.probe(request.resolution, tried, path, 0)?;
            if let Err(errno) = found {
                self.errno = errno;
                return Ok(None);
            }
            // A cache that was missing or invalid is opened again.
            self.caches.retain(|(source, _), cache| {
                *source != SearchSource::LoaderCache || cache.is_some()
            });
        }
        self.cache_at(path, request, SearchSource::LoaderCache)
    }

    /// Returns the loader cache at a path. Each is read once in a start, and one that is missing or
    /// invalid is remembered too (`cache = (void *) -1`). The open of one that exists is not counted as a
    /// probe.
    pub(super) fn cache_at(
        &mut self,
        path: &BString,
        request: Request<'_>,
        source: SearchSource,
    ) -> Result<Option<Rc<LoaderCache>>, Ended> {
        let key = (source, path.clone());
        if let Some(known) = self.caches.get(&key) {
            return Ok(known.clone());
        }
        let cache = match self.fs.read(path.as_ref()) {
            Ok(bytes) => {
                let is_of_package = source == SearchSource::PackageCache;
                self.load.package_caches.extend(is_of_package.then(|| path.clone()));
                LoaderCache::parse_for(bytes, &self.start.subject.view.ident).map(Rc::new)
            }
            Err(errno) => {
                self.errno = errno;
                let tried = (source, Call::Open, Outcome::from(errno));
                self.probe(request.resolution, tried, path, 0)?;
                None
            }
        };
        self.caches.insert(key, cache.clone());
        Ok(cache)
    }

    pub(super) fn requester(&self, object: usize) -> Requester {
        Requester::of(&self.load.objects[object].view)
    }

    /// `cache_rpath` for `DT_RPATH` or `DT_RUNPATH`.
    fn cache_rpath(&mut self, object: usize, tag: SearchSource) -> Result<PathList, Ended> {
        let Requester { has_rpath, has_runpath, .. } = self.requester(object);
        let has_tag = if tag == SearchSource::Rpath { has_rpath } else { has_runpath };
        if has_tag { self.run_path_of(object) } else { Ok(PathList::default()) }
    }

    /// `decompose_rpath`: splits the run path that counts. An empty one is ignored.
    pub(super) fn run_path_of(&mut self, object: usize) -> Result<PathList, Ended> {
        // The DSTs of an object have the same values in every lookup, so one expansion is enough.
        if let Some(dirs) = &self.maps[object].run_path {
            return Ok(Rc::clone(dirs));
        }
        let view = Arc::clone(&self.load.objects[object].view);
        let dirs = match RunPath::of(&view) {
            Some(path) => self.fill_in(object, path.value, |byte| byte == b':')?,
            None => PathList::default(),
        };
        self.maps[object].run_path = Some(Rc::clone(&dirs));
        Ok(dirs)
    }

    /// `_dl_map_object_from_fd`: finds the loaded object of a file, or adds a new one.
    fn map_from_fd(&mut self, found: Found, request: Request<'_>) -> Answer {
        let Found { file, path, source } = found;
        let Request { name, needed_by, role, namespace, .. } = request;
        // `_dl_file_id_match_p`: a link to a loaded file is another name for that object.
        let known = self.namespaces[namespace].files.get(&file.id).copied();
        // `_dl_name_match_p` with `GL(dl_rtld_map)`: a process has one loader, so another namespace
        // gets a link map that refers to it.
        let is_loader = || self.namespaces[0].names.get(name) == Some(&Answer::AlreadyLoaded(1));
        if let Some(object) = known.or_else(|| (namespace != 0 && is_loader()).then_some(1)) {
            // `add_name_to_object`: the next lookup of this name costs no search.
            self.add_name(namespace, object, name);
            return Answer::SameFile(object, source);
        }
        let Ok(view) = file.object.clone() else { return Answer::Refused(Refusal::MALFORMED) };
        if let Err(refusal) = verify::map_from_fd(&view) {
            return Answer::Refused(refusal);
        }
        // `_dl_map_object_from_fd` makes the stack executable only if the tunable allows it.
        if self.facts.no_exec_stack && view.needs_exec_stack() {
            return Answer::Refused(Refusal::EXEC_STACK);
        }
        // The path is the one that the search made. For a library behind a link, `$ORIGIN` is the
        // directory of the link.
        let origin = self.origin_of(&path);
        let loaded_by = Some(needed_by);
        let object = LoadedObject { path, id: file.id, view, role, loaded_by, namespace };
        let index = self.add_object(object, origin);
        self.add_name(namespace, index, name);
        self.namespaces[namespace].files.insert(file.id, index);
        Answer::Loaded(index, source)
    }

    /// Returns the `l_origin` of a library: the directory of the path that the search found,
    /// links not resolved. `_dl_new_object` puts the current directory before a relative path.
    pub(super) fn origin_of(&self, path: &BString) -> BString {
        // A relative directory in a run path or in `LD_LIBRARY_PATH` makes a relative path.
        path::dir(&self.fs.absolute(path.as_ref())).to_owned()
    }

    /// `fillin_rpath` with the DSTs of an object.
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
        list.ok_or(Ended::Start(Stop::TooManyProbes))
    }
}

/// The first release that searches the program's `DT_RUNPATH` for audit modules.
const AUDIT_ALONG_RUNPATH: GlibcVersion = GlibcVersion { major: 2, minor: 32 };

/// The first release that detects a change of the loader cache between two lookups.
const STATS_CACHE_EACH_TIME: GlibcVersion = GlibcVersion { major: 2, minor: 44 };
