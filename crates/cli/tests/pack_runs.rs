//! `becalm pack` and `becalm unpack`, on folders of records and copies, and `becalm run --pack`.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Ran, becalm, run};
use tempfile::TempDir;

/// Makes a folder for records and copies.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    folder
}

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

/// Runs a command for which the times of files in a tree count.
fn of_tree(tree: &Path, home: &Path, folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = becalm();
    command.args(arguments).env("BECALM_CACHE", folder).env("HOME", home);
    run(command.env("BECALM_TRUST_TIMES", tree))
}

fn document(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
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

/// Prints what a program can do in a tree that is gone, and below links that lead out of it.
const USES: &str = r#"
import errno, os, sys
tree, outside = sys.argv[1:]
def tried(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
def wrote(path):
    with open(path, "x") as file:
        return file.write(path)
def listed(path):
    directory = os.open(path, os.O_RDONLY)
    return sorted(os.listdir(directory))
for name in ["far", "lib/near", "lib/sub/../near", "round/near/"]:
    path = tree + "/" + name + "/made"
    print(tried(wrote, path) == len(path), tried(os.access, path, os.W_OK), tried(os.path.getsize, path) == len(path),
          tried(os.rename, path, path + "2"), tried(os.mkdir, path), tried(os.rmdir, path), os.listdir(outside),
          tried(os.unlink, path + "2"), os.listdir(outside))
print(tried(listed, tree + "/lib"), tried(os.access, tree + "/lib/one", os.R_OK),
      [os.access(tree + "/lib/one", mode) for mode in (os.W_OK, os.X_OK)])
print(tried(os.unlink, tree + "/far"), tried(wrote, tree + "/lib/new"), os.path.isdir(outside))
"#;

#[test]
fn links_lead_out_of_a_tree_that_is_gone() {
    let (here, there, home, out) = (folder(), folder(), folder(), folder());
    let [tree, outside] = ["tree", "outside"].map(|name| out.path().join(name));
    fs::create_dir_all(tree.join("lib/sub")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(tree.join("lib/one"), "one\n").unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, tree.join(name)).unwrap();
    link(&outside, "far");
    link(Path::new("../../outside"), "lib/near");
    link(&tree.join("lib"), "round");
    let pack = out.path().join("pack.tar");
    let pack = pack.to_str().unwrap();
    let by = |folder: &Path, arguments: &[&str]| of_tree(&tree, home.path(), folder, arguments);
    let python = "/usr/bin/python3";
    let [tree, outside] = [&tree, &outside].map(|path| path.to_str().unwrap());
    document(&by(here.path(), &["pack", "-o", pack, python, tree, "--json"]));
    fs::rename(tree, out.path().join("gone")).unwrap();
    let start = ["run", "--pack", pack, "--check", "never", "--", python];
    let ran = by(there.path(), &[&start[..], &["-ISc", USES, tree, outside]].concat());
    let made = "True True True None None None ['made2'] None []\n".repeat(4);
    let inside = "['near', 'one', 'sub'] True [False, False]\nENOENT ENOENT True\n";
    assert_eq!(ran.stdout, made + inside, "{ran:?}");
}

/// Changes a tree by descriptors of its directories, and prints what went wrong.
const CHANGES: &str = r#"
import errno, os, sys
def wrote(fd):
    os.close(os.open("made", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
def went(fd):
    os.fchdir(fd)
    os.mkdir("dir")
def below(fd):
    os.unlink("two", dir_fd=os.open("sub", os.O_RDONLY, dir_fd=fd))
for change in [wrote, went, below, lambda fd: os.chmod("sub", 0o711, dir_fd=fd), lambda fd: os.fchmod(fd, 0o711),
               lambda fd: os.rename("one", "new", src_dir_fd=fd, dst_dir_fd=fd), lambda fd: os.utime(fd, (1, 1)),
               lambda fd: os.fchmod(os.open("sub/keep", os.O_RDONLY, dir_fd=fd), 0o711)]:
    try:
        print(change(os.open(sys.argv[1], os.O_RDONLY)))
    except OSError as error:
        print(errno.errorcode[error.errno])
"#;

#[test]
fn changes_by_descriptors_are_made_in_the_tree_and_not_in_the_pack() {
    let (here, there, home, out) = (folder(), folder(), folder(), folder());
    let tree = out.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    for name in ["one", "sub/two", "sub/keep"] {
        fs::write(tree.join(name), name).unwrap();
    }
    let (pack, python) = (out.path().join("pack.tar"), "/usr/bin/python3");
    let (pack, text) = (pack.to_str().unwrap(), tree.to_str().unwrap());
    let by = |folder: &Path, arguments: &[&str]| of_tree(&tree, home.path(), folder, arguments);
    document(&by(here.path(), &["pack", "-o", pack, python, text, "--json"]));
    document(&by(there.path(), &["unpack", pack, "--json"]));
    let packed = || {
        let arguments = ["packed", "-mindepth", "2", "-printf", "%P %m %T@\n"];
        run(std::process::Command::new("find").args(arguments).current_dir(there.path())).stdout
    };
    let before = packed();
    let start = ["run", "--pack", pack, "--check", "never", "--", python, "-ISc", CHANGES, text];
    let ran = by(there.path(), &start);
    assert_eq!(ran.stdout, "None\n".repeat(8), "{ran:?}");
    let is_there = |name: &str| tree.join(name).exists();
    assert_eq!(
        ["made", "dir", "new", "one", "sub/two"].map(is_there),
        [true, true, true, false, false]
    );
    let mode = |name: &str| tree.join(name).metadata().unwrap().mode() & 0o777;
    assert_eq!(["", "sub", "sub/keep"].map(mode), [0o711; 3]);
    fs::rename(&tree, out.path().join("gone")).unwrap();
    let ran = by(there.path(), &start);
    assert_eq!(ran.stdout, "ENOENT\n".repeat(8), "{ran:?}");
    assert_eq!(packed(), before);
}

/// Runs a script of Python with a packed tree that is gone, whose path is its argument.
fn of_gone_tree(make: impl FnOnce(&Path), script: &str) -> Ran {
    let (here, there, home, out) = (folder(), folder(), folder(), folder());
    let (tree, pack) = (out.path().join("tree"), out.path().join("pack.tar"));
    fs::create_dir_all(tree.join("bin")).unwrap();
    make(&tree);
    let by = |folder: &Path, arguments: &[&str]| of_tree(&tree, home.path(), folder, arguments);
    let (pack, text, python) = (pack.to_str().unwrap(), tree.to_str().unwrap(), "/usr/bin/python3");
    document(&by(here.path(), &["pack", "-o", pack, python, text, "--json"]));
    fs::rename(&tree, out.path().join("gone")).unwrap();
    let start = ["run", "--pack", pack, "--check", "never", "--", python, "-ISc", script, text];
    by(there.path(), &start)
}

#[test]
fn a_program_that_closes_descriptors_starts_a_packed_one() {
    let make = |tree: &Path| {
        fs::copy("/bin/true", tree.join("bin/one")).unwrap();
        fs::copy("/bin/true", tree.join("bin/set")).unwrap();
        fs::set_permissions(tree.join("bin/set"), Permissions::from_mode(0o4755)).unwrap();
        fs::write(tree.join("module.py"), "name = 1\n").unwrap();
    };
    let script = r#"
import subprocess, sys
sys.path.append(sys.argv[1])
print(subprocess.run([sys.argv[1] + "/bin/one"]).returncode)
import module
print(module.name)
try:
    subprocess.run([sys.argv[1] + "/bin/set"])
except FileNotFoundError:
    print("only in the tree")
"#;
    let ran = of_gone_tree(make, script);
    assert_eq!(ran.stdout, "0\n1\nonly in the tree\n", "{ran:?}");
}

#[test]
fn links_and_ways_back_are_followed_in_a_tree_that_is_gone() {
    let make = |tree: &Path| {
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, tree.join(name)).unwrap();
        fs::create_dir(tree.join("lib")).unwrap();
        fs::write(tree.join("lib/one"), "one").unwrap();
        fs::write(tree.with_file_name("outside"), "outside").unwrap();
        link("lib", "lib64");
        link("../lib/one", "bin/link");
        link("../../outside", "bin/far");
    };
    let script = r#"
import os, sys
for name in ["lib64/one", "lib64/../lib/one", "bin/link", "bin/far", "lib64/none"]:
    path = sys.argv[1] + "/" + name
    print(os.path.exists(path), os.access(path, os.R_OK), os.path.islink(path), os.path.exists(path) and open(path).read())
print(os.listdir(sys.argv[1] + "/lib64"))
"#;
    let ran = of_gone_tree(make, script);
    let expected = "True True False one\nTrue True False one\nTrue True True one\n\
        True True True outside\nFalse False False False\n['one']\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
}

/// Makes calls in threads with the smallest stacks.
const SMALL: &str = r#"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
static char **argument;
static int made, found, writable, opened, asked, real;
static void *calls(void *unused) {
  struct stat file; struct statfs system;
  made = open(argument[2], O_CREAT | O_RDWR, 0600) >= 0;
  found = stat(argument[2], &file) == 0;
  writable = access(argument[1], W_OK) == 0;
  opened = open(argument[1], O_RDONLY) >= 0;
  asked = statfs(argument[1], &system) == 0;
  real = realpath(argument[1], 0) != 0;
  return 0;
}
int main(int count, char **arguments) {
  pthread_attr_t small; pthread_t thread;
  argument = arguments;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
  if (pthread_create(&thread, &small, calls, 0) || pthread_join(thread, 0)) return 1;
  printf("%d %d %d %d %d %d\n", made, found, writable, opened, asked, real);
  return 0;
}
"#;

#[test]
fn a_pack_answers_threads_with_the_smallest_stacks() {
    let (here, there, home, out) = (folder(), folder(), folder(), folder());
    let at = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(at("tree/lib")).unwrap();
    fs::create_dir(at("outside")).unwrap();
    fs::write(at("tree/lib/one"), "one\n").unwrap();
    std::os::unix::fs::symlink(at("outside"), at("tree/far")).unwrap();
    fs::write(at("small.c"), SMALL).unwrap();
    support::cc(out.path(), &["small.c", "-o", "small", "-pthread"]);
    let by = |folder: &Path, arguments: &[&str]| {
        of_tree(Path::new(&at("tree")), home.path(), folder, arguments)
    };
    let (pack, program) = (at("pack.tar"), at("small"));
    document(&by(here.path(), &["pack", "-o", &pack, &program, &at("tree"), "--json"]));
    fs::rename(at("tree"), at("gone")).unwrap();
    let start = ["run", "--pack", &pack, "--check", "never", "--", &program];
    let ran = by(
        there.path(),
        &[&start[..], &[at("tree/lib/one").as_str(), at("tree/far/made").as_str()]].concat(),
    );
    assert_eq!(ran.stdout, "1 1 0 1 1 1\n", "{ran:?}");
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
