//! The reasons why a session cannot use an index.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::index::error::IndexError;
use crate::index::places;
use crate::index::trust::Untrusted;

/// The reason why a session cannot use an index.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EnvError {
    /// The user has no home directory, and there is no index for all users.
    #[error(
        "HOME is not set, so no index of this user can be found, and there is none at {}; --index \
         FILE names one",
        places::SYSTEM
    )]
    NoHome,
    /// There is no index, neither of this user nor for all users.
    #[error("no index at {}; becalm index STORE... makes one", .0.display())]
    NoIndex(PathBuf),
    /// The index has no paths.
    #[error(
        "{}: the index has no paths; becalm index --paths STORE... makes one with those of packages",
        .0.display()
    )]
    WithoutPaths(PathBuf),
    /// If a user cannot read the index, the loader prints an error at every start of that user's
    /// programs. If a program uses another user's index, it grants that user its privileges.
    #[error(
        "{}: not for the programs of all users: {why}; as root, make one for all with {}becalm \
         index STORE... -o {}", .path.display(), make_dir(), places::SYSTEM
    )]
    NotForAll {
        /// The index.
        path: PathBuf,
        /// The reason.
        why: Untrusted,
    },
    /// The lines for shells and tools are text of one line each.
    #[error("{0} cannot be written for a shell or tool: not UTF-8, or with a control character")]
    NoText(String),
    /// The path of the running becalm is not known.
    #[error("the path of becalm is not known")]
    Itself(#[source] io::Error),
    /// The index cannot be read.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Returns the command that makes the directory of the index for all users, if the directory is
/// missing.
fn make_dir() -> String {
    let dir = Path::new(places::SYSTEM).parent().filter(|dir| !dir.is_dir());
    dir.map_or(String::new(), |dir| format!("mkdir -p {} && ", dir.display()))
}
