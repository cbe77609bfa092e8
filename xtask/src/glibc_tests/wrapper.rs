//! The program through which glibc's makefile starts each test (`test-wrapper` of its Makeconfig).
//! It adds the index to the test's audit modules, and a directory to those that the test searches.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// For `env NAME=VALUE… PROGRAM ARGUMENT…`, changes the variables that a test sets and adds the
/// others before the program. Some tests set `LD_AUDIT` for their children if it is not set; their
/// module is read from their source.
const SCRIPT: &str = r#"
[ "$1" = env ] || set -- env "$@"
left=$#
in_front=1
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  if [ "$in_front" ]; then
    case $word in
      LD_AUDIT=*) word=$word${audit:+:$audit} audit= ;;
      LD_LIBRARY_PATH=*) libraries= ;;
      env | -* | *=*) ;;
      *)
        in_front=
        own=$(sed -n 's/.*setenv ("LD_AUDIT", "\([^"]*\)", 0).*/\1/p' \
          "$sources/${word##*/}.c" 2>/dev/null)
        [ -z "$audit" ] || set -- "$@" "LD_AUDIT=${own:+$own:}$audit"
        [ -z "$libraries" ] || set -- "$@" "LD_LIBRARY_PATH=$libraries"
        [ -z "$log" ] || set -- "$@" "BECALM=log:$log"
        ;;
    esac
  fi
  set -- "$@" "$word"
done
exec "$@"
"#;

/// Additions to the environment of each test: the last audit module, the directory of `LD_LIBRARY_PATH` unless the
/// test sets it, and the log of becalm's module.
pub(super) type Added<'a> = [Option<&'a Path>; 3];

/// Writes the wrapper of tests whose sources are in `sources`, and returns the makefile's variable
/// that names it.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(super) fn write(file: &Path, sources: &Path, added: Added<'_>) -> Result<String> {
    let quoted =
        |path: Option<&Path>| path.map_or_else(String::new, |path| format!("'{}'", path.display()));
    let [audit, libraries, log] = added.map(quoted);
    let sources = quoted(Some(sources));
    let script = format!(
        "#!/bin/sh\naudit={audit} libraries={libraries} log={log} sources={sources}{SCRIPT}"
    );
    fs::write(file, script).with_context(|| file.display().to_string())?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(format!("test-wrapper={}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn run(audit: Option<&str>, library_path: Option<&str>, words: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wrapper");
        let log = audit.map(|_| "/log");
        let added = [audit, library_path, log].map(|path| path.map(Path::new));
        let variable = write(&file, folder.path(), added).unwrap();
        assert_eq!(variable, format!("test-wrapper={}", file.display()));
        let program = folder.path().join("tst");
        let show = "#!/bin/sh\necho \"[$LD_AUDIT] [$LD_LIBRARY_PATH] [$BECALM] [$A] $*\"\n";
        fs::write(&program, show).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        if words.contains(&"SETS=1") {
            let source = "  setenv (\"LD_AUDIT\", \"own.so\", 0);\n";
            fs::write(folder.path().join("tst.c"), source).unwrap();
        }
        let mut command = Command::new(&file);
        command.args(words).arg(&program).args(["a b", "LD_AUDIT=c"]).env_clear();
        let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn what_a_test_sets_itself_is_kept_and_the_rest_added() {
        let tail = "a b LD_AUDIT=c\n";
        assert_eq!(run(None, None, &["env", "A=1"]), format!("[] [] [] [1] {tail}"));
        let (module, library_path) = (Some("/i"), Some("/l"));
        let all = ["env", "A=1"];
        let log = "[log:/log]";
        assert_eq!(run(module, library_path, &all), format!("[/i] [/l] {log} [1] {tail}"));
        assert_eq!(run(module, library_path, &[]), format!("[/i] [/l] {log} [] {tail}"));
        let own = ["env", "LD_AUDIT=/o", "LD_LIBRARY_PATH=/p"];
        assert_eq!(run(module, library_path, &own), format!("[/o:/i] [/p] {log} [] {tail}"));
        assert_eq!(run(None, None, &own), format!("[/o] [/p] [] [] {tail}"));
    }

    #[test]
    fn a_module_that_a_test_sets_for_its_children_comes_first() {
        let sets = ["env", "SETS=1"];
        assert_eq!(run(Some("/i"), None, &sets), "[own.so:/i] [] [log:/log] [] a b LD_AUDIT=c\n");
        assert_eq!(run(None, None, &sets), "[] [] [] [] a b LD_AUDIT=c\n");
    }
}
