//! `becalm check`: each form of its output, on a program with the same result on every machine and
//! on programs of this machine.

mod support;

use std::process::Stdio;

use becalm_testing::skip;
use serde_json::Value;
use support::store::{FLAT, Store, json, nothing_to_test_with, text};
use support::{Fixture, assert_golden, becalm, becalm_as_user, check, finish, no_compiler, run};

fn golden(name: &str, flags: &[&str]) {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let app = fixture.app();
    // An index takes nothing from a directory that has just changed, so the advice would vary.
    support::store::let_the_clock_pass();
    let ran = check(&[flags, &Fixture::SAME_EVERYWHERE, &[&app]].concat());
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.code, Some(1), "libmissing.so is a finding");
    assert_golden(name, &fixture.normalised(&ran.stdout));
}

#[test]
fn json_with_probes_is_as_documented() {
    golden("check.json", &["--json", "--probes"]);
}

#[test]
fn a_tree_shows_each_object_once_though_needs_run_in_a_circle() {
    golden("tree.txt", &["--tree"]);
}

#[test]
fn probes_are_one_a_line_in_the_loaders_order() {
    golden("probes.txt", &["--probes"]);
}

#[test]
fn one_program_is_told_on_one_screen() {
    golden("screen.txt", &[]);
}

#[test]
fn a_relative_path_below_a_store_is_immutable() {
    let store = tempfile::tempdir().expect("a scratch directory");
    let package = store.path().join("hash-package");
    std::fs::create_dir(&package).expect("made");
    std::fs::copy("/bin/sh", package.join("sh")).expect("copied");
    std::os::unix::fs::symlink(&package, store.path().join("link")).expect("linked");
    let immutable = |dir: &std::path::Path, file: &str, prefix: &std::path::Path| {
        let mut check = becalm();
        check.args(["check", "--json", "--store"]).arg(prefix).arg(file).current_dir(dir);
        let ran = run(&mut check);
        let json: Value = serde_json::from_str(&ran.stdout).expect("one object");
        json["programs"][0]["immutable"].as_bool().expect("a truth value")
    };
    assert!(immutable(&package, "sh", store.path()));
    assert!(immutable(&package, "./sh", store.path()));
    assert!(immutable(&package, "../link/sh", &store.path().join("hash-package")));
    assert!(!immutable(&package, "sh", &store.path().join("hash")));
}

/// The only program of `check --json`, with these flags.
fn checked(flags: &[&str]) -> Value {
    let ran = check(&[&["--json"][..], flags].concat());
    json(&ran)["programs"][0].take()
}

/// Misses of a storm.
fn misses(storm: &Value) -> u64 {
    storm["missed_opens"].as_u64().expect("opens") + storm["missed_stats"].as_u64().expect("stats")
}

#[test]
fn a_newer_glibc_is_predicted_as_if_it_had_been_named() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let app = store.app();
    let by = |libc: &str| checked(&["--cpu", "x86-64-v3", "--libc", libc, text(&app)]);
    let (old, new) = (by("glibc-2.36"), by("glibc-2.37"));
    assert_eq!(old["newer_glibc"]["libc"], "glibc-2.37");
    assert_eq!(old["newer_glibc"]["storm"], new["storm"]);
    assert!(misses(&new["storm"]) < misses(&old["storm"]), "{old} {new}");
    assert!(new.get("newer_glibc").is_none(), "{new}");
    let opens = |program: &Value| program["storm"]["hwcaps_misses"].as_u64();
    assert!(opens(&old) > opens(&new), "{old} {new}");
    let screen = check(&["--cpu", "x86-64-v3", "--libc", "glibc-2.36", text(&app)]).stdout;
    let line = format!("; glibc-2.37 and later: {} misses", misses(&new["storm"]));
    assert!(screen.contains(" in hwcaps subdirectories") && screen.contains(&line), "{screen}");
}

#[test]
fn the_advice_is_what_a_dry_run_of_each_strategy_leaves() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (root, app) = (store.root(), store.app());
    let advice = checked(&["--store", text(&root), text(&app)])["advice"].take();
    assert!(advice["assumed_store"].is_null(), "{advice}");
    let libraries = [store.two("libtwo.so"), store.one("libone.so")];
    let mut seen = 0;
    for option in advice["options"].as_array().expect("options") {
        let (strategy, scope) = (&option["strategy"], &option["scope"]);
        let strategy = strategy.as_str().expect("a name");
        if strategy == "index" {
            assert_eq!((scope, &option["misses"]), (&"nothing".into(), &0.into()), "{option}");
            continue;
        }
        let mut arguments = vec!["fix", "--dry-run", "--json", "--store", text(&root), "--with"];
        arguments.extend(strategy.split(' '));
        if strategy == "farm" {
            arguments.push("--closure");
        }
        arguments.push(text(&app));
        // A farm of the graph changes the libraries of the program that is named.
        if scope == "closure" && strategy != "farm" {
            arguments.extend(libraries.iter().map(|path| text(path)));
        }
        let ran = run(&mut store.becalm(&arguments));
        let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let programs = report["programs"].as_array().expect("programs");
        let own = programs.iter().find(|program| program["path"] == text(&app)).expect("the app");
        assert_eq!(advice["before"].as_u64(), Some(misses(&own["before"])));
        let left = (!own["after"].is_null()).then(|| misses(&own["after"]));
        assert_eq!(option["misses"].as_u64(), left, "{arguments:?}: {option} {report}");
        assert_eq!(option["misses"].is_null(), !option["refused"].is_null(), "{option}");
        seen += 1;
    }
    assert!(seen >= 9, "{advice}");
    let screen = check(&["--store", text(&root), text(&app)]).stdout;
    assert!(screen.contains("strategies gain nothing here"), "no time to gain: {screen}");
}

#[test]
fn a_store_that_nobody_named_is_assumed_and_said_so() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (root, app) = (store.root(), store.app());
    // For another C library there are no times, and the misses decide.
    let libc = ["--libc", "glibc-2.36"];
    let mut program = checked(&[&libc[..], &[text(&app)]].concat());
    assert_eq!(program["advice"]["assumed_store"], text(&root));
    let named = checked(&[&libc[..], &["--store", text(&root), text(&app)]].concat());
    assert_eq!(program["advice"]["options"].take(), named["advice"]["options"]);
    let screen = check(&[&libc[..], &[text(&app)]].concat()).stdout;
    let first = screen.lines().next().expect("a line");
    assert!(first.starts_with("app: ") && first.contains("no times"), "{first}");
    assert!(screen.contains(&format!("--store {}, if packages", text(&root))), "{screen}");
}

#[test]
fn nothing_is_advised_where_nothing_is_missed_and_of_several_files() {
    let json = json(&check(&["--json", "/bin/sh"]));
    assert!(json["programs"][0].get("advice").is_none(), "{json}");
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (app, one) = (store.app(), store.one("libone.so"));
    let several: Value =
        serde_json::from_str(&check(&["--json", text(&app), text(&one)]).stdout).expect("JSON");
    assert!(several["programs"][0].get("advice").is_none(), "{several}");
}

#[test]
fn json_without_probes_has_none_and_is_one_object() {
    let ran = check(&["--json", "/bin/sh"]);
    let json: Value = serde_json::from_str(&ran.stdout).expect("one object");
    assert_eq!(json["schema"], "becalm/check/1");
    assert!(json["programs"][0].get("probes").is_none());
    assert_eq!(json["programs"][0]["storm"], json["total"]);
    assert_eq!(ran.code, Some(0));
}

#[test]
fn a_folder_gives_a_table_with_the_worst_first() {
    let Ok(ran) = std::panic::catch_unwind(|| check(&["/usr/bin"])) else { panic!("no table") };
    let misses: Vec<u64> = ran
        .stdout
        .lines()
        .skip(1)
        .filter(|line| !line.contains("total of"))
        .map(|line| {
            let number = line.split_whitespace().next().expect("a number");
            number.replace(',', "").parse().expect("a number")
        })
        .collect();
    assert!(misses.len() > 1, "{}", ran.stdout);
    assert!(misses.is_sorted_by(|a, b| a >= b), "{misses:?}");
    let last = ran.stdout.lines().last().expect("a total");
    assert!(last.ends_with(&format!("total of {} files", misses.len())), "{last}");
    let total: u64 = last
        .split_whitespace()
        .next()
        .expect("a number")
        .replace(',', "")
        .parse()
        .expect("a number");
    assert_eq!(total, misses.iter().sum::<u64>());
}

#[test]
fn a_long_path_is_cut_for_a_terminal_only() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let ran = check(&["--tree", &fixture.app()]);
    assert!(!ran.stdout.contains('…'), "{}", ran.stdout);
}

#[test]
fn colours_come_on_demand_and_never_in_json() {
    let painted = check(&["--color", "always", "/bin/sh"]);
    assert!(painted.stdout.contains("\x1b["), "{}", painted.stdout);
    let plain = check(&["/bin/sh"]);
    assert!(!plain.stdout.contains('\x1b'), "a pipe is no terminal");
    let json = check(&["--color", "always", "--json", "/bin/sh"]);
    assert!(!json.stdout.contains('\x1b'));
}

#[test]
fn a_reader_that_goes_away_ends_becalm_quietly() {
    let mut child = becalm()
        .args(["check", "--tree", "/usr/bin"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let output = finish(child);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panic") && !stderr.contains("roken pipe"), "{stderr}");
    assert_eq!(output.status.code(), Some(141));
}

#[test]
fn the_environments_library_path_is_searched_unless_told_otherwise() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let count = |with_flag: &[&str]| -> u64 {
        let mut command = becalm();
        command.args(["check", "--json"]).args(with_flag).arg(fixture.app());
        command.env("LD_LIBRARY_PATH", fixture.path("elsewhere"));
        let json: Value = serde_json::from_str(&run(&mut command).stdout).expect("JSON");
        json["total"]["missed_opens"].as_u64().expect("a count")
    };
    assert!(count(&[]) > count(&["--library-path", ""]));
}

#[test]
fn secure_mode_ignores_the_library_path() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let opens = |secure: &str| -> u64 {
        let ran =
            check(&["--json", "--library-path", "/elsewhere", "--secure", secure, &fixture.app()]);
        let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(json["programs"][0]["secure"], secure == "yes");
        json["total"]["missed_opens"].as_u64().expect("a count")
    };
    assert!(opens("no") > opens("yes"));
}

#[test]
fn a_set_uid_program_of_another_user_starts_in_secure_mode() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let app = fixture.path("app");
    // Only root may give a file away.
    if std::os::unix::fs::chown(&app, Some(65534), None).is_err() {
        skip("cannot give a file to another user");
        return;
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(&app, mode).expect("set-uid");
    let ran = check(&[&fixture.app()]);
    assert!(ran.stdout.contains("secure-execution mode"), "{}", ran.stdout);
}

#[test]
fn a_program_with_file_capabilities_starts_in_secure_mode_for_users() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    // `struct vfs_cap_data`, revision 2, effective: CAP_NET_RAW is permitted, as for ping.
    let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
    let value: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(fixture.app(), "security.capability", &value, flags).is_err() {
        skip("only root gives capabilities to files, where the file system has them");
        return;
    }
    // Files of root gain nothing by capabilities.
    std::fs::create_dir(fixture.path("locked")).expect("made");
    let mut command = becalm_as_user(fixture.dir.path());
    let ran = run(command.args(["check", "--json", &fixture.app()]));
    let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(json["programs"][0]["secure"], true, "{json}");
}

#[test]
fn a_sysroot_is_searched_instead_of_this_machine() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    // The root has no loader: what this machine has does not count.
    let ran = check(&["--sysroot", fixture.dir.path().to_str().expect("UTF-8"), "/app"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.starts_with("becalm: /app: interpreter "), "{}", ran.stderr);
    let ran = check(&["--sysroot", "/", "/bin/sh"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
