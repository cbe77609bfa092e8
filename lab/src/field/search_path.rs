//! Builds programs with a long search path: many directories, and libraries needed in an order that
//! makes most lookups fail.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rayon::prelude::*;

use crate::child;
use crate::import::write::joined;

/// Builds a program, which prints the sum of the numbers of its libraries, and so many directories below `dir`, with
/// libraries in them that need nothing themselves. Returns the paths of the program and of the directories.
/// Its run path has the directories if `has_run_path` is true; otherwise `LD_LIBRARY_PATH` must.
///
/// # Errors
/// Returns an error of the compiler or the file system.
pub(super) fn build(
    dir: &Path,
    dirs: usize,
    libraries: usize,
    has_run_path: bool,
) -> Result<(PathBuf, Vec<PathBuf>)> {
    let dir = dir.canonicalize()?;
    let dirs: Vec<PathBuf> =
        (1..=dirs).map(|number| dir.join(format!("package-{number:02}/lib"))).collect();
    dirs.iter().try_for_each(fs::create_dir_all)?;
    // The libraries go from the last directory to the first, so the library needed first causes the
    // most misses.
    let file = |(number, dir): (usize, &PathBuf)| dir.join(format!("libseed{number:03}.so"));
    let files: Vec<PathBuf> = (0..libraries).zip(dirs.iter().rev().cycle()).map(file).collect();
    files.par_iter().enumerate().try_for_each(|(number, file)| library(number, file))?;
    let program = dir.join("program");
    self::program(&program, &files, has_run_path.then_some(&dirs[..]))?;
    Ok((program, dirs))
}

fn library(number: usize, file: &Path) -> Result<()> {
    let source = format!("int seed{number}(void) {{ return {number}; }}\n");
    let soname = file.file_name().unwrap_or_default().to_string_lossy();
    let flags = ["-shared", "-fPIC", "-nostdlib", &format!("-Wl,-soname,{soname}")];
    child::compile(file, &source, &flags)
}

/// Builds a program that prints the sum of all libraries' return values.
fn program(file: &Path, libraries: &[PathBuf], run_path: Option<&[PathBuf]>) -> Result<()> {
    let numbers = 0..libraries.len();
    let declared: String =
        numbers.clone().map(|number| format!("int seed{number}(void);\n")).collect();
    let sum: Vec<String> = numbers.map(|number| format!("seed{number}()")).collect();
    let source = format!(
        "#include <stdio.h>\n{declared}int main(void) {{ printf(\"%d\\n\", {}); }}\n",
        sum.join(" + ")
    );
    let mut flags = vec!["-Wl,--no-as-needed".to_owned(), "-Wl,--enable-new-dtags".to_owned()];
    flags.extend(libraries.iter().map(|library| library.display().to_string()));
    flags.extend(run_path.map(|dirs| format!("-Wl,-rpath,{}", joined(dirs))));
    child::compile(file, &source, &flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a program and runs it. Returns the number of files that the loader tried.
    fn tried(dirs: usize, libraries: usize, has_run_path: bool) -> Option<usize> {
        if std::process::Command::new("cc").arg("--version").output().is_err() {
            becalm_testing::skip("no cc");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let (program, made) = build(dir.path(), dirs, libraries, has_run_path).unwrap();
        assert_eq!(made.len(), dirs);
        let mut command = child::command(&program);
        if !has_run_path {
            command.env("LD_LIBRARY_PATH", joined(&made));
        }
        let run = child::finish(command.env("LD_DEBUG", "libs")).unwrap();
        assert_eq!(run.stdout, format!("{}\n", (0..libraries).sum::<usize>()));
        Some(run.stderr.lines().filter(|line| line.contains("trying file=")).count())
    }

    #[test]
    fn thirty_five_run_path_directories_make_a_storm() {
        let Some(tried) = tried(35, 91, true) else { return };
        // Without hwcaps: 91 libraries, 18 directories each on average.
        assert!(tried > 1225, "{tried}");
    }

    #[test]
    fn thirteen_entries_of_the_library_path_make_a_storm() {
        let Some(tried) = tried(13, 26, false) else { return };
        // Without hwcaps: 26 libraries, 7 directories each on average.
        assert!(tried >= 182, "{tried}");
    }
}
