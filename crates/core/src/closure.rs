//! Load-order walk: a program and the facts of its loader → [`Closure`].
//!
//! [`Subject::open`] looks at the file and says which interpreter it names, so that the
//! caller can find that loader's facts; [`resolve`] follows the start.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashSet;
use thiserror::Error;

use crate::elf::{Class, ElfError, Endian, Ident, ObjectView};
use crate::fs::{Errno, FileSystem, OpenedFile};
use crate::loader::load::{Answer, Load, LoadedObject, Resolution, Role, Start, Stop};
use crate::loader::{Environment, Libc, LoaderFacts, glibc, musl};
use crate::probe::{LoggedProbe, Probe};

/// Why a file has no closure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClosureError {
    /// The file cannot be opened.
    #[error("{path}: cannot open: errno {}", errno.0)]
    Open {
        /// The file.
        path: BString,
        /// Why.
        errno: Errno,
    },
    /// The file is no ELF file, or a broken one.
    #[error("{path}: {source}")]
    Elf {
        /// The file.
        path: BString,
        /// What is wrong.
        source: ElfError,
    },
    /// An object file, a core dump: nothing a loader starts or loads.
    #[error("{path}: neither a program nor a shared library")]
    NotLoadable {
        /// The file.
        path: BString,
    },
    /// The kernel would not find the interpreter, or it is no loader.
    #[error("{path}: interpreter {interpreter}: {reason}")]
    Interpreter {
        /// The program.
        path: BString,
        /// What it names.
        interpreter: BString,
        /// What is wrong with it.
        reason: String,
    },
}

/// A file whose closure is asked for.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The path, as asked.
    pub path: BString,
    /// The file.
    pub file: Arc<OpenedFile>,
    /// The object.
    pub view: Arc<ObjectView>,
    /// How it would be started.
    pub kind: SubjectKind,
}

/// How a subject would be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// A program; the kernel maps it and its interpreter.
    Program {
        /// `PT_INTERP`.
        interpreter: BString,
    },
    /// A library; checked as `ld.so LIBRARY` would load it.
    Library {
        /// The usual loader of its machine, where there is one.
        interpreter: Option<BString>,
    },
    /// Static: no loader, no search.
    Static,
}

impl Subject {
    /// Opens `path` and sees what it is.
    ///
    /// # Errors
    /// [`ClosureError`] where it cannot be opened or is nothing that is loaded.
    pub fn open(fs: &dyn FileSystem, path: &BStr) -> Result<Self, ClosureError> {
        let file =
            fs.open(path).map_err(|errno| ClosureError::Open { path: path.to_owned(), errno })?;
        let view = match &file.object {
            Ok(view) => Arc::clone(view),
            Err(source) => {
                let source = source.clone();
                return Err(ClosureError::Elf { path: path.to_owned(), source });
            }
        };
        let kind = match kind_of(fs, &view) {
            Some(kind) => kind,
            None => return Err(unusable(path, &view)),
        };
        Ok(Self { path: path.to_owned(), file, view, kind })
    }

    /// The interpreter to ask for facts; none for a static program.
    #[must_use]
    pub fn interpreter(&self) -> Option<&BStr> {
        match &self.kind {
            SubjectKind::Program { interpreter } => Some(interpreter.as_ref()),
            SubjectKind::Library { interpreter } => interpreter.as_ref().map(|path| path.as_ref()),
            SubjectKind::Static => None,
        }
    }
}

/// How an object would be started; `None` if neither the kernel nor a loader takes it.
///
/// A library's `PT_INTERP` counts only if the library is started as a program, as
/// `libc.so.6` can be: loaders never read it (glibc 2.36 `elf/dl-load.c`
/// `_dl_map_object_from_fd`). A library whose interpreter is malformed or missing is
/// therefore a library like any other.
fn kind_of(fs: &dyn FileSystem, view: &ObjectView) -> Option<SubjectKind> {
    const ET_EXEC: u16 = 2;
    const ET_DYN: u16 = 3;
    let library = || Some(SubjectKind::Library { interpreter: usual_interpreter(view) });
    let pie = view.dynamic.as_ref().is_some_and(|d| d.flags_1 & crate::elf::DF_1_PIE != 0);
    match (&view.interpreter, view.ident.e_type) {
        _ if !view.has_load => None,
        (Some(path), ET_DYN) if view.is_library() && fs.open(path.as_ref()).is_err() => library(),
        (Some(interpreter), ET_EXEC | ET_DYN) => {
            Some(SubjectKind::Program { interpreter: interpreter.clone() })
        }
        (None, ET_EXEC | ET_DYN) if view.interpreter_fault.is_some() => {
            view.is_library().then(library)?
        }
        (None, ET_EXEC) => Some(SubjectKind::Static),
        (None, ET_DYN) if pie => Some(SubjectKind::Static),
        // Debug information split off a program or library.
        (None, ET_DYN) if view.dynamic.is_none() => None,
        (None, ET_DYN) => library(),
        _ => None,
    }
}

/// Why an object is nothing that starts: a program's bad `PT_INTERP`, or its kind. Debug
/// information split off a program has a `PT_INTERP` without bytes, and no dynamic entries.
fn unusable(path: &BStr, view: &ObjectView) -> ClosureError {
    let path = path.to_owned();
    match view.interpreter_fault {
        Some(reason) if view.dynamic.is_some() => {
            ClosureError::Elf { path, source: ElfError::Malformed(reason) }
        }
        _ => ClosureError::NotLoadable { path },
    }
}

/// The path at which a machine's programs usually name their loader (glibc's
/// `shlib-versions` and `ABI.html` of the ports; for musl `/lib/ld-musl-$(ARCH).so.1`).
fn usual_interpreter(view: &ObjectView) -> Option<BString> {
    let mut needed = view.dynamic.iter().flat_map(|d| &d.dependencies);
    let musl = needed
        .find_map(|dependency| dependency.name.strip_prefix(b"libc.musl-"))
        .and_then(|rest| rest.strip_suffix(b".so.1"));
    if let Some(arch) = musl {
        return Some(format!("/lib/ld-musl-{}.so.1", arch.as_bstr()).into());
    }
    glibc_interpreter(&view.ident).map(BString::from)
}

fn glibc_interpreter(ident: &Ident) -> Option<&'static str> {
    use Class::{Elf32, Elf64};
    use Endian::{Big, Little};
    const ARM_HARD_FLOAT: u32 = 0x400;
    const MIPS_NAN2008: u32 = 0x400;
    Some(match (ident.machine, ident.class, ident.endian) {
        (62, Elf64, _) => "/lib64/ld-linux-x86-64.so.2",
        (62, Elf32, _) => "/libx32/ld-linux-x32.so.2",
        (3, ..) => "/lib/ld-linux.so.2",
        (183, Elf64, Little) => "/lib/ld-linux-aarch64.so.1",
        (183, Elf64, Big) => "/lib/ld-linux-aarch64_be.so.1",
        (40, ..) if ident.flags & ARM_HARD_FLOAT != 0 => "/lib/ld-linux-armhf.so.3",
        (40, ..) => "/lib/ld-linux.so.3",
        (21, _, Little) => "/lib64/ld64.so.2",
        (21, _, Big) => "/lib64/ld64.so.1",
        (20, ..) => "/lib/ld.so.1",
        (22, Elf64, _) => "/lib/ld64.so.1",
        (22, Elf32, _) => "/lib/ld.so.1",
        (243, Elf64, _) => "/lib/ld-linux-riscv64-lp64d.so.1",
        (258, ..) => "/lib64/ld-linux-loongarch-lp64d.so.1",
        (8, ..) if ident.flags & MIPS_NAN2008 != 0 => "/lib/ld-linux-mipsn8.so.1",
        (8, Elf64, _) => "/lib64/ld.so.1",
        (8, Elf32, _) => "/lib/ld.so.1",
        (2 | 18, ..) => "/lib/ld-linux.so.2",
        (43, ..) => "/lib64/ld-linux.so.2",
        (15, ..) => "/lib/ld.so.1",
        (4, ..) => "/lib/ld.so.1",
        (42, ..) => "/lib/ld-linux.so.2",
        (0x9026, ..) => "/lib/ld-linux.so.2",
        _ => return None,
    })
}

/// All that a subject loads and tries.
#[derive(Clone, Debug)]
pub struct Closure {
    /// The file asked for.
    pub subject: Subject,
    /// The facts the walk was made with; none for a static program.
    pub facts: Option<Arc<LoaderFacts>>,
    /// The walk.
    pub load: Load,
}

/// Follows the start of a subject. `facts` are those of the loader at `interpreter`,
/// which is the subject's own or one chosen for it; neither matters for a static one.
///
/// # Errors
/// [`ClosureError::Interpreter`] where the loader itself cannot be read.
pub fn resolve(
    fs: &dyn FileSystem,
    subject: Subject,
    interpreter: &BStr,
    facts: impl Into<Arc<LoaderFacts>>,
    environment: &Environment,
) -> Result<Closure, ClosureError> {
    let facts = facts.into();
    let bad_interpreter = |reason: String| ClosureError::Interpreter {
        path: subject.path.clone(),
        interpreter: interpreter.to_owned(),
        reason,
    };
    let loader = fs.open(interpreter).map_err(|errno| {
        bad_interpreter(match errno {
            Errno::NOENT => "not there".to_owned(),
            errno => format!("cannot open: errno {}", errno.0),
        })
    })?;
    let loader = loader.object.clone().map_err(|error| bad_interpreter(error.to_string()))?;
    let start = Start {
        path: subject.path.clone(),
        origin: origin_of(fs, &subject),
        file: Arc::clone(&subject.file),
        view: Arc::clone(&subject.view),
        interpreter: interpreter.to_owned(),
        loader,
    };
    let load = match facts.libc {
        Libc::Glibc(version) => glibc::load(fs, &start, version, &facts, environment),
        Libc::Musl => musl::load(fs, &start, &facts, environment),
    };
    Ok(Closure { subject, facts: Some(facts), load })
}

/// The closure of a static program: itself.
#[must_use]
pub fn of_static(subject: Subject) -> Closure {
    let object = LoadedObject {
        path: subject.path.clone(),
        id: subject.file.id,
        view: Arc::clone(&subject.view),
        role: Role::Program,
        loaded_by: None,
        namespace: 0,
    };
    let load = Load { objects: vec![object], ..Load::default() };
    Closure { subject, facts: None, load }
}

/// `$ORIGIN` of the subject: the kernel's name of a program has its links resolved, a
/// library that is handed to the loader keeps the path it was given.
fn origin_of(fs: &dyn FileSystem, subject: &Subject) -> BString {
    let real = match subject.kind {
        SubjectKind::Program { .. } => fs.canonicalize(subject.path.as_ref()).ok(),
        SubjectKind::Library { .. } | SubjectKind::Static => None,
    };
    let path = real.unwrap_or_else(|| absolute(fs, subject.path.as_ref()));
    glibc::dirname(&path)
}

fn absolute(fs: &dyn FileSystem, path: &BStr) -> BString {
    if path.starts_with(b"/") {
        return path.to_owned();
    }
    let mut whole = fs.current_dir();
    if !whole.ends_with(b"/") {
        whole.push(b'/');
    }
    whole.extend_from_slice(path);
    whole
}

impl Closure {
    /// The needed strings that nothing answers, each once, in the order asked.
    #[must_use]
    pub fn unresolved(&self) -> Vec<&BStr> {
        let mut seen: FxHashSet<&BStr> = FxHashSet::default();
        let unresolved = self.load.resolutions.iter().filter(|r| r.is_unresolved());
        let names = unresolved.map(|resolution| resolution.needed.as_bstr());
        names.filter(|needed| seen.insert(needed)).collect()
    }

    /// The resolution that ends the start before the program is reached.
    #[must_use]
    pub fn fatal(&self) -> Option<&Resolution> {
        match self.load.stop {
            Some(Stop::Refused(index)) => self.load.resolutions.get(index),
            Some(Stop::TooManyProbes) | None => None,
        }
    }

    /// The probes in full, in the loader's order.
    pub fn probes(&self) -> impl Iterator<Item = Probe> + '_ {
        self.load.probes.iter().map(|logged| self.probe(&logged))
    }

    /// A probe of this closure in full.
    #[must_use]
    pub fn probe(&self, logged: &LoggedProbe<'_>) -> Probe {
        let resolution = &self.load.resolutions[logged.resolution];
        Probe {
            needed_by: self.load.objects[resolution.needed_by].path.clone(),
            needed: resolution.needed.clone(),
            source: logged.source,
            path: logged.path.to_owned(),
            call: logged.call,
            outcome: logged.outcome,
        }
    }
}

impl Resolution {
    /// True where the asking object goes without: an auxiliary object or a preload that
    /// is not there harms nobody.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        use crate::elf::DependencyKind;
        use crate::loader::load::Reason;
        let wanted = match self.reason {
            Reason::Dependency(kind) => kind != DependencyKind::Auxiliary,
            Reason::Preload | Reason::Audit => false,
        };
        wanted && matches!(self.answer, Answer::Missing | Answer::Refused(_))
    }
}
