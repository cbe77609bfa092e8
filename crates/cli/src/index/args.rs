//! The arguments of `becalm index`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use becalm_host::index_store::BindThreshold;
use becalm_lib::assume::StorePrefixes;
use becalm_lib::index::make::Options;
use becalm_lib::path::{dirs_of, named_dirs_of, relative_dirs_of};
use becalm_lib::traced_run;
use clap::{Args, ValueHint};

/// The flags of `becalm index`.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// Stores: folders below which no file changes once it is there
    ///
    /// Without it, --update takes the stores of the index.
    #[arg(value_name = "STORE", required_unless_present_any = ["update", "program", "paths_from"], value_hint = ValueHint::DirPath)]
    pub stores: Vec<PathBuf>,

    /// A program to index, with the libraries of its start and its symbol bindings, or a folder of
    /// programs; may be repeated
    ///
    /// Its files need not be in a store: each is recognised by its build ID, size and times. In a
    /// folder, every executable is indexed that has an interpreter and is not set-id.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = "Input")]
    pub program: Vec<PathBuf>,

    /// Index the symbol bindings of programs with more than SYM relocations with a symbol, or more
    /// than REL relative ones [default: 2000,50000; for --program alone 0,0]
    #[arg(long, value_name = "SYM,REL", value_parser = threshold, help_heading = "Input")]
    pub bind_threshold: Option<BindThreshold>,

    /// Index the paths below the packages of the stores, for what programs search themselves
    ///
    /// In programs started with becalm run --paths, or in a session of becalm env --paths, lookups
    /// of missing files are answered without a system call. Packages are the entries named
    /// HASH-NAME, or all directories of a store that --store names. The symbol bindings of every
    /// program are indexed as well.
    #[arg(long, help_heading = "Input")]
    pub paths: bool,

    /// Index the programs of a traced run, and the paths of the packages that they searched
    ///
    /// FILE is a record of becalm trace --json. An update adds no other packages of these stores.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub paths_from: Option<PathBuf>,

    /// Accepted, and without effect: lookups in directories that change in place are the kernel's
    #[arg(long, value_name = "A:B", hide = true)]
    pub path_dirs: Vec<OsString>,

    /// Directories that LD_LIBRARY_PATH names, as separate arguments or as a list; may be repeated
    /// [default: those of the environment]
    ///
    /// '' stands for none. --update adds these to the directories of the index.
    ///
    /// The index keeps the names of their files, so that a search for another name costs nothing. A
    /// directory that has changed since is searched as always. A relative path or an empty element
    /// depends on the current directory of a process: it is left out, with a warning.
    #[arg(long, value_name = "A:B", help_heading = "Input")]
    pub dirs: Vec<OsString>,

    /// Module trees: the directories that their module files add to LD_LIBRARY_PATH are taken like
    /// those of --dirs [default: MODULEPATH, for directories below the stores]
    ///
    /// Files of Lmod (Lua) and Environment Modules (Tcl) are read and not run: literal paths, variables
    /// with literal values and pathJoin are understood. Lines that are not are named.
    #[arg(long, value_name = "A:B", help_heading = "Input")]
    pub modules: Vec<OsString>,

    /// Further prefixes of immutable directories, which are not walked
    #[command(flatten)]
    pub store: StorePrefixes,

    /// Index file to write; without it, the default one of `becalm run` and `becalm env`
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Recognise the files of root as those of a container image: by length, time of modification
    /// and build ID
    ///
    /// Each pull of an image gives its files other inodes and times of status change.
    /// docs/security.md says what is trusted then. --update keeps this choice.
    #[arg(long, help_heading = "Input")]
    pub image: bool,

    /// Directories below which the times of directories show each change, as separate arguments or as
    /// a list; may be repeated
    ///
    /// becalm knows this of ext4, XFS, Btrfs, NFS, Lustre and others, and not of FUSE file systems.
    /// There it compares the names in a directory at each start, and indexes no paths.
    #[arg(long, value_name = "A:B", help_heading = "Input")]
    pub trust_times: Vec<OsString>,

    /// Read again only what has changed since the index was made
    #[arg(long, help_heading = "Input")]
    pub update: bool,

    /// The audit module to put the table into, instead of the built-in one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub module: Option<PathBuf>,

    /// Write one JSON object, schema becalm/index/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Files to work on at once; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// Parses two numbers with a comma between them.
fn threshold(text: &str) -> anyhow::Result<BindThreshold> {
    let numbers = text.split_once(',').and_then(|(symbolic, relative)| {
        Some(BindThreshold { symbolic: symbolic.parse().ok()?, relative: relative.parse().ok()? })
    });
    numbers.ok_or_else(|| anyhow::anyhow!("two numbers with a comma, such as 2000,50000"))
}

impl IndexArgs {
    /// Returns the library's options for the index.
    ///
    /// # Errors
    /// Returns an error if the record of a traced run cannot be read.
    pub(crate) fn options(&self) -> Result<Options> {
        let prefixes = self.store.paths();
        let prefixes_are_named = self.store.list() != StorePrefixes::default().list();
        let named = if prefixes_are_named { &prefixes[..] } else { &[] };
        let traced = self.paths_from.as_ref().map(|path| traced_run::read(path, named));
        Ok(Options {
            stores: self.stores.clone(),
            programs: self.program.clone(),
            bind_threshold: self.bind_threshold,
            dirs: dirs_of(&self.dirs),
            relative_dirs: relative_dirs_of(&self.dirs),
            module_trees: named_dirs_of(&self.modules),
            in_session: self.dirs.is_empty(),
            prefixes,
            output: self.output.clone(),
            image: self.image,
            update: self.update,
            module: self.module.clone(),
            paths: self.paths,
            traced: traced.transpose()?,
            trusted_times: named_dirs_of(&self.trust_times),
            prefixes_are_named,
        })
    }
}
