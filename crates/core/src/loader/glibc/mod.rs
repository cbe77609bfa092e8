//! The glibc model: what `ld.so` of glibc 2.31 to 2.44 tries and loads.
//!
//! The order of a start (`elf/rtld.c`, `dl_main`): audit modules, preloads, then the
//! needed strings breadth first ([`deps`]). Each needed string is resolved by
//! [`map_object`], which tries the search sources in order; each source's directories
//! are walked by [`open_path`], whose directories [`dirs`] keeps for the whole process;
//! a file that opens is judged by [`verify`].

mod deps;
pub(crate) mod dirs;
mod map_object;
mod open_path;
pub(crate) mod run_path;
mod startup;
mod stored_answers;
#[cfg(test)]
mod tests;
pub(crate) mod verify;

pub use verify::{Fitness, fitness};

use std::rc::Rc;
use std::sync::Arc;

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use self::dirs::{Dirs, PathList};
use super::load::{Answer, Load, LoadedObject, Reason, Resolution, Role, Start, Stop};
use super::{Environment, GlibcVersion, LoaderFacts};
use crate::fs::{Errno, FileId, FileSystem};
use crate::probe::{Call, Outcome, SearchSource};
use crate::search::dst::{Secure, Tokens};
use crate::search::loader_cache::{CacheQuery, LoaderCache};

/// Follows one start of a program under glibc release `version`.
#[must_use]
pub fn load(
    fs: &dyn FileSystem,
    start: &Start,
    version: GlibcVersion,
    facts: &LoaderFacts,
    environment: &Environment,
) -> Load {
    let mut process = Process::new(fs, start, version, facts, environment);
    if let Err(Ended) = process.start() {
        debug_assert!(process.load.stop.is_some());
    }
    process.load
}

/// The start is over: [`Load::stop`] says why.
struct Ended;

/// The state that the loader keeps for one process.
struct Process<'a> {
    fs: &'a dyn FileSystem,
    start: &'a Start,
    version: GlibcVersion,
    facts: &'a LoaderFacts,
    environment: &'a Environment,
    load: Load,
    /// The search side of `load.objects`, index for index.
    maps: Vec<LinkMap>,
    namespaces: Vec<Namespace>,
    dirs: Dirs,
    /// `__rtld_env_path_list`: `LD_LIBRARY_PATH`.
    library_path: PathList,
    /// `__rtld_search_dirs`: the compiled-in directories.
    system_dirs: PathList,
    cache: CacheState,
    /// The loader caches of packages, by package root.
    package_caches: FxHashMap<BString, CacheState>,
    /// What this process takes from the cache.
    cache_query: CacheQuery,
    /// The variable `errno`, which survives successful calls and decides in
    /// `open_path` whether a search goes on.
    errno: Errno,
    /// Room for the path that is being tried, kept from one to the next.
    candidate: BString,
}

/// What a `struct link_map` holds for the search.
#[derive(Default)]
struct LinkMap {
    /// `l_rpath_dirs`.
    rpath: Option<PathList>,
    /// `l_runpath_dirs`.
    runpath: Option<PathList>,
    /// The object whose `DT_RPATH` is searched after this one's: `l_loader`, or one
    /// further up where those between have nothing to search.
    rpath_above: Option<usize>,
    /// `l_origin`.
    origin: BString,
    /// The resolution note, once looked at; `None` inside where there is none to believe.
    note: Option<Option<Rc<stored_answers::NoteTable>>>,
}

/// One list of link maps, with the names and files that answer in it.
#[derive(Default)]
struct Namespace {
    names: FxHashMap<BString, Named>,
    files: FxHashMap<FileId, usize>,
}

#[derive(Clone, Copy)]
enum Named {
    Object(usize),
    Vdso,
}

/// `/etc/ld.so.cache`, mapped at the first lookup.
enum CacheState {
    Unread,
    Absent,
    Read(Rc<LoaderCache>),
}

/// Sonames of the vDSO (`linux-vdso.so.1` and its kin, `vdso(7)`).
const VDSO_NAMES: [&str; 4] =
    ["linux-vdso.so.1", "linux-gate.so.1", "linux-vdso32.so.1", "linux-vdso64.so.1"];

impl<'a> Process<'a> {
    fn new(
        fs: &'a dyn FileSystem,
        start: &'a Start,
        version: GlibcVersion,
        facts: &'a LoaderFacts,
        environment: &'a Environment,
    ) -> Self {
        let mut dirs = Dirs::new(facts);
        let system_dirs = dirs.system(&facts.system_dirs);
        let mut process = Self {
            fs,
            start,
            version,
            facts,
            environment,
            load: Load::default(),
            maps: Vec::new(),
            namespaces: vec![Namespace::default()],
            dirs,
            library_path: PathList::default(),
            system_dirs,
            cache: CacheState::Unread,
            package_caches: FxHashMap::default(),
            cache_query: CacheQuery::new(&start.view.ident, facts),
            errno: Errno(0),
            candidate: BString::default(),
        };
        process.add_program_and_loader();
        process
    }

    /// `_dl_new_object` for the program and `rtld_setup_main_map` for the loader. Neither
    /// has an `l_file_id`, so neither is ever recognised by its inode.
    fn add_program_and_loader(&mut self) {
        let start = self.start;
        let program = LoadedObject {
            path: start.path.clone(),
            id: start.file.id,
            view: Arc::clone(&start.view),
            role: Role::Program,
            loaded_by: None,
            namespace: 0,
        };
        self.add_object(program, start.origin.clone());
        // The program's l_name and its only libname are the empty string.
        self.add_name(0, 0, BStr::new(""));
        let loader = LoadedObject {
            path: start.interpreter.clone(),
            id: FileId { dev: 0, ino: 0 },
            view: Arc::clone(&start.loader),
            role: Role::Loader,
            loaded_by: None,
            namespace: 0,
        };
        for name in VDSO_NAMES {
            self.namespaces[0].names.insert(name.into(), Named::Vdso);
        }
        self.add_object(loader, dirname(&start.interpreter));
        self.add_name(0, 1, start.interpreter.as_ref());
    }

    /// Enters an object in the load set, with its path and soname as names.
    fn add_object(&mut self, object: LoadedObject, origin: BString) -> usize {
        let index = self.load.objects.len();
        let namespace = object.namespace;
        if object.role != Role::Program {
            let path = object.path.clone();
            self.add_name(namespace, index, path.as_ref());
        }
        if let Some(soname) = object.view.dynamic.as_ref().and_then(|d| d.soname.clone()) {
            self.add_name(namespace, index, soname.as_ref());
        }
        let rpath_above = object.loaded_by;
        self.load.objects.push(object);
        self.maps.push(LinkMap { origin, rpath_above, ..LinkMap::default() });
        index
    }

    /// `add_name_to_object`: the first object of a list that has a name keeps it.
    fn add_name(&mut self, namespace: usize, object: usize, name: &BStr) {
        let names = &mut self.namespaces[namespace].names;
        if !names.contains_key(name) {
            names.insert(name.to_owned(), Named::Object(object));
        }
    }

    fn tokens(&self, object: usize) -> Tokens<'_> {
        let is_program = self.load.objects[object].role == Role::Program;
        Tokens {
            origin: Some(self.maps[object].origin.as_ref()),
            lib: self.facts.lib.as_ref(),
            platform: self.facts.platform.as_ref().map(|platform| platform.as_ref()),
            secure: self.environment.secure.then_some(Secure {
                is_program,
                system_dirs: &self.facts.system_dirs,
                normalizes: self.version >= GlibcVersion { major: 2, minor: 43 },
            }),
        }
    }

    /// Opens a question; its answer is set when it is known.
    fn ask(&mut self, needed_by: usize, needed: &BStr, reason: Reason) -> Result<usize, Ended> {
        if self.load.resolutions.len() >= Load::MAX_QUESTIONS {
            return Err(self.too_much());
        }
        let needed = needed.to_owned();
        self.load.resolutions.push(Resolution {
            needed_by,
            needed,
            reason,
            answer: Answer::Missing,
        });
        Ok(self.load.resolutions.len() - 1)
    }

    fn probe(
        &mut self,
        resolution: usize,
        tried: (SearchSource, Call, Outcome),
        path: &[u8],
        dir_len: usize,
    ) -> Result<(), Ended> {
        self.load.probes.push(resolution, tried, path, dir_len).map_err(|_| self.too_much())
    }

    /// Ends a start that is no storm but an attack.
    fn too_much(&mut self) -> Ended {
        self.load.stop = Some(Stop::TooManyProbes);
        Ended
    }
}

/// The directory of a path by its letters (`_dl_new_object`: the last slash and what
/// follows are cut off, a lone leading slash stays).
pub(crate) fn dirname(path: &[u8]) -> BString {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => "/".into(),
        Some(at) => path[..at].into(),
        None => BString::default(),
    }
}
