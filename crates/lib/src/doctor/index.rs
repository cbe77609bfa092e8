//! The index of a session: whether it can be used, whether it is up to date, and which programs it
//! leaves out.

use std::ffi::OsStr;
use std::path::Path;
use std::time::UNIX_EPOCH;

use becalm_core::elf::machine_name;
use becalm_core::index::Index;
use becalm_core::index::build::Deferred;
use becalm_core::index::tls;
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::doctor::programs::{self, LeftOut};
use crate::doctor::{Finding, FindingKind, Session};
use crate::escape::shown;
use crate::fix::audit;
use crate::index::{current, file};
use crate::path::path_bytes;
use crate::words::{counted, words_of_chain};

/// An index and its state.
#[derive(Clone, Debug, Default, Serialize)]
pub struct IndexState {
    /// The file.
    #[serde(serialize_with = "crate::json::lossy")]
    pub path: BString,
    /// True if it can be read, is undamaged, and could only be written by root and this user.
    pub usable: bool,
    /// The machine that it is for.
    pub machine: Option<&'static str>,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The time when it was written or last compared with the files, in seconds since 1970.
    pub compared: Option<u64>,
    /// True if indexing the same stores again would give the same result; `None` if it is not
    /// usable.
    pub fresh: Option<bool>,
    /// The stores.
    pub stores: Vec<String>,
    /// Objects whose lookups it answers.
    pub objects: usize,
    /// Programs among them.
    pub programs: usize,
    /// Programs with symbol bindings.
    pub bound_programs: usize,
    /// The largest static TLS that a program of it needs; 0 if glibc's default is enough for all.
    pub static_tls: u64,
    /// Programs that it leaves out, or that have lookups left to the loader.
    pub left_out: Vec<LeftOut>,
}

impl IndexState {
    /// Examines an index. The session's static TLS counts if the session uses the index.
    pub(super) fn of(
        path: &Path,
        is_used: bool,
        session: &Session,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let mut state = Self { path: path_bytes(path), ..Self::default() };
        let opened = file::open(path);
        let whole = file::read_trusted(path);
        let (opened, whole) = match (opened, whole) {
            (Ok(opened), Ok(whole)) => (opened, whole),
            (Err(error), _) | (_, Err(error)) => {
                let what = format!("the index is not used: {}", words_of_chain(error.as_ref()));
                let remedy = match path.exists() && !file::is_index(path) {
                    true => "another file is there: give the path of an index".to_owned(),
                    false => format!("{} makes it anew", command_anew(path)),
                };
                findings.push(Finding::new(FindingKind::Unusable, what, remedy));
                return state;
            }
        };
        let index = &whole.index;
        let since = opened.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        state.usable = true;
        state.machine = Some(machine_name(whole.target.machine));
        state.bytes = whole.bytes.len() as u64;
        state.compared = since.map(|since| since.as_secs());
        state.stores =
            current::stores(index).iter().map(|store| store.display().to_string()).collect();
        state.objects = index.objects.iter().filter(|object| !object.path.is_empty()).count();
        state.programs = index.programs.len();
        state.bound_programs = index.bound.program_count();
        let needs = index.programs.iter().map(|program| u64::from(program.needs.static_tls));
        state.static_tls = needs.max().unwrap_or(0);
        let fresh = current::is_current(index);
        state.fresh = Some(fresh);
        if !fresh {
            findings.push(Finding::new(
                FindingKind::Stale,
                "the files have changed since the index was made; the loader searches for what \
                 changed",
                format!("becalm index --update -o {}", shown(state.path.as_ref())),
            ));
        }
        let list = session.library_path.as_deref();
        findings.extend(list.and_then(|list| state.of_library_path(index, list)));
        let of_libraries = match is_used {
            true => session.static_tls().unwrap_or(tls::DEFAULT_OPTIONAL),
            false => tls::SESSION,
        };
        state.left_out = left_out(index, of_libraries);
        findings.extend(programs::findings(&state.left_out, "of the index", of_libraries));
        state
    }

    /// Returns the fault of `LD_LIBRARY_PATH`: directories that are not in the index. One with hwcaps
    /// subdirectories cannot be.
    fn of_library_path(&self, index: &Index, list: &OsStr) -> Option<Finding> {
        let mut dirs = current::not_snapshotted(index, list);
        dirs.retain(|dir| !dir.join("glibc-hwcaps").exists());
        let first = shown(path_bytes(dirs.first()?).as_ref());
        let number = counted(dirs.len() as u64, "directory", "directories");
        let index = shown(self.path.as_ref());
        let what = format!(
            "{number} of LD_LIBRARY_PATH not in the index, {first} first: each lookup is searched \
             there"
        );
        let remedy = format!("becalm index --update -o {index} --dirs \"$LD_LIBRARY_PATH\"");
        Some(Finding::new(FindingKind::LibraryPath, what, remedy))
    }
}

/// Returns the command that makes the index at a path again.
fn command_anew(path: &Path) -> String {
    let bytes = path_bytes(path);
    match bytes.strip_suffix(audit::SUFFIX) {
        Some(program) => format!("becalm fix --with audit {}", shown(program.as_bstr())),
        None => format!("becalm index STORE... -o {}", shown(bytes.as_ref())),
    }
}

/// Returns the programs of an index that do not start in a session, and those with lookups that are
/// left to the loader, most lookups first.
fn left_out(index: &Index, session: u64) -> Vec<LeftOut> {
    let programs = index.programs.iter();
    let programs = programs.filter_map(|it| LeftOut::of(&it.path, it.needs, session));
    let mut left: Vec<LeftOut> = programs.collect();
    let objects = index.objects.iter().filter(|object| object.is_program);
    let deferred = objects.filter_map(|object| {
        let count = |reason: &Deferred| reason.count(&object.deferred);
        let lookups: usize = Deferred::ALL.iter().map(count).sum();
        let most = Deferred::ALL.iter().max_by_key(|reason| count(reason))?;
        let (path, reason) = (object.path.clone(), crate::json::name(most));
        (lookups > 0).then_some(LeftOut { path, reason, lookups })
    });
    let mut deferred: Vec<LeftOut> = deferred.collect();
    deferred.sort_by(|a, b| b.lookups.cmp(&a.lookups).then_with(|| a.path.cmp(&b.path)));
    left.extend(deferred);
    left
}

#[cfg(test)]
mod tests {
    use becalm_core::index::{Object, Program, Start};

    use super::*;

    fn program(path: &str, static_tls: u32, no_start: bool) -> Program {
        let needs = Start { static_tls, no_start };
        Program { path: path.into(), needs, ..Program::default() }
    }

    #[test]
    fn programs_that_do_not_start_come_before_those_with_lookups_left() {
        let object = |path: &str, is_program, deferred| Object {
            path: path.into(),
            canonical: true,
            closed: true,
            run_path: 0,
            is_program,
            seen: 0,
            searched: Vec::new(),
            in_stores: Vec::new(),
            rpath: None,
            deferred,
            edges: Vec::new(),
        };
        let index = Index {
            programs: vec![
                program("/a", 9000, false),
                program("/b", 0, true),
                program("/c", 1, false),
            ],
            objects: vec![
                object("/c", true, [1, 0, 3, 0, 0, 0, 0, 0]),
                object("/d", true, [0; 8]),
                object("/lib", false, [9; 8]),
            ],
            ..Index::default()
        };
        let left = left_out(&index, 8192);
        let told: Vec<(&str, &str, usize)> = left
            .iter()
            .map(|left| {
                (std::str::from_utf8(&left.path).expect("text"), left.reason.as_str(), left.lookups)
            })
            .collect();
        assert_eq!(
            told,
            [("/a", "static-tls", 0), ("/b", "static-tls-alignment", 0), ("/c", "hwcaps", 4)]
        );
    }
}
