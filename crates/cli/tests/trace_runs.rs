//! `becalm trace` as a parent: the program's streams and exit code, bad commands, files that cannot
//! be written, and a run without a tracer.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use becalm_testing::skip;
use serde_json::Value;
use support::{Ran, assert_refused, becalm, cc, is_missing, no_compiler, run};

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
    let whole = fs::read("/bin/ls").expect("a program");
    file(&at("cut"), &whole[..whole.len() / 8], 0o755);
    assert_refused(&trace(&["--", name(&at("cut"))]), "killed while being loaded");
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
    if is_missing("strace", "strace") {
        return;
    }
    // A second tracer cannot attach to a traced process.
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

#[test]
fn what_is_typed_or_piped_is_the_programs_to_read() {
    use std::io::Write;
    use std::process::Stdio;
    let mut command = becalm();
    command.args(["trace", "-o", "/dev/null", "--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let written = child.stdin.take().expect("a pipe").write_all(b"one\ntwo\n");
    written.expect("read by nobody");
    let output = support::finish(child);
    assert_eq!(output.stdout, b"one\ntwo\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_program_is_in_the_process_group_that_becalm_was_started_in() {
    let group = |stat: &str| stat.split(' ').nth(4).map(str::to_owned);
    let ours = fs::read_to_string("/proc/self/stat").expect("our own");
    let ran = trace(&["-o", "/dev/null", "--", "cat", "/proc/self/stat"]);
    assert_eq!(group(&ran.stdout), group(&ours), "{ran:?}");
}

#[test]
fn processes_that_have_ended_are_not_said_to_run_still() {
    let line = "for i in 1 2 3 4 5 6 7; do sh -c 'exit 0'; x=$(echo $i); done; exit 6";
    for flags in [&["--syscalls"][..], &[], &["--syscalls", "--follow"], &["--follow"]] {
        let ran = trace(&[flags, &["--", "sh", "-c", line]].concat());
        assert_eq!(ran.code, Some(6), "{ran:?}");
        assert!(!ran.stderr.contains("still run"), "{flags:?}: {}", ran.stderr);
    }
}

#[test]
fn memory_does_not_grow_with_the_number_of_lookups() {
    // The program's parent is the tracer; its high-water mark is in kilobytes.
    let line = "i=0; while [ $i -lt $N ]; do [ -e /nonexistent-becalm/$i/x ]; i=$((i+1)); done
        grep VmHWM /proc/$PPID/status";
    let peak = |lookups: &str| -> u64 {
        let mut command = becalm();
        command.env("N", lookups).args(["trace", "-o", "/dev/null", "--", "sh", "-c", line]);
        let ran = run(&mut command);
        let mark = ran.stdout.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        mark.unwrap_or_else(|| panic!("no mark: {ran:?}"))
    };
    // Enough to fill every bounded table, and ten times as much.
    let (few, many) = (peak("5000"), peak("50000"));
    assert!(many < few + 1024, "{few} kB for 5,000 lookups, {many} kB for 50,000");
}

#[test]
fn an_emulator_named_on_the_command_line_is_traced_as_the_program_it_is() {
    let emulator = "/usr/bin/qemu-aarch64-static";
    if !Path::new(emulator).exists() {
        skip("no qemu-user-static");
        return;
    }
    let ran = trace(&["--", emulator, "-version"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("qemu-aarch64"), "{ran:?}");
    assert!(!ran.stderr.contains("emulator"), "traced, not given up: {}", ran.stderr);
    assert!(ran.stderr.contains("tracer "), "{}", ran.stderr);
}

#[test]
fn a_process_that_goes_on_is_said_to_be_the_programs() {
    let ran = trace(&["--", "sh", "-c", "sleep 2 >/dev/null 2>&1 & exit 0"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("1 process that the program started still runs"), "{ran:?}");
}

#[test]
fn a_fork_has_no_share_of_the_loader() {
    let line = "(exit 0); x=$(:); exit 0";
    let ran = trace(&["--follow", "--syscalls", "--", "sh", "-c", line]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let forks: Vec<&str> = ran.stderr.lines().filter(|line| line.contains(" (fork) [")).collect();
    for fork in &forks {
        assert!(fork.contains("]: program ") && !fork.contains("loader"), "{ran:?}");
        assert!(!fork.contains(" 0 ms"), "{ran:?}");
    }
    assert!(!forks.is_empty(), "{ran:?}");
}
