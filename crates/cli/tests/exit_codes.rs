//! `becalm check`: exit codes, budgets and bad input. A file that is not a program gives a clear
//! line on stderr, and the other paths are checked all the same.

mod support;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Fixture, becalm, check, check_as_user, finish, no_compiler, run};

/// A directory of files that cannot be checked.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a scratch directory")
}

fn elf_start() -> Vec<u8> {
    let image = fs::read(env!("CARGO_BIN_EXE_becalm")).expect("our own program");
    image[..200].to_vec()
}

#[test]
fn a_sound_program_is_fine() {
    assert_eq!(check(&["/bin/sh"]).code, Some(0));
}

#[test]
fn a_fifo_that_nobody_writes_to_is_not_waited_for() {
    let dir = scratch();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let (fifo, page) = (fifo.to_str().expect("UTF-8"), dir.path().join("page.html"));
    let page = page.to_str().expect("UTF-8");
    for arguments in [&["report", "--survey", fifo, "-o", page][..], &["trace", "--from", fifo]] {
        let mut command = becalm();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command.spawn().expect("starts"));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!Path::new(page).exists());
        // A slow writer is waited for: the end of a pipe is a FIFO too.
        let script = "exec \"$0\" \"$@\" < /dev/null 3< <(echo not a log) ";
        let of_pipe: Vec<&str> =
            arguments.iter().map(|&it| if it == fifo { "/dev/fd/3" } else { it }).collect();
        let mut command = Command::new("bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_becalm")]).args(of_pipe);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command.spawn().expect("starts"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && !said.contains("No such"), "{said}");
    }
}

#[test]
fn a_missing_path_fails_and_the_rest_goes_on() {
    let ran = check(&["/no/such/file", "/bin/sh"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stderr, "becalm: /no/such/file: No such file or directory\n");
    assert!(ran.stdout.contains("/bin/sh"), "{}", ran.stdout);
}

#[test]
fn an_unresolved_library_is_a_finding() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    assert_eq!(check(&[&fixture.app()]).code, Some(1));
}

#[test]
fn an_error_of_standard_output_names_it() {
    let us = env!("CARGO_BIN_EXE_becalm");
    let line = "becalm: standard output: No space left on device\n";
    for arguments in ["check /bin/sh", "check --json /bin/sh", "help run", "--version"] {
        let script = format!("'{us}' {arguments} >/dev/full");
        let ran = run(Command::new("sh").args(["-c", &script]));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), line), "{arguments}");
    }
}

#[test]
fn the_budget_holds_for_each_program_and_names_the_one_over_it() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let library = fixture.path("b/libone.so");
    let library = library.to_str().expect("UTF-8");
    let check = |files: &[&str]| {
        check(&[&["--max-misses", "1"], &Fixture::SAME_EVERYWHERE[..], files].concat())
    };
    let over = check(&[&fixture.app(), library]);
    assert_eq!(over.code, Some(1));
    assert!(over.stderr.ends_with("/app: 5 misses, over the budget of 1\n"), "{over:?}");
    assert_eq!(over.stderr.lines().count(), 1, "the library is within it: {over:?}");
    let within = check(&[library]);
    assert_eq!((within.code, within.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_wrong_flag_fails_and_help_is_a_result() {
    assert_eq!(check(&["--no-such-flag"]).code, Some(2));
    let help = check(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for part in ["Exit status:", "LD_LIBRARY_PATH", "becalm/check/1", "Examples:"] {
        assert!(help.stdout.contains(part), "no {part} in the help");
    }
}

#[test]
fn flags_that_exclude_each_other_or_may_be_repeated_are_described_so() {
    let help = |command: &str| run(becalm().args([command, "--help"])).stdout.replace('\n', " ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let check_help = words(&help("check"));
    assert!(check_help.contains("Not together with --ndjson"), "{check_help}");
    assert!(check_help.contains("--against, --files, --symbols or --bindings"), "{check_help}");
    assert!(check_help.contains("never change once made; may be repeated"), "{check_help}");
    assert!(!words(&help("index")).contains("--max-misses"));
    assert!(!words(&help("env")).contains("--max-misses"));
    let twice =
        run(becalm().args(["check", "--json", "--store", "/a", "--store", "/bin:/usr", "/bin/sh"]));
    assert_eq!(twice.code, Some(0), "{twice:?}");
    assert!(twice.stdout.contains("\"immutable\":true"), "{twice:?}");
}

#[test]
fn a_sysroot_that_is_none_is_one_line() {
    let ran = check(&["--sysroot", "/no/such/root", "/bin/sh"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stderr.lines().count(), 1);
    assert!(ran.stderr.starts_with("becalm: /no/such/root: "), "{}", ran.stderr);
}

#[test]
fn an_unknown_cpu_is_answered_with_the_known_ones() {
    let ran = check(&["--cpu", "abacus", "/bin/sh"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("abacus") && ran.stderr.contains("baseline"), "{}", ran.stderr);
}

#[test]
fn a_fifo_and_a_device_are_named_and_not_waited_for() {
    let dir = scratch();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    for path in [fifo.to_str().expect("UTF-8"), "/dev/zero"] {
        let ran = check(&[path]);
        assert_eq!(ran.stderr, format!("becalm: {path}: not a regular file\n"));
        assert_eq!(ran.code, Some(2));
    }
    // In a folder such a file is not an error.
    assert_eq!(check(&[dir.path()]).code, Some(0));
}

#[test]
fn truncated_and_random_files_are_one_clear_line_each() {
    let dir = scratch();
    let mut random = b"\x7fELF".to_vec();
    random.extend((0..400_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("text", b"no program\n".to_vec()),
        ("magic", b"\x7fELF".to_vec()),
        ("random", random),
        ("truncated", elf_start()),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, bytes).expect("written");
        let ran = check(&[&path]);
        assert_eq!(ran.code, Some(2), "{name}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{name}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("becalm: {}: ", path.display())), "{ran:?}");
        assert_eq!(ran.stdout, "", "{name}");
    }
}

#[test]
fn an_object_file_is_an_error_by_name_and_passed_over_in_a_folder() {
    if no_compiler() {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("x.c"), "int x;\n").expect("written");
    support::cc(dir.path(), &["-c", "x.c", "-o", "x.o"]);
    let named = check(&[dir.path().join("x.o")]);
    assert_eq!(named.code, Some(2));
    assert!(named.stderr.contains("neither a program nor a shared library"), "{named:?}");
    let folder = check(&[dir.path()]);
    assert_eq!((folder.code, folder.stdout.as_str()), (Some(0), ""), "{folder:?}");
}

#[test]
fn a_folder_without_elf_files_is_said_to_be_so() {
    let dir = scratch();
    let ran = check(&[dir.path()]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.ends_with("no ELF files in this folder\n"), "{ran:?}");
}

#[test]
fn a_name_with_control_bytes_stays_on_its_line() {
    let dir = scratch();
    let name = OsString::from_vec(b"evil\n\x1b[31m\xff.so".to_vec());
    let path = dir.path().join(name);
    fs::write(&path, elf_start()).expect("written");
    for argument in [path.as_path(), dir.path()] {
        let ran = check(&[argument]);
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(ran.stderr.contains("evil\\n\\x1b[31m\\xff.so: "), "{ran:?}");
    }
    let json: Value = serde_json::from_str(&check(&["--json".as_ref(), path.as_os_str()]).stdout)
        .expect("JSON in spite of the name");
    let told = json["errors"][0]["path"].as_str().expect("a path");
    assert!(told.ends_with("evil\n\u{1b}[31m\u{fffd}.so"), "{told:?}");
}

#[test]
fn an_unreadable_directory_is_reported_and_the_rest_goes_on() {
    let dir = scratch();
    fs::copy("/bin/sh", dir.path().join("sh")).expect("copied");
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).expect("made");
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    fs::set_permissions(&locked, closed).expect("closed");
    let ran = check_as_user(dir.path());
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("locked: Permission denied"), "{ran:?}");
    assert!(ran.stdout.contains("/sh"), "{ran:?}");
}

#[test]
fn a_mach_o_file_is_recognised() {
    let dir = scratch();
    let path = dir.path().join("mac");
    // A 64-bit header for arm64, MH_EXECUTE, without load commands.
    let fields = [0xFEED_FACF_u32, 0x0100_000C, 0, 2, 0, 0, 0, 0];
    fs::write(&path, fields.map(u32::to_le_bytes).concat()).expect("written");
    let ran = check(&[&path]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("Mach-O"), "{ran:?}");
    let json: Value =
        serde_json::from_str(&check(&["--json".as_ref(), path.as_os_str()]).stdout).expect("JSON");
    assert_eq!(json["programs"][0]["kind"], "mach-o");
    assert_eq!(json["programs"][0]["slices"][0]["dylibs"], 0);
}

#[test]
fn an_interrupt_ends_becalm_as_an_interrupt() {
    let mut child = becalm()
        .args(["check", "--probes", "/usr"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    // The pipe has no reader: becalm fills it and stays there.
    let pipe = child.stdout.take();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
    let output = finish(child);
    drop(pipe);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(2));
}

#[test]
fn manual_pages_and_completions_come_from_the_same_flags() {
    let dir = scratch();
    let ran = run(becalm().arg("generate").arg("man").arg(dir.path()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let page = fs::read_to_string(dir.path().join("becalm-check.1")).expect("a page");
    for part in [
        "EXIT STATUS",
        "ENVIRONMENT",
        "NO_COLOR",
        "LD_PRELOAD",
        "docs/json.md",
        "EXAMPLES",
        "\\-\\-max\\-misses",
    ] {
        assert!(page.contains(part), "no {part} in the page");
    }
    assert!(dir.path().join("becalm.1").exists());
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(becalm().args(["generate", "completions", shell]));
        assert!(ran.stdout.contains("max-misses"), "{shell}");
    }
}
