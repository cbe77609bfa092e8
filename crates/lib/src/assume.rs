//! Assumptions of a prediction beyond the file itself: the root, the environment, the loader.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use becalm_core::fs::FileSystem;
use becalm_core::loader::{Environment, Libc, LoaderFacts, Readers, facts as loader_facts};
use becalm_core::search::Stores;
use becalm_core::strategy::Strategy;
use becalm_host::{FactChoice, OsFs};
use bstr::{BString, ByteSlice};

use crate::index::file::Indexes;
use crate::index::variables::{NO_BIND, OFF, SWITCHES, TUNABLES, has_switch};
use crate::path::{bytes, path_of};
use crate::words::words_of_host;

/// The choice of secure-execution mode for the predicted programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Secure {
    /// As the kernel decides: for set-id files of another user or group, and, for an ordinary user,
    /// files with capabilities.
    #[default]
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

/// Assumptions about the machine that programs start on: the flags of the commands that predict.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args), group(skip))]
pub struct Options {
    /// Take DIR for the root directory, as for another machine or architecture
    ///
    /// Absolute links inside DIR lead to places inside DIR, and nothing leads out of it. A PATH may
    /// be written from either root. The LD_ variables of the environment are then ignored.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, help_heading = "Assumptions"))]
    pub sysroot: Option<PathBuf>,

    /// The LD_LIBRARY_PATH to assume; '' for none
    ///
    /// Without it, that of the environment; none with --sysroot.
    #[cfg_attr(feature = "clap", arg(long, value_name = "LIST", help_heading = "Assumptions"))]
    pub library_path: Option<OsString>,

    /// The LD_PRELOAD to assume; '' for none
    ///
    /// Without it, that of the environment; none with --sysroot.
    #[cfg_attr(feature = "clap", arg(long, value_name = "LIST", help_heading = "Assumptions"))]
    pub preload: Option<OsString>,

    /// The LD_AUDIT to assume; '' for none
    ///
    /// Without it, that of the environment; none with --sysroot.
    #[cfg_attr(feature = "clap", arg(long, value_name = "LIST", help_heading = "Assumptions"))]
    pub audit: Option<OsString>,

    /// The loader to assume: for libraries, and in place of the interpreter of a program
    #[cfg_attr(feature = "clap", arg(long, value_name = "LD.SO", value_hint = clap::ValueHint::FilePath, help_heading = "Assumptions"))]
    pub loader: Option<PathBuf>,

    /// The C library whose rules apply: glibc-2.31 to glibc-2.44, or musl
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Assumptions"))]
    pub libc: Option<Libc>,

    /// The CPU whose hwcaps subdirectories are searched
    ///
    /// A level (x86-64-v3), a generation (haswell, power9, z14) or `baseline` for what every CPU of
    /// the architecture has. An unknown name is rejected with a list of the known ones.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help_heading = "Assumptions"))]
    pub cpu: Option<String>,

    /// Start programs in secure-execution mode, without LD_LIBRARY_PATH, or not
    ///
    /// `auto` predicts it as the kernel decides it: for set-id files of another user
    /// or group, and, for an ordinary user, files with capabilities.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "WHETHER", default_value = "auto", help_heading = "Assumptions")
    )]
    pub secure: Secure,

    /// The store prefixes.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub store: StorePrefixes,
}

/// The stores of Nix and Guix, as a list of prefixes.
pub const DEFAULT_STORES: &str = "/nix/store:/gnu/store";

/// The prefixes of immutable directories.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct StorePrefixes {
    /// Prefixes of stores: directories below one never change once made; may be repeated
    ///
    /// Only such directories may be skipped by an answer. Paths below a prefix are marked as
    /// immutable in the JSON.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "A:B",
            default_value = DEFAULT_STORES,
            help_heading = "Assumptions"
        )
    )]
    pub store: Vec<OsString>,
}

impl Default for StorePrefixes {
    /// Returns the prefixes of Nix and Guix.
    fn default() -> Self {
        Self { store: vec![DEFAULT_STORES.into()] }
    }
}

impl StorePrefixes {
    /// Returns the prefixes as stores. A prefix with links in its path counts under both paths.
    #[must_use]
    pub fn stores(&self, fs: &dyn FileSystem) -> Stores {
        self.parsed().resolved(fs)
    }

    /// Returns the prefixes as the user named them.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.parsed().iter().map(|path| path_of(path)).collect()
    }

    /// Returns the prefixes as one list with colons.
    #[must_use]
    pub fn list(&self) -> OsString {
        self.store.join(OsStr::new(":"))
    }

    fn parsed(&self) -> Stores {
        Stores::parse(bytes(&self.list()).as_ref())
    }
}

/// The assumptions that are the same for every file of one run.
#[derive(Debug)]
pub struct Assumptions {
    /// The file system programs are started in.
    pub fs: OsFs,
    /// The environment they are started with.
    pub environment: Environment,
    /// True if the formats that loaders read are detected.
    pub finds_readers: bool,
    /// The user's choice of C library and CPU, and `GLIBC_TUNABLES`.
    pub choice: FactChoice,
    /// The loader to assume, as a path inside the root.
    pub loader: Option<BString>,
    /// The choice of secure-execution mode.
    pub secure: Secure,
    /// The stores (`--store`), under both paths.
    pub stores: Stores,
    /// True if `BECALM=off` keeps indexes from answering.
    pub module_is_off: bool,
    /// True if `BECALM=nobind` leaves symbol bindings to the loader.
    pub bindings_are_off: bool,
    /// The indexes that programs are started with.
    pub indexes: Indexes,
}

impl Assumptions {
    /// Returns the assumptions that the flags and the environment make.
    ///
    /// # Errors
    /// Returns an error if the sysroot is not a directory that can be used as a root.
    pub fn new(options: &Options) -> Result<Self> {
        let fs = match &options.sysroot {
            None => OsFs::new(),
            Some(dir) => OsFs::in_root(dir).map_err(|error| {
                let (path, reason) = words_of_host(&error);
                anyhow!("{}: {reason}", crate::escape::shown(path.as_bstr()))
            })?,
        };
        let is_here = options.sysroot.is_none();
        Ok(Self::of(options, fs, |name| env::var_os(name).filter(|_| is_here).as_ref().map(bytes)))
    }

    /// Returns the assumptions that the flags make in an environment with these variables.
    pub(crate) fn of(options: &Options, fs: OsFs, own: impl Fn(&str) -> Option<BString>) -> Self {
        let variable = |flag: &Option<OsString>, name: &str| {
            let value = flag.as_ref().map(bytes).or_else(|| own(name));
            // An empty variable counts as unset for the loaders.
            value.filter(|value| !value.is_empty())
        };
        let environment = Environment {
            library_path: variable(&options.library_path, "LD_LIBRARY_PATH"),
            preload: variable(&options.preload, "LD_PRELOAD"),
            audit: variable(&options.audit, "LD_AUDIT"),
            secure: false,
            ..Environment::default()
        };
        let tunables = variable(&None, TUNABLES).unwrap_or_default();
        let choice = FactChoice { libc: options.libc, cpu: options.cpu.clone(), tunables };
        let switches = own(SWITCHES);
        let switches = switches.as_ref().map(|switches| OsStr::from_bytes(switches));
        Self {
            environment,
            finds_readers: false,
            choice,
            loader: options.loader.as_ref().map(|path| fs.inside(path)),
            secure: options.secure,
            stores: options.store.stores(&fs.session()),
            module_is_off: has_switch(switches, OFF),
            bindings_are_off: has_switch(switches, NO_BIND),
            indexes: Indexes::default(),
            fs,
        }
    }

    /// Sets the strategies that loaders read; if none are given, they are detected in the loaders'
    /// files, as `GLIBC_TUNABLES` enables them.
    pub fn reads(&mut self, reads: Option<&[Strategy]>) {
        self.finds_readers = reads.is_none();
        let formats = reads.unwrap_or_default().iter().filter_map(|strategy| strategy.row().format);
        self.environment.reads = Readers::of(&formats.collect::<Vec<_>>(), &self.stores.to_vec());
    }

    /// Returns the environment of a start. If the formats that loaders read are detected, they are those of its loader;
    /// in secure-execution mode tunables do not count.
    pub(crate) fn environment_of(
        &self,
        environment: &Environment,
        facts: &LoaderFacts,
        secure: bool,
    ) -> Environment {
        let found = facts.reads.clone();
        let reads = match facts.libc {
            _ if !self.finds_readers => environment.reads.clone(),
            // musl has no tunables.
            Libc::Musl => found,
            Libc::Glibc(_) => {
                loader_facts::switched(found, self.choice_of(secure).tunables.as_ref())
            }
        };
        Environment { secure, reads, ..environment.clone() }
    }

    /// Returns the choice for a start. In secure-execution mode tunables do not count.
    pub(crate) fn choice_of(&self, secure: bool) -> FactChoice {
        let mut choice = self.choice.clone();
        if secure {
            choice.tunables.clear();
        }
        choice
    }
}
