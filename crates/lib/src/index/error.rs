//! The reasons why an index cannot be read, made or written.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use becalm_core::closure::ClosureError;
use becalm_core::index::{EmbedError, EncodeError};
use becalm_host::HostError;
use becalm_host::path_table::PathTableError;
use becalm_host::write::WriteError;
use bstr::ByteSlice;
use thiserror::Error;

use crate::index::trust::Untrusted;
use crate::path::path_of;
use crate::words::words_of_host;

/// The reason why an index cannot be read, made or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A file or folder cannot be read or written.
    #[error("{}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another user may have written the index.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The same for an index to update, if its stores are not named.
    #[error("{0}; name the stores, and it is made anew from their files")]
    NotUpdated(Untrusted),
    /// The loader splits `LD_AUDIT` at colons and replaces tokens in it.
    #[error("{}: LD_AUDIT cannot name a path with a colon or a dollar sign", .0.display())]
    NoName(PathBuf),
    /// The file is no index, or a damaged one.
    #[error("{}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The module in an index is not as becalm wrote it.
    #[error("the index is damaged: its module's check does not fit")]
    Module,
    /// The path of the index is taken by another file.
    #[error("{}: not an index; not overwritten", .0.display())]
    Taken(PathBuf),
    /// The environment has no home directory.
    #[error("no home directory; name the index with -o")]
    NoHome,
    /// A store is not a folder.
    #[error("{}: not a folder", .0.display())]
    NoFolder(PathBuf),
    /// A file is not a record of a run.
    #[error("{}: no record of becalm trace --json", .0.display())]
    NotARecord(PathBuf),
    /// The named folders have no program that can be indexed.
    #[error("{}: no program in this folder", .0.display())]
    NoProgram(PathBuf),
    /// The index to update does not exist.
    #[error("nothing to update: name the stores")]
    NoStores,
    /// The programs are for different machines.
    #[error(
        "{} is for {machine}, {} for {of_first}: an index is for one machine; make another \
         with becalm index --program {} -o FILE", .program.display(), .first.display(),
        .program.display()
    )]
    Machines {
        /// The program.
        program: PathBuf,
        /// Its machine.
        machine: &'static str,
        /// The first program.
        first: PathBuf,
        /// The machine of that one.
        of_first: &'static str,
    },
    /// The start of a program cannot be predicted.
    #[error(transparent)]
    Program(ClosureError),
    /// The loader of a program is unknown.
    #[error("{}: interpreter {}", .program.display(), in_words(.error))]
    Loader {
        /// The program.
        program: PathBuf,
        /// The reason.
        error: HostError,
    },
    /// No object has a loader.
    #[error("nothing to index: no ELF object with a loader")]
    Nothing,
    /// The stores have no object with a loader, and their paths were to be indexed.
    #[error(
        "nothing to index: no ELF object with a loader in the stores; --program names the program \
         whose lookups the paths answer, such as the interpreter of the scripts there"
    )]
    OnlyPaths,
    /// The given module is not an ELF file.
    #[error("{}: no module", .0.display())]
    NotAModule(PathBuf),
    /// The given module is for another machine.
    #[error("the module is for {given}, the objects are for {objects}")]
    OtherModule {
        /// The machine of the module.
        given: &'static str,
        /// The machine of the objects.
        objects: &'static str,
    },
    /// There is no audit module for the machine.
    #[error("no audit module for {0} is built in; becalm index takes one with --module")]
    NoModule(&'static str),
    /// The paths of a store cannot be listed.
    #[error(transparent)]
    Paths(#[from] PathTableError),
    /// The index exceeds a limit of the format.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The table does not fit the module.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// A file beside the index cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<ClosureError> for IndexError {
    fn from(error: ClosureError) -> Self {
        match error {
            ClosureError::Open { path, errno } => {
                let source = io::Error::from_raw_os_error(errno.0);
                Self::Io { path: path_of(path.as_ref()), source }
            }
            error => Self::Program(error),
        }
    }
}

fn in_words(error: &HostError) -> String {
    let (path, reason) = words_of_host(error);
    format!("{}: {reason}", path.as_bstr())
}

impl IndexError {
    /// Returns an error of the system about a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { path: path.into(), source }
    }

    /// Returns an error for damaged content of a file.
    pub(crate) fn damaged<E: StdError + Send + Sync + 'static>(
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        |error| Self::Damaged { path: path.into(), source: Box::new(error) }
    }
}
