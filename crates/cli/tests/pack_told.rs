//! `becalm run --pack --check never`: what programs are told of a tree, and what they change in it.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use support::packs::{document, folder, of_tree};
use support::{Ran, run};

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
