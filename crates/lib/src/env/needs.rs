//! The static TLS of a session: enough for every known program.
//!
//! Known programs are those of the index and those in the directories of `PATH`. glibc takes the
//! surplus from each thread's stack (2.36 `nptl/allocatestack.c` `allocate_stack`): a large one
//! costs no memory, but threads with small stacks cannot be created. So programs of the index count
//! up to [`LARGEST_STATIC_TLS`]; a larger need of a program in `PATH` is reported.

use std::env;
use std::path::PathBuf;

use becalm_core::facts::Environment;
use becalm_core::index::tls::StaticTls;
use becalm_host::OsFs;
use becalm_host::static_tls::needs_of_programs;
use bstr::BString;

use crate::index::error::IndexError;
use crate::index::file::Opened;
use crate::index::static_tls::{LARGEST_STATIC_TLS, SESSION_STATIC_TLS};
use crate::path::bytes;
use crate::progress::Progress;

/// Static TLS of a session: the user's choice, and the programs that need more.
pub(super) struct Needs {
    /// The value that the user chose.
    given: Option<u64>,
    /// Programs that need more than glibc's default.
    programs: Vec<(BString, StaticTls)>,
}

impl Needs {
    /// Uses the value that the user chose, whatever programs need.
    pub(super) fn given(bytes: u64) -> Self {
        Self { given: Some(bytes), programs: Vec::new() }
    }

    /// Returns the needs of the programs in the directories of `PATH`, started in this environment,
    /// or (`for_all`) in that of a new session.
    pub(super) fn of_path(for_all: bool, progress: &dyn Progress) -> Self {
        let dirs: Vec<PathBuf> = env::var_os("PATH")
            .map(|list| env::split_paths(&list).filter(|dir| dir.is_absolute()).collect())
            .unwrap_or_default();
        let variable = |name: &str| {
            let value = env::var_os(name).filter(|value| !for_all && !value.is_empty());
            value.as_ref().map(bytes)
        };
        let environment = Environment {
            library_path: variable("LD_LIBRARY_PATH"),
            preload: variable("LD_PRELOAD"),
            ..Environment::default()
        };
        let search = progress.search();
        let looked_at = |files: usize| search.add(files);
        let programs = needs_of_programs(&OsFs::new(), &dirs, &environment, &looked_at);
        Self { given: None, programs }
    }

    /// Returns the value of `glibc.rtld.optional_static_tls` in a session with that index.
    ///
    /// # Errors
    /// Returns an error if the index is damaged.
    pub(super) fn value(&self, index: Option<&Opened>) -> Result<u64, IndexError> {
        if let Some(given) = self.given {
            return Ok(given);
        }
        let of_index = index.map_or(Ok(SESSION_STATIC_TLS), Opened::session_static_tls)?;
        Ok(of_index.max(self.largest().map_or(0, |(_, need)| need)))
    }

    /// Returns the programs of `PATH` that no loader can start under an audit module.
    pub(super) fn impossible(&self) -> impl Iterator<Item = &BString> {
        self.programs.iter().filter(|(_, need)| need.impossible).map(|(program, _)| program)
    }

    /// Returns the program whose need makes threads with small stacks fail in the session.
    pub(super) fn beyond_small_stacks(&self, session: u64) -> Option<(&BString, u64)> {
        self.largest().filter(|&(_, need)| need == session && need > LARGEST_STATIC_TLS)
    }

    /// Returns the program that needs most, of those that can be helped.
    fn largest(&self) -> Option<(&BString, u64)> {
        let helped = self.programs.iter().filter(|(_, need)| !need.impossible);
        let needs = helped.filter_map(|(path, need)| Some((path, need.tunable()?)));
        needs.max_by_key(|&(_, need)| need)
    }
}
