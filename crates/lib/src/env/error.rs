//! Why a session cannot be given an index.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::index::error::IndexError;
use crate::index::places;
use crate::index::trust::Untrusted;

/// Why a session cannot be given an index.
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
    #[error("{}: the index has no paths; becalm index --paths adds them", .0.display())]
    WithoutPaths(PathBuf),
    /// The loader of a program whose user cannot read the index says so on stderr at every start;
    /// one that follows another user's index gives that user its rights.
    #[error(
        "{}: not for the programs of all users: {why}; as root, make one for all with {}becalm \
         index STORE... -o {}", .path.display(), make_dir(), places::SYSTEM
    )]
    NotForAll {
        /// The index.
        path: PathBuf,
        /// Why not.
        why: Untrusted,
    },
    /// The index cannot be read.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// The command that makes the directory of the index for all users, if that is missing.
fn make_dir() -> String {
    let dir = Path::new(places::SYSTEM).parent().filter(|dir| !dir.is_dir());
    dir.map_or(String::new(), |dir| format!("mkdir -p {} && ", dir.display()))
}
