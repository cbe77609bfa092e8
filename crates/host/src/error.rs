//! What can go wrong between becalm and the machine, each with the path it is about.

use std::io;
use std::path::PathBuf;

use becalm_core::facts::Libc;
use thiserror::Error;

/// An error of the host: the path, and what the system said.
#[derive(Debug, Error)]
pub enum HostError {
    /// The directory given as another root cannot be opened.
    #[error("{}: cannot be used as a root", path.display())]
    OpenRoot {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// `openat2` is missing (Linux before 5.6) or forbidden by a sandbox; without it
    /// links cannot be kept inside another root.
    #[error(
        "{}: another root needs the openat2 system call (Linux 5.6), \
         which this system lacks or forbids",
        path.display()
    )]
    NoOpenat2 {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file or folder to be looked at cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A path given by the user is neither a folder nor a file that begins like an
    /// ELF or Mach-O file.
    #[error("{}: not an ELF or Mach-O file", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
    },
    /// A path given by the user is a FIFO, a socket or a device.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// The interpreter a program names cannot be read.
    #[error("interpreter {}: cannot be read", path.display())]
    Interpreter {
        /// The interpreter, as the program names it.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The machine of an interpreter has no processor of the name the user gave.
    #[error("interpreter {}: cannot be modelled for that processor", path.display())]
    UnknownCpu {
        /// The interpreter, as the program names it.
        path: PathBuf,
        /// The name, and those that would have done.
        #[source]
        source: becalm_core::search::hwcaps::UnknownCpu,
    },
    /// The loader asks no audit module as an index relies on.
    #[error("interpreter {}: {libc} is calmed by no index; glibc from 2.31 on is", path.display())]
    NoAudit {
        /// The interpreter, as the program names it.
        path: PathBuf,
        /// What it is.
        libc: Libc,
    },
    /// The interpreter is not a loader of the C library that the user named.
    #[error("interpreter {}: not a loader of {libc}", path.display())]
    NotALoader {
        /// The interpreter, as the program names it.
        path: PathBuf,
        /// The C library.
        libc: Libc,
    },
    /// The interpreter is no loader known here.
    #[error("interpreter {}: no loader known here; name it with --libc", path.display())]
    UnknownLoader {
        /// The interpreter, as the program names it.
        path: PathBuf,
    },
}
