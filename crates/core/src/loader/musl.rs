//! The musl model: what `ldso/dynlink.c` tries, in its order.
//!
//! Written after musl 1.2.3; the search is the same in 1.1.19 and in 1.2.5. Each
//! function names the one of `dynlink.c` it stands for. How musl differs from glibc:
//!
//! - `DT_RPATH` and `DT_RUNPATH` are one thing (`DT_RUNPATH` wins), looked at after
//!   `LD_LIBRARY_PATH`, and inherited: every object up to the program is asked.
//! - Names that start like a part of the C library (`libc.`, `libm.`, …) are the
//!   loader itself and cost nothing; sonames are never looked at.
//! - No hwcaps subdirectories, no loader cache, no status of directories, no `stat`.
//! - The first file that opens is the answer, right or wrong: `e_machine` is not
//!   looked at, and a file that cannot be mapped ends the search.
//! - `DT_FILTER`, `DT_AUXILIARY` and `DT_AUDIT` mean nothing.

mod paths;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use self::paths::{BUFFER, NAME_MAX, PathDirs, RunPath, SYSTEM_PATH};
use super::load::{Answer, Load, LoadedObject, Reason, Refusal, Resolution, Role, Start, Stop};
use super::{Environment, LoaderFacts};
use crate::elf::{Class, DependencyKind, ElfError, ObjectView};
use crate::fs::{Errno, FileId, FileSystem, OpenedFile};
use crate::probe::{Call, LogFull, Outcome, SearchSource};

/// The parts of the C library, each behind `lib`: `load_library`'s `reserved`.
const RESERVED: [&[u8]; 7] = [b"c.", b"pthread.", b"rt.", b"m.", b"dl.", b"util.", b"xnet."];
/// Index of the program among the objects.
const PROGRAM: usize = 0;
/// Index of the loader, which is the C library as well.
const LOADER: usize = 1;
/// `ET_EXEC`, `ET_DYN`.
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

/// Everything one start under musl loads and tries (`__dls3` up to the relocations).
///
/// Of `facts` only `system_dirs` is read; where it is empty, musl's own default
/// stands in. The path file beside the interpreter goes before it, as in the loader.
/// A library that is missing or refused does not stop the walk: musl reports it,
/// looks for all the others and exits then.
#[must_use]
pub fn load(
    fs: &dyn FileSystem,
    start: &Start,
    facts: &LoaderFacts,
    environment: &Environment,
) -> Load {
    let mut walk = Walk::new(fs, start, facts, environment);
    if walk.run(environment).is_err() {
        walk.load.stop = Some(Stop::TooManyProbes);
    }
    walk.load
}

/// The state of `dynlink.c` while it loads.
struct Walk<'a> {
    fs: &'a dyn FileSystem,
    start: &'a Start,
    secure: bool,
    /// `env_path`; empty where it is not set.
    library_path: PathDirs,
    /// The compiled-in path, `:` between its elements.
    default_path: BString,
    /// `sys_path`, once the path file was asked for.
    system_path: Option<PathDirs>,
    load: Load,
    /// What `struct dso` holds beside [`LoadedObject`], by the same index.
    known: Vec<Known>,
    /// The first object of each short name.
    short_names: FxHashMap<BString, usize>,
    /// The object of each file; the program and the loader were mapped by the kernel,
    /// their device and inode are not known to musl.
    files: FxHashMap<FileId, usize>,
    /// Bytes that further run paths may take.
    run_path_bytes: usize,
}

#[derive(Default)]
struct Known {
    /// `shortname`: true where a needed string finds this object without a search.
    has_short_name: bool,
    /// The run path after `fixup_rpath`; unset until it is first asked for.
    run_path: Option<RunPath>,
    /// The object whose run path is searched after this one's: `needed_by` of `struct
    /// dso` (none for the program and for a preload), or one further up where those
    /// between have no run path.
    above: Option<usize>,
}

/// What a `path_open` came to.
enum Search {
    /// No file opened: the next path is searched.
    Nothing,
    /// An errno that ends the search for this needed string.
    Ended,
    /// A file opened.
    Opened { path: BString, file: Arc<OpenedFile>, source: SearchSource },
}

impl<'a> Walk<'a> {
    fn new(
        fs: &'a dyn FileSystem,
        start: &'a Start,
        facts: &LoaderFacts,
        environment: &'a Environment,
    ) -> Self {
        let usable = |value: &'a Option<BString>| match value {
            Some(value) if !environment.secure => value.as_bstr(),
            _ => BStr::new(b""),
        };
        let mut walk = Self {
            fs,
            start,
            secure: environment.secure,
            library_path: paths::elements(usable(&environment.library_path)),
            default_path: paths::join(&facts.system_dirs).unwrap_or_else(|| SYSTEM_PATH.into()),
            system_path: None,
            load: Load::default(),
            known: Vec::new(),
            short_names: FxHashMap::default(),
            files: FxHashMap::default(),
            run_path_bytes: paths::MAX_RUN_PATH_BYTES,
        };
        let loader = fs.open(start.interpreter.as_bstr());
        let loader_id = loader.map_or(FileId { dev: 0, ino: 0 }, |file| file.id);
        walk.add(&start.path, start.file.id, &start.view, Role::Program, None);
        walk.add(&start.interpreter, loader_id, &start.loader, Role::Loader, None);
        walk
    }

    fn add(
        &mut self,
        path: &BString,
        id: FileId,
        view: &Arc<ObjectView>,
        role: Role,
        loaded_by: Option<usize>,
    ) -> usize {
        let (path, view) = (path.clone(), Arc::clone(view));
        self.load.objects.push(LoadedObject { path, id, view, role, loaded_by, namespace: 0 });
        let above = loaded_by.filter(|_| role == Role::Library);
        self.known.push(Known { above, ..Known::default() });
        self.load.objects.len() - 1
    }

    /// `load_preload`, then `load_deps`: object after object in the order in which
    /// they came, each with all its needed strings.
    fn run(&mut self, environment: &Environment) -> Result<(), LogFull> {
        if let Some(list) = environment.preload.as_ref().filter(|_| !self.secure) {
            for name in paths::preloads(list) {
                self.ask(PROGRAM, name.into(), Reason::Preload)?;
            }
        }
        let mut asking = PROGRAM;
        while asking < self.load.objects.len() {
            if asking != LOADER {
                self.load_direct_deps(asking)?;
            }
            asking += 1;
        }
        self.set_scope();
        Ok(())
    }

    /// `add_syms`: the program, then each object when it was first asked for; the loader, which
    /// is the C library, as well.
    fn set_scope(&mut self) {
        let mut scope = vec![PROGRAM];
        let mut seen = vec![false; self.load.objects.len()];
        seen[PROGRAM] = true;
        for object in self.load.resolutions.iter().filter_map(|current| current.answer.object()) {
            if !std::mem::replace(&mut seen[object], true) {
                scope.push(object);
            }
        }
        self.load.scope = scope;
    }

    /// `load_direct_deps`: `DT_NEEDED` alone counts.
    fn load_direct_deps(&mut self, asking: usize) -> Result<(), LogFull> {
        let view = Arc::clone(&self.load.objects[asking].view);
        let dependencies = view.dynamic.iter().flat_map(|dynamic| &dynamic.dependencies);
        for needed in dependencies.filter(|entry| entry.kind == DependencyKind::Needed) {
            let reason = Reason::Dependency(DependencyKind::Needed);
            self.ask(asking, needed.name.clone(), reason)?;
        }
        Ok(())
    }

    fn ask(&mut self, needed_by: usize, needed: BString, reason: Reason) -> Result<(), LogFull> {
        if self.load.resolutions.len() >= Load::MAX_QUESTIONS {
            return Err(LogFull);
        }
        let resolution = Resolution { needed_by, needed, reason, answer: Answer::Missing };
        self.load.resolutions.push(resolution);
        let answer = self.load_library()?;
        if let Some(current) = self.load.resolutions.last_mut() {
            current.answer = answer;
        }
        Ok(())
    }

    /// The resolution being answered: its index and needed string.
    fn current(&self) -> (usize, &Resolution) {
        let index = self.load.resolutions.len() - 1;
        (index, &self.load.resolutions[index])
    }

    /// `load_library`, for the last resolution.
    fn load_library(&mut self) -> Result<Answer, LogFull> {
        let (_, Resolution { needed: name, needed_by, reason, .. }) = self.current();
        let (name, needed_by, reason) = (name.clone(), *needed_by, *reason);
        if name.is_empty() {
            return Ok(Answer::Missing);
        }
        if is_loader(&name) || name == self.start.interpreter {
            return Ok(Answer::AlreadyLoaded(LOADER));
        }
        let found = if name.contains(&b'/') {
            self.try_open(SearchSource::Direct, name, 0)?
        } else {
            if let Some(&object) = self.short_names.get(&name) {
                return Ok(Answer::AlreadyLoaded(object));
            }
            if name.len() > NAME_MAX {
                return Ok(Answer::Missing);
            }
            // A preload has nobody who needs it: no run path is searched.
            let first = (reason != Reason::Preload).then_some(needed_by);
            self.search(name.as_bstr(), first)?
        };
        let Search::Opened { path, file, source } = found else { return Ok(Answer::Missing) };
        let role = if reason == Reason::Preload { Role::Preload } else { Role::Library };
        Ok(self.map(path, &file, source, (role, needed_by)))
    }

    /// Gives an object the file name of its path as short name; of several objects of
    /// one name the first loaded is found.
    fn give_short_name(&mut self, object: usize) {
        self.known[object].has_short_name = true;
        let name = paths::file_name(&self.load.objects[object].path);
        let first = self.short_names.entry(name).or_insert(object);
        *first = object.min(*first);
    }

    /// The search of `load_library`: `LD_LIBRARY_PATH`, the run path of the asking
    /// object and of those that led to it, the system path.
    fn search(&mut self, name: &BStr, asking: Option<usize>) -> Result<Search, LogFull> {
        let library_path = Rc::clone(&self.library_path);
        let mut found = self.path_open(SearchSource::LibraryPath, &library_path, name)?;
        let (mut below, mut object) = (None::<usize>, asking);
        while let (Search::Nothing, Some(index)) = (&found, object) {
            object = self.known[index].above;
            match (self.run_path(index)?, below) {
                (Some((source, path)), _) => found = self.path_open(source, &path, name)?,
                // The way up leads past an object without a run path from now on.
                (None, Some(below)) => {
                    self.known[below].above = object;
                    continue;
                }
                (None, None) => {}
            }
            below = Some(index);
        }
        if let Search::Nothing = found {
            let path = self.system_path()?;
            found = self.path_open(SearchSource::System, &path, name)?;
        }
        Ok(found)
    }

    /// The run path of an object, expanded once.
    fn run_path(&mut self, object: usize) -> Result<RunPath, LogFull> {
        if let Some(known) = &self.known[object].run_path {
            return Ok(known.clone());
        }
        let view = Arc::clone(&self.load.objects[object].view);
        let origin = self.origin(object);
        let run_path = paths::fixup_rpath(&view, origin, &mut self.run_path_bytes)?;
        self.known[object].run_path = Some(run_path.clone());
        Ok(run_path)
    }

    /// What `$ORIGIN` stands for in an object, `None` where a run path that has the
    /// token is dropped whole (`fixup_rpath`).
    fn origin(&self, object: usize) -> Option<BString> {
        if object != PROGRAM {
            let origin = paths::directory(&self.load.objects[object].path);
            return Some(origin).filter(|origin| !self.secure || origin_is_absolute(origin));
        }
        // Without PT_INTERP it is the loader that maps it, under the name given.
        if self.start.view.interpreter.is_none() {
            return Some(paths::directory(&self.start.path));
        }
        // The link /proc/self/exe is read into the buffer of the candidate paths.
        let program = self.fs.canonicalize(self.start.path.as_bstr());
        if self.secure || program.is_ok_and(|path| path.len() >= BUFFER) {
            return None;
        }
        let root = self.start.origin == "/";
        Some(if root { BString::default() } else { self.start.origin.clone() })
    }

    /// `sys_path`: the path file of the loader, read at the first need of it.
    fn system_path(&mut self) -> Result<PathDirs, LogFull> {
        if let Some(known) = &self.system_path {
            return Ok(Rc::clone(known));
        }
        let file = paths::path_file(&self.start.interpreter, &self.start.loader.ident);
        let opened = self.fs.open(file.as_bstr()).map(|_| ());
        let outcome = opened.map_or_else(Outcome::from, |()| Outcome::Hit);
        self.log(SearchSource::System, outcome, &file, 0)?;
        let path = match opened {
            Ok(()) => paths::first_string(&self.fs.read(file.as_bstr()).unwrap_or_default()),
            Err(Errno::NOENT) => self.default_path.clone(),
            Err(_) => BString::default(),
        };
        let dirs = paths::elements(path.as_bstr());
        self.system_path = Some(Rc::clone(&dirs));
        Ok(dirs)
    }

    /// `path_open`: one open for each element of `path` until one succeeds.
    fn path_open(
        &mut self,
        source: SearchSource,
        path: &PathDirs,
        name: &BStr,
    ) -> Result<Search, LogFull> {
        for dir in path.iter().filter(|dir| paths::has_mount_namespace(dir, name.len())) {
            let mut candidate = dir.clone();
            candidate.push(b'/');
            candidate.extend_from_slice(name);
            let found = self.try_open(source, candidate, dir.len() + 1)?;
            if !matches!(found, Search::Nothing) {
                return Ok(found);
            }
        }
        Ok(Search::Nothing)
    }

    /// One open. `ENOENT`, `ENOTDIR`, `EACCES` and `ENAMETOOLONG` let the search go
    /// on, any other errno ends it.
    fn try_open(
        &mut self,
        source: SearchSource,
        path: BString,
        dir_len: usize,
    ) -> Result<Search, LogFull> {
        match self.fs.open(path.as_bstr()) {
            Ok(file) => {
                let outcome =
                    self.judge(&file).map_or_else(|(outcome, _)| outcome, |_| Outcome::Hit);
                self.log(source, outcome, &path, dir_len)?;
                Ok(Search::Opened { path, file, source })
            }
            Err(errno) => {
                self.log(source, errno.into(), &path, dir_len)?;
                let goes_on = [Errno::NOENT, Errno::NOTDIR, Errno::ACCES, Errno::NAMETOOLONG]
                    .contains(&errno);
                Ok(if goes_on { Search::Nothing } else { Search::Ended })
            }
        }
    }

    fn log(
        &mut self,
        source: SearchSource,
        outcome: Outcome,
        path: &[u8],
        dir_len: usize,
    ) -> Result<(), LogFull> {
        let (resolution, _) = self.current();
        self.load.probes.push(resolution, (source, Call::Open, outcome), path, dir_len)
    }

    /// The rest of `load_library`, once a file is open: the same file again, the C
    /// library again, or a new object.
    fn map(
        &mut self,
        path: BString,
        file: &OpenedFile,
        source: SearchSource,
        (role, loaded_by): (Role, usize),
    ) -> Answer {
        let by_search = source != SearchSource::Direct;
        if let Some(&object) = self.files.get(&file.id) {
            // Named after the path of the first load, not after what was asked.
            if by_search && !self.known[object].has_short_name {
                self.give_short_name(object);
            }
            return Answer::SameFile(object, source);
        }
        let view = match self.judge(file) {
            Ok(view) => view,
            Err((_, refusal)) => return Answer::Refused(refusal),
        };
        if file.id == self.load.objects[LOADER].id || self.is_c_library(&view) {
            return Answer::SameFile(LOADER, source);
        }
        let object = self.add(&path, file.id, &view, role, Some(loaded_by));
        self.files.insert(file.id, object);
        if by_search {
            self.give_short_name(object);
        }
        Answer::Loaded(object, source)
    }

    /// True for an object that is a C library. musl looks for the symbols
    /// `__libc_start_main` and `stdin`; here such a library is known by its soname,
    /// or as a copy of the loader by its build id.
    fn is_c_library(&self, view: &ObjectView) -> bool {
        let soname = view.dynamic.as_ref().and_then(|dynamic| dynamic.soname.as_ref());
        let named = soname.is_some_and(|name| {
            name == "libc.so" || name == "libc.so.6" || name.starts_with(b"libc.musl-")
        });
        named || (view.build_id.is_some() && view.build_id == self.start.loader.build_id)
    }

    /// What `map_library` makes of an opened file. Class and byte order are wrong
    /// because the fields it reads are nonsense then; the machine is not looked at.
    fn judge(&self, file: &OpenedFile) -> Result<Arc<ObjectView>, (Outcome, Refusal)> {
        let wanted = &self.start.loader.ident;
        let header = if wanted.class == Class::Elf64 { 64 } else { 52 };
        let head = file.head.as_ref().map_err(|_| (Outcome::Refused, Refusal::Unreadable))?;
        if head.len() < header {
            return Err((Outcome::NotElf, Refusal::TooShort));
        }
        let view = file.object.as_ref().map_err(|error| match error {
            ElfError::NotElf => (Outcome::NotElf, Refusal::NotElf),
            ElfError::Malformed(_) => (Outcome::Refused, Refusal::Malformed),
            ElfError::Unreadable(_) => (Outcome::Refused, Refusal::Unreadable),
        })?;
        let refused = |refusal| Err((Outcome::Refused, refusal));
        if view.ident.class != wanted.class {
            return Err((Outcome::WrongClass, Refusal::Header));
        }
        if view.ident.endian != wanted.endian {
            return refused(Refusal::Header);
        }
        match view.ident.e_type {
            ET_DYN => {}
            // A second fixed address range that the program's own is likely to hold.
            ET_EXEC if self.start.view.ident.e_type == ET_EXEC => {
                return refused(Refusal::Executable);
            }
            ET_EXEC => {}
            _ => return refused(Refusal::Kind),
        }
        if view.dynamic.is_none() {
            return refused(Refusal::NoDynamic);
        }
        if !view.has_load {
            return refused(Refusal::NoSegments);
        }
        Ok(Arc::clone(view))
    }
}

/// True for a needed string that musl answers with itself: `lib` and a reserved word
/// up to its dot, whatever follows.
fn is_loader(name: &[u8]) -> bool {
    let part = name.strip_prefix(b"lib");
    part.is_some_and(|part| RESERVED.iter().any(|word| part.starts_with(word)))
}

/// `directory` leaves the root directory empty, which musl takes as absolute.
fn origin_is_absolute(origin: &BString) -> bool {
    origin.is_empty() || origin.starts_with(b"/")
}
