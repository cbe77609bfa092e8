//! The first line of the commands about a program, and advice by time: on a program whose symbol
//! lookups take most of its start.

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::store::{Store, json, nothing_to_test_with, text};
use support::{Ran, cc, run};

/// Makes a program whose lookups take most of its start.
fn heavy(store: &Store) -> PathBuf {
    store.heavy_library();
    store.source("heavy.c", "int main(void) { return 0; }\n");
    let run_path = format!("-Wl,-rpath,{}", text(&store.path("")));
    let arguments = [
        "-fPIE",
        "-pie",
        "heavy.c",
        "-o",
        "heavy",
        &run_path,
        "-L.",
        "-Wl,--no-as-needed",
        "-lmany",
    ];
    cc(&store.path(""), &arguments);
    store.path("heavy")
}

fn first_line(store: &Store, arguments: &[&str]) -> String {
    let ran = run(&mut store.becalm(arguments));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // A traced run is reported on stderr.
    let out = if arguments[0] == "trace" { ran.stderr } else { ran.stdout };
    out.lines().next().expect("a line").to_owned()
}

#[test]
fn commands_about_a_program_begin_with_the_same_line() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = heavy(&store);
    let app = text(&app);
    for command in ["check", "advise", "doctor"] {
        let line = first_line(&store, &[command, app]);
        assert!(line.starts_with("heavy: about "), "{command}: {line}");
        for part in
            [" ms of loader before main", " of them symbol lookups", "; with an index about "]
        {
            assert!(line.contains(part), "{command}: {line}");
        }
    }
    let page = store.path("page.html");
    let commands: [&[&str]; 3] = [
        &["bench", "--rounds", "3", "--run", "", app],
        &["trace", "--", app],
        &["report", "-o", text(&page), app],
    ];
    for command in commands {
        let line = first_line(&store, command);
        assert!(line.starts_with("heavy: "), "{command:?}: {line}");
        // No program can be traced in some containers.
        assert!(line.contains(" ms of loader before main") || line.contains("about"), "{line}");
    }
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("class=\"verdict\">heavy: "), "{}", page.len());
}

#[test]
fn lookups_are_ended_by_an_index_and_the_commands_that_gain_are_named() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = heavy(&store);
    let advised = json(&run(&mut store.becalm(&["advise", "--json", text(&app)])));
    let option = |at: &Value| advised["options"][at.as_u64().expect("a best") as usize].clone();
    assert_eq!(option(&advised["best"])["strategy"], "index", "{advised}");
    assert!(advised["estimate"]["relocation"]["lookups"].as_u64() >= Some(30_000), "{advised}");
    let ns = |value: &Value| value.as_u64().expect("a time");
    assert!(ns(&advised["options"][0]["loader_ns"]) < ns(&advised["before_ns"]), "{advised}");
    let screen = run(&mut store.becalm(&["advise", text(&app)])).stdout;
    for command in ["becalm run -- ", "becalm on ", "becalm fix --with audit "] {
        assert!(screen.contains(&format!("{command}{}", text(&app))), "{screen}");
    }
    assert!(
        !screen.contains("…") && !screen.contains("STORE"),
        "no command to be completed: {screen}"
    );
}

#[test]
fn a_budget_of_lookups_and_of_time_names_the_program_over_it() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = heavy(&store);
    let app = text(&app);
    let check = |flags: &[&str]| run(&mut store.becalm(&[&["check"], flags, &[app]].concat()));
    let over = check(&["--max-lookups", "1000", "--max-ms", "0.001", "--json"]);
    assert_eq!(over.code, Some(1), "{over:?}");
    let document = |ran: &Ran| serde_json::from_str::<Value>(&ran.stdout).expect("JSON");
    let program = &document(&over)["programs"][0];
    assert_eq!(program["over_budget"], true, "{program}");
    assert!(program["lookups"].as_u64() >= Some(30_000), "{program}");
    let lines: Vec<&str> = over.stderr.lines().collect();
    let [lookups, time] = lines[..] else { panic!("two lines: {over:?}") };
    assert!(lookups.ends_with(" symbol lookups, over the budget of 1,000"), "{lookups}");
    assert!(time.ends_with(" ms of loader before main, over the budget of 0.001"), "{time}");
    let within = check(&["--max-lookups", "100000000", "--max-ms", "100000", "--ndjson"]);
    assert_eq!((within.code, within.stderr.as_str()), (Some(0), ""));
    assert_eq!(json(&within)["over_budget"], false, "{within:?}");
    // Lookups are counted of any machine's program, time is estimated of this one's alone.
    let assumed = ["--libc", "glibc-2.36", "--max-lookups", "1"];
    assert_eq!(check(&assumed).code, Some(1));
    let unknown = check(&["--libc", "glibc-2.36", "--max-ms", "100000", "--json"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("the budget of time is not judged"), "{unknown:?}");
    assert!(document(&unknown)["programs"][0]["over_budget"].is_null(), "{unknown:?}");
}

/// A program that nothing owns, and one of this machine's packages.
#[test]
fn files_of_packages_are_not_proposed_for_edits() {
    let owned = Path::new("/usr/bin/perl");
    if !Path::new("/var/lib/dpkg/info").is_dir() || !owned.exists() || nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let empty = store.path("empty");
    let mut advise = store.becalm(&["advise", "--json", text(owned)]);
    let advised = json(&run(advise.env("LD_LIBRARY_PATH", &empty)));
    assert_eq!(advised["owner"], "dpkg", "{advised}");
    let own = json(&run(&mut store.becalm(&["advise", "--json", text(&store.app())])));
    assert!(own["owner"].is_null(), "{own}");
}
