//! `becalm trace` as a parent: the program's streams and exit code, bad commands, files
//! that cannot be written, and the run without a tracer.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{Ran, becalm, cc, no_compiler, run, skip};

fn trace(arguments: &[&str]) -> Ran {
    run(becalm().arg("trace").args(arguments))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a scratch directory")
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A file of this mode.
fn file(path: &Path, text: &[u8], mode: u32) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode set");
}

/// Exit code 2, nothing on stdout, one line on stderr that holds the words.
fn assert_refused(ran: &Ran, words: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.starts_with("becalm: ") && ran.stderr.contains(words), "{ran:?}");
}

#[test]
fn the_program_keeps_its_streams_and_its_exit_code() {
    let ran = trace(&["-o", "/dev/null", "--", "sh", "-c", "echo out; echo err >&2; exit 37"]);
    assert_eq!(ran.code, Some(37));
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", "err\n"));
}

#[test]
fn the_report_is_on_stderr_behind_what_the_program_wrote() {
    let ran = trace(&["--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "out\n"));
    assert!(ran.stderr.starts_with("err\n"), "{}", ran.stderr);
    for part in ["loader ", "storm ", "program ", "tracer ", "model ", "exit code 0"] {
        assert!(ran.stderr.contains(part), "no {part:?}: {}", ran.stderr);
    }
    assert!(ran.stderr.lines().count() <= 31, "more than a screen: {}", ran.stderr);
}

#[test]
fn a_signal_is_told_as_a_shell_tells_it() {
    let ran = trace(&["-o", "/dev/null", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(ran.code, Some(128 + 15));
}

#[test]
fn no_command_is_one_line() {
    assert_refused(&trace(&[]), "no command");
    assert_refused(&trace(&["--"]), "no command");
}

#[test]
fn an_unknown_option_is_not_taken_for_a_command() {
    let ran = trace(&["--jsn", "--", "true"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--jsn") && !ran.stderr.contains("not found"), "{ran:?}");
}

#[test]
fn options_of_the_program_are_the_programs() {
    let ran = trace(&["-o", "/dev/null", "echo", "--json", "-o", "x"]);
    assert_eq!(ran.stdout, "--json -o x\n");
}

#[test]
fn what_cannot_be_started_is_said_in_a_line() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    assert_refused(&trace(&["--", "no-such-command-here"]), "command not found");
    assert_refused(&trace(&["--", "/no/such/file"]), "not found");
    assert_refused(&trace(&["--", name(dir.path())]), "a directory");
    file(&at("data"), b"x", 0o644);
    assert_refused(&trace(&["--", name(&at("data"))]), "Permission denied");
    file(&at("script"), b"#!/no/such/interpreter -x\n", 0o755);
    assert_refused(&trace(&["--", name(&at("script"))]), "/no/such/interpreter is not there");
    file(&at("text"), b"echo hello\n", 0o755);
    assert_refused(&trace(&["--", name(&at("text"))]), "names its interpreter");
}

#[test]
fn a_program_for_another_machine_is_named_as_such() {
    let dir = scratch();
    let path = dir.path().join("alien");
    let mut image = fs::read(env!("CARGO_BIN_EXE_becalm")).expect("our own program");
    // EM_S390, little endian: no such machine, and no emulator for it.
    image[18..20].copy_from_slice(&22_u16.to_le_bytes());
    file(&path, &image, 0o755);
    assert_refused(&trace(&["--", name(&path)]), "does not run here");
}

#[test]
fn a_log_that_cannot_be_made_stops_the_program_from_being_started() {
    let dir = scratch();
    let mark = dir.path().join("started");
    for flag in ["--log", "-o"] {
        let ran = trace(&[flag, "/no/such/folder/log", "--", "touch", name(&mark)]);
        assert_refused(&ran, "/no/such/folder/log: No such file or directory");
        assert!(!mark.exists(), "{flag}: started all the same");
    }
}

#[test]
fn a_full_disk_is_said_and_the_program_has_run_to_its_end() {
    for flag in ["--log", "-o"] {
        let ran = trace(&[flag, "/dev/full", "--", "echo", "done"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), "done\n"), "{flag}");
        let last = ran.stderr.lines().last();
        assert_eq!(last, Some("becalm: /dev/full: No space left on device"), "{flag}");
    }
}

#[test]
fn a_program_that_dies_in_the_loader_is_told_as_far_as_it_came() {
    if no_compiler() {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("f.c"), "int f(void) { return 1; }\n").expect("written");
    fs::write(dir.path().join("m.c"), "int f(void); int main(void) { return f(); }\n")
        .expect("written");
    cc(dir.path(), &["-shared", "-fPIC", "f.c", "-o", "liblost.so"]);
    cc(dir.path(), &["m.c", "-o", "app", "-L.", "-llost"]);
    fs::remove_file(dir.path().join("liblost.so")).expect("removed");
    let app = dir.path().join("app");
    let report = dir.path().join("report");
    let ran = trace(&["--", name(&app)]);
    assert!(ran.stderr.contains("liblost.so not found, needed by"), "{ran:?}");
    let ran = trace(&["--json", "-o", name(&report), "--", name(&app)]);
    assert_eq!(ran.code, Some(127));
    let json: Value = serde_json::from_slice(&fs::read(&report).expect("a report")).expect("JSON");
    let image = &json["images"][0];
    assert_eq!(image["reached_entry"], false);
    assert_eq!(image["prediction"]["equal"], true, "{}", image["prediction"]);
    assert!(image["storm"]["missed_opens"].as_u64() > Some(0));
}

#[test]
fn where_tracing_is_not_permitted_the_loader_tells_and_the_loss_is_said() {
    if Command::new("strace").arg("-V").output().is_err() {
        skip("no strace");
        return;
    }
    // What one tracer watches another cannot.
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", env!("CARGO_BIN_EXE_becalm"), "trace"]);
    command.env("LD_LIBRARY_PATH", "/nonexistent-becalm");
    let ran = run(command.args(["--", "sh", "-c", "echo out; exit 3"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "out\n"));
    assert!(ran.stderr.contains("tracing is not permitted here"), "{}", ran.stderr);
    assert!(ran.stderr.contains("no stats, no times"), "{}", ran.stderr);
    assert!(ran.stderr.contains("as predicted"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("no misses"), "{}", ran.stderr);
}

#[test]
fn until_entry_lets_the_program_go_on_and_still_gives_its_exit_code() {
    let dir = scratch();
    let report = dir.path().join("report");
    let ran =
        trace(&["--until", "entry", "-o", name(&report), "--", "sh", "-c", "echo on; exit 5"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "on\n"));
    let report = fs::read_to_string(&report).expect("a report");
    assert!(report.contains("goes on untraced"), "{report}");
}
