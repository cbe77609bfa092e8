//! Tests `becalm run` with programs whose files are on a slow file system.

mod copies;
mod packs;
mod scene;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use self::scene::{Scene, becalm, compile, text};

#[test]
fn a_change_by_a_child_is_seen_at_once() {
    let Some(scene) = Scene::new() else { return };
    let script = "sleep .3; look() { [ -e \"$1/dir/new\" ] && echo there || echo missing; }; \
                  look $1; look $1; touch \"$1/dir/new\"; look $1; rm \"$1/dir/new\"; look $1";
    let printed = "missing\nmissing\nthere\nmissing\n";
    let paths = scene.learned(script, "dir/new", printed);
    // Only the shell has a table, not its children, and the table has paths.
    assert!(matches!(paths[..], [paths] if paths >= 1), "{paths:?}");
    assert_eq!(scene.run("notrees,", script), (printed.to_owned(), vec![]));
}

#[test]
fn what_a_link_that_leads_nowhere_leads_to_is_seen_at_once() {
    let Some(scene) = Scene::new() else { return };
    let outside = scene.at("outside");
    symlink(&outside, scene.at("tree/dir/link")).unwrap();
    let look = "sleep .3; look() { [ -e \"$1/dir/link/new\" ] && echo there || echo missing; \
                [ -e \"$1/dir/gone/deep/new\" ] && echo there || echo missing; }; look $1; ";
    let make = format!("mkdir {0}; touch {0}/new; look $1; rm -r {0}; look $1; ", text(&outside));
    let of_tree =
        "mkdir -p $1/dir/gone/deep; touch $1/dir/gone/deep/new; look $1; rm -r $1/dir/gone";
    let printed = "missing\nmissing\nthere\nmissing\nmissing\nmissing\nmissing\nthere\n";
    let paths = scene.learned(&[look, &make, of_tree].concat(), "deep/new", printed);
    assert!(matches!(paths[..], [paths] if paths >= 2), "{paths:?}");
}

#[test]
fn a_program_of_the_index_that_is_started_later_is_answered_and_sees_what_came_before() {
    let Some(scene) = Scene::new() else { return };
    let look = "sleep .3; [ -e \"$1/dir/new\" ] && echo there || echo missing";
    let script = format!(
        "look() {{ /bin/sh -c '{look}' sh \"$1\"; }}; \
         look $1; touch \"$1/dir/new\"; look $1; rm \"$1/dir/new\"; look $1"
    );
    let printed = "missing\nthere\nmissing\n";
    let paths = scene.learned(&script, "dir/new", printed);
    // Each child has a table of its own time. `touch` and `rm` are not in the index of the shell.
    assert!(paths.len() == 4 && paths.iter().all(|&paths| paths >= 1), "{paths:?}");
}

#[test]
fn advice_for_a_program_on_the_network_names_what_becalm_run_does_there() {
    let Some(scene) = Scene::new() else { return };
    let python = scene.at("mount/python");
    // As in a virtual environment, whose Python is a link to that of the machine.
    symlink("/usr/bin/python3", scene.at("tree/python")).unwrap();
    let becalm = becalm();
    let ask = |command: &str| scene.mounted("", &[text(&becalm), command, text(&python)]).0;
    let advice = ask("advise");
    assert!(advice.contains(&format!("becalm run -- {}\n", text(&python))), "{advice}");
    assert!(advice.contains("its imports         becalm run also looks up files"), "{advice}");
    let doctor = ask("doctor");
    let ahead = format!("on a network file system: becalm run -- {} looks up", text(&python));
    assert!(doctor.contains(&ahead), "{doctor}");
}

#[test]
fn a_session_with_another_index_leaves_the_table_to_the_index_of_the_program() {
    let Some(scene) = Scene::new() else { return };
    if !Command::new("strace").arg("-V").output().is_ok_and(|it| it.status.success()) {
        assert!(becalm_testing::skipped("no strace"));
        return;
    }
    let script = "sleep .3; [ -e \"$1/dir/new\" ] && echo there || echo missing";
    scene.learn(script, "dir/new", "missing\n");
    let (store, index, calls) = (scene.at("store"), scene.at("session.so"), scene.at("calls"));
    fs::create_dir_all(store.join("one/lib")).unwrap();
    compile("int one(void) { return 1; }", &store.join("one/lib/libone.so"), &["-shared"]);
    let mut make = Command::new(becalm());
    make.arg("index").arg("--store").args([&store, &store]).arg("-o").arg(&index);
    assert!(make.output().unwrap().status.success());
    let (becalm, session) = (becalm(), format!("LD_AUDIT={}", index.display()));
    let (strace, name, mount) = (["strace", "-f", "-o", text(&calls)], "sh", scene.at("mount"));
    let run = [text(&becalm), "run", "--", "/bin/sh", "-c", script, name, text(&mount)];
    let command = [&["env", &session], &strace[..], &run[..]].concat();
    let (printed, paths) = scene.mounted("", &command);
    assert_eq!((printed.as_str(), paths.len()), ("missing\n", 1));
    // The session's module is called first. If it took the table, the other one would ask for another.
    let calls = fs::read_to_string(&calls).unwrap();
    let begin = calls.find(" execve(\"/bin/sh\"").expect("the shell");
    let shell = calls[..begin].lines().next_back().expect("its number").trim();
    let of_shell = calls[begin..].lines().filter(|line| line.split(' ').next() == Some(shell));
    let asked: Vec<&str> = of_shell.filter(|it| it.contains("@\"becalm-trees-")).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn a_program_with_fewer_rights_is_not_answered() {
    let Some(scene) = Scene::new() else { return };
    let own = scene.at("tree/own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("file"), "").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&own, Some(1000), None).unwrap();
    let look =
        "/bin/sh -c 'sleep .3; [ -e \"$1/own/file\" ] && echo there || echo missing' sh \"$1\"";
    let script = format!("{look}; setpriv --bounding-set=-all --inh-caps=-all {look}");
    // Root without capabilities may not enter the directory.
    let printed = "there\nmissing\n";
    let paths = scene.learned(&script, "own/file", printed);
    assert!(paths.len() == 2 && paths.iter().all(|&paths| paths >= 1), "{paths:?}");
}

#[test]
fn programs_that_begin_together_share_what_is_looked_up() {
    let Some(scene) = Scene::new() else { return };
    let script = "sleep .5; for i in $(seq 300); do [ -e \"$1/dir/no$i\" ]; done; echo done";
    scene.learn(script, "dir/no300", "done\n");
    let eight = format!(
        "for i in 1 2 3 4 5 6 7 8; do {} run -- /bin/sh -c '{script}' sh \"$1\" & done; wait",
        becalm().display()
    );
    let (mount, done) = (scene.at("mount"), "done\n".repeat(8));
    let command = ["/bin/sh", "-c", &eight, "sh", text(&mount)];
    assert_eq!(scene.mounted("notrees,", &command), (done.clone(), vec![]));
    let plain = scene.lookups();
    let (again, paths) = scene.mounted("", &command);
    assert_eq!(again, done);
    assert!(paths.len() == 8 && paths.iter().all(|&paths| paths >= 280), "{paths:?}");
    let shared = scene.lookups();
    assert!(shared * 3 < plain, "{shared} of {plain}");
    println!("{shared} of {plain} lookups");
}
