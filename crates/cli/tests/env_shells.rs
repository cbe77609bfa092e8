//! `becalm env` in each form, read by the shell or tool that it is for.

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_testing::skip;
use serde_json::Value;

use support::store::{FLAT, Store, let_the_clock_pass, nothing_to_test_with, text};
use support::{Ran, is_missing, run};

/// A store with an index whose path has a character that shells give a meaning.
fn indexed() -> Store {
    let store = Store::of(FLAT);
    let_the_clock_pass();
    let (root, index) = (store.root(), store.path("it's an index!.so"));
    let made = run(&mut store.becalm(&["index", text(&root), "-o", text(&index)]));
    assert_eq!(made.code, Some(0), "{made:?}");
    store
}

/// Returns the output of `becalm env`.
fn lines(store: &Store, arguments: &[&str]) -> String {
    let index = store.path("it's an index!.so");
    let ran = run(&mut store.becalm(&[&["env", "--index", text(&index)], arguments].concat()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.stdout
}

/// A shell or tool with a variable of the user's own.
fn command(store: &Store, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("HOME", store.path("home"));
    command.env("GLIBC_TUNABLES", "glibc.malloc.check=1").env_remove("BECALM");
    command.env_remove("LD_AUDIT").env("APP", store.app()).env("US", env!("CARGO_BIN_EXE_becalm"));
    command.env("INDEX", store.path("it's an index!.so"));
    command
}

/// Asserts that the session had the variables as a POSIX shell gets them, and lost them again.
fn assert_calmed(store: &Store, ran: &Ran) {
    let sh = "eval \"$(\"$US\" env --index \"$INDEX\")\"; printf '%s\\n%s\\n' \"$LD_AUDIT\" \"$GLIBC_TUNABLES\"";
    let expected = run(&mut command(store, "sh", &["-c", sh])).stdout;
    assert!(expected.contains(".so.d/$PLATFORM\n"), "{expected}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let after = "one two\n\nglibc.malloc.check=1\n";
    assert_eq!(ran.stdout, format!("{expected}{after}"), "{ran:?}");
}

#[test]
fn csh_reads_the_lines_of_its_own() {
    if nothing_to_test_with() || is_missing("tcsh", "tcsh") {
        return;
    }
    let store = indexed();
    // tcsh has no quiet way to print an unset variable.
    // Its history would take the index's name apart; a user does not write it in a command either.
    let calm = store.path("calm");
    fs::write(&calm, "#!/bin/sh\nexec \"$US\" env --shell csh --index \"$INDEX\" \"$@\"\n")
        .expect("written");
    fs::set_permissions(&calm, fs::Permissions::from_mode(0o755)).expect("opened");
    let script = "eval \"`$CALM:q`\"\n\
        printenv LD_AUDIT\nprintenv GLIBC_TUNABLES\n$APP:q\n\
        eval \"`$CALM:q --undo`\"\n\
        if ($?LD_AUDIT) echo still\necho ''\nprintenv GLIBC_TUNABLES\n";
    let file = store.path("script.csh");
    fs::write(&file, script).expect("written");
    assert_calmed(&store, &run(command(&store, "tcsh", &["-f", text(&file)]).env("CALM", &calm)));
}

#[test]
fn fish_reads_the_lines_of_its_own() {
    if nothing_to_test_with() || is_missing("fish", "fish") {
        return;
    }
    let store = indexed();
    let script = "$US env --shell fish --index $INDEX | source\n\
        printf '%s\\n%s\\n' $LD_AUDIT $GLIBC_TUNABLES\n$APP\n\
        $US env --shell fish --undo --index $INDEX | source\n\
        printf '%s\\n' \"$LD_AUDIT\" $GLIBC_TUNABLES\n";
    assert_calmed(&store, &run(&mut command(&store, "fish", &["--no-config", "-c", script])));
}

#[test]
fn a_path_that_shells_and_tools_cannot_take_is_refused() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let made = run(&mut store.becalm(&["index", text(&store.root()), "-o", text(&store.index())]));
    assert_eq!(made.code, Some(0), "{made:?}");
    for name in [&b"a\xffb.so"[..], b"a\nb.so"] {
        let index = store.path("").join(std::ffi::OsStr::from_bytes(name));
        fs::copy(store.index(), &index).expect("copied");
        for more in [&[][..], &["--for", "lmod"], &["--for", "dockerfile"], &["--json"]] {
            let mut command = store.becalm(&["env"]);
            let ran = run(command.args(more).arg("--index").arg(&index));
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
            assert!(ran.stderr.contains("cannot be written for a shell"), "{ran:?}");
            assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        }
    }
    // A part of the user's own.
    let mut command = store.becalm(&["env", "--index", text(&store.index())]);
    let ran = run(command.env("GLIBC_TUNABLES", std::ffi::OsStr::from_bytes(b"x=\xff")));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
}

#[test]
fn json_has_the_values_that_a_shell_gets() {
    if nothing_to_test_with() {
        return;
    }
    let store = indexed();
    let printed = |flags: &str| {
        let script = format!(
            "eval \"$(\"$US\" env --index \"$INDEX\")\"; printf '%s\\n' \"${{LD_AUDIT-}}\" \
             \"$GLIBC_TUNABLES\"; unset LD_AUDIT; export GLIBC_TUNABLES=glibc.malloc.check=1; \
             exec \"$US\" env --index \"$INDEX\" --json {flags}"
        );
        let ran = run(&mut command(&store, "sh", &["-c", &script]));
        let lines: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
        let document: Value = serde_json::from_str(&lines[2]).expect("JSON");
        (lines, document)
    };
    let (lines, document) = printed("--no-bind");
    let values = [
        serde_json::json!({"name": "LD_AUDIT", "value": lines[0]}),
        serde_json::json!({"name": "GLIBC_TUNABLES", "value": lines[1]}),
        serde_json::json!({"name": "BECALM", "value": "nobind"}),
    ];
    assert_eq!(document["variables"].as_array().expect("a list"), &values, "{document}");
    assert_eq!(document["module"], lines[0].as_str());
    let tunable = format!("glibc.rtld.optional_static_tls={}", document["static_tls"]);
    assert!(lines[1].ends_with(&tunable), "{lines:?} {document}");
    let ran = run(&mut store.becalm(&["env", "--json", "--shell", "fish"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
}

/// Loads and unloads a module with the shell function `module` that `define` defines.
fn by_module(store: &Store, define: &str, file: &str, lines: &str) -> Ran {
    for known in ["90000", "0x10000", "0200000"] {
        let known = format!("glibc.rtld.optional_static_tls={known}");
        let ran = by_module_with(store, define, (file, lines), &known);
        let tunables: Vec<&str> = ran.stdout.lines().skip(1).step_by(3).collect();
        assert_eq!(tunables, [known.as_str(), &known], "a larger value stays: {ran:?}");
    }
    let known = "glibc.rtld.optional_static_tls=10";
    let ran = by_module_with(store, define, (file, lines), known);
    let tunables: Vec<&str> = ran.stdout.lines().skip(1).step_by(3).collect();
    assert!(tunables[0].starts_with(known) && tunables[0] != known, "{ran:?}");
    assert_eq!(tunables[1], known, "{ran:?}");
    by_module_with(store, define, (file, lines), "glibc.malloc.check=1")
}

/// Does the same in a session with these tunables.
fn by_module_with(store: &Store, define: &str, (file, lines): (&str, &str), known: &str) -> Ran {
    let dir = store.path("modulefiles");
    fs::create_dir_all(&dir).expect("made");
    fs::write(dir.join(file), lines).expect("written");
    let script = format!(
        "{define}\nexport MODULEPATH='{}'; module load becalm\n\
         printf '%s\\n%s\\n' \"$LD_AUDIT\" \"$GLIBC_TUNABLES\"; \"$APP\"; module unload becalm\n\
         printf '%s\\n' \"${{LD_AUDIT-}}\" \"$GLIBC_TUNABLES\"",
        text(&dir).replace('\'', "'\\''")
    );
    run(command(store, "bash", &["--norc", "-c", &script]).env("GLIBC_TUNABLES", known))
}

/// The command of Environment Modules: installed, or unpacked by scripts/setup beside Lmod, with
/// which Debian does not install it.
fn environment_modules() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let unpacked = tools.join("environment-modules/usr/lib");
    let places = [PathBuf::from("/usr/lib"), unpacked];
    let arch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let files = places.iter().map(|place| place.join(&arch).join("modulecmd.tcl"));
    files.into_iter().find(|file| file.is_file())
}

#[test]
fn environment_modules_load_and_unload_the_module_file() {
    if nothing_to_test_with() || is_missing("tclsh", "tcl") {
        return;
    }
    let Some(command) = environment_modules() else {
        skip("no Environment Modules (Debian: environment-modules; scripts/setup unpacks it)");
        return;
    };
    let store = indexed();
    let lines = lines(&store, &["--for", "tcl"]);
    let define = format!("module() {{ eval \"$(tclsh '{}' bash \"$@\")\"; }}", text(&command));
    assert_calmed(&store, &by_module(&store, &define, "becalm", &lines));
}

#[test]
fn lmod_loads_and_unloads_the_module_files() {
    const INIT: &str = "/usr/share/lmod/lmod/init/bash";
    if nothing_to_test_with() {
        return;
    }
    if !Path::new(INIT).is_file() {
        skip("no Lmod (Debian: lmod)");
        return;
    }
    for (form, file) in [("lmod", "becalm.lua"), ("tcl", "becalm")] {
        let store = indexed();
        let lines = lines(&store, &["--for", form]);
        let define = format!(". {INIT} >/dev/null 2>&1");
        assert_calmed(&store, &by_module(&store, &define, file, &lines));
    }
}

#[test]
fn systemd_takes_the_units_that_update_an_index_and_their_command_updates_it() {
    if nothing_to_test_with() || is_missing("systemd-analyze", "systemd") {
        return;
    }
    let store = indexed();
    let dir = store.path("units");
    fs::create_dir(&dir).expect("made");
    let units = ["service", "timer", "path"].map(|kind| {
        let unit = dir.join(format!("becalm-update.{kind}"));
        fs::write(&unit, lines(&store, &["--for", &format!("update.{kind}")])).expect("written");
        unit
    });
    let mut verify = Command::new("systemd-analyze");
    verify
        .args(["verify", "--man=no"])
        .args(&units)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", text(&dir)));
    let ran = run(&mut verify);
    let complains = |line: &&str| line.contains("becalm-update");
    let complaints: Vec<&str> = ran.stderr.lines().filter(complains).collect();
    assert!(complaints.is_empty(), "{ran:?}");
    let path = fs::read_to_string(&units[2]).expect("the path unit");
    assert!(path.contains(&format!("PathChanged={}\n", text(&store.root()))), "{path}");
    let service = fs::read_to_string(&units[0]).expect("the service");
    let command =
        service.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    // The words are in double quotes, as a shell takes them.
    let ran = run(Command::new("sh").args(["-c", command]));
    assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
}

/// A store with two indexes, and a script that runs in a session with both and an audit module and
/// a tunable of the user's own.
fn with_two_indexes(script: &str) -> (Store, Vec<String>) {
    let store = Store::of(FLAT);
    let (root, indexes) = (store.root(), ["a.so", "b.so", "c.so"].map(|name| store.path(name)));
    for index in &indexes {
        let made = run(&mut store.becalm(&["index", text(&root), "-o", text(index)]));
        assert_eq!(made.code, Some(0), "{made:?}");
    }
    let script = format!(
        "us() {{ eval \"$(PATH=/nowhere \"$US\" env \"$@\")\"; }}\n\
         show() {{ echo \"${{LD_AUDIT-unset}} ${{GLIBC_TUNABLES-unset}} ${{BECALM-unset}}\"; }}\n\
         us --index \"$A\" --no-bind; us --index \"$B\"; {script}"
    );
    let mut shell = command(&store, "sh", &["-c", &script]);
    let [a, b, c] = &indexes;
    shell.env("A", a).env("B", b).env("C", c).env("LD_AUDIT", "theirs.so");
    let ran = run(&mut shell);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines = ran.stdout.lines().map(str::to_owned).collect();
    (store, lines)
}

#[test]
fn undo_removes_every_index_of_a_session_and_nothing_of_others() {
    if nothing_to_test_with() {
        return;
    }
    let theirs = "theirs.so glibc.malloc.check=1 unset";
    let (store, lines) = with_two_indexes("show; us --undo; show");
    let part = |index: &str| format!("{}.d/$PLATFORM", text(&store.path(index)));
    assert!(lines[0].contains(&format!("theirs.so:{}:{} ", part("a.so"), part("b.so"))));
    assert_eq!(lines[1], theirs);
    // A damaged index and one that is gone are becalm's too.
    let (_, lines) = with_two_indexes("rm \"$A\"; echo damaged > \"$B\"; us --undo; show");
    assert_eq!(lines, [theirs]);
}

#[test]
fn undo_of_one_index_leaves_the_session_of_the_other_whole() {
    if nothing_to_test_with() {
        return;
    }
    let (store, lines) = with_two_indexes(
        "show; us --undo --index \"$C\"; show; us --undo --index \"$A\"; show; \
         us --undo --index \"$B\"; show",
    );
    assert_eq!(lines[0], lines[1], "an index that is not in the session");
    let part = |index: &str| format!("{}.d/$PLATFORM", text(&store.path(index)));
    assert_eq!(lines[2], lines[0].replace(&format!(":{}", part("a.so")), ""));
    assert!(lines[2].contains(&part("b.so")) && lines[2].ends_with("=4096 nobind"), "{lines:?}");
    assert_eq!(lines[3], "theirs.so glibc.malloc.check=1 unset");
}

#[test]
fn undo_removes_an_element_whose_file_is_gone_and_says_so() {
    if nothing_to_test_with() {
        return;
    }
    let theirs = "theirs.so glibc.malloc.check=1 unset";
    // An index without its folder, such as a copy: LD_AUDIT names the index itself.
    let (store, lines) = with_two_indexes(
        "us --undo; rm -r \"$C.d\"; us --index \"$C\"; show; rm \"$C\"\n\
         \"$US\" env --undo 2>&1 >/dev/null | grep '^becalm: '; us --undo; show",
    );
    let index = store.path("c.so");
    assert!(lines[0].starts_with(&format!("theirs.so:{} ", text(&index))), "{lines:?}");
    let said = format!("becalm: {}: does not exist; removed from LD_AUDIT", text(&index));
    assert_eq!(lines[1..], [said.as_str(), theirs]);
    // Of one index, only the element of that one is removed.
    let (_, lines) = with_two_indexes(
        "us --undo --index \"$B\"; LD_AUDIT=/nonexistent/x.so:$LD_AUDIT\n\
         us --undo --index \"$A\"; show; us --undo; show",
    );
    assert_eq!(lines, [format!("/nonexistent/x.so:{theirs}").as_str(), theirs]);
}

#[test]
fn undo_gives_back_the_static_tls_of_the_user() {
    if nothing_to_test_with() {
        return;
    }
    let tunable = "glibc.rtld.optional_static_tls";
    let (_, lines) = with_two_indexes(&format!(
        "us --undo; export GLIBC_TUNABLES={tunable}=512; us --index \"$A\"; show; us --undo; show"
    ));
    assert!(lines[0].contains(&format!(" {tunable}=512:{tunable}=4096 ")), "{lines:?}");
    assert_eq!(lines[1], format!("theirs.so {tunable}=512 unset"));
}

#[test]
fn an_index_that_only_its_user_may_read_is_not_for_an_image() {
    if nothing_to_test_with() {
        return;
    }
    let store = indexed();
    let index = store.path("it's an index!.so");
    fs::set_permissions(&index, fs::Permissions::from_mode(0o600)).expect("closed");
    let ran = run(&mut store.becalm(&["env", "--for", "dockerfile", "--index", text(&index)]));
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
