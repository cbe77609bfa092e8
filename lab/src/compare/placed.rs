//! The program to compare, with the packages and stores of its objects.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becalm_core::loader::load::Role;
use becalm_host::OsFs;
use becalm_lib::advice::store_of;
use becalm_lib::assume::StorePrefixes;
use becalm_lib::compare::program;
use becalm_lib::path::{path_bytes, path_of};

/// A program and all objects that its start loads.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its file, its loader and its closure.
    pub start: program::Program,
    /// The files of the objects that a strategy may change, links resolved, the program first.
    pub objects: Vec<PathBuf>,
    /// The store prefixes, for `--store`.
    pub stores: OsString,
    /// The store prefixes that have objects of the program.
    pub prefixes: Vec<PathBuf>,
    /// The packages of the objects, including the loader's.
    pub packages: Vec<PathBuf>,
    /// The number of objects outside all packages; they are not changed.
    pub outside: usize,
    /// The store that is assumed, because no named store has the program.
    pub assumed_store: Option<PathBuf>,
}

impl Program {
    /// Examines a program.
    ///
    /// # Errors
    /// Returns an error if the program cannot be read or compared.
    pub(super) fn look(path: &Path, stores: &StorePrefixes) -> Result<Self> {
        let start = program::Program::look(path)?;
        let loaded = start.closure.load.objects.iter();
        let loaded = loaded.filter(|object| matches!(object.role, Role::Program | Role::Library));
        let real = |path: PathBuf| path.canonicalize().with_context(|| path.display().to_string());
        let objects = loaded.map(|object| real(path_of(object.path.as_ref())));
        let mut program = Self {
            objects: objects.collect::<Result<_>>()?,
            start,
            stores: stores.list(),
            prefixes: Vec::new(),
            packages: Vec::new(),
            outside: 0,
            assumed_store: None,
        };
        program.place();
        if program.packages.is_empty() {
            program.assume_store();
        }
        Ok(program)
    }

    /// Sets the store that `becalm check` and `advise` assume for the program.
    fn assume_store(&mut self) {
        let named =
            StorePrefixes { store: vec![self.stores.clone()] }.stores(&OsFs::new().session());
        let Some(store) =
            store_of(&named, &self.start.closure).map(|store| path_of(store.as_ref()))
        else {
            return;
        };
        if self.start.path.starts_with(&store) {
            self.stores = store.clone().into_os_string();
            self.assumed_store = Some(store);
            self.outside = 0;
            self.place();
        }
    }

    /// Finds the packages and store prefixes of the objects.
    fn place(&mut self) {
        let stores =
            StorePrefixes { store: vec![self.stores.clone()] }.stores(&OsFs::new().session());
        let all = self.objects.iter().chain([&self.start.interpreter]);
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

    /// Returns the package of the program itself; `None` outside the stores.
    pub(super) fn package(&self) -> Option<&Path> {
        self.packages
            .iter()
            .find(|package| self.start.path.starts_with(package))
            .map(PathBuf::as_path)
    }

    /// Returns the names of the hwcaps subdirectories that its loader searches.
    pub(super) fn hwcaps(&self) -> Vec<OsString> {
        let facts = &self.start.facts;
        let active = facts.hwcaps.iter().chain(&facts.legacy_hwcaps);
        let platform = facts.platform.iter();
        active.chain(platform).map(|name| OsString::from_vec(name.to_vec())).collect()
    }
}
