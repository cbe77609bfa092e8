//! Errors of the machine, each with its path.

use std::io;
use std::path::PathBuf;

use becalm_core::facts::Libc;
use thiserror::Error;

/// An error with the path and the system's error.
#[derive(Debug, Error)]
pub enum HostError {
    /// The directory to use as another root cannot be opened.
    #[error("{}: cannot be used as a root", path.display())]
    OpenRoot {
        /// The directory.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// `openat2` is missing (Linux before 5.6) or forbidden by a sandbox. Without it, links could
    /// leave another root.
    #[error(
        "{}: another root needs the openat2 system call (Linux 5.6), \
         which this system lacks or forbids",
        path.display()
    )]
    NoOpenat2 {
        /// The directory.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// A file or folder cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// A path given by the user is neither a folder nor a file that begins like ELF or Mach-O.
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
    /// The interpreter that a program names cannot be read.
    #[error("interpreter {}: cannot be read", path.display())]
    Interpreter {
        /// The interpreter's path in the program.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The interpreter's machine has no processor of the chosen name.
    #[error("interpreter {}: cannot be modelled for that processor", path.display())]
    UnknownCpu {
        /// The interpreter's path in the program.
        path: PathBuf,
        /// The name, and the valid names.
        #[source]
        source: becalm_core::search::hwcaps::UnknownCpu,
    },
    /// The loader does not call audit modules in the way that an index requires.
    #[error("interpreter {}: {libc} cannot use an index; glibc 2.31 and later can", path.display())]
    NoAudit {
        /// The interpreter's path in the program.
        path: PathBuf,
        /// Its C library.
        libc: Libc,
    },
    /// The interpreter is not a loader of the chosen C library.
    #[error("interpreter {}: not a loader of {libc}", path.display())]
    NotALoader {
        /// The interpreter's path in the program.
        path: PathBuf,
        /// The C library.
        libc: Libc,
    },
    /// The interpreter is not a known loader.
    #[error("interpreter {}: not a known loader; name its C library with --libc", path.display())]
    UnknownLoader {
        /// The interpreter's path in the program.
        path: PathBuf,
    },
}

/// Describes an error of the system, without its number.
#[must_use]
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let Some((before, number)) = text.split_once(" (os error ") else { return text };
    // Errors of temporary files end with a path.
    let rest = number.split_once(')').map_or("", |(_, rest)| rest);
    format!("{before}{rest}")
}
