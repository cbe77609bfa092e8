//! The prediction of a start with an index: `becalm check` and `becalm trace` in such a session.

mod support;

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use support::run;
use support::store::{Store, json, let_the_clock_pass, nothing_to_test_with, text};

/// The app's image of a traced start with an index in `LD_AUDIT`, and the record's file.
fn traced(store: &Store, variables: &[(&str, &str)]) -> (Value, PathBuf) {
    let record = store.path("record.json");
    let app = store.app();
    let mut command = store.becalm(&["trace", "--json", "-o", text(&record), "--", text(&app)]);
    let ran = run(command.env("LD_AUDIT", store.index()).envs(variables.iter().copied()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = fs::read_to_string(&record).expect("a record");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    (report["images"].as_array().and_then(|images| images.last()).expect("images").clone(), record)
}

#[test]
fn a_calmed_start_is_compared_with_the_prediction_of_the_calmed_start() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let index = Value::from(text(&store.index()));
    let (image, record) = traced(&store, &[]);
    assert_eq!((&image["calmed_by"], &image["prediction"]["equal"]), (&index, &true.into()));
    assert_eq!(image["prediction"]["predicted"]["missed_opens"], 0, "{image}");
    for arguments in [&["--json"][..], &["--json", "--against", text(&record)]] {
        let (check, app) = ([&["check"], arguments].concat(), store.app());
        let mut command = store.becalm(&[&check[..], &[text(&app)]].concat());
        let checked = json(&run(command.env("LD_AUDIT", store.index())));
        let program = &checked["programs"][0];
        assert_eq!((&program["calmed_by"], &program["storm"]["missed_opens"]), (&index, &0.into()));
    }
    let (image, _) = traced(&store, &[("BECALM", "off")]);
    assert!(image["calmed_by"].is_null() && image["prediction"]["equal"] == true, "{image}");
    assert!(image["storm"]["missed_opens"].as_u64() > Some(0));
    let other = store.path("other");
    let (image, _) = traced(&store, &[("LD_LIBRARY_PATH", text(&other))]);
    assert_eq!((&image["calmed_by"], &image["prediction"]["equal"]), (&index, &true.into()));
    let (image, _) = traced(&store, &[("LD_LIBRARY_PATH", "/nowhere:relative")]);
    assert_eq!(image["prediction"]["equal"], true, "{image}");
}

#[test]
fn a_start_along_ld_library_path_is_predicted_whether_its_directories_are_indexed_or_not() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let other = store.path("mine");
    fs::create_dir(&other).expect("made");
    store.library("one.c", &other.join("libone.so"));
    let empty: Vec<String> =
        (0..17).map(|n| text(&store.path(&format!("e{n}"))).to_owned()).collect();
    empty.iter().for_each(|dir| fs::create_dir(dir).expect("made"));
    let_the_clock_pass();
    let lists = [
        text(&other).to_owned(),
        format!("{}:{}", empty[..3].join(":"), text(&other)),
        format!("{}:{}", text(&store.path("absent")), empty[..3].join(":")),
        empty.join(":"),
    ];
    for list in &lists {
        for dirs in ["", list] {
            store.make_index(&["--dirs", dirs]);
            let (image, _) = traced(&store, &[("LD_LIBRARY_PATH", list)]);
            assert_eq!(image["prediction"]["equal"], true, "{list}, {dirs:?}: {image}");
            if dirs == list {
                assert_eq!(image["storm"]["missed_opens"], 0, "{list}: {image}");
            }
        }
    }
}
