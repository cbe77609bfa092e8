//! The static TLS of a session: enough for every program that is known.
//!
//! Known are the programs of the index and those in the directories of `PATH`, which a session can
//! start by their names. glibc takes the surplus from each thread's stack (2.36
//! `nptl/allocatestack.c` `allocate_stack`): a large one costs no memory, but threads with small
//! stacks cannot be made. So programs of the index count up to [`LARGEST_STATIC_TLS`], and what a
//! program of `PATH` needs beyond that is said on stderr.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use becalm_core::facts::Environment;
use becalm_core::index::tls::StaticTls;
use becalm_host::OsFs;
use becalm_host::static_tls::needs_of_programs;
use becalm_lib::index::file::Opened;
use becalm_lib::index::static_tls::{LARGEST_STATIC_TLS, SESSION_STATIC_TLS};
use becalm_lib::path::bytes;
use bstr::BString;

use crate::terminal;
use crate::terminal::progress::Bar;

/// Why a program cannot be helped.
pub(crate) const NO_START: &str = "does not start in this session: a library of it has thread-local storage aligned as no \
     loader under an audit module can provide; start it with LD_AUDIT unset";

/// Static TLS of a session: the user's choice, and the programs that need more.
pub(crate) struct Needs {
    /// The value that the user chose.
    given: Option<u64>,
    /// Programs that need more than glibc's default.
    programs: Vec<(BString, StaticTls)>,
}

impl Needs {
    /// The value that the user chose, whatever programs need.
    pub(crate) fn given(bytes: u64) -> Self {
        Self { given: Some(bytes), programs: Vec::new() }
    }

    /// The needs of the programs in the directories of `PATH`, started in this environment, or
    /// (`for_all`) in that of a new session.
    pub(crate) fn of_path(for_all: bool) -> Self {
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
        let count = Bar::counting("programs of PATH looked at");
        let progress = |files: usize| count.add(files);
        let programs = needs_of_programs(&OsFs::new(), &dirs, &environment, &progress);
        drop(count);
        Self { given: None, programs }
    }

    /// The value of `glibc.rtld.optional_static_tls` in a session with that index.
    ///
    /// # Errors
    /// If the index is damaged.
    pub(crate) fn value(&self, index: Option<&Opened>) -> Result<u64> {
        if let Some(given) = self.given {
            return Ok(given);
        }
        let of_index = index.map_or(Ok(SESSION_STATIC_TLS), Opened::session_static_tls)?;
        Ok(of_index.max(self.largest().map_or(0, |(_, need)| need)))
    }

    /// The program that needs most, of those that can be helped.
    fn largest(&self) -> Option<(&BString, u64)> {
        let helped = self.programs.iter().filter(|(_, need)| !need.impossible);
        let needs = helped.filter_map(|(path, need)| Some((path, need.tunable()?)));
        needs.max_by_key(|&(_, need)| need)
    }

    /// Names the programs that do not start in the session, unless the index names them already,
    /// and the one that makes small threads fail.
    ///
    /// # Errors
    /// If the index is damaged.
    pub(crate) fn warn(&self, index: &Opened, session: u64) -> Result<()> {
        let named = index.index.no_start().with_context(|| index.path.display().to_string())?;
        for (program, need) in &self.programs {
            if need.impossible && !named.contains(program) {
                terminal::note(program.as_ref(), NO_START);
            }
        }
        if let Some((program, need)) = self.largest()
            && need == session
            && need > LARGEST_STATIC_TLS
        {
            let what = format!(
                "takes {need} bytes of static TLS, which this session has: no program in it can \
                 make threads with smaller stacks; becalm env --static-tls {SESSION_STATIC_TLS} \
                 leaves this program out"
            );
            terminal::note(program.as_ref(), &what);
        }
        Ok(())
    }
}
