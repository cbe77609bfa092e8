//! The options of `becalm index`: the files to index, and the path of the index.

use std::path::{Path, PathBuf};

use becalm_host::index_store::BindThreshold;
use becalm_host::path_table::PathStore;
use bstr::BString;

use crate::index::trust::Rule;
use crate::path::path_bytes;
use crate::problem::Problem;
use crate::progress::Progress;

/// The files to index, and the path of the index.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Stores: folders below which no file changes once it is there.
    pub stores: Vec<PathBuf>,
    /// Programs that are indexed with the libraries of their starts and their symbol bindings, and
    /// folders of such.
    pub programs: Vec<PathBuf>,
    /// Relocations above which the symbol bindings of a program are indexed; none for the default
    /// numbers.
    pub bind_threshold: Option<BindThreshold>,
    /// Directories that `LD_LIBRARY_PATH` names, whose file names are kept in the index.
    pub dirs: Vec<PathBuf>,
    /// Elements of the same lists that are empty or relative paths. They depend on the current
    /// directory of a process: they are only reported.
    pub relative_dirs: Vec<PathBuf>,
    /// Module trees, as in `MODULEPATH`, whose module files name more of these directories.
    pub module_trees: Vec<PathBuf>,
    /// True if the directories of `LD_LIBRARY_PATH` in this process's environment are taken if none
    /// are named, and those below the stores that the module files of `MODULEPATH` name.
    pub in_session: bool,
    /// Further prefixes of immutable directories, which are not walked.
    pub prefixes: Vec<PathBuf>,
    /// The file to write; none for the user's own index.
    pub output: Option<PathBuf>,
    /// True if the files are those of a container image, of which there are copies.
    pub image: bool,
    /// True if an existing index is updated.
    pub update: bool,
    /// The audit module to put the table into; none for the built-in one.
    pub module: Option<PathBuf>,
    /// True if the paths below the packages of the stores are indexed, and the bindings of every
    /// program.
    pub paths: bool,
    /// A traced run: its programs are indexed, and the paths of the packages that it searched.
    pub traced: Option<Traced>,
    /// Directories below which the times of directories show each change, although their file system
    /// is not known for it.
    pub trusted_times: Vec<PathBuf>,
    /// True if the user named the prefixes: every indexed directory directly below one of them is
    /// then a package, whatever its name.
    pub prefixes_are_named: bool,
}

/// Programs and directories of a run: input of `becalm index --paths-from`, which [`crate::traced_run`] reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// The programs that it started, in order, each once.
    pub programs: Vec<PathBuf>,
    /// The packages that it searched, by store.
    pub stores: Vec<PathStore>,
    /// The directories that it searched and that are in no package, those with the most misses first.
    pub outside: Vec<BString>,
}

impl Options {
    /// Returns true if the stores and programs are those of the index that is updated.
    pub(super) fn names_nothing(&self) -> bool {
        self.programs.is_empty() && self.stores.is_empty() && self.traced.is_none()
    }

    /// Returns the rule of the folder that the index is written to.
    pub(super) fn rule(&self) -> Rule {
        if self.output.is_some() { Rule::Named } else { Rule::Chosen }
    }

    /// Reports what is not used.
    pub(super) fn remark(&self, progress: &dyn Progress) {
        let remark = |path, reason| progress.remark(&Problem::new(path_bytes(path), reason));
        let named = self.prefixes.iter().filter(|_| self.prefixes_are_named);
        for prefix in named.filter(|prefix| !prefix.exists()) {
            remark(prefix, "does not exist; without it, --store has no effect");
        }
        for tree in self.module_trees.iter().filter(|tree| !tree.is_dir()) {
            remark(tree, "no folder, so no module file of it is read");
        }
        for dir in &self.relative_dirs {
            let named = if dir.as_os_str().is_empty() { Path::new("(empty element)") } else { dir };
            remark(named, "not an absolute path, so it has no place in an index: left out");
        }
    }
}
