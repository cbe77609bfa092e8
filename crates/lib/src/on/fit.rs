//! The programs whose start an index can change.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use becalm_core::elf::machine_name;
use becalm_host::secure::is_set_id;

use crate::index::programs::libraries_of;
use crate::run::program::{self, Start as Kind};

/// Returns the file that a program's path leads to, if an index can be made for it and has an effect on its
/// start.
pub(super) fn file_that_can_start(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    (fit(path).is_ok() && libraries_of(&real).is_ok()).then_some(real)
}

/// Returns the reason if an index has no effect on the start of a program.
pub(super) fn fit(path: &Path) -> Result<(), &'static str> {
    let examined = program::Program::examine(program::Found::unopened(path));
    let (program, _) = examined.map_err(|_| "not a program that can be read")?;
    if path.canonicalize().ok() != Some(program.real) {
        return Err("a script; its interpreter can be switched on");
    }
    match program.start {
        Kind::Static => Err("a static program: its start has no search"),
        Kind::Secure => Err("starts in secure-execution mode: its loader ignores an index"),
        // Other users start it in secure-execution mode.
        _ if is_set_id(program.facts.mode()) => Err("a set-id program"),
        Kind::Musl => Err("musl's loader has no audit modules, so an index has no effect"),
        Kind::Loader(target) if machine_name(target.machine) != env::consts::ARCH => {
            Err("a program of another machine")
        }
        Kind::Loader(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_of_path_stays_open() {
        let open = || std::fs::read_dir("/proc/self/fd").expect("listed").count();
        let before = open();
        for _ in 0..50 {
            let _ = fit(&env::current_exe().expect("a path"));
        }
        assert!(open() < before + 50);
    }
}
