//! The programs that a session does not start: those of an index, and those in `PATH`, which the
//! session starts under the index's module too.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use becalm_core::closure::SubjectKind;
use becalm_core::facts::Libc;
use becalm_core::index::{Start, tls};
use becalm_host::OsFs;
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::doctor::{Finding, FindingKind};
use crate::index::programs::closure_of;
use crate::index::variables::environment_of_process;
use crate::path::path_bytes;
use crate::words::{counted, grouped};

const ALIGNMENT: &str = "static-tls-alignment";
const TOO_LITTLE: &str = "static-tls";

/// A program that does not start in a session, or that has no answers in an index, or not all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The program.
    #[serde(serialize_with = "crate::json::lossy")]
    pub path: BString,
    /// The reason: `static-tls-alignment`, `static-tls`, or the reason why lookups are left to the
    /// loader, as in `becalm index`.
    pub reason: String,
    /// The number of its lookups that are left to the loader; 0 if the whole program is left out.
    pub lookups: usize,
}

impl LeftOut {
    /// Returns a program if a session with this static TLS does not start it.
    pub(super) fn of(path: &BString, needs: Start, session: u64) -> Option<Self> {
        let reason = match u64::from(needs.static_tls) {
            _ if needs.no_start => ALIGNMENT,
            bytes if bytes > session => TOO_LITTLE,
            _ => return None,
        };
        Some(Self { path: path.clone(), reason: reason.to_owned(), lookups: 0 })
    }
}

/// Returns the programs in the directories of `PATH` that a session with this static TLS does not
/// start. Files without a predictable start and those with other loaders than glibc's are left out.
pub(super) fn of_path(session: u64) -> Vec<LeftOut> {
    let (os, environment) = (OsFs::new(), environment_of_process());
    let of = |path: &PathBuf| {
        let closure = closure_of(&os, path, &environment).ok()?;
        let is_glibc = matches!(closure.facts.as_ref()?.libc, Libc::Glibc(_));
        let is_program = closure.subject.kind == SubjectKind::Program;
        (is_glibc && is_program).then_some(())?;
        let (needs, _) = tls::of_closure(&closure, &os.symbols());
        LeftOut::of(&path_bytes(path), needs, session)
    };
    files_of_path().par_iter().filter_map(of).collect()
}

/// Returns the regular files in the directories of `PATH` (links are followed), each by the first of its names.
fn files_of_path() -> Vec<PathBuf> {
    let list = env::var_os("PATH").unwrap_or_default();
    let mut seen = FxHashSet::default();
    let mut is_new = |path: &PathBuf| {
        let facts = path.metadata().ok().filter(|facts| facts.is_file());
        facts.is_some_and(|facts| seen.insert((facts.dev(), facts.ino())))
    };
    let mut files = Vec::new();
    for dir in env::split_paths(&list).filter(|dir| dir.is_absolute()) {
        let entries = dir.read_dir().into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        files.extend(paths.into_iter().filter(&mut is_new));
    }
    files
}

/// Returns the faults in the starts of programs; `whose` is where they are.
pub(super) fn findings(left_out: &[LeftOut], whose: &str, session: u64) -> Vec<Finding> {
    let of = |reason| {
        let count = left_out.iter().filter(|left| left.reason == reason).count() as u64;
        (count > 0).then(|| format!("{} {whose}", counted(count, "program", "programs")))
    };
    let no_start = of(ALIGNMENT).map(|programs| {
        let what = "cannot start under an audit module (alignment of static TLS)";
        let remedy = "start them with LD_AUDIT unset";
        Finding::new(FindingKind::NoStart, format!("{programs} {what}"), remedy)
    });
    let larger = of(TOO_LITTLE).map(|programs| {
        let bytes = grouped(session);
        let what = format!("may need more static TLS than the {bytes} bytes of this session");
        let remedy = "becalm run starts them; eval \"$(becalm env)\" sets what most need";
        Finding::new(FindingKind::StaticTls, format!("{programs} {what}"), remedy)
    });
    no_start.into_iter().chain(larger).collect()
}
