//! `becalm report`: the page shows the figures of the JSON, also in a browser, and reports what
//! cannot be shown.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use becalm_testing::skip;
use serde_json::{Value, json};
use support::{Fixture, Ran, assert_refused, becalm, check, finish, no_compiler, run};

fn report(arguments: &[&str]) -> Ran {
    run(becalm().arg("report").args(arguments))
}

/// Makes the page of a program; the first line and the name of the page are printed.
fn page(dir: &Path, arguments: &[&str]) -> String {
    let file = dir.join("page.html");
    let ran = report(&[arguments, &["-o", text(&file)]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.ends_with(&format!("{} written\n", text(&file))), "{ran:?}");
    fs::read_to_string(file).expect("a page")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a scratch directory")
}

/// Reads a figure from the page, without the separators of thousands.
fn figure(page: &str, name: &str) -> u64 {
    let mark = format!("data-figure=\"{name}\">");
    let shown = page.split(&mark).nth(1).unwrap_or_else(|| panic!("no {name}"));
    let shown = shown.split('<').next().expect("an end");
    shown.replace(',', "").parse().unwrap_or_else(|_| panic!("{name}: {shown}"))
}

const COUNTS: [&str; 5] =
    ["missed_opens", "missed_stats", "hwcaps_misses", "search_dirs", "objects"];

fn assert_figures(page: &str, side: &str, storm: &Value) {
    for count in COUNTS {
        let shown = figure(page, &format!("{side}.{count}"));
        assert_eq!(Some(shown), storm[count].as_u64(), "{side}.{count}");
    }
}

/// Returns the misses of all cells of a picture, as the page's script has them.
fn misses_of_cells(page: &str) -> u64 {
    let data = page.split("<script type=\"application/json\">").nth(1).expect("a picture");
    let data = data.split("</script>").next().expect("its end");
    let data: Value = serde_json::from_str(data).expect("JSON");
    let numbers: Vec<u64> =
        data["cells"].as_array().expect("cells").iter().filter_map(Value::as_u64).collect();
    assert_eq!(numbers.len() % 6, 0);
    numbers.chunks(6).map(|cell| cell[2] + cell[3]).sum()
}

#[test]
fn the_figures_are_those_of_check_and_every_miss_is_in_the_picture() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let app = fixture.app();
    let flags = [&Fixture::SAME_EVERYWHERE[..], &[&app]].concat();
    let json: Value = serde_json::from_str(&check(&[&["--json"][..], &flags].concat()).stdout)
        .expect("one object");
    let page = page(fixture.dir.path(), &[&["--no-run"][..], &flags].concat());
    let storm = &json["programs"][0]["storm"];
    assert_figures(&page, "before", storm);
    let misses = |name: &str| storm[name].as_u64().expect("a count");
    assert_eq!(misses_of_cells(&page), misses("missed_opens") + misses("missed_stats"));
    assert!(page.contains("libmissing.so: nothing answers"));
    assert!(page.contains("No timeline: the program was not run (--no-run)"));
}

#[test]
fn a_record_is_shown_as_it_was_observed() {
    let dir = scratch();
    let record = dir.path().join("run.json");
    let traced =
        run(becalm().args(["trace", "--json", "-o", text(&record), "--", "/bin/sh", "-c", ":"]));
    assert_eq!(traced.code, Some(0), "{traced:?}");
    let json: Value = serde_json::from_slice(&fs::read(&record).expect("read")).expect("JSON");
    let page = page(dir.path(), &[text(&record)]);
    assert_figures(&page, "before", &json["images"][0]["storm"]);
    assert!(page.contains("(observed)"));
}

#[test]
fn a_folder_that_does_not_exist_is_not_written_as_a_file() {
    let dir = scratch();
    let ran = report(&["/bin/sh", "-o", text(&dir.path().join("new/"))]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(!dir.path().join("new").exists());
}

#[test]
fn two_records_are_on_one_scale() {
    let dir = scratch();
    let record = |name: &str, command: &str| {
        let file = dir.path().join(name);
        let flags = ["trace", "--json", "--relocations", "-o", text(&file), "--", "/bin/sh", "-c"];
        let traced = run(becalm().args(flags).arg(command));
        assert_eq!(traced.code, Some(0), "{traced:?}");
        file
    };
    let (before, after) = (record("a.json", ":"), record("b.json", "sleep 0.2"));
    let json: Value = serde_json::from_slice(&fs::read(&after).expect("read")).expect("JSON");
    let page = page(dir.path(), &[text(&before), "--after", text(&after)]);
    if json["opens_alone"] == true {
        skip("no program can be traced here");
        return;
    }
    assert!(page.contains("becalm 0.") && page.contains(json["made"].as_str().expect("a line")));
    let lanes: Vec<&str> = page.split("<section class=\"lane\"").skip(1).collect();
    let scale = |lane: &str| {
        lane.split("class=\"scale\"")
            .nth(1)
            .and_then(|it| it.split("</div>").next())
            .map(str::to_owned)
    };
    assert_eq!(lanes.len(), 2, "{page}");
    assert_eq!(scale(lanes[0]), scale(lanes[1]));
    let width = |lane: &str| {
        let width = lane.split("part-program\" style=\"width: ").nth(1)?.split('%').next()?;
        width.parse::<f64>().ok()
    };
    assert!(width(lanes[0]) < width(lanes[1]), "{page}");
}

#[test]
fn before_and_after_stand_beside_each_other() {
    let dir = scratch();
    let page = page(dir.path(), &["--no-run", "/bin/sh", "--after", "/bin/cat"]);
    for (side, program) in [("before", "/bin/sh"), ("after", "/bin/cat")] {
        let json: Value =
            serde_json::from_str(&check(&["--json", program]).stdout).expect("one object");
        assert_figures(&page, side, &json["programs"][0]["storm"]);
    }
}

#[test]
fn a_program_that_is_run_has_a_timeline_or_the_page_says_why_not() {
    let dir = scratch();
    let page = page(dir.path(), &["/bin/sh", "--run", "-c :"]);
    let timed = page.contains("data-figure=\"before.program_ms\"");
    assert!(timed || page.contains("No timeline: "), "neither");
    if !timed {
        skip("no program can be traced here");
        return;
    }
    let library = page.split("id=\"libraries\"").nth(1);
    let is_named = library.is_some_and(|rows| rows.contains(">libc.so.6<"));
    assert!(is_named && page.contains("data-figure=\"indexed.program_ms\""), "{page}");
}

#[test]
fn a_program_that_waits_is_shown_to_its_first_idle_moment() {
    let dir = scratch();
    let page = page(dir.path(), &["sleep", "--run", "3600"]);
    if page.contains("No timeline: ") {
        skip("no program can be traced here");
        return;
    }
    assert!(page.contains("program, from its entry point to its first idle moment"), "{page}");
}

#[test]
fn a_program_that_does_not_end_is_killed_and_the_page_made_all_the_same() {
    let dir = scratch();
    let page = page(dir.path(), &["sleep", "--run", "1234.5", "--timeout", "0.5"]);
    assert!(page.contains("No timeline: the program did not end within 0.5 s"));
    let still_there = || {
        fs::read_dir("/proc").expect("a process table").flatten().any(|process| {
            fs::read(process.path().join("cmdline"))
                .is_ok_and(|line| line.ends_with(b"sleep\x001234.5\x00"))
        })
    };
    // A signal takes its time to arrive.
    let deadline = Instant::now() + Duration::from_secs(30);
    while still_there() {
        assert!(Instant::now() < deadline, "it was left running");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_comparison_becomes_a_table() {
    let dir = scratch();
    let file = dir.path().join("compare.json");
    let cell = |text: &str, verdict: &str| json!({"text": text, "verdict": verdict});
    let comparison = json!({
        "schema": "becalm/compare/1", "program": "/bin/sh", "columns": ["control", "note"],
        "rows": [
            {"id": "missed_opens", "title": "missed opens", "kind": "measure",
             "cells": [{"value": 12, "text": "12"}, {"value": 0}]},
            {"id": "undo", "title": "undo gives the same bytes", "kind": "property",
             "cells": [cell("", "not-tried"), cell("", "a-later-verdict")]},
        ],
    });
    fs::write(&file, comparison.to_string()).expect("written");
    let page = page(dir.path(), &["--no-run", "/bin/sh", "--compare", text(&file)]);
    for part in ["missed opens", "undo gives the same bytes", ">not tried<", ">see note<", ">12<"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_cannot_be_shown_is_one_line_and_leaves_no_page() {
    let dir = scratch();
    let out = dir.path().join("page.html");
    let write = |name: &str, bytes: &str| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    };
    let script = write("script", "#!/bin/sh\n");
    let other = write("other.json", "{\"schema\":\"becalm/check/1\",\"images\":[]}");
    let broken = write("broken.json", "{\"schema\":");
    let empty = write("empty.json", "{\"schema\":\"becalm/trace/1\",\"images\":[]}");
    for (program, words) in [
        ("/no/such/program", "No such file"),
        (text(dir.path()), "a directory"),
        (text(&script), "a script, which no loader starts; the program is /bin/sh"),
        (text(&other), "not of schema becalm/trace/1"),
        (text(&broken), "not what becalm trace --json writes"),
        (text(&empty), "no program in it"),
    ] {
        assert_refused(&report(&[program, "--no-run", "-o", text(&out)]), words);
        assert!(!out.exists(), "{program}");
    }
    let compare = ["/bin/sh", "--no-run", "-o", text(&out), "--compare", text(&other)];
    assert_refused(&report(&compare), "compare");
    assert_refused(&report(&["/bin/sh", "--no-run", "-o", "/no/such/dir/x"]), "/no/such/dir/x");
}

/// Returns a page as a browser leaves it, and its console lines; `None` if there is no browser.
fn browsed(page: &Path) -> Option<(String, Vec<String>)> {
    let profile = scratch();
    let mut browser = Command::new("chromium");
    browser
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .env("HOME", profile.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let Ok(child) = browser.spawn() else {
        skip("no chromium");
        return None;
    };
    let output = finish(child);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let console =
        said.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || dom.is_empty() {
        skip(&format!("chromium does not run here: {}", said.lines().last().unwrap_or_default()));
        return None;
    }
    Some((dom, console))
}

/// A copy of a page with a script of the test's own at its end.
fn with_script(page: &str, dir: &Path, script: &str) -> PathBuf {
    let file = dir.join("with-script.html");
    let at = page.rfind("</body>").expect("a page's end");
    let page = format!("{}<script>{script}</script>{}", &page[..at], &page[at..]);
    fs::write(&file, page).expect("written");
    file
}

/// Moves to the second row and prints what the page shows of it. A click shows the first row.
const KEYS: &str = "
    const frame = document.querySelector('.storm-frame');
    const press = (key) => frame.dispatchEvent(new KeyboardEvent('keydown', {key, cancelable: true}));
    const told = () => document.querySelector('.told').textContent;
    press('ArrowDown'); const first = told();
    press('ArrowDown'); const second = told();
    const box = frame.querySelector('svg').getBoundingClientRect();
    frame.querySelector('svg').dispatchEvent(
      new PointerEvent('pointerdown', {clientX: box.left + 1, clientY: box.top + 1}));
    document.title = JSON.stringify({first, second, tapped: told(), height: box.height});";

#[test]
fn a_browser_shows_the_figures_names_cells_and_complains_of_nothing() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let app = fixture.app();
    let flags = [&Fixture::SAME_EVERYWHERE[..], &["--no-run", &app]].concat();
    let page = page(fixture.dir.path(), &flags);
    let Some((dom, console)) = browsed(&with_script(&page, fixture.dir.path(), KEYS)) else {
        return;
    };
    assert_eq!(console, Vec::<String>::new());
    let checked = check(&[&["--json"][..], &Fixture::SAME_EVERYWHERE, &[&app]].concat());
    let json: Value = serde_json::from_str(&checked.stdout).expect("one object");
    assert_figures(&dom, "before", &json["programs"][0]["storm"]);
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    let told: Value = serde_json::from_str(title.expect("a title")).expect("what was told");
    let said = |name: &str| told[name].as_str().expect("text").to_owned();
    assert!(said("first").starts_with("libone.so in "), "{told}");
    assert!(said("first").contains("failing"), "{told}");
    // libtwo.so is found without a miss, and has no row.
    assert!(said("second").starts_with("libmissing.so in "), "{told}");
    assert_eq!(said("first"), said("tapped"), "{told}");
    assert!(told["height"].as_f64() > Some(1.0), "{told}");
}

#[test]
fn a_browsers_complaint_would_be_seen() {
    let dir = scratch();
    let page = page(dir.path(), &["--no-run", "/bin/sh"]);
    let Some((_, console)) = browsed(&with_script(&page, dir.path(), "nobody.defined();")) else {
        return;
    };
    assert_eq!(console.len(), 1, "{console:?}");
    // The page fetches nothing from elsewhere.
    let fetching =
        "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x'}));";
    let Some((_, console)) = browsed(&with_script(&page, dir.path(), fetching)) else { return };
    assert!(console.iter().any(|line| line.contains("Content Security Policy")), "{console:?}");
}

#[test]
fn a_large_storm_costs_the_browser_few_elements() {
    let dir = scratch();
    let mut probes = Vec::new();
    for library in 0..150 {
        for directory in 0..100 {
            let needed = format!("lib{library}.so");
            let hit = directory == 99;
            probes.push(json!({
                "needed_by": "/p", "needed": needed, "source": "runpath",
                "path": format!("/d{directory}/{needed}"), "call": "open",
                "outcome": if hit { "hit" } else { "miss" },
            }));
        }
    }
    let storm = json!({"objects": 151, "search_dirs": 100, "probes": 15_000, "hits": 150,
        "missed_opens": 14_850, "missed_stats": 0, "hwcaps_misses": 0});
    let record = json!({"schema": "becalm/trace/1",
        "images": [{"path": "/p", "storm": storm, "probes": probes}]});
    let file = dir.path().join("record.json");
    fs::write(&file, record.to_string()).expect("written");
    let page = page(dir.path(), &[text(&file)]);
    assert_figures(&page, "before", &storm);
    assert_eq!(misses_of_cells(&page), 14_850);
    let picture = page.split("<svg viewBox=\"0 0 1000 1500\"").nth(1).expect("the picture");
    let picture = picture.split("</svg>").next().expect("its end");
    assert!(picture.matches('<').count() < 10, "an element for each cell");
    assert!(page.len() < 1_000_000, "{}", page.len());
}

#[test]
fn a_page_that_cannot_be_written_leaves_the_old_one() {
    let dir = scratch();
    let page = dir.path().join("page.html");
    fs::write(&page, "an old page").unwrap();
    let us = env!("CARGO_BIN_EXE_becalm");
    // No file may become longer than 512 or 1,024 bytes.
    let script = format!("trap '' XFSZ; ulimit -f 1; '{us}' report -o '{}' /bin/sh", text(&page));
    let ran = run(Command::new("sh").args(["-c", &script]));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(fs::read_to_string(&page).unwrap(), "an old page");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
