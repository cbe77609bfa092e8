//! `becalm doctor` and `becalm advise`, on a small store.

mod support;

use std::fs;
use std::process::Command;

use serde_json::Value;
use support::store::{FLAT, Store, json, let_the_clock_pass, nothing_to_test_with, text};
use support::{Ran, becalm, cc, cc_library, run};

/// A store with an index, made when the clock is past the last change.
fn indexed() -> Store {
    let store = Store::isolated();
    let_the_clock_pass();
    store.make_index(&[]);
    store
}

/// `becalm doctor` in a session of these lines of `becalm env`, without programs in `PATH`.
fn in_session(store: &Store, arguments: &str) -> Ran {
    let us = env!("CARGO_BIN_EXE_becalm");
    let script = format!("eval \"$('{us}' env --index \"$INDEX\")\"; \"$0\" doctor {arguments}");
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", &script, us])
        .env("INDEX", store.index())
        .env("PATH", "/nowhere")
        .env("HOME", store.path("home"));
    for variable in ["LD_AUDIT", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "BECALM", "XDG_DATA_HOME"] {
        shell.env_remove(variable);
    }
    run(&mut shell)
}

fn kinds(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().map(|finding| finding["kind"].as_str().expect("a word")).collect()
}

fn report(ran: &Ran, code: i32) -> Value {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn a_calmed_session_with_a_fresh_index_has_no_findings() {
    if nothing_to_test_with() {
        return;
    }
    let store = indexed();
    let found = report(&in_session(&store, "--json"), 0);
    assert_eq!((&found["schema"], &found["calmed"]), (&"becalm/doctor/1".into(), &true.into()));
    let index = &found["index"];
    assert_eq!((&index["path"], &index["fresh"]), (&text(&store.index()).into(), &true.into()));
    assert_eq!(index["stores"][0], text(&store.root()));
    assert_eq!(found["modules"][0]["is"], "index");
    assert_eq!(found["loader"]["takes_index"], true);
    let screen = in_session(&store, "");
    assert_eq!(screen.code, Some(0), "{screen:?}");
    assert!(screen.stdout.starts_with("session     uses an index\n"), "{screen:?}");
    assert!(
        screen.stdout.contains("fresh; of ") && screen.stdout.lines().count() < 24,
        "{screen:?}"
    );
}

#[test]
fn a_stale_index_is_a_finding_with_the_command_that_mends_it() {
    if nothing_to_test_with() {
        return;
    }
    let store = indexed();
    let package = store.root().join("456789abcdfghijklmnpqrsvwxyz0123-new-2/bin");
    fs::create_dir_all(&package).expect("made");
    fs::copy(store.app(), package.join("new")).expect("copied");
    let found = report(&in_session(&store, "--json"), 1);
    assert_eq!((&found["calmed"], kinds(&found)), (&true.into(), vec!["stale"]));
    assert_eq!(found["index"]["fresh"], false);
    let_the_clock_pass();
    let remedy = found["findings"][0]["remedy"].as_str().expect("a command");
    let arguments: Vec<&str> = remedy.split(' ').skip(1).collect();
    assert_eq!(run(&mut store.becalm(&arguments)).code, Some(0), "{remedy}");
    assert_eq!(in_session(&store, "--json").code, Some(0), "mended by: {remedy}");
}

#[test]
fn a_program_that_an_index_does_not_help_is_offered_none() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let doctor = |program: &str| run(&mut store.becalm(&["doctor", program])).stdout;
    let dir = store.path("other");
    fs::write(dir.join("main.c"), "int main(void) { return 0; }\n").expect("written");
    cc(&dir, &["-static", "main.c", "-o", "static"]);
    let said = doctor(text(&dir.join("static")));
    assert!(said.starts_with("static: no loader before main\n"), "{said}");
    assert!(!said.contains("becalm run"), "{said}");
    let said = doctor(text(&store.app()));
    let offers = said.contains("no index of its own: becalm run -- ");
    assert_eq!(offers, !said.contains("an index gains nothing here"), "{said}");
}

#[test]
fn a_session_without_an_index_and_one_that_does_not_use_its_index_are_told_apart() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let doctor =
        |arguments: &[&str]| run(&mut store.becalm(&[&["doctor", "--json"], arguments].concat()));
    let found = report(&doctor(&[]), 1);
    if !std::path::Path::new("/var/lib/becalm/index.so").exists() {
        assert_eq!((kinds(&found), &found["index"]), (vec!["no-index"], &Value::Null));
    }
    let_the_clock_pass();
    store.make_index(&[]);
    let index = store.index();
    let found = report(&doctor(&["--index", text(&index)]), 1);
    assert!(kinds(&found).contains(&"not-calmed"), "{found}");
    assert_eq!(found["calmed"], false);
    // A store whose packages are not named by a hash is as it was indexed, too.
    let verified = json(&run(&mut store.becalm(&["verify", "--json", text(&index)])));
    let changed = |document: &Value| document.to_string().contains("\"stores_changed\":true");
    assert!(verified.to_string().contains("stores_changed") && !changed(&verified), "{verified}");
    fs::create_dir(store.root().join("another")).expect("made");
    let verified = json(&run(&mut store.becalm(&["verify", "--json", text(&index)])));
    assert!(changed(&verified), "{verified}");
    fs::remove_dir(store.root().join("another")).expect("removed");
    fs::write(&index, "damaged").expect("written");
    let found = report(&doctor(&["--index", text(&index)]), 1);
    assert!(kinds(&found).contains(&"unusable"), "{found}");
}

#[test]
fn a_broken_index_is_made_again_and_not_offered_to_a_session() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    store.make_index(&[]);
    let index = store.index();
    let whole = fs::read(&index).expect("readable");
    fs::write(&index, &whole[..5000]).expect("written");
    let doctor = ["doctor", "--json", "--index", text(&index)];
    let found = report(&run(&mut store.becalm(&doctor)), 1);
    assert_eq!(kinds(&found), ["unusable"], "{found}");
    let remedy = found["findings"][0]["remedy"].as_str().expect("a command");
    assert_eq!(remedy, format!("becalm index STORE... -o {} makes it anew", text(&index)));
    store.make_index(&[]);
    let found = report(&run(&mut store.becalm(&doctor)), 1);
    // The store was made a moment ago, so that the new index may be stale.
    let kinds = kinds(&found);
    assert!(kinds.contains(&"not-calmed") && !kinds.contains(&"unusable"), "{found}");
    let screen = run(&mut store.becalm(&["doctor", "--index", text(&index)]));
    assert!(screen.stdout.contains("a file added inside one is not seen"), "{screen:?}");
}

#[test]
fn a_file_that_is_no_index_is_not_offered_to_be_made_anew() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let other = store.path("other/text");
    fs::write(&other, "no index").expect("written");
    let ran = run(&mut store.becalm(&["doctor", "--json", "--index", text(&other)]));
    let found = report(&ran, 1);
    assert_eq!(kinds(&found), ["unusable"], "{found}");
    let remedy = found["findings"][0]["remedy"].as_str().expect("advice");
    assert!(remedy.starts_with("another file is there"), "{remedy}");
}

#[test]
fn a_text_file_is_no_program_and_a_truncated_one_gets_no_index() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let other = store.path("other/text");
    fs::write(&other, "no program").expect("written");
    let ran = run(&mut store.becalm(&["doctor", text(&other)]));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.stderr, format!("becalm: {}: not a program\n", text(&other)));
    let whole = fs::read(store.app()).expect("read");
    fs::write(store.app(), &whole[..5000]).expect("written");
    let said = run(&mut store.becalm(&["doctor", text(&store.app())])).stdout;
    assert!(said.contains("cannot be predicted") && !said.contains("becalm run"), "{said}");
}

#[test]
fn an_index_that_is_damaged_is_reported_with_the_reason() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    store.make_index(&[]);
    let (index, app) = (store.index(), store.app());
    let whole = fs::read(&index).expect("readable");
    for damaged in [&whole[..5000], b"no index"] {
        fs::write(&index, damaged).expect("written");
        let ran = run(&mut store.becalm(&["run", "--index", text(&index), "--", text(&app)]));
        let reason = ran.stderr.trim_end().strip_prefix("becalm: started without an index: ");
        let reason = reason.expect("a reason");
        assert!(reason.starts_with(&format!("{}: ", text(&index))), "{reason}");
        let found = run(&mut store.becalm(&["doctor", "--json", "--index", text(&index)]));
        let what = report(&found, 1)["findings"][0]["what"].clone();
        assert_eq!(what, format!("the index is not used: {reason}"));
    }
}

#[test]
fn a_session_by_the_folder_of_a_renamed_index_has_a_finding() {
    if nothing_to_test_with() {
        return;
    }
    let store = indexed();
    let (old, new) = (store.index(), store.path("renamed.so"));
    fs::rename(&old, &new).expect("renamed");
    fs::rename(store.path("index.so.d"), store.path("renamed.so.d")).expect("renamed");
    let doctor = |audit: String| {
        let mut doctor = store.becalm(&["doctor", "--json"]);
        run(doctor.env("LD_AUDIT", audit).env("PATH", "/nowhere"))
    };
    let by_platform = || doctor(format!("{}.d/$PLATFORM", text(&new)));
    let found = report(&by_platform(), 1);
    assert_eq!((&found["calmed"], kinds(&found)), (&false.into(), vec!["bad-links"]));
    // The module itself is loaded then; 32-bit programs print an error.
    let found_by_name = report(&doctor(text(&new).to_owned()), 1);
    let is_calmed = &found_by_name["calmed"];
    assert_eq!((is_calmed, kinds(&found_by_name)), (&true.into(), vec!["bad-links"]));
    let remedy = found["findings"][0]["remedy"].as_str().expect("a command");
    assert_eq!(remedy, format!("becalm index --update -o {}", text(&new)));
    let arguments: Vec<&str> = remedy.split(' ').skip(1).collect();
    assert_eq!(run(&mut store.becalm(&arguments)).code, Some(0), "{remedy}");
    assert_eq!(report(&by_platform(), 0)["calmed"], true);
    // Without the folder, loaders print the error too.
    fs::remove_dir_all(store.path("renamed.so.d")).expect("removed");
    assert_eq!(kinds(&report(&by_platform(), 1)), ["bad-links"]);
}

#[test]
fn a_library_with_an_interpreter_is_no_program_of_an_index() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let bytes = fs::read(store.app()).expect("read");
    let view = becalm_core::elf::parse(bytes.as_slice()).expect("an object");
    let loader = view.interpreter.expect("a loader").to_string();
    store.source(
        "libc.c",
        &format!(
            "const char loader[] __attribute__((section(\".interp\"))) = \"{loader}\";\n\
             const char *three(void) {{ return \"three\"; }}\n"
        ),
    );
    let library = store.one("libthree.so.6");
    let flags = ["-Wl,-soname,libthree.so.6", "-Wl,-rpath,/nonexistent"];
    cc_library(store.dir.path(), "libc.c", text(&library), &flags);
    let bytes = fs::read(&library).expect("read");
    let view = becalm_core::elf::parse(bytes.as_slice()).expect("an object");
    assert!(view.interpreter.is_some() && view.is_library());
    store.make_index(&[]);
    let index = store.index();
    let found = report(&run(&mut store.becalm(&["doctor", "--json", "--index", text(&index)])), 1);
    assert_eq!(found["index"]["programs"], 1, "{found}");
    let left = found["index"]["left_out"].as_array().expect("a list");
    assert!(left.iter().all(|left| left["path"] != text(&library)), "{found}");
}

#[test]
fn an_index_that_is_gone_from_a_session_is_said_to_be_so() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let mut doctor = store.becalm(&["doctor"]);
    // The static binary of the release is not audited; the one of the tests would complain.
    doctor.env("LD_AUDIT", "/nonexistent/index.so").env("BECALM", "off");
    let ran = run(&mut doctor);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("/nonexistent/index.so (not there)"), "{ran:?}");
    assert!(ran.stdout.contains("BECALM=off"), "{ran:?}");
}

#[test]
fn advice_is_that_of_check_with_the_commands_that_give_it() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (root, app) = (store.root(), store.app());
    let advised = json(&run(&mut store.becalm(&["advise", "--json", text(&app)])));
    assert_eq!(advised["schema"], "becalm/advise/1");
    let checked = json(&run(&mut store.becalm(&["check", "--json", text(&app)])));
    let advice = &checked["programs"][0]["advice"];
    for field in ["before", "assumed_store"] {
        assert_eq!(advised[field], advice[field], "{field}");
    }
    let options = advised["options"].as_array().expect("options");
    assert_eq!(options.len(), advice["options"].as_array().expect("options").len());
    for (own, other) in options.iter().zip(advice["options"].as_array().expect("options")) {
        assert_eq!((&own["strategy"], &own["misses"]), (&other["strategy"], &other["misses"]));
    }
    assert_eq!(options[0]["strategy"], "index");
    // The command does what was predicted.
    let absolute = options
        .iter()
        .find(|option| option["strategy"] == "absolute" && option["scope"] == "program")
        .expect("the strategy");
    let command = absolute["command"].as_str().expect("a command");
    assert!(command.contains("--store") && command.contains(text(&root)), "{command}");
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    assert_eq!(run(&mut store.becalm(&arguments)).code, Some(0), "{command}");
    let after = json(&run(&mut store.becalm(&["check", "--json", text(&app)])));
    let storm = &after["programs"][0]["storm"];
    let left = storm["missed_opens"].as_u64().expect("a count")
        + storm["missed_stats"].as_u64().expect("a count");
    assert_eq!(absolute["misses"].as_u64(), Some(left), "{storm}");
}

#[test]
fn advice_names_the_store_and_leaves_out_what_gains_nothing() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (root, app) = (store.root(), store.app());
    let named = ["advise", "--store", text(&root), text(&app)];
    let advised = json(&run(&mut store.becalm(&[&["advise", "--json"], &named[1..]].concat())));
    assert_eq!(advised["named_stores"], Value::from(vec![text(&root)]), "{advised}");
    let flag = format!("--store {} ", text(&root));
    let options = advised["options"].as_array().expect("options");
    for option in options {
        let command = option["command"].as_str().expect("a command");
        assert!(command.contains(&flag), "{command}");
    }
    let screen = run(&mut store.becalm(&named)).stdout;
    assert!(screen.contains("strategies gain nothing here"), "{screen}");
}

#[test]
fn a_session_without_a_home_is_told_which_option_to_give() {
    let mut env = becalm();
    for variable in ["HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
        env.env_remove(variable);
    }
    if std::path::Path::new("/var/lib/becalm/index.so").exists() {
        return;
    }
    let ran = run(env.arg("env"));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("HOME is not set") && ran.stderr.contains("--index"), "{ran:?}");
}

#[test]
fn advice_fits_a_screen_and_libraries_get_none() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (app, one) = (store.app(), store.one("libone.so"));
    let screen = run(&mut store.becalm(&["advise", text(&app)]));
    assert_eq!(screen.code, Some(0), "{screen:?}");
    assert!(screen.stdout.lines().count() <= 24, "{}", screen.stdout);
    let refused = run(&mut store.becalm(&["advise", text(&one)]));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("a library"), "{refused:?}");
    let calm = run(&mut store.becalm(&["advise", "sh"]));
    assert!(calm.stdout.contains("nothing to gain"), "{calm:?}");
    // Misses of the environment count.
    let mut advised = store.becalm(&["advise", "--json", "sh"]);
    let here = json(&run(advised.env("LD_LIBRARY_PATH", store.path("empty"))));
    assert!(here["before"].as_u64() > Some(0), "{here}");
}
