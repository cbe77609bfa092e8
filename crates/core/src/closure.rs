//! Predicts the closure of a program from the facts of its loader.
//!
//! [`Subject::open`] reads the file and its interpreter, so that the caller can find the facts of
//! this loader. [`resolve`] then predicts the start.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use object::elf::{EF_ARM_ABI_FLOAT_HARD, EF_MIPS_NAN2008};
use rustc_hash::FxHashSet;
use thiserror::Error;

use crate::elf::{Class, DependencyKind, ET_DYN, ET_EXEC, ElfError, Endian, Ident, ObjectView};
use crate::fs::{Errno, FileSystem};
use crate::loader::load::{Answer, Load, LoadedObject, Reason, Resolution, Role, Start, Stop};
pub use crate::loader::load::{Subject, SubjectKind};
use crate::loader::{Environment, Libc, LoaderFacts, glibc, musl};
use crate::path;
use crate::probe::{LoggedProbe, Probe};

/// Returned if a file has no closure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClosureError {
    /// The file cannot be opened.
    #[error("{path}: cannot open: errno {}", errno.0)]
    Open {
        /// The file.
        path: BString,
        /// The errno of `open`.
        errno: Errno,
    },
    /// The file is not an ELF file, or a malformed one.
    #[error("{path}")]
    Elf {
        /// The file.
        path: BString,
        /// The error of the parser.
        source: ElfError,
    },
    /// The file is neither started nor loaded by a loader, such as an object file or a core dump.
    #[error("{path}: neither a program nor a shared library")]
    NotLoadable {
        /// The file.
        path: BString,
    },
    /// The interpreter is missing or not a valid ELF file.
    #[error("{path}: interpreter {interpreter}: {reason}")]
    Interpreter {
        /// The program.
        path: BString,
        /// The interpreter.
        interpreter: BString,
        /// The error.
        reason: String,
    },
}

impl Subject {
    /// Opens `path` and finds out how it is started.
    ///
    /// # Errors
    /// Returns [`ClosureError`] if the file cannot be opened or cannot be started or loaded.
    pub fn open(fs: &dyn FileSystem, path: &BStr) -> Result<Self, ClosureError> {
        let file =
            fs.open(path).map_err(|errno| ClosureError::Open { path: path.to_owned(), errno })?;
        let object = file.object.clone();
        let view = object.map_err(|source| ClosureError::Elf { path: path.to_owned(), source })?;
        let kind = kind_of(fs, &view);
        let path = path.to_owned();
        match (kind, view.interpreter_fault) {
            (Some(kind), _) => {
                let interpreter = match kind {
                    SubjectKind::Program => view.interpreter.clone(),
                    SubjectKind::Library => usual_interpreter(&view),
                    SubjectKind::Static => None,
                };
                Ok(Self { path, file, view, kind, interpreter })
            }
            // The `PT_INTERP` of a file of separate debug information has no bytes. Such a file has no
            // dynamic entries either.
            (None, Some(reason)) if view.dynamic.is_some() => {
                Err(ClosureError::Elf { path, source: ElfError::Malformed(reason) })
            }
            (None, _) => Err(ClosureError::NotLoadable { path }),
        }
    }
}

/// Returns the way in which an object is started, or `None` if neither the kernel nor a loader
/// accepts it.
fn kind_of(fs: &dyn FileSystem, view: &ObjectView) -> Option<SubjectKind> {
    let pie = view.dynamic.as_ref().is_some_and(|d| d.flags_1 & crate::elf::DF_1_PIE != 0);
    match (&view.interpreter, view.ident.e_type) {
        _ if !view.has_load => None,
        // A loader does not read the `PT_INTERP` of a library (`_dl_map_object_from_fd`). It counts
        // only if the library can be started with it, like `libc.so.6`.
        (Some(path), ET_DYN) if view.is_library() && fs.open(path.as_ref()).is_err() => {
            Some(SubjectKind::Library)
        }
        (Some(_), ET_EXEC | ET_DYN) => Some(SubjectKind::Program),
        (None, ET_EXEC | ET_DYN) if view.interpreter_fault.is_some() => {
            view.is_library().then_some(SubjectKind::Library)
        }
        (None, ET_EXEC) => Some(SubjectKind::Static),
        // Only this flag tells a static PIE from a library.
        (None, ET_DYN) if pie => Some(SubjectKind::Static),
        // A file of separate debug information.
        (None, ET_DYN) if view.dynamic.is_none() => None,
        (None, ET_DYN) => Some(SubjectKind::Library),
        _ => None,
    }
}

/// Returns the usual `PT_INTERP` of a machine's programs (glibc's `shlib-versions`; for musl
/// `/lib/ld-musl-$(ARCH).so.1`).
fn usual_interpreter(view: &ObjectView) -> Option<BString> {
    // A library has no interpreter, but one linked with musl needs musl's C library.
    let musl = view.dependencies().find_map(|it| it.name.strip_prefix(b"libc.musl-"));
    match musl.and_then(|rest| rest.strip_suffix(b".so.1")) {
        Some(arch) => Some(format!("/lib/ld-musl-{}.so.1", arch.as_bstr()).into()),
        None => glibc_interpreter(&view.ident).map(BString::from),
    }
}

fn glibc_interpreter(ident: &Ident) -> Option<&'static str> {
    use Class::{Elf32, Elf64};
    use Endian::{Big, Little};
    Some(match (ident.machine, ident.class, ident.endian) {
        (62, Elf64, _) => "/lib64/ld-linux-x86-64.so.2",
        (62, Elf32, _) => "/libx32/ld-linux-x32.so.2",
        (183, Elf64, Little) => "/lib/ld-linux-aarch64.so.1",
        (183, Elf64, Big) => "/lib/ld-linux-aarch64_be.so.1",
        (40, ..) if ident.flags & EF_ARM_ABI_FLOAT_HARD != 0 => "/lib/ld-linux-armhf.so.3",
        (40, ..) => "/lib/ld-linux.so.3",
        (21, _, Little) => "/lib64/ld64.so.2",
        (21, _, Big) => "/lib64/ld64.so.1",
        (22, Elf64, _) => "/lib/ld64.so.1",
        (243, Elf64, _) => "/lib/ld-linux-riscv64-lp64d.so.1",
        (258, ..) => "/lib64/ld-linux-loongarch-lp64d.so.1",
        (8, ..) if ident.flags & EF_MIPS_NAN2008.0 != 0 => "/lib/ld-linux-mipsn8.so.1",
        (8, Elf64, _) => "/lib64/ld.so.1",
        // Among these are `EM_SPARC` and `EM_SPARC32PLUS`, whose programs have the same ABI, and
        // `EM_ALPHA`, a number that was never official.
        (2 | 3 | 18 | 42 | 0x9026, ..) => "/lib/ld-linux.so.2",
        (43, ..) => "/lib64/ld-linux.so.2",
        (4 | 8 | 15 | 20 | 22, ..) => "/lib/ld.so.1",
        _ => return None,
    })
}

/// The predicted start of a subject.
#[derive(Clone, Debug)]
pub struct Closure {
    /// The subject.
    pub subject: Subject,
    /// The facts of the loader. A static program has none.
    pub facts: Option<Arc<LoaderFacts>>,
    /// The objects, resolutions and probes.
    pub load: Load,
}

/// Predicts the start of a subject. `facts` are those of the loader at `interpreter`, which is the
/// subject's own or one that the caller chose. Both are ignored for a static program.
///
/// # Errors
/// Returns [`ClosureError::Interpreter`] if the loader itself cannot be read.
pub fn resolve(
    fs: &dyn FileSystem,
    subject: Subject,
    interpreter: &BStr,
    facts: impl Into<Arc<LoaderFacts>>,
    environment: &Environment,
) -> Result<Closure, ClosureError> {
    Starts { fs, facts: facts.into(), environment, found: None }.resolve(subject, interpreter)
}

pub use glibc::FoundBefore;

/// The starts of many programs with one loader and one environment. The result of a search is kept
/// for the next program that needs the same object, so [`Closure::load`] lacks the probes of most
/// searches.
pub struct Starts<'a> {
    /// The files.
    pub fs: &'a dyn FileSystem,
    /// The facts of the loader.
    pub facts: Arc<LoaderFacts>,
    /// The environment.
    pub environment: &'a Environment,
    /// The results of earlier starts by the same facts and environment.
    pub found: Option<&'a FoundBefore>,
}

impl Starts<'_> {
    /// Predicts the start of a program.
    ///
    /// # Errors
    /// Returns the errors of [`resolve`].
    pub fn resolve(&self, subject: Subject, interpreter: &BStr) -> Result<Closure, ClosureError> {
        let start = self.start(&subject, interpreter)?;
        let load = match self.facts.libc {
            Libc::Glibc(version) => {
                let Self { fs, facts, environment, found } = self;
                glibc::Process::new(*fs, &start, version, facts, environment, *found).load()
            }
            Libc::Musl => musl::load(self.fs, &start, &self.facts, self.environment),
        };
        Ok(Closure { subject, facts: Some(Arc::clone(&self.facts)), load })
    }

    fn start(&self, subject: &Subject, interpreter: &BStr) -> Result<Start, ClosureError> {
        let opened = self.fs.open(interpreter).map_err(|errno| match errno {
            Errno::NOENT => "no such file".to_owned(),
            Errno(errno) => format!("cannot open: errno {errno}"),
        });
        let loader = opened.and_then(|file| file.object.clone().map_err(|error| error.to_string()));
        let (path, interpreter) = (subject.path.clone(), interpreter.to_owned());
        match loader {
            Ok(loader) => {
                let origin = origin_of(self.fs, subject);
                Ok(Start { subject: subject.clone(), origin, interpreter, loader })
            }
            Err(reason) => Err(ClosureError::Interpreter { path, interpreter, reason }),
        }
    }
}

/// Makes the closure of a static program, which has the program only.
#[must_use]
pub fn of_static(subject: Subject) -> Closure {
    let object = LoadedObject::new(&subject.path, subject.file.id, &subject.view, Role::Program);
    let load = Load { objects: vec![object], ..Load::default() };
    Closure { subject, facts: None, load }
}

/// Returns the `$ORIGIN` of the subject.
fn origin_of(fs: &dyn FileSystem, subject: &Subject) -> BString {
    // `_dl_get_origin` reads the link /proc/self/exe of a program that the kernel mapped. A library
    // on the loader's command line keeps its path: for `ld.so PROGRAM` the link leads to the loader.
    let is_program = subject.kind == SubjectKind::Program;
    let real = is_program.then(|| fs.canonicalize(subject.path.as_ref()).ok()).flatten();
    let path = real.unwrap_or_else(|| fs.absolute(subject.path.as_ref()));
    path::dir(&path).to_owned()
}

impl Closure {
    /// Returns the needed strings without an answer, each once, in the order of the lookups.
    #[must_use]
    pub fn unresolved(&self) -> Vec<&BStr> {
        let mut seen: FxHashSet<&BStr> = FxHashSet::default();
        let unresolved = self.load.resolutions.iter().filter(|r| r.is_unresolved());
        let names = unresolved.map(|resolution| resolution.needed.as_bstr());
        names.filter(|needed| seen.insert(needed)).collect()
    }

    /// Returns the resolution that ends the start before the program's entry point, if there is one.
    #[must_use]
    pub fn fatal(&self) -> Option<&Resolution> {
        let Some(Stop::Refused(index)) = self.load.stop else { return None };
        self.load.resolutions.get(index)
    }

    /// Returns the probes with all their fields, in the loader's order.
    pub fn probes(&self) -> impl Iterator<Item = Probe> + '_ {
        self.load.probes.iter().map(|logged| self.probe(logged))
    }

    /// Returns a probe of this closure with all its fields.
    #[must_use]
    pub fn probe(&self, logged: &LoggedProbe) -> Probe {
        let resolution = &self.load.resolutions[logged.resolution];
        Probe {
            needed_by: self.load.objects[resolution.needed_by].path.clone(),
            needed: resolution.needed.clone(),
            source: logged.source,
            path: logged.path.clone(),
            call: logged.call,
            outcome: logged.outcome,
        }
    }
}

impl Resolution {
    /// Returns true if the requester lacks the object. A missing auxiliary object or preload does not
    /// count, because the loader continues without it.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        let wanted = [DependencyKind::Needed, DependencyKind::Filter].map(Reason::Dependency);
        wanted.contains(&self.reason) && matches!(self.answer, Answer::Missing | Answer::Refused(_))
    }
}
