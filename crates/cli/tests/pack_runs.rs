//! `becalm pack` and `becalm unpack`, on folders of records and copies, and `becalm run --pack`.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use support::packs::{document, folder, of_tree};
use support::{Ran, becalm, run};
use tempfile::TempDir;

/// Makes a folder with what was learned of one command: a file with a copy of these bytes, and an absent one.
fn learned(bytes: &str) -> TempDir {
    learned_of("/nfs/bin/app", bytes)
}

fn learned_of(command: &str, bytes: &str) -> TempDir {
    let folder = folder();
    fs::create_dir(folder.path().join("copies")).unwrap();
    fs::write(folder.path().join("copies/app.py~1"), bytes).unwrap();
    let header = json!({"schema": "becalm/tree/2", "command": command, "learned": 1, "starts": 3,
        "paths": 2, "text": 0, "trees": ["/nfs"], "programs": ["/nfs/bin/other"]});
    let copy =
        json!({"name": "app.py~1", "of": [7, bytes.len(), [1_700_000_000, 5], [1_700_000_001, 6]]});
    let paths = [
        json!({"path": "/nfs/lib/app.py", "kind": "file", "read": true, "copy": copy, "uses": 1, "unused": 0}),
        json!({"path": "/nfs/lib/none.py", "kind": "absent", "uses": 1, "unused": 0}),
    ];
    let text = format!("{header}\n[]\n{}\n{}\n", paths[0], paths[1]);
    // Named by the path of the command, as a first start names it.
    let found = run(becalm().args(["pack", "-o", "x", command]).env("BECALM_CACHE", folder.path()));
    assert_eq!(found.code, Some(2), "{found:?}");
    fs::write(folder.path().join("any.tree"), text).unwrap();
    folder
}

fn in_folder(folder: &Path, arguments: &[&str]) -> Ran {
    run(becalm().args(arguments).env("BECALM_CACHE", folder))
}

/// Returns the names in a folder's folder of copies, with their bytes.
fn copies(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder.join("copies")).unwrap().map(Result::unwrap);
    entries
        .map(|it| (it.file_name().into_string().unwrap(), fs::read_to_string(it.path()).unwrap()))
        .collect()
}

#[test]
fn another_machine_has_what_was_packed_and_asks_its_own_tree() {
    for name in ["pack.tar", "pack.squashfs"] {
        let (here, there, out) = (learned("print(1)\n"), folder(), tempfile::tempdir().unwrap());
        let pack = out.path().join(name);
        let pack = pack.to_str().unwrap();
        let packed = document(&in_folder(here.path(), &["pack", "-o", pack, "--json"]));
        assert_eq!((&packed["files"], &packed["bytes"]), (&1.into(), &9.into()));
        assert_eq!(packed["records"][0]["command"], "/nfs/bin/app");
        let unknown = in_folder(here.path(), &["pack", "-o", pack, "sh"]);
        assert!(unknown.stderr.contains("/bin/sh: no start of it was learned"), "{unknown:?}");
        let before = fs::read(pack).unwrap();
        // In another second.
        sleep(Duration::from_millis(1100));
        document(&in_folder(here.path(), &["pack", "-o", pack, "--json"]));
        assert!(fs::read(pack).unwrap() == before, "{name}: other bytes");

        let unpacked = document(&in_folder(there.path(), &["unpack", pack, "--json"]));
        assert_eq!((&unpacked["files"], &unpacked["records"][0]["copies"]), (&1.into(), &1.into()));
        let found = copies(there.path());
        assert_eq!(found.len(), 1);
        assert!(found[0].0.starts_with("app.py~") && found[0].0 != "app.py~1", "{found:?}");
        assert_eq!(found[0].1, "print(1)\n");
        // What is known already stays.
        let again = document(&in_folder(there.path(), &["unpack", pack, "--json"]));
        assert_eq!(
            (&again["files"], &again["records"][0]["paths"]),
            (&0.into(), &packed["records"][0]["paths"])
        );
        assert_eq!(copies(there.path()), found);
    }
}

#[test]
fn damaged_and_foreign_files_are_refused_and_no_start_waits_for_them() {
    let (here, out) = (learned("print(1)\n"), tempfile::tempdir().unwrap());
    let at = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    document(&in_folder(here.path(), &["pack", "-o", &at("whole"), "--json"]));
    let bytes = fs::read(at("whole")).unwrap();
    fs::write(at("cut"), &bytes[..bytes.len() / 3]).unwrap();
    fs::write(at("text"), "no pack").unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(at("image"), "hsqs and no more").unwrap();
    let made = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
    assert!(made.success());
    for name in ["cut", "text", "empty", "image", "fifo", "nosuch"] {
        let there = folder();
        let refused = in_folder(there.path(), &["unpack", &at(name)]);
        assert_eq!(refused.code, Some(2), "{name}: {refused:?}");
        assert!(refused.stderr.contains(&at(name)), "{refused:?}");
        let left: Vec<_> = fs::read_dir(there.path()).unwrap().collect();
        assert!(left.iter().flatten().all(|it| it.file_name() != "copies"), "{name}: {left:?}");
        let started =
            in_folder(there.path(), &["run", "--pack", &at(name), "--", "echo", "started"]);
        assert_eq!((started.code, started.stdout.as_str()), (Some(0), "started\n"), "{name}");
        assert!(started.stderr.contains("started without the pack"), "{started:?}");
    }
    fs::write(at("short"), &bytes[..bytes.len() - 1532]).unwrap();
    let refused = in_folder(folder().path(), &["unpack", &at("short")]);
    assert!(refused.code == Some(2) && refused.stderr.contains("is truncated"), "{refused:?}");
}

#[test]
fn only_packs_are_overwritten() {
    let (here, out) = (learned("print(1)\n"), tempfile::tempdir().unwrap());
    let at = |name: &str| out.path().join(name);
    fs::write(at("text"), "no pack").unwrap();
    fs::write(at("image"), "hsqs and no more").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    std::os::unix::fs::symlink("text", at("to-text")).unwrap();
    let pack = |name: &str| in_folder(here.path(), &["pack", "-o", at(name).to_str().unwrap()]);
    for name in ["text", "image", "socket", "fifo", "to-text"] {
        let refused = pack(name);
        assert!(
            refused.code == Some(2) && refused.stderr.contains("not overwritten"),
            "{refused:?}"
        );
    }
    assert_eq!(fs::read_to_string(at("text")).unwrap(), "no pack");
    std::os::unix::fs::symlink("new.tar", at("link")).unwrap();
    assert_eq!([pack("link").code, pack("link").code], [Some(0); 2]);
    assert!(at("link").is_symlink() && at("new.tar").is_file());
}

#[test]
fn a_pack_has_the_mode_that_the_umask_leaves_or_that_it_had() {
    let (here, out) = (learned("print(1)\n"), tempfile::tempdir().unwrap());
    let pack = out.path().join("pack.tar");
    let write = || {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "umask 027; exec \"$@\"", "sh"]).arg(becalm().get_program());
        shell.args(["pack", "-o"]).arg(&pack).env("BECALM_CACHE", here.path());
        assert_eq!(run(&mut shell).code, Some(0));
        fs::metadata(&pack).unwrap().mode() & 0o7777
    };
    assert_eq!(write(), 0o640);
    fs::set_permissions(&pack, Permissions::from_mode(0o604)).unwrap();
    assert_eq!(write(), 0o604);
}

#[test]
fn set_id_programs_are_not_packed_and_names_are_escaped() {
    let (here, home, out) = (folder(), folder(), folder());
    let tree = out.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let program = tree.join("a\u{1b}b");
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let pack = out.path().join("pack.tar");
    let arguments = ["pack", "-o", pack.to_str().unwrap(), "/bin/true", tree.to_str().unwrap()];
    let packed = of_tree(&tree, home.path(), here.path(), &arguments);
    assert!(
        packed.stdout.contains("left out: ") && !packed.stdout.contains('\u{1b}'),
        "{packed:?}"
    );
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    let refused = run(becalm().args(arguments).arg(tree.join::<&std::ffi::OsStr>(name)));
    support::assert_refused(&refused, "not UTF-8");
}

#[test]
fn a_start_unpacks_once_and_clearing_forgets_that_it_did() {
    let (here, there, out) = (learned("print(1)\n"), folder(), tempfile::tempdir().unwrap());
    let pack = out.path().join("pack.tar");
    let pack = pack.to_str().unwrap();
    document(&in_folder(here.path(), &["pack", "-o", pack, "--json"]));
    let start = || {
        let ran = in_folder(there.path(), &["run", "--pack", pack, "--", "echo", "started"]);
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), "started\n", "")
        );
    };
    let unpack = || drop(document(&in_folder(there.path(), &["unpack", pack, "--json"])));
    for make in [&start as &dyn Fn(), &unpack] {
        make();
        let (name, _) = copies(there.path()).pop().unwrap();
        fs::remove_file(there.path().join("copies").join(&name)).unwrap();
        start();
        assert_eq!(copies(there.path()), [], "it was unpacked before");
        // As of a pack that was not used for long.
        fs::remove_dir_all(there.path().join("packed")).unwrap();
        start();
        assert_eq!(copies(there.path()).pop().unwrap().0, name);
        fs::remove_file(there.path().join("copies").join(&name)).unwrap();
        assert_eq!(in_folder(there.path(), &["cache", "--clear"]).code, Some(0));
        start();
        assert_eq!(copies(there.path()).pop().unwrap().0, name);
        assert_eq!(in_folder(there.path(), &["cache", "--clear"]).code, Some(0));
    }
}

#[test]
fn a_record_is_not_newer_because_it_is_unpacked() {
    let (here, there, out) = (learned("print(1)\n"), folder(), tempfile::tempdir().unwrap());
    let pack = out.path().join("pack.tar");
    let pack = pack.to_str().unwrap();
    document(&in_folder(here.path(), &["pack", "-o", pack, "--json"]));
    let unpacked = document(&in_folder(there.path(), &["unpack", pack, "--json"]));
    let kept = document(&in_folder(there.path(), &["cache", "--json"]));
    let learned = [&unpacked, &kept["trees"]].map(|it| it["records"][0]["learned"].clone());
    assert_eq!(learned, [1, 1]);
}

/// Returns the indexes that were made in a home directory.
fn made(home: &Path) -> usize {
    let entries = home.join(".cache/becalm/programs").read_dir();
    let paths = entries.into_iter().flatten().flatten().map(|it| it.path());
    paths.filter(|it| it.extension().is_some_and(|it| it == "so")).count()
}

#[test]
fn the_first_start_has_the_index_of_the_pack() {
    let (out, home, other_home) = (folder(), folder(), folder());
    let program = out.path().join("true");
    fs::copy("/bin/true", &program).unwrap();
    let program = program.to_str().unwrap();
    let here = learned_of(program, "print(1)\n");
    let pack = out.path().join("pack.tar");
    let pack = pack.to_str().unwrap();
    let by = |folder: &Path, home: &Path, arguments: &[&str]| {
        run(becalm().args(arguments).env("BECALM_CACHE", folder).env("HOME", home))
    };
    let packed = document(&by(here.path(), home.path(), &["pack", "-o", pack, "--json"]));
    assert_eq!(packed["indexes"], 1);
    let bytes = fs::read(pack).unwrap();
    document(&by(here.path(), other_home.path(), &["pack", "-o", pack, "--json"]));
    assert_eq!(fs::read(pack).unwrap(), bytes, "the same bytes with an index that is made now");

    let (there, its_home) = (folder(), folder());
    let log = out.path().join("log");
    let start = |switch: &str, environment: &[(&str, &str)]| {
        let arguments = ["run", "--strict", "--pack", pack, "--", program];
        let mut command = becalm();
        command.args(arguments).env("BECALM_CACHE", there.path()).env("HOME", its_home.path());
        let ran = run(command.env("BECALM", switch).envs(environment.iter().copied()));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    };
    start(&format!("log:{}", log.display()), &[]);
    assert_eq!(made(its_home.path()), 0);
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("\tapplied\t"), "{log}");
    // In another environment the libraries may be others, so the index is made as without a pack.
    start("", &[("LD_LIBRARY_PATH", "/nowhere")]);
    assert_eq!(made(its_home.path()), 1);
    // A machine with another file of the start outside the trees does not take the index.
    fs::write(program, fs::read(program).unwrap()).unwrap();
    let other = folder();
    let unpacked = document(&in_folder(other.path(), &["unpack", pack, "--json"]));
    assert_eq!((&unpacked["indexes"], &unpacked["files"]), (&0.into(), &1.into()));
}

#[test]
fn a_whole_tree_is_packed_without_a_start_and_needed_no_more() {
    let (here, there, home, out) = (folder(), folder(), folder(), folder());
    let tree = out.path().join("tree");
    fs::create_dir_all(tree.join("lib/sub")).unwrap();
    fs::write(tree.join("lib/one"), "one\n").unwrap();
    fs::write(tree.join("lib/sub/two"), "two\n").unwrap();
    std::os::unix::fs::symlink("lib", tree.join("link")).unwrap();
    std::os::unix::fs::symlink("sub/two", tree.join("lib/three")).unwrap();
    let pack = out.path().join("pack.tar");
    let pack = pack.to_str().unwrap();
    let by = |folder: &Path, arguments: &[&str]| of_tree(&tree, home.path(), folder, arguments);
    let arguments = ["pack", "-o", pack, "/bin/cat", tree.to_str().unwrap(), "--json"];
    let packed = document(&by(here.path(), &arguments));
    let counts = ["files", "bytes", "indexes"].map(|name| packed[name].as_u64().unwrap());
    assert_eq!((counts, &packed["left_out"]), ([2, 8, 1], &json!([])), "{packed}");
    let bytes = fs::read(pack).unwrap();
    document(&by(here.path(), &arguments));
    assert_eq!(fs::read(pack).unwrap(), bytes, "the same bytes each time");
    let alone = by(here.path(), &["pack", "-o", pack, tree.join("lib").to_str().unwrap()]);
    assert!(alone.stderr.contains("name a program as well"), "{alone:?}");
    std::os::unix::fs::symlink(&tree, out.path().join("to-tree")).unwrap();
    for link in ["to-tree", "to-tree/"].map(|name| out.path().join(name)) {
        let refused = by(here.path(), &["pack", "-o", pack, "/bin/cat", link.to_str().unwrap()]);
        support::assert_refused(&refused, "name the directory that it leads to");
    }

    let names = ["lib/one", "lib/sub/two", "lib/three"].map(|name| tree.join(name));
    fs::rename(&tree, out.path().join("gone")).unwrap();
    let cat = |path: &Path| {
        let path = path.to_str().unwrap();
        by(there.path(), &["run", "--pack", pack, "--check", "never", "--", "/bin/cat", path])
    };
    let printed = names.each_ref().map(|name| cat(name).stdout);
    assert_eq!(printed, ["one\n", "two\n", "two\n"]);
    // The link is one, and its content is there once.
    assert_eq!(copies(there.path()).len(), 2);
    // The program is told what was there: a name that is new is not.
    fs::create_dir_all(tree.join("lib/sub")).unwrap();
    fs::write(tree.join("lib/new"), "new\n").unwrap();
    let new = ["lib/new", "lib/./new", "lib/sub/../new"].map(|name| cat(&tree.join(name)).stdout);
    assert_eq!(new, ["", "", ""]);
    assert_eq!(cat(&names[0]).stdout, "one\n");
    let metrics = || by(there.path(), &["cache", "--metrics"]).stdout;
    let is_counted = |it: &String| it.contains("becalm_starts_total{uid=") && it.contains("} 7\n");
    let found = std::iter::repeat_with(|| {
        sleep(Duration::from_millis(100));
        metrics()
    });
    let found: Vec<String> = found.take(200).take_while(|it| !is_counted(it)).collect();
    assert!(is_counted(&metrics()), "{found:?}");
}

#[test]
fn a_traced_run_is_packed_with_what_it_used_of_a_tree() {
    let (here, there, home, out) = (folder(), folder(), folder(), folder());
    let at = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(at("tree/lib")).unwrap();
    for name in ["one", "two"] {
        fs::write(out.path().join("tree/lib").join(name), format!("{name}\n")).unwrap();
    }
    let by = |folder: &Path, arguments: &[&str]| {
        of_tree(Path::new(&at("tree")), home.path(), folder, arguments)
    };
    let (run_file, pack, one) = (at("run.json"), at("pack.tar"), at("tree/lib/one"));
    let traced = ["trace", "--files", "--json", "-o", &run_file, "--", "/bin/cat", &one];
    assert_eq!(by(here.path(), &traced).stdout, "one\n");
    let (tree, from) = (at("tree"), ["pack", "-o", &pack, "--from", &run_file, "--json"]);
    let packed = document(&by(here.path(), &[&from[..], &[&tree]].concat()));
    assert_eq!((&packed["files"], &packed["indexes"]), (&1.into(), &1.into()), "{packed}");
    assert_eq!(
        (&packed["records"][0]["command"], &packed["left_out"]),
        (&"/bin/cat".into(), &json!([]))
    );
    let written = fs::metadata(&run_file).unwrap().mtime();
    assert_eq!(packed["records"][0]["learned"], written, "the age is that of the run");
    let without = by(here.path(), &from);
    assert!(without.stderr.contains("name a directory as well"), "{without:?}");
    fs::write(at("text"), "{}").unwrap();
    let other = by(here.path(), &["pack", "-o", &pack, "--from", &at("text"), &tree]);
    assert!(other.stderr.contains("becalm trace --files --json"), "{other:?}");

    fs::rename(&tree, at("gone")).unwrap();
    let cat = |path: &str| {
        by(there.path(), &["run", "--pack", &pack, "--check", "never", "--", "/bin/cat", path])
    };
    assert_eq!([cat(&one), cat(&at("tree/lib/two"))].map(|ran| ran.stdout), ["one\n", ""]);
}
