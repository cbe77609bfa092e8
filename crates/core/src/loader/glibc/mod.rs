//! The model of glibc's `ld.so`, releases 2.31 to 2.44.
//!
//! A start has the order of `dl_main` (`elf/rtld.c`), in [`startup`]: audit modules, preloads,
//! then the needed strings breadth first ([`deps`]). [`map_object`] resolves one needed string
//! through the search sources in order. [`open_path`] walks the directories of one source.
//! [`dirs`] keeps all directories of the process and their status. [`verify`] checks a file
//! that opened.

mod before;
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

pub use before::FoundBefore;
pub(crate) use verify::{Verdict, fitness};

use std::rc::Rc;

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use self::dirs::{Dirs, PathList};
use super::load::{Answer, Ended, Load, LoadedObject, Role, Start, Stop};
use super::{Environment, GlibcVersion, LoaderFacts};
use crate::fs::{Errno, FileId, FileSystem};
use crate::path;
use crate::probe::{Call, Outcome, SearchSource};
use crate::search::dst::{Secure, Tokens};
use crate::search::loader_cache::{CacheQuery, LoaderCache};

/// The state of the loader in one process.
pub(crate) struct Process<'a> {
    fs: &'a dyn FileSystem,
    start: &'a Start,
    version: GlibcVersion,
    facts: &'a LoaderFacts,
    environment: &'a Environment,
    load: Load,
    /// The search state of each object of `load.objects`, with the same index.
    maps: Vec<LinkMap>,
    namespaces: Vec<Namespace>,
    dirs: Dirs,
    /// `__rtld_env_path_list`: `LD_LIBRARY_PATH`.
    library_path: PathList,
    /// `__rtld_search_dirs`: the compiled-in directories.
    system_dirs: PathList,
    /// The loader caches that were read, that of the system and those of packages. `None` for one that
    /// is missing or invalid.
    caches: FxHashMap<(SearchSource, BString), Option<Rc<LoaderCache>>>,
    /// The properties of this process that select entries of a loader cache.
    cache_query: CacheQuery,
    /// The variable `errno`. A successful call leaves it unchanged, and `open_path` reads it
    /// to decide whether the search continues.
    errno: Errno,
    /// The buffer for candidate paths, reused to save allocations.
    candidate: BString,
    /// The results of other starts.
    found_before: Option<&'a FoundBefore>,
    /// True if the search of this process had another outcome than a hit or `ENOENT`.
    met_an_error: bool,
    /// True if an object of the namespace 0 has `DT_RPATH`.
    has_rpath: bool,
}

/// The fields of `struct link_map` that the search uses.
#[derive(Default)]
struct LinkMap {
    /// `l_rpath_dirs` or `l_runpath_dirs`.
    run_path: Option<PathList>,
    /// The object whose `DT_RPATH` is searched after this one's: `l_loader`, or the first object
    /// further up that has one.
    rpath_above: Option<usize>,
    /// `l_origin`.
    origin: BString,
}

/// One list of link maps (`struct link_namespaces`), indexed by name and by file.
#[derive(Default)]
struct Namespace {
    /// The answers to the names that loaded objects have.
    names: FxHashMap<BString, Answer>,
    files: FxHashMap<FileId, usize>,
}

/// The sonames of the vDSO on all architectures (`vdso(7)`).
const VDSO_NAMES: [&str; 4] =
    ["linux-vdso.so.1", "linux-gate.so.1", "linux-vdso32.so.1", "linux-vdso64.so.1"];

impl<'a> Process<'a> {
    /// Makes the process of a start under glibc release `version`, before any search.
    pub(crate) fn new(
        fs: &'a dyn FileSystem,
        start: &'a Start,
        version: GlibcVersion,
        facts: &'a LoaderFacts,
        environment: &'a Environment,
        found_before: Option<&'a FoundBefore>,
    ) -> Self {
        let mut dirs = Dirs::new(facts);
        // `_dl_init_paths` adds these first, so that a run path with such a name shares the entry.
        let system_dirs = dirs.system(&facts.system_dirs);
        let mut process = Self {
            fs,
            start,
            version,
            facts,
            environment,
            load: Load::default(),
            maps: Vec::new(),
            // `LM_ID_BASE` exists from the start. Each audit module adds a list.
            namespaces: vec![Namespace::default()],
            dirs,
            library_path: PathList::default(),
            system_dirs,
            caches: FxHashMap::default(),
            cache_query: CacheQuery::new(&start.subject.view.ident, facts),
            errno: Errno(0),
            candidate: BString::default(),
            found_before,
            met_an_error: false,
            has_rpath: false,
        };
        process.add_program_and_loader();
        process
    }

    /// Predicts the start.
    pub(crate) fn load(mut self) -> Load {
        if let Err(Ended::Start(stop)) = self.start() {
            self.load.stop = Some(stop);
        }
        self.load
    }

    /// Adds the two objects that the kernel or `dl_main` maps before the search starts: the
    /// program and the loader (`GL(dl_rtld_map)`).
    ///
    /// Neither is entered in `files`: glibc sets no `l_file_id` for them and so never
    /// recognises them by their inode.
    fn add_program_and_loader(&mut self) {
        let start = self.start;
        let program = LoadedObject::new(
            &start.subject.path,
            start.subject.file.id,
            &start.subject.view,
            Role::Program,
        );
        self.add_object(program, start.origin.clone());
        // The program's l_name and its only libname are the empty string.
        self.add_name(0, 0, BStr::new(""));
        let id = FileId { dev: 0, ino: 0 };
        let loader = LoadedObject::new(&start.interpreter, id, &start.loader, Role::Loader);
        // `setup_vdso` adds the link map of the vDSO, which answers to its soname.
        for name in VDSO_NAMES {
            self.namespaces[0].names.insert(name.into(), Answer::Vdso);
        }
        self.add_object(loader, path::dir(&start.interpreter).to_owned());
        // `_dl_rtld_libname`: an object that needs the loader by its `PT_INTERP` path gets this
        // object and not a second copy.
        self.add_name(0, 1, start.interpreter.as_ref());
    }

    /// Adds an object to the load set, with its path and soname as names (`_dl_new_object`).
    fn add_object(&mut self, object: LoadedObject, origin: BString) -> usize {
        let index = self.load.objects.len();
        let namespace = object.namespace;
        // The program's path is not among its names: a needed string with this path loads the
        // program's file a second time.
        if object.role != Role::Program {
            self.add_name(namespace, index, object.path.as_ref());
        }
        // `_dl_map_object` compares a needed string with the sonames of the loaded objects too.
        if let Some(soname) = object.view.soname() {
            self.add_name(namespace, index, soname);
        }
        let dynamic = object.view.dynamic.as_ref();
        self.has_rpath |= dynamic.is_some_and(|dynamic| dynamic.rpath.is_some());
        // `l_loader`: `_dl_map_object` walks up along it for inherited `DT_RPATH`s.
        let rpath_above =
            object.loaded_by.and_then(|above| match self.requester(above).has_rpath {
                true => Some(above),
                false => self.maps[above].rpath_above,
            });
        self.maps.push(LinkMap { origin, rpath_above, ..LinkMap::default() });
        self.load.objects.push(object);
        index
    }

    /// `add_name_to_object`. If several objects of a list have a name, the first one answers,
    /// because `_dl_map_object` walks the list from its start.
    fn add_name(&mut self, namespace: usize, object: usize, name: &BStr) {
        let names = &mut self.namespaces[namespace].names;
        // `entry` would copy the name even if it is known.
        if !names.contains_key(name) {
            names.insert(name.to_owned(), Answer::AlreadyLoaded(object));
        }
    }

    /// Returns the values of the DSTs in the strings of an object.
    fn tokens(&self, object: usize) -> Tokens<'_> {
        let is_program = self.load.objects[object].role == Role::Program;
        Tokens {
            origin: Some(self.maps[object].origin.as_ref()),
            lib: self.facts.lib.as_ref(),
            // A kernel may pass no `AT_PLATFORM`. A path with `$PLATFORM` is dropped then.
            platform: self.facts.platform.as_ref().map(|platform| platform.as_ref()),
            secure: self.environment.secure.then_some(Secure {
                is_program,
                system_dirs: &self.facts.system_dirs,
                normalizes: self.version >= GlibcVersion { major: 2, minor: 43 },
            }),
        }
    }

    fn probe(
        &mut self,
        resolution: usize,
        tried: (SearchSource, Call, Outcome),
        path: &[u8],
        dir_len: usize,
    ) -> Result<(), Stop> {
        self.met_an_error |= !matches!(tried.2, Outcome::Hit | Outcome::Miss);
        self.load.probe(resolution, tried, path, dir_len)
    }
}
