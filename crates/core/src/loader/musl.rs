//! The model of musl's loader, `ldso/dynlink.c`.
//!
//! The model follows musl 1.2.3; the search is the same in 1.1.19 and in 1.2.5. Each function
//! names the function of `dynlink.c` that it mirrors. musl differs from glibc:
//!
//! - `DT_RPATH` and `DT_RUNPATH` have the same meaning, and `DT_RUNPATH` wins. The run path is
//!   searched after `LD_LIBRARY_PATH`. It is inherited: the run paths of all objects up to the
//!   program are searched.
//! - A name that starts like a part of the C library (`libc.`, `libm.`, …) is the loader itself
//!   and costs no call. Sonames are never compared.
//! - There are no hwcaps subdirectories, no loader cache, no status of directories and no `stat`.
//! - The first file that opens is the answer. `e_machine` is not checked, and a file that
//!   cannot be mapped ends the search.
//! - `DT_FILTER`, `DT_AUXILIARY` and `DT_AUDIT` are ignored.

mod note;
mod paths;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

pub use self::paths::path_file;

use self::paths::{BUFFER, NAME_MAX, PathDirs, RunPath, SYSTEM_PATH};
use super::load::{Answer, Ended, Found, Load, LoadedObject, Reason, Refusal, Role, Start, Stop};
use super::{Environment, LoaderFacts};
use crate::elf::{Class, DependencyKind, ET_DYN, ET_EXEC, ElfError, ObjectView};
use crate::fs::{Errno, FileId, FileSystem, OpenedFile};
use crate::path;
use crate::probe::{Call, Outcome, SearchSource};

/// The names of the parts of the C library without `lib`: `reserved` of `load_library`.
const RESERVED: [&[u8]; 7] = [b"c.", b"pthread.", b"rt.", b"m.", b"dl.", b"util.", b"xnet."];
/// Index of the program in the load set.
const PROGRAM: usize = 0;
/// Index of the loader in the load set. The loader is the C library as well.
const LOADER: usize = 1;

/// Predicts one start of a program under musl (`__dls3` up to the relocations).
///
/// Only `system_dirs` of `facts` is used. If it is empty, musl's default path takes its place. As
/// in the loader, the path file of the interpreter replaces both. A library that is missing or
/// refused does not end the walk: musl reports it, loads all the others and exits then.
#[must_use]
pub fn load(
    fs: &dyn FileSystem,
    start: &Start,
    facts: &LoaderFacts,
    environment: &Environment,
) -> Load {
    let mut walk = Walk::new(fs, start, facts, environment);
    walk.load.stop = walk.run(environment).err();
    walk.load
}

/// The state of `dynlink.c` while it loads.
struct Walk<'a> {
    fs: &'a dyn FileSystem,
    start: &'a Start,
    secure: bool,
    /// True if the loader has becalm's patch, which reads notes.
    reads_note: bool,
    /// `env_path`: `LD_LIBRARY_PATH`. Empty if the variable is not set.
    library_path: PathDirs,
    /// The compiled-in path, `:` between its elements.
    default_path: BString,
    /// `sys_path`. `None` before the first search in it, which reads the path file.
    system_path: Option<PathDirs>,
    load: Load,
    /// The fields of `struct dso` that [`LoadedObject`] lacks, with the same index.
    known: Vec<Known>,
    /// The first object of each short name.
    short_names: FxHashMap<BString, usize>,
    /// The object of each file. The kernel maps the program and the loader, so musl does not know
    /// their device and inode.
    files: FxHashMap<FileId, usize>,
    /// The bytes that further run paths may take.
    run_path_bytes: usize,
}

#[derive(Default)]
struct Known {
    /// `shortname`: true if a needed string finds this object without a search.
    has_short_name: bool,
    /// The run path after `fixup_rpath`. Unset before the first search along it.
    run_path: Option<RunPath>,
    /// The object whose run path is searched after this one's: `needed_by` of `struct dso`, or the
    /// first object further up that has a run path. The program and preloads have none.
    above: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(
        fs: &'a dyn FileSystem,
        start: &'a Start,
        facts: &LoaderFacts,
        environment: &'a Environment,
    ) -> Self {
        // `__dls3` ignores the variables of a set-id program.
        let usable = |value: &'a Option<BString>| match value {
            Some(value) if !environment.secure => value.as_bstr(),
            _ => BStr::new(b""),
        };
        let mut walk = Self {
            fs,
            start,
            secure: environment.secure,
            reads_note: environment.reads.note,
            library_path: paths::elements(usable(&environment.library_path)),
            default_path: paths::join(&facts.system_dirs).unwrap_or_else(|| SYSTEM_PATH.into()),
            system_path: None,
            load: Load::default(),
            known: Vec::new(),
            short_names: FxHashMap::default(),
            files: FxHashMap::default(),
            run_path_bytes: paths::MAX_RUN_PATH_BYTES,
        };
        // musl recognises another path to its own file by the symbols in it. The model compares
        // device and inode.
        let loader = fs.open(start.interpreter.as_bstr());
        let loader_id = loader.map_or(FileId { dev: 0, ino: 0 }, |file| file.id);
        walk.add(
            &start.subject.path,
            start.subject.file.id,
            &start.subject.view,
            Role::Program,
            None,
        );
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
        let object = LoadedObject::new(path, id, view, role);
        self.load.objects.push(LoadedObject { loaded_by, ..object });
        // `load_preload` passes no `needed_by`, so that a chain ends at a preload.
        let above = loaded_by.filter(|_| role == Role::Library).and_then(|above| {
            let dynamic = self.load.objects[above].view.dynamic.as_ref();
            let has_run_path = dynamic.is_some_and(|dynamic| dynamic.run_path().is_some());
            if has_run_path { Some(above) } else { self.known[above].above }
        });
        self.known.push(Known { above, ..Known::default() });
        self.load.objects.len() - 1
    }

    /// `load_preload`, then `load_deps`, which follows the needed strings of each object in load
    /// order.
    fn run(&mut self, environment: &Environment) -> Result<(), Stop> {
        // `LD_PRELOAD` is ignored in secure-execution mode, while glibc accepts names without a
        // slash.
        if let Some(list) = environment.preload.as_ref().filter(|_| !self.secure) {
            for name in paths::preloads(list) {
                self.resolve(PROGRAM, name.into(), Reason::Preload)?;
            }
        }
        // New objects are appended to the list while it is walked: this is breadth first.
        let mut requester = PROGRAM;
        while requester < self.load.objects.len() {
            // `load_direct_deps`: only `DT_NEEDED` counts.
            let view = Arc::clone(&self.load.objects[requester].view);
            // The loader needs nothing: it has no dependencies.
            for needed in view.needed().filter(|_| requester != LOADER) {
                let reason = Reason::Dependency(DependencyKind::Needed);
                self.resolve(requester, needed.to_owned(), reason)?;
            }
            requester += 1;
        }
        // `add_syms`: the program, then each object at its first resolution. The loader is among
        // them, because it is the C library.
        let answers = self.load.resolutions.iter().filter_map(|it| it.answer.object());
        let mut seen = vec![false; self.load.objects.len()];
        let objects = [PROGRAM].into_iter().chain(answers);
        let first = objects.filter(|&object| !std::mem::replace(&mut seen[object], true));
        self.load.scope = first.collect();
        Ok(())
    }

    /// Resolves one needed string and adds the resolution.
    fn resolve(&mut self, needed_by: usize, name: BString, reason: Reason) -> Result<(), Stop> {
        let resolution = self.load.begin(needed_by, name.clone(), reason)?;
        let answer = match self.load_library(needed_by, name, reason) {
            Ok(answer) | Err(Ended::Lookup(answer)) => answer,
            Err(Ended::Start(stop)) => return Err(stop),
        };
        self.load.resolutions[resolution].answer = answer;
        Ok(())
    }

    /// `load_library` for the resolution in progress.
    fn load_library(
        &mut self,
        needed_by: usize,
        name: BString,
        reason: Reason,
    ) -> Result<Answer, Ended> {
        // `load_library` fails with EINVAL for an empty name, before any search.
        if name.is_empty() {
            return Ok(Answer::Missing);
        }
        // musl compares these before it looks for a slash, so that the path of the interpreter is
        // recognised too (`ldso.name`).
        if is_loader(&name) || name == self.start.interpreter {
            return Ok(Answer::AlreadyLoaded(LOADER));
        }
        // A name with a slash is never compared with a short name. It is opened, and only its inode
        // shows that it is loaded.
        let found = if name.contains(&b'/') {
            self.try_open(SearchSource::Direct, name, 0)?
        } else {
            if let Some(&object) = self.short_names.get(&name) {
                return Ok(Answer::AlreadyLoaded(object));
            }
            // No directory can have a longer file name.
            if name.len() > NAME_MAX {
                return Ok(Answer::Missing);
            }
            // `needed_by` is null for a preload, so that no run path is searched.
            let first = (reason != Reason::Preload).then_some(needed_by);
            self.search(name.as_bstr(), first)?
        };
        let Some(found) = found else { return Ok(Answer::Missing) };
        let role = if reason == Reason::Preload { Role::Preload } else { Role::Library };
        Ok(self.map(found, (role, needed_by)))
    }

    /// Gives an object the file name of its path as short name.
    fn set_short_name(&mut self, object: usize) {
        self.known[object].has_short_name = true;
        let name = path::name(&self.load.objects[object].path).to_owned();
        // `load_library` compares the short names in load order, so that the first object loaded
        // answers, even if it gets the name later than another one.
        let first = self.short_names.entry(name).or_insert(object);
        *first = object.min(*first);
    }

    /// The search of `load_library` for a name without a slash.
    fn search(&mut self, name: &BStr, requester: Option<usize>) -> Result<Option<Found>, Ended> {
        // `path_open (name, env_path, …)`.
        let library_path = Rc::clone(&self.library_path);
        let mut found = self.path_open(SearchSource::LibraryPath, &library_path, name)?;
        // `for (p = needed_by; fd == -1 && p; p = p->needed_by)`: the run path of the requester,
        // then of the objects that loaded it.
        let mut object = requester;
        while let (None, Some(index)) = (&found, object) {
            object = self.known[index].above;
            if let Some((source, path)) = self.run_path(index)? {
                found = self.note_open(index, name)?;
                if found.is_none() {
                    found = self.path_open(source, &path, name)?;
                }
            }
        }
        // `path_open (name, sys_path, …)`.
        if found.is_none() {
            let path = self.system_path()?;
            found = self.path_open(SearchSource::System, &path, name)?;
        }
        Ok(found)
    }

    /// Returns the run path of an object, which is expanded once.
    fn run_path(&mut self, object: usize) -> Result<RunPath, Stop> {
        if let Some(known) = &self.known[object].run_path {
            return Ok(known.clone());
        }
        let view = Arc::clone(&self.load.objects[object].view);
        let origin = self.origin(object);
        let run_path = paths::fixup_rpath(&view, origin, &mut self.run_path_bytes)?;
        self.known[object].run_path = Some(run_path.clone());
        Ok(run_path)
    }

    /// Returns the value of `$ORIGIN` in an object (`fixup_rpath`). Returns `None` if musl drops
    /// the whole run path because of the token.
    fn origin(&self, object: usize) -> Option<BString> {
        if object != PROGRAM {
            // In a set-id program a relative origin would depend on the current directory.
            let origin = paths::directory(&self.load.objects[object].path);
            // It is empty for the root directory.
            let is_absolute = origin.is_empty() || origin.starts_with(b"/");
            return Some(origin).filter(|_| is_absolute || !self.secure);
        }
        // The loader maps a program without PT_INTERP, by the path on its command line.
        if self.start.subject.view.interpreter.is_none() {
            return Some(paths::directory(&self.start.subject.path));
        }
        // `readlink` of /proc/self/exe writes into a buffer of this size. A path that fills the
        // buffer drops the run path.
        let program = self.fs.canonicalize(self.start.subject.path.as_bstr());
        if self.secure || program.is_ok_and(|path| path.len() >= BUFFER) {
            return None;
        }
        let root = self.start.origin == "/";
        Some(if root { BString::default() } else { self.start.origin.clone() })
    }

    /// Returns `sys_path`, which musl reads from the path file at the first search in it.
    fn system_path(&mut self) -> Result<PathDirs, Stop> {
        if let Some(known) = &self.system_path {
            return Ok(Rc::clone(known));
        }
        let file = paths::path_file(&self.start.interpreter, &self.start.loader.ident);
        let opened = self.fs.open(file.as_bstr());
        let outcome = opened.as_ref().map_or_else(|&errno| errno.into(), |_| Outcome::Hit);
        self.log(SearchSource::System, outcome, &file, 0)?;
        let path = match opened {
            Ok(_) => {
                let bytes = self.fs.read(file.as_bstr()).unwrap_or_default();
                // `path_open` reads it as a C string.
                bytes.split_str("\0").next().unwrap_or_default().into()
            }
            // Only a missing file selects the default. Any other error leaves `sys_path` empty.
            Err(Errno::NOENT) => self.default_path.clone(),
            Err(_) => BString::default(),
        };
        let dirs = paths::elements(path.as_bstr());
        self.system_path = Some(Rc::clone(&dirs));
        Ok(dirs)
    }

    /// `path_open`: opens the name in each element of `path` until one open succeeds.
    fn path_open(
        &mut self,
        source: SearchSource,
        path: &PathDirs,
        name: &BStr,
    ) -> Result<Option<Found>, Ended> {
        // `snprintf` truncates a candidate that exceeds the buffer; musl then skips the element.
        // `path_open` has no status of directories: every element is tried again for every name.
        for dir in path.iter().filter(|dir| paths::fits_buffer(dir, name.len())) {
            let candidate = [dir.as_slice(), b"/", name].concat().into();
            let found = self.try_open(source, candidate, dir.len() + 1)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Opens one candidate. The search continues after `ENOENT`, `ENOTDIR`, `EACCES` and
    /// `ENAMETOOLONG`; any other errno ends it (`path_open`).
    fn try_open(
        &mut self,
        source: SearchSource,
        path: BString,
        dir_len: usize,
    ) -> Result<Option<Found>, Ended> {
        match self.fs.open(path.as_bstr()) {
            // The first file that opens ends the search, even if it cannot be mapped.
            Ok(file) => {
                let outcome = self.check(&file).map_or_else(|it| it.0, |_| Outcome::Hit);
                self.log(source, outcome, &path, dir_len)?;
                Ok(Some(Found { file, path, source }))
            }
            Err(errno) => {
                self.log(source, errno.into(), &path, dir_len)?;
                let continues = [Errno::NOENT, Errno::NOTDIR, Errno::ACCES, Errno::NAMETOOLONG]
                    .contains(&errno);
                // `fd` is -2 after another one: no path is searched then.
                if continues { Ok(None) } else { Err(Ended::Lookup(Answer::Missing)) }
            }
        }
    }

    fn log(
        &mut self,
        source: SearchSource,
        outcome: Outcome,
        path: &[u8],
        dir_len: usize,
    ) -> Result<(), Stop> {
        // The resolution in progress is the last one.
        let resolution = self.load.resolutions.len() - 1;
        self.load.probe(resolution, (source, Call::Open, outcome), path, dir_len)
    }

    /// The rest of `load_library` after the open: finds the loaded object of the file, or adds a
    /// new one.
    fn map(&mut self, found: Found, (role, loaded_by): (Role, usize)) -> Answer {
        let Found { file, path, source } = found;
        let by_search = source != SearchSource::Direct;
        if let Some(&object) = self.files.get(&file.id) {
            // The short name comes from the path of the first load, not from the needed string.
            // An object loaded by its path has no short name until a search finds its inode.
            if by_search && !self.known[object].has_short_name {
                self.set_short_name(object);
            }
            return Answer::SameFile(object, source);
        }
        let view = match self.check(&file) {
            Ok(view) => view,
            Err((_, refusal)) => return Answer::Refused(refusal),
        };
        // `load_library` unmaps a second C library and returns the loader.
        // It must not keep both: each would have its own threads and heap.
        if file.id == self.load.objects[LOADER].id || self.is_c_library(&view) {
            return Answer::SameFile(LOADER, source);
        }
        let object = self.add(&path, file.id, &view, role, Some(loaded_by));
        self.files.insert(file.id, object);
        if by_search {
            self.set_short_name(object);
        }
        Answer::Loaded(object, source)
    }

    /// Returns true if an object is a C library. musl looks up the symbols `__libc_start_main` and
    /// `stdin` in it. The model compares the soname instead, and the build id with the loader's.
    fn is_c_library(&self, view: &ObjectView) -> bool {
        let named = view.soname().is_some_and(|name| {
            name == "libc.so" || name == "libc.so.6" || name.starts_with(b"libc.musl-")
        });
        named || (view.build_id.is_some() && view.build_id == self.start.loader.build_id)
    }

    /// `map_library`: checks an opened file. musl does not check the machine. It does not check
    /// class and byte order either, but fails because it reads wrong values then.
    fn check(&self, file: &OpenedFile) -> Result<Arc<ObjectView>, (Outcome, Refusal)> {
        let wanted = &self.start.loader.ident;
        let header = if wanted.class == Class::Elf64 { 64 } else { 52 };
        let head = file.head.as_ref().map_err(|_| (Outcome::Refused, Refusal::UNREADABLE))?;
        if head.len() < header {
            return Err((Outcome::NotElf, Refusal::TOO_SHORT));
        }
        let view = file.object.as_ref().map_err(|error| match error {
            ElfError::NotElf => (Outcome::NotElf, Refusal::NOT_ELF),
            ElfError::Malformed(_) => (Outcome::Refused, Refusal::MALFORMED),
            ElfError::Unreadable(_) => (Outcome::Refused, Refusal::UNREADABLE),
        })?;
        let refused = |refusal| Err((Outcome::Refused, refusal));
        match view.ident.e_type {
            _ if view.ident.class != wanted.class => Err((Outcome::WrongClass, Refusal::HEADER)),
            _ if view.ident.endian != wanted.endian => refused(Refusal::HEADER),
            // `map_library` maps an executable at its own address and fails with `EBUSY` if it gets
            // another one. Two fixed address ranges are likely to overlap.
            ET_EXEC if self.start.subject.view.ident.e_type == ET_EXEC => {
                refused(Refusal::EXECUTABLE)
            }
            ET_DYN | ET_EXEC if view.dynamic.is_none() => refused(Refusal::NO_DYNAMIC),
            ET_DYN | ET_EXEC if !view.has_load => refused(Refusal::NO_SEGMENTS),
            ET_DYN | ET_EXEC => Ok(Arc::clone(view)),
            _ => refused(Refusal::KIND),
        }
    }
}

/// Returns true if musl answers a needed string with itself: `lib`, then a reserved name with its
/// dot, then anything.
fn is_loader(name: &[u8]) -> bool {
    let part = name.strip_prefix(b"lib");
    part.is_some_and(|part| RESERVED.iter().any(|word| part.starts_with(word)))
}
