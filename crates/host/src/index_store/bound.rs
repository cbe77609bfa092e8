//! Predicts the bindings of programs. For each start it predicts every relocation, and records the
//! fields by which the module recognises each file.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use becalm_core::closure::{Closure, FoundBefore, Starts, Subject};
use becalm_core::elf::ElfError;
use becalm_core::facts::{Environment, GlibcVersion, Libc};
use becalm_core::index::bound::{
    Binder, Bound, BoundObject, ImageFacts, NewProgram, NotBound, RELEASES, Written, dynamic_of,
    is_applied, written,
};
use becalm_core::index::build::Fingerprints;
use becalm_core::index::{Condition, Fingerprint, Program};
use becalm_core::loader::load::{Answer, Load, LoadedObject, Role};
use becalm_core::symbols::{self, BindOptions, Bindings, ObjectSymbols, SymbolFiles};
use bstr::BString;
use object::ReadCache;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use super::update::Before;
use super::{OsFingerprints, Work, path_bytes, path_of};
use crate::cache::Cache;
use crate::os_fs::Session;

/// Programs whose bindings are in memory at once.
const CHUNK: usize = 16;
/// Bytes of the tables of objects that are kept between programs.
const MOST_KEPT: usize = 32 << 20;
/// Since this release a lazily bound program under an audit module calls its functions directly
/// (glibc bug 15533).
const CALLS_DIRECTLY: GlibcVersion = GlibcVersion { major: 2, minor: 35 };

/// The threshold for binding a program: its load set has at least this many relocations, of either
/// kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindThreshold {
    /// Relocations with a symbol.
    pub symbolic: usize,
    /// Relative relocations.
    pub relative: usize,
}

impl Default for BindThreshold {
    fn default() -> Self {
        Self { symbolic: 2000, relative: 50_000 }
    }
}

impl BindThreshold {
    /// The threshold for every program that has anything to bind.
    pub const ALL: Self = Self { symbolic: 0, relative: 0 };

    /// Returns true if a program has too few relocations. Before [`CALLS_DIRECTLY`] every program
    /// gains from bindings.
    #[must_use]
    pub fn is_missed(self, libc: Libc, symbolic: usize, relative: usize) -> bool {
        let calls_directly = !matches!(libc, Libc::Glibc(version) if version < CALLS_DIRECTLY);
        let is_below = symbolic < self.symbolic && relative < self.relative;
        symbolic == 0 || calls_directly && is_below
    }
}

/// How programs are bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding<'a> {
    /// The programs to bind.
    pub threshold: BindThreshold,
    /// The only programs to bind, by their real paths. `None` means every program of the index.
    pub only: Option<&'a [PathBuf]>,
    /// The environments of their starts: libraries to preload, directories to search. None means an
    /// empty one.
    pub environments: &'a [Environment],
}

/// A file of a start, read once for all programs.
struct ObjectFile {
    symbols: Arc<ObjectSymbols>,
    /// The number of relocations with a symbol.
    symbolic: usize,
    image: ImageFacts,
    /// `None` if it changed a moment ago.
    fingerprint: Option<Fingerprint>,
}

/// The files of starts by path.
struct Files {
    fingerprints: OsFingerprints,
    known: Cache<BString, Arc<ObjectFile>>,
}

impl Files {
    fn get(&self, path: &BString) -> Result<Arc<ObjectFile>, ElfError> {
        if let Some(known) = self.known.get(path) {
            return Ok(known);
        }
        // Two threads may read the same file at the same time; they get the same result.
        let file = Arc::new(self.read(path)?);
        self.known.insert(path.clone(), Arc::clone(&file), file.symbols.memory());
        Ok(file)
    }

    fn read(&self, path: &BString) -> Result<ObjectFile, ElfError> {
        let fingerprint = self.fingerprints.fingerprint(path.as_ref()).ok();
        let of_content =
            |known: Fingerprint| Fingerprint { size: known.size, ..Fingerprint::default() };
        let fingerprint = match fingerprint {
            Some(known) if known.volume == 0 => Some(of_content(known)),
            known => known.filter(|known| known.is_settled(self.fingerprints.now())),
        };
        let unreadable =
            |error: std::io::Error| ElfError::Unreadable(error.raw_os_error().unwrap_or(libc::EIO));
        let file = File::open(path_of(path.as_ref())).map_err(unreadable)?;
        let cache = ReadCache::new(file);
        let symbols = Arc::new(ObjectSymbols::read(&cache)?);
        let malformed = ElfError::Malformed("its program headers lie outside it");
        let image = ImageFacts::read(&symbols, &cache).ok_or(malformed)?;
        let symbolic = symbols.symbolic_count();
        Ok(ObjectFile { symbols, symbolic, image, fingerprint })
    }
}

impl SymbolFiles for Files {
    fn symbols(&self, object: &LoadedObject) -> Result<Arc<ObjectSymbols>, ElfError> {
        self.get(&object.path).map(|file| Arc::clone(&file.symbols))
    }
}

/// The comparison with an earlier index, and the programs whose start is the same as there.
pub(super) type Kept<'a> = (&'a Before<'a>, FxHashSet<BString>);

impl Work<'_> {
    /// Returns the bindings of programs, and why other programs have none.
    pub(super) fn bound(
        &self,
        programs: &[Program],
        kept: Option<&Kept<'_>>,
    ) -> (Bound, Vec<(BString, NotBound)>) {
        let mut binder = Binder::new(self.group.ident.endian);
        let mut not_bound = Vec::new();
        let Some(options) = self.options.bind else { return (binder.finish(), not_bound) };
        let is_wanted = |path: &&BString| {
            options.only.is_none_or(|only| only.iter().any(|file| path_bytes(file) == **path))
        };
        let paths = programs.iter().map(|program| &program.path).filter(is_wanted);
        let mut paths: Vec<BString> = paths.cloned().collect();
        let is_tried = |release| (RELEASES.0..=RELEASES.1).contains(&release);
        let refused = match self.facts.libc {
            _ if !is_applied(&self.group.ident) => Some(NotBound::Machine),
            Libc::Glibc(release) if is_tried(release) => None,
            _ => Some(NotBound::Release),
        };
        if let Some(why) = refused {
            return (binder.finish(), paths.into_iter().map(|path| (path, why.clone())).collect());
        }
        let files = Files { fingerprints: self.fingerprints.clone(), known: Cache::new(MOST_KEPT) };
        if let Some(kept) = kept {
            paths.retain(|path| !self.keep(kept, path, &mut binder));
        }
        let empty = [Environment::default()];
        let environments = match options.environments {
            [] => &empty[..],
            environments => environments,
        };
        let environments: Vec<_> =
            environments.iter().map(|environment| (environment, FoundBefore::default())).collect();
        for chunk in paths.chunks(CHUNK) {
            let of_some = |paths: &[BString]| {
                let session = self.os.session();
                let starts = self.starts(&session, &environments);
                let predict = |path: &BString| -> Vec<_> {
                    let of = |starts| predict(&files, starts, path, options.threshold);
                    starts.iter().map(of).collect()
                };
                paths.iter().map(predict).collect::<Vec<_>>()
            };
            let some = chunk.len().div_ceil(rayon::current_num_threads());
            let predicted: Vec<_> = chunk.par_chunks(some).flat_map_iter(of_some).collect();
            for (path, starts) in chunk.iter().zip(predicted) {
                // The loader may have to bind a start of one environment alone.
                if starts.iter().all(Result::is_err) {
                    let why = starts.into_iter().find_map(Result::err);
                    not_bound.extend(why.map(|why| (path.clone(), why)));
                    continue;
                }
                starts.into_iter().flatten().for_each(|start| binder.add(start));
            }
        }
        not_bound.sort_by(|(path, _), (other, _)| path.cmp(other));
        (binder.finish(), not_bound)
    }

    /// Takes the bindings of a program from an earlier index, if it has any, for each environment.
    /// Returns false if they must be predicted.
    fn keep(&self, (before, same): &Kept<'_>, path: &BString, binder: &mut Binder) -> bool {
        if !same.contains(path) {
            return false;
        }
        let bound = &before.old.bound;
        let is_as_it_was = |object: &BoundObject| before.holds[&object.condition];
        let starts = bound.programs.iter().filter(|program| program.path == *path);
        let taken = starts.map(|it| bound.taken(it, self.group.ident.endian, &is_as_it_was));
        let taken: Option<Vec<NewProgram>> = taken.collect();
        taken.map(|starts| starts.into_iter().for_each(|start| binder.add(start))).is_some()
    }

    /// Returns the starts in each environment.
    pub(super) fn starts<'s>(
        &self,
        session: &'s Session<'_>,
        environments: &'s [(&Environment, FoundBefore)],
    ) -> Vec<Starts<'s>> {
        let of = |(environment, found): &'s (&Environment, FoundBefore)| Starts {
            fs: session,
            facts: Arc::clone(&self.facts),
            environment,
            found: Some(found),
        };
        environments.iter().map(of).collect()
    }
}

fn predict(
    files: &Files,
    starts: &Starts<'_>,
    path: &BString,
    threshold: BindThreshold,
) -> Result<NewProgram, NotBound> {
    let closure = start_of(starts, path).ok_or(NotBound::NoStart)?;
    let (load, facts) = (&closure.load, &*starts.facts);
    if load.stop.is_some() {
        return Err(NotBound::NoStart);
    }
    if load.resolutions.iter().any(|resolution| resolution.answer == Answer::Missing) {
        return Err(NotBound::Missing);
    }
    // Most programs have few relocations, and binding takes longer than counting.
    let (symbolic, relative) =
        counts(load, files).ok_or_else(|| NotBound::Unsettled(path.clone()))?;
    if threshold.is_missed(facts.libc, symbolic, relative) {
        return Err(NotBound::Few);
    }
    let bindings = symbols::bind(load, facts.libc, files, BindOptions::default());
    let bindings = bindings.map_err(|_| NotBound::Unsettled(path.clone()))?;
    if !bindings.missing_versions.is_empty() {
        return Err(NotBound::Missing);
    }
    let undefined_function = undefined(&bindings)?;
    let relocations = u32::try_from(symbolic).unwrap_or(u32::MAX);
    let Environment { library_path, preload, .. } = starts.environment.clone();
    let variables = Environment { library_path, preload, ..Environment::default() };
    let members = members(load, &bindings, files)?;
    Ok(NewProgram { path: path.clone(), members, undefined_function, relocations, variables })
}

fn start_of(starts: &Starts<'_>, path: &BString) -> Option<Closure> {
    let subject = Subject::open(starts.fs, path.as_ref()).ok()?;
    let interpreter = subject.interpreter.clone()?;
    starts.resolve(subject, interpreter.as_ref()).ok()
}

/// Relocations with a symbol, and relative ones, of all objects. `None` if they cannot be read.
fn counts(load: &Load, files: &Files) -> Option<(usize, usize)> {
    let (mut symbolic, mut relative) = (0, 0);
    for object in load.objects.iter().filter(|object| object.namespace == 0) {
        let file = files.get(&object.path).ok().filter(|file| file.symbols.machine.is_some())?;
        symbolic += file.symbolic;
        relative += file.symbols.relocations.relative.len();
    }
    Some((symbolic, relative))
}

/// Returns true if an undefined function is bound at its first call.
fn undefined(bindings: &Bindings) -> Result<bool, NotBound> {
    let mut is_any = false;
    for (index, binding) in bindings.undefined() {
        let object = &bindings.objects[index];
        if !object.is_lazy(binding) {
            let symbols = object.symbols.as_deref();
            let name = symbols.map_or(&b""[..], |symbols| symbols.symbol_name(binding.symbol));
            return Err(NotBound::Undefined(name.into()));
        }
        is_any = true;
    }
    Ok(is_any)
}

/// Returns the objects of a start, as in [`NewProgram::members`]. Stores are not looked at yet.
fn members(
    load: &Load,
    bindings: &Bindings,
    files: &Files,
) -> Result<Vec<(usize, BoundObject, Option<Written>)>, NotBound> {
    let mut members = Vec::with_capacity(load.objects.len());
    for (index, object) in load.objects.iter().enumerate() {
        if object.namespace != 0 || object.role == Role::Audit {
            continue;
        }
        let path = object.path.clone();
        let unsettled = || NotBound::Unsettled(path.clone());
        let file = files.get(&path).map_err(|_| unsettled())?;
        let condition = Condition::File(path.clone(), file.fingerprint.ok_or_else(unsettled)?);
        let (build_id, tables) = (file.image.build_id, file.image.tables.clone());
        // Times alone do not prove the content: a package may be changed in place.
        if build_id.is_none() && tables.is_none() {
            return Err(NotBound::NoBuildId(path));
        }
        let written = written(load, bindings, index, &file.image);
        let (dynamic, dynamic_hash) = dynamic_of(&file.symbols);
        let (is_rooted, condition) = (false, Arc::new(condition));
        let object =
            BoundObject { path, is_rooted, dynamic, dynamic_hash, build_id, tables, condition };
        members.push((index, object, written));
    }
    let has_any = members.iter().any(|(_, _, written)| written.is_some());
    if has_any { Ok(members) } else { Err(NotBound::Few) }
}
