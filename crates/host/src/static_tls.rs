//! Computes the static TLS that this machine's programs need under an audit module.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use becalm_core::closure::{self, Subject, SubjectKind};
use becalm_core::facts::{Environment, Libc};
use becalm_core::index::tls::{self, StaticTls};
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::path::path_bytes;
use crate::{FactChoice, OsFs, Session, loader_facts};

/// Number of programs that share a session of the file system.
const CHUNK: usize = 64;

/// Returns the programs in these directories (not below them; links are followed) that may need
/// more static TLS than glibc's default, with their need. Each file and each directory counts once.
/// Files without a predictable start and those with other loaders than glibc's are left out.
#[must_use]
pub fn needs_of_programs(
    os: &OsFs,
    dirs: &[PathBuf],
    environment: &Environment,
) -> Vec<(BString, StaticTls)> {
    let files = files_in(dirs);
    let of_chunk = |chunk: &[PathBuf]| {
        let session = os.session();
        let need = |path: &PathBuf| need_of(os, &session, path, environment);
        chunk.iter().filter_map(need).collect::<Vec<_>>()
    };
    files.par_chunks(CHUNK).flat_map_iter(of_chunk).collect()
}

/// Returns the regular files in directories, each by the first of its names.
fn files_in(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = FxHashSet::default();
    let mut is_new = |path: &Path, is_dir: bool| {
        path.metadata().is_ok_and(|facts| {
            facts.is_dir() == is_dir
                && (is_dir || facts.is_file())
                && seen.insert((facts.dev(), facts.ino()))
        })
    };
    let mut files = Vec::new();
    for dir in dirs {
        if !is_new(dir, true) {
            continue;
        }
        let entries = dir.read_dir().into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        files.extend(paths.into_iter().filter(|path| is_new(path, false)));
    }
    files
}

/// Returns the need of one program, or `None` if glibc's default is enough.
fn need_of(
    os: &OsFs,
    session: &Session<'_>,
    path: &Path,
    environment: &Environment,
) -> Option<(BString, StaticTls)> {
    let path = path_bytes(path);
    let subject = Subject::open(session, path.as_ref()).ok()?;
    let SubjectKind::Program { interpreter } = &subject.kind else { return None };
    let interpreter = interpreter.clone();
    let facts = loader_facts(os, interpreter.as_ref(), &FactChoice::default()).ok()?;
    if !matches!(facts.libc, Libc::Glibc(_)) {
        return None;
    }
    let closure =
        closure::resolve(session, subject, interpreter.as_ref(), facts, environment).ok()?;
    let need = tls::of_closure(&closure, &os.symbols());
    (need.impossible || need.tunable().is_some()).then_some((path, need))
}
