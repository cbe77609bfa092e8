//! The program to be compared: what it loads, and in which packages of which store that
//! lies. What cannot be compared is refused here, before anything is copied.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use becalm_core::closure::{self, Closure, Subject, SubjectKind};
use becalm_core::facts::{Environment, Libc, LoaderFacts};
use becalm_core::loader::load::Role;
use becalm_host::trace::Command;
use becalm_host::{FactChoice, OsFs, loader_facts};
use becalm_lib::assume::StorePrefixes;
use becalm_lib::escape::shown;
use becalm_lib::path::path_bytes;
use becalm_lib::path::path_of;
use becalm_lib::words::{words, words_of_host};
use bstr::{BStr, BString, ByteSlice};

/// A program, and all that its start loads.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its file, links resolved.
    pub path: PathBuf,
    /// The file of its loader, likewise.
    pub interpreter: PathBuf,
    /// Facts compiled into its loader.
    pub facts: Arc<LoaderFacts>,
    /// Closure of its start.
    pub closure: Closure,
    /// The files of the objects that a strategy may change, links resolved, itself first.
    pub objects: Vec<PathBuf>,
    /// The store prefixes, for `--store`.
    pub stores: OsString,
    /// The prefixes among these in which objects lie.
    pub prefixes: Vec<PathBuf>,
    /// The packages that objects lie in, the loader's among them.
    pub packages: Vec<PathBuf>,
    /// How many of the objects lie in no package; they stay as they are.
    pub outside: usize,
}

impl Program {
    /// Looks at a program.
    ///
    /// # Errors
    /// One line that says why it cannot be compared.
    pub(crate) fn look(path: &Path, stores: &StorePrefixes) -> Result<Self> {
        let path = found(path)?;
        let shown = shown(path_bytes(&path).as_bstr());
        refuse_script(&path, &shown)?;
        let os = OsFs::new();
        let session = os.session();
        let subject = Subject::open(&session, path_bytes(&path).as_ref())?;
        let SubjectKind::Program { interpreter } = subject.kind.clone() else {
            bail!(match subject.kind {
                SubjectKind::Static => format!(
                    "{shown}: a static program: no loader searches for it; compare another \
                     program with it by --static"
                ),
                _ => format!("{shown}: a library, not a program"),
            });
        };
        let facts = facts(&os, &shown, interpreter.as_ref())?;
        let none = Environment::default();
        let closure =
            closure::resolve(&session, subject, interpreter.as_ref(), facts.clone(), &none)?;
        refuse_broken(&closure, &shown)?;
        let real = |path: &BStr| -> Result<PathBuf> {
            let path = path_of(path);
            path.canonicalize().map_err(|error| anyhow!("{}: {}", path.display(), words(&error)))
        };
        let interpreter = real(interpreter.as_ref())?;
        let loaded = closure.load.objects.iter();
        let loaded = loaded.filter(|object| matches!(object.role, Role::Program | Role::Library));
        let objects =
            loaded.map(|object| real(object.path.as_ref())).collect::<Result<Vec<_>>>()?;
        let mut program = Self {
            path,
            interpreter,
            facts,
            closure,
            objects,
            stores: stores.0.clone(),
            prefixes: Vec::new(),
            packages: Vec::new(),
            outside: 0,
        };
        program.place();
        Ok(program)
    }

    /// Finds the packages.
    fn place(&mut self) {
        let stores = StorePrefixes(self.stores.clone()).stores(&OsFs::new().session());
        let all = self.objects.iter().chain([&self.interpreter]);
        for (at, object) in all.enumerate() {
            let path = path_bytes(object);
            let Some(package) = stores.package_of(path.as_ref()) else {
                self.outside += usize::from(at < self.objects.len());
                continue;
            };
            self.packages.push(path_of(package));
            let prefix = path_of(package).parent().map(Path::to_owned);
            self.prefixes.extend(prefix);
        }
        self.packages.sort();
        self.packages.dedup();
        self.prefixes.sort();
        self.prefixes.dedup();
    }

    /// The package that the program itself lies in; `None` outside the stores.
    pub(crate) fn package(&self) -> Option<&Path> {
        self.packages.iter().find(|package| self.path.starts_with(package)).map(PathBuf::as_path)
    }

    /// The names of the subdirectories in which its loader looks for builds for its CPU.
    pub(crate) fn hwcaps(&self) -> Vec<OsString> {
        let active = self.facts.hwcaps.iter().chain(&self.facts.legacy_hwcaps);
        let platform = self.facts.platform.iter();
        active.chain(platform).map(|name| OsString::from_vec(name.to_vec())).collect()
    }
}

/// The file itself, or what `PATH` has of that name, links resolved.
pub(crate) fn found(path: &Path) -> Result<PathBuf> {
    let is_name = path.components().count() == 1 && !path.exists();
    let path = match is_name {
        true => Command::new(path, []).file().unwrap_or_else(|_| path.to_owned()),
        false => path.to_owned(),
    };
    let failed = |error| anyhow!("{}: {}", path.display(), words(&error));
    let real = path.canonicalize().map_err(failed)?;
    if !real.metadata().map_err(failed)?.is_file() {
        bail!("{}: not a program", path.display());
    }
    Ok(real)
}

fn refuse_script(path: &Path, shown_path: &str) -> Result<()> {
    let failed = |error| anyhow!("{shown_path}: {}", words(&error));
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(256).read_to_end(&mut head)).map_err(failed)?;
    if let Some(script) = head.strip_prefix(b"#!") {
        let line = script.lines().next().unwrap_or_default().trim_ascii();
        bail!("{shown_path}: a script; name what runs it: {}", shown(line.as_bstr()));
    }
    if !head.starts_with(b"\x7fELF") {
        bail!("{shown_path}: not an ELF file");
    }
    Ok(())
}

fn facts(os: &OsFs, shown_path: &str, interpreter: &BStr) -> Result<Arc<LoaderFacts>> {
    let facts = loader_facts(os, interpreter, &FactChoice::default()).map_err(|error| {
        let (path, reason) = words_of_host(&error);
        anyhow!("{shown_path}: interpreter {}: {reason}", shown(path.as_bstr()))
    })?;
    if facts.libc == Libc::Musl {
        bail!(
            "{shown_path}: a program for musl, for which there is no index, no note and no cache; \
             becalm fix --with absolute or farm calms it, becalm bench measures that"
        );
    }
    Ok(facts)
}

/// A start that is broken before anything is changed shows nothing.
fn refuse_broken(closure: &Closure, shown_path: &str) -> Result<()> {
    let unresolved: Vec<String> = closure.unresolved().iter().map(|needed| shown(needed)).collect();
    if !unresolved.is_empty() {
        bail!(
            "{shown_path}: its closure is not complete: nothing answers {}",
            unresolved.join(", ")
        );
    }
    if let Some(fatal) = closure.fatal() {
        bail!("{shown_path}: the loader gives up at {}", shown(BString::as_ref(&fatal.needed)));
    }
    Ok(())
}
