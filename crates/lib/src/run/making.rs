//! Makes the index of a program: in another process, or in the next `becalm index`.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use becalm_core::closure::Closure;
use becalm_core::facts::{Environment, GLIBC_RANGE, Libc};
use becalm_core::index::{Start as Known, encode, tls};
use becalm_core::loader::load::Resolution;
use becalm_host::OsFs;
use becalm_host::detached::{detached, lower_priority};
use becalm_host::index_store::{BindThreshold, Binding, IndexOptions, index_stores, trees_beside};
use becalm_host::inherited::survive_size_limit;
use bstr::BString;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::index::file::{self, Opened};
use crate::index::module::{Modules, Sealed};
use crate::index::programs::{closure_of, files_of};
use crate::index::settled::let_settle;
use crate::index::trust::Rule;
use crate::index::variables::environment_of_process;
use crate::index::{current, places};
use crate::path::{self, dirs_of, path_bytes, path_of};
use crate::run::Options;
use crate::run::error::{is_temporary, of_musl};
use crate::run::kept::Place;
use crate::run::program::{self, Found, Program};
use crate::words::words_of_chain;

/// An index with paths that has at most this many programs has their bindings copied into the index
/// of another program. From an index with more programs, none are copied.
const MOST_PROGRAMS: usize = 64;
/// The longest wait for another process that makes the index. The largest programs take seconds.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// The start that an index is made for. Paths are bytes because they need not be UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    program: BString,
    library_path: Option<BString>,
    preload: Option<BString>,
    stores: Vec<BString>,
    /// The trees that the program opens libraries from at run time.
    #[serde(default)]
    trees: Vec<BString>,
    /// The index whose paths are included.
    #[serde(default)]
    paths_from: Option<BString>,
    /// Is there if the program is bound, however few relocations it has, and so are these.
    #[serde(default)]
    told: Option<Vec<BString>>,
}

impl Request {
    /// Returns the request for the index of a program, with the paths of another index if there is one.
    pub(super) fn of(options: &Options, program: &Program, paths: Option<&Opened>) -> Self {
        let environment = environment_of_process();
        let mut trees = trees_beside(&program.path, &program.real);
        let all = |paths: &[PathBuf]| paths.iter().map(|path| path_bytes(path)).collect();
        let of_other = |other: &PathBuf| {
            let real = path::real(other);
            trees.extend(trees_beside(other, &real));
            path_bytes(&real)
        };
        let told = options.told.as_ref().map(|others| others.iter().map(of_other).collect());
        Self {
            program: path_bytes(&program.real),
            library_path: environment.library_path,
            preload: environment.preload,
            stores: all(&options.store.paths()),
            trees: all(&trees),
            paths_from: paths.map(|index| path_bytes(&index.path)),
            told,
        }
    }

    /// Returns the environment of the start, as far as it affects the loaded files.
    fn environment(&self) -> Environment {
        Environment {
            library_path: self.library_path.clone(),
            preload: self.preload.clone(),
            ..Environment::default()
        }
    }

    /// Returns the environment in which a program finds libraries that it would not find, or elsewhere.
    fn environment_with(&self, libraries: &Libraries, program: &Closure) -> Option<Environment> {
        let load = &program.load;
        let dir = |it: &Resolution| {
            let library = libraries.get(it.needed.as_slice())?;
            let found = it.answer.object().map(|at| path_of(load.objects[at].path.as_ref()));
            (found.as_ref() != Some(library)).then(|| library.parent()).flatten()
        };
        let dirs: BTreeSet<&Path> = load.resolutions.iter().filter_map(dir).collect();
        let list = env::join_paths(dirs).ok().filter(|list| !list.is_empty())?.into_vec();
        let whole = self.library_path.as_ref().map(|own| [&list, own.as_slice()].join(&b':'));
        Some(Environment { library_path: Some(whole.unwrap_or(list).into()), ..self.environment() })
    }
}

/// Starts another process that makes the index, or compares it with the files. Does nothing if a process is
/// already at work on it.
///
/// # Errors
/// Returns an error if the cache cannot be written, or no process can be made.
pub(super) fn elsewhere(place: &Place, request: &Request) -> Result<()> {
    let Some(lock) = place.lock()? else { return Ok(()) };
    let made = detached([&lock], |[lock]| {
        lower_priority();
        // One thread, to leave the CPUs to the program.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
        let _ = locked(place, request, lock);
    });
    drop(lock);
    made.or_else(|_| place.want(&serde_json::to_vec(request)?))
}

/// Makes the index in this process, or waits until another process that is at work on it has made
/// it. If that process dies, its lock is free, and the index is made here.
///
/// # Errors
/// Returns an error if the index cannot be made or kept, or if the other process works for longer
/// than [`PATIENCE`].
pub(super) fn here(place: &Place, request: &Request) -> Result<()> {
    let began = Instant::now();
    loop {
        if let Some(lock) = place.lock()? {
            return locked(place, request, lock);
        }
        if began.elapsed() > PATIENCE {
            bail!("{}: another process has been making it for minutes", place.path.display());
        }
        std::thread::sleep(PAUSE);
        if place.look()?.is_some() {
            return Ok(());
        }
    }
}

/// Makes the indexes that were requested.
pub fn make_wanted() {
    for (place, request) in Place::wanted() {
        let request: Option<Request> = serde_json::from_slice(&request).ok();
        if let (Some(request), Ok(Some(lock))) = (request, place.lock()) {
            let _ = locked(&place, &request, lock);
        }
    }
}

/// Makes the index while the lock is held, unless the existing one is current.
fn locked(place: &Place, request: &Request, lock: OwnedFd) -> Result<()> {
    let path = &place.path;
    let is_current =
        || file::read_trusted(path).is_ok_and(|whole| current::is_current(&whole.index));
    survive_size_limit();
    let make = || {
        places::check_exec(path)?;
        let Sealed { machine, file: bytes, .. } = sealed(request, &Libraries::default())?;
        file::write(path, machine.target, &bytes, Rule::Chosen)
    };
    let made = if is_current() { Ok(()) } else { make() };
    match &made {
        Ok(()) => {
            place.set_failure(None);
            place.touch();
        }
        // The next start tries again.
        Err(error) if is_temporary(error) => place.set_failure(None),
        Err(error) => place.set_failure(Some(&words_of_chain(error.as_ref()))),
    }
    place.finish();
    drop(lock);
    made
}

/// Libraries by file name.
pub type Libraries = FxHashMap<Vec<u8>, PathBuf>;

/// Makes the table of an index of a command and of the programs that it starts. These may be started so that they find
/// other libraries: these.
///
/// # Errors
/// Returns an error if there can be no index.
pub fn table(command: Found, told: Vec<PathBuf>, libraries: &Libraries) -> Result<Vec<u8>> {
    let program = Program::look(program::behind_env(command).0)?;
    settle(&program)?;
    let options = Options { told: Some(told), ..Options::default() };
    let sealed = sealed(&Request::of(&options, &program, None), libraries)?;
    Ok(encode(&sealed.machine.index, sealed.machine.target)?)
}

/// Waits until the files of a start are so old that an index of them leaves none out.
pub(super) fn settle(program: &Program) -> Result<()> {
    let files = files_of_start(program)?;
    let above: Vec<_> = files.iter().filter_map(|it| Some(it.parent()?.to_owned())).collect();
    let_settle(files.iter().chain(&above));
    Ok(())
}

fn sealed(request: &Request, libraries: &Libraries) -> Result<Sealed> {
    let os = OsFs::new();
    let program = path_of(&request.program);
    let environment = request.environment();
    let mut files = files_of(&closure(&os, &program, &environment)?);
    let from = request.paths_from.as_ref().map(|path| path_of(path));
    let from = from.map(|path| file::read_trusted(&path)).transpose()?;
    let mut only = vec![program];
    // Programs that it starts may be in the index with the paths, or were seen in earlier starts.
    let bound = from.iter().flat_map(|from| &from.index.bound.programs);
    let others: Vec<PathBuf> = bound.map(|program| path_of(program.path.as_ref())).collect();
    let others = if others.len() < MOST_PROGRAMS { others } else { Vec::new() };
    let seen = paths_of(request.told.as_deref().unwrap_or_default());
    let mut environments = vec![environment];
    for other in others.into_iter().chain(seen) {
        let Ok(found) = closure(&os, &other, &environments[0]) else { continue };
        files.extend(files_of(&found));
        let environment = request.environment_with(libraries, &found);
        if let Some(environment) = environment.filter(|it| !environments.contains(it)) {
            files.extend(closure(&os, &other, &environment).iter().flat_map(files_of));
            environments.push(environment);
        }
        only.push(other);
    }
    // Stubs need bindings.
    let needs_stubs = from.is_some() || request.told.is_some();
    let threshold = if needs_stubs { BindThreshold::ALL } else { BindThreshold::default() };
    let options = IndexOptions {
        prefixes: &paths_of(&request.stores),
        trees: &paths_of(&request.trees),
        files: &files,
        dirs: &dirs_of(request.library_path.as_ref().map(|list| OsStr::from_bytes(list))),
        bind: Some(Binding { threshold, only: Some(&only), environments: &environments }),
        ..IndexOptions::default()
    };
    let mut indexed = index_stores(&os, options);
    for machine in &mut indexed.machines {
        machine.index.is_told = request.told.is_some();
        if let Some(from) = &from {
            machine.index.paths.clone_from(&from.index.paths);
        }
    }
    Modules::new(None)?.seal(indexed)
}

fn paths_of(paths: &[BString]) -> Vec<PathBuf> {
    paths.iter().map(|path| path_of(path)).collect()
}

/// Returns the program, loader and libraries of a start in this environment, by prediction.
///
/// # Errors
/// Returns an error if the start cannot be predicted.
pub fn files_of_start(program: &Program) -> Result<Vec<PathBuf>> {
    let closure = closure(&OsFs::new(), &program.real, &environment_of_process())?;
    Ok(closure.load.objects.iter().map(|object| path_of(object.path.as_ref())).collect())
}

/// Returns the closure of a program in an environment, if its loader has audit modules.
fn closure(os: &OsFs, program: &Path, environment: &Environment) -> Result<Closure> {
    let closure = closure_of(os, program, environment)?;
    match closure.facts.as_ref().map(|facts| facts.libc) {
        Some(Libc::Musl) => Err(of_musl(program)),
        Some(libc @ Libc::Glibc(version)) if version < GLIBC_RANGE.0 => {
            let (program, least) = (program.display(), Libc::Glibc(GLIBC_RANGE.0));
            bail!("{program}: {libc} is too old for the audit module, which needs {least}");
        }
        _ => Ok(closure),
    }
}

/// Returns the needs of a program that is in no index; the default if its start cannot be followed.
pub fn need(program: &Program) -> Known {
    let os = OsFs::new();
    let closure = closure(&os, &program.real, &environment_of_process());
    closure.map_or_else(|_| Known::default(), |it| tls::of_closure(&it, &os.symbols()).0)
}

/// Returns the static TLS of a session: [`tls::SESSION`], or more if the libraries that this
/// process's environment preloads need it in every program, even in a small one (`/bin/sh`).
pub fn need_of_session() -> u64 {
    if !is_preloaded() {
        return tls::SESSION;
    }
    let small = program::find(OsStr::new("/bin/sh")).and_then(Program::look);
    let known = small.map(|small| need(&small));
    tls::SESSION.max(known.unwrap_or_default().static_tls.into())
}

/// True if this process's environment preloads libraries.
pub fn is_preloaded() -> bool {
    environment_of_process().preload.is_some()
}
