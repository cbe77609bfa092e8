//! Advice counts in the environment that `becalm check` predicts, and looks at files of the start only.

mod support;

use std::fs;
use std::process::Command;

use serde_json::Value;
use support::store::{FLAT, Store, json, nothing_to_test_with, text};
use support::{cc, is_missing, run};

#[test]
fn check_advise_and_report_count_the_misses_of_one_environment() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (app, page) = (store.app(), store.path("page.html"));
    let list = store.module_dirs(20);
    let storm = |program: &Value| {
        let of = |name: &str| program["storm"][name].as_u64().expect("a count");
        of("missed_opens") + of("missed_stats")
    };
    let program =
        json(&store.with_library_path(&["check", "--json", text(&app)], &list))["programs"][0]
            .clone();
    let advised = json(&store.with_library_path(&["advise", "--json", text(&app)], &list));
    let misses = storm(&program);
    let alone = json(&run(&mut store.becalm(&["check", "--json", text(&app)])));
    assert!(misses > storm(&alone["programs"][0]) + 40, "{program}");
    assert_eq!(advised["before"], misses, "{advised}");
    assert_eq!(program["advice"]["before"], misses, "{program}");
    let left = |name: &str| {
        let mut options = advised["options"].as_array().expect("options").iter();
        options.find(|it| it["strategy"] == name).expect("a strategy")["misses"].clone()
    };
    assert_eq!(left("index"), 0, "{advised}");
    assert!(left("audit").as_u64() > Some(40), "its index has no directory of it: {advised}");
    assert!(left("farm --leaf").as_u64() > Some(40), "{advised}");
    // A flag is that environment too.
    let flag =
        json(&run(&mut store.becalm(&["check", "--json", "--library-path", &list, text(&app)])));
    assert_eq!(flag["programs"][0]["advice"]["before"], program["advice"]["before"]);
    let drawn =
        store.with_library_path(&["report", "--no-run", text(&app), "-o", text(&page)], &list);
    assert_eq!(drawn.code, Some(0), "{drawn:?}");
    let drawn = fs::read_to_string(page).expect("a page");
    assert!(drawn.contains("an index would leave none of them"), "{}", drawn.len());
}

#[test]
fn advice_does_not_walk_the_homes_that_a_run_path_leads_into() {
    if nothing_to_test_with() {
        return;
    }
    if is_missing("strace", "strace") {
        return;
    }
    let store = Store::new();
    let people = store.path("people");
    for (name, source) in [("joe", "one.c"), ("ann", "two.c")] {
        let lib = people.join(name).join("lib");
        fs::create_dir_all(people.join(name).join("photos")).expect("made");
        fs::create_dir_all(&lib).expect("made");
        for n in 0..50 {
            fs::write(people.join(name).join(format!("photos/{n}")), "a photo").expect("written");
        }
        store.library(source, &lib.join(format!("lib{}.so", source.trim_end_matches(".c"))));
    }
    let app = people.join("joe/app");
    let libraries = [people.join("ann/lib/libtwo.so"), people.join("joe/lib/libone.so")];
    let run_path = format!("-Wl,-rpath,{0}/joe/lib:{0}/ann/lib", text(&people));
    let folder = store.path("");
    let arguments = ["app.c", "-o", text(&app), &run_path, "-Wl,--no-as-needed"];
    cc(&folder, &[&arguments[..], &[text(&libraries[0]), text(&libraries[1])]].concat());
    let page = store.path("page.html");
    let commands: [&[&str]; 3] = [
        &["check", "--json", text(&app)],
        &["advise", "--json", text(&app)],
        &["report", "--no-run", text(&app), "-o", text(&page)],
    ];
    for command in commands {
        let out = store.path("calls");
        let becalm = store.becalm(command);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", "trace=open,openat,openat2", "-o", text(&out)]);
        strace.arg(becalm.get_program()).args(command);
        let ran = run(strace.env_remove("LD_LIBRARY_PATH").env("HOME", store.path("home")));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let calls = fs::read_to_string(&out).expect("the calls");
        assert!(calls.contains("libone.so"), "{command:?}");
        assert!(!calls.contains("photos"), "{command:?}");
        // The assumption is said, whatever the program's advice is.
        if command[0] == "advise" {
            assert_eq!(json(&ran)["assumed_store"], text(&people), "{ran:?}");
        }
    }
}
