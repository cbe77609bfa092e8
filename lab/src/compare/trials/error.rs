//! The reasons why a property cannot be tested.

use std::io;
use std::path::{Path, PathBuf};

use crate::mount_namespace::MountNamespaceError;
use thiserror::Error;

use crate::compare::error::CompareError;

/// The reason why a property cannot be tested, or a strategy cannot be applied for it.
#[derive(Debug, Error)]
pub(super) enum TrialError {
    /// A file cannot be read, written or run.
    #[error("{}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A strategy cannot be applied, or a tree cannot be copied.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// There is no C compiler.
    #[error("no C compiler (cc)")]
    NoCompiler,
    /// The linker rejects a symbol that two libraries define.
    #[error("two libraries define the same symbol")]
    DefinedTwice,
    /// A tool failed, with the last line that it wrote.
    #[error("{tool}: {said}")]
    Tool {
        /// The tool.
        tool: &'static str,
        /// The line.
        said: String,
    },
    /// There is no `strip`.
    #[error("no strip here")]
    NoStrip,
    /// A static program cannot be linked.
    #[error("no static C library")]
    NoStaticLibrary,
    /// One program cannot be linked statically.
    #[error("it cannot be linked statically: {0}")]
    NotStatic(String),
    /// A program of the lab did not end in time.
    #[error("did not end")]
    NotEnded,
    /// The loader of this machine searches no hwcaps subdirectories.
    #[error("this machine's loader searches no hwcaps subdirectories")]
    NoVariants,
    /// Files cannot be given to another user.
    #[error("giving a program to another user needs root")]
    NotRoot,
    /// The file system ignores set-id bits.
    #[error("set-uid programs get no rights here (nosuid)")]
    NoSetId,
    /// The program of the table is in no store that a lab could replace.
    #[error("the program is in no store")]
    NoStore,
    /// A lab in the store would hide files that it needs.
    #[error("the loader or the scratch directory is in the store")]
    InStore,
    /// The given loader does not trust caches there.
    #[error("the given loader does not trust caches in {}", .0.display())]
    NoCaches(PathBuf),
    /// The given loader cannot be tested.
    #[error(transparent)]
    Loader(#[from] anyhow::Error),
    /// A mount namespace cannot be made or entered.
    #[error(transparent)]
    Namespace(#[from] MountNamespaceError),
    /// The loader does not run on this machine.
    #[error("the loader cannot be asked: it does not run here")]
    DoesNotRun,
    /// A strategy refused a file.
    #[error("{0}")]
    Refused(String),
    /// The strategy reports no prediction of the program's start.
    #[error("the strategy reports no prediction of the start")]
    NotForeseen,
    /// A strategy changed nothing.
    #[error("the program was left as it is")]
    Unchanged,
    /// The executable of this process is not an ELF file.
    #[error("this program")]
    OwnFile,
}

impl TrialError {
    /// Converts an error of the system about a file.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }
}
