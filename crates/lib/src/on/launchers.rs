//! The launchers of desktops (`*.desktop` files) that name a program by its path. They start it without
//! `PATH`, and so plainly.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::index::places;
use crate::on::Program;

/// The directories of launchers if the environment names none (XDG base directory specification).
const DIRS: &str = "/usr/local/share:/usr/share";

/// The launchers and the absolute paths that they execute, one for each `Exec` line.
pub(super) struct Launchers(pub Vec<(PathBuf, PathBuf)>);

impl Launchers {
    /// Reads those of the environment: of the user first, unless they are for `all` users.
    pub(super) fn of_environment(for_all: bool) -> Self {
        let dirs = env::var_os("XDG_DATA_DIRS").filter(|dirs| !dirs.is_empty());
        let dirs = dirs.unwrap_or_else(|| DIRS.into());
        let own = places::data().filter(|_| !for_all);
        let dirs = own.into_iter().chain(env::split_paths(&dirs)).filter(|dir| dir.is_absolute());
        let files = dirs.flat_map(|dir| dir.join("applications").read_dir()).flatten().flatten();
        let mut all = Vec::new();
        for file in files.map(|entry| entry.path()) {
            if file.extension().is_some_and(|extension| extension == "desktop") {
                let text = fs::read_to_string(&file).unwrap_or_default();
                all.extend(text.lines().filter_map(executed).map(|path| (file.clone(), path)));
            }
        }
        all.sort();
        all.dedup();
        Self(all)
    }

    /// Adds to each program the launchers that start it plainly.
    pub(super) fn add_to(&self, programs: &mut [Program]) {
        let real = |path: &Path| path.canonicalize().ok();
        let all: Vec<_> = self.0.iter().map(|(file, path)| (file, real(path))).collect();
        for program in programs {
            let own = real(&program.path);
            let of_program = all.iter().filter(|(_, path)| path.is_some() && *path == own);
            program.launchers = of_program.map(|(file, _)| file.display().to_string()).collect();
        }
    }
}

/// Returns the absolute path that an `Exec` line executes, without `env` and its variables; `None` for
/// another line and for a name.
fn executed(line: &str) -> Option<PathBuf> {
    let command = line.strip_prefix("Exec")?.trim_start().strip_prefix('=')?;
    let is_of_env = |word: &str| word == "env" || word == "/usr/bin/env" || word.contains('=');
    let word = shlex::Shlex::new(command).find(|word| !is_of_env(word))?;
    word.starts_with('/').then(|| word.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_an_exec_line_is_found() {
        let found = |line| executed(line).map(|path| path.display().to_string());
        assert_eq!(found("Exec=/opt/a/b --flag %U").as_deref(), Some("/opt/a/b"));
        assert_eq!(found("Exec = \"/opt/a b/c\" %f").as_deref(), Some("/opt/a b/c"));
        assert_eq!(found("Exec=env A=1 B= /opt/c").as_deref(), Some("/opt/c"));
        for line in ["Exec=gimp %U", "Exec=", "Exec=env", "Exec=\"/a", "TryExec=/opt/a", "Execs=/a"]
        {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
