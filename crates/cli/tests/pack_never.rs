//! `becalm run --pack --check never`: programs of a pack, and of the tree if those cannot be used.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use becalm_testing::skip;
use serde_json::json;
use support::packs::{document, folder, of_tree};
use support::{Ran, becalm, run};
use tempfile::TempDir;

/// A tree whose programs were packed by these paths, with a directory for it all.
struct Packed(TempDir, [TempDir; 3]);

impl Packed {
    fn of(scripts: &[(&str, &str)], programs: &[&str]) -> Self {
        let packed = Self(folder(), [(); 3].map(|()| folder()));
        packed.write(scripts);
        let [home, here, _] = packed.1.each_ref().map(TempDir::path);
        let paths: Vec<String> =
            programs.iter().chain([&"tree"]).map(|name| packed.at(name)).collect();
        let pack = packed.at("pack.tar");
        let mut arguments = vec!["pack", "-o", &pack, "--json", "/bin/cat"];
        arguments.extend(paths.iter().map(String::as_str));
        let report = document(&of_tree(packed.0.path(), home, here, &arguments));
        assert_eq!(report["left_out"], json!([]));
        packed
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, scripts: &[(&str, &str)]) {
        fs::create_dir_all(self.at("tree/bin")).unwrap();
        for (name, text) in scripts {
            let path = self.at("tree/bin/") + name;
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Starts a program without a look at the tree.
    fn start(&self, switches: &str, command: &[&str]) -> Ran {
        let pack = self.at("pack.tar");
        let mut start = becalm();
        start.args(["run", "--pack", &pack, "--check", "never", "--"]).args(command);
        let [home, _, there] = self.1.each_ref().map(TempDir::path);
        start.env("BECALM_CACHE", there).env("HOME", home).env("BECALM", switches);
        run(&mut start)
    }
}

#[test]
fn the_program_of_the_tree_is_started_if_it_gets_no_answers() {
    let old = [("other", "#!/bin/sh\necho packed\n"), ("app", "#!/bin/sh\necho packed\n")];
    let packed = Packed::of(&old, &["tree/bin/app"]);
    let new = old.map(|(name, _)| (name, "#!/bin/sh\necho tree\n"));
    packed.write(&new);
    let [app, other] = ["tree/bin/app", "tree/bin/other"].map(|name| packed.at(name));
    assert_eq!(packed.start("", &[&app]).stdout, "packed\n");
    for switch in ["off", "notrees", "noahead", "nobind"] {
        assert_eq!(packed.start(switch, &[&app]).stdout, "tree\n", "{switch}");
    }
    let ran = packed.start("", &[&other]);
    assert!(ran.stdout == "tree\n" && ran.stderr.contains("compared with the tree"), "{ran:?}");
}

#[test]
fn scripts_of_a_pack_have_the_path_of_the_tree() {
    let lines =
        ["#!/bin/sh\n", "#! /bin/bash -e\n", "#!/usr/bin/env -S sh -e\n", "#!/usr/bin/env sh\n"];
    let names = ["sh", "bash", "words", "env"];
    let texts = lines.map(|line| format!("{line}echo $0 $1\n"));
    let scripts: Vec<_> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
    let paths = names.map(|name| format!("tree/bin/{name}"));
    let packed = Packed::of(&scripts, &paths.each_ref().map(String::as_str));
    for path in paths.map(|path| packed.at(&path)) {
        let ran = packed.start("", &[&path, "one"]);
        assert_eq!(ran.stdout, format!("{path} one\n"), "{ran:?}");
    }
}

#[test]
fn a_folder_without_execution_lets_the_tree_start() {
    let packed = Packed::of(&[("app", "#!/bin/sh\necho started\n")], &["tree/bin/app"]);
    let there = packed.1[2].path().to_str().unwrap();
    let script = "mount -t tmpfs -o noexec,mode=700 none \"$1\" && shift && exec \"$@\"";
    for (check, lines) in [("never", 1), ("start", 0), ("node", 0)] {
        let mut shell = std::process::Command::new("unshare");
        shell.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", there]);
        shell.arg(becalm().get_program()).args(["run", "--pack", &packed.at("pack.tar")]);
        shell.args(["--check", check, "--", &packed.at("tree/bin/app")]);
        shell.env("BECALM_CACHE", there).env("HOME", packed.1[0].path());
        let ran = run(&mut shell);
        if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
            skip(&format!("nothing can be mounted here: {}", ran.stderr.trim()));
            return;
        }
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.lines().count()),
            ("started\n", lines),
            "{ran:?}"
        );
    }
}

#[test]
fn a_start_without_a_home_directory_uses_the_index_of_the_pack() {
    let packed = Packed::of(&[("app", "#!/bin/sh\necho $(cat \"$0\")\n")], &["tree/bin/app"]);
    fs::remove_dir_all(packed.at("tree")).unwrap();
    let pack = packed.at("pack.tar");
    let mut start = becalm();
    start.args(["run", "--pack", &pack, "--check", "never", "--", &packed.at("tree/bin/app")]);
    start.env("BECALM_CACHE", packed.1[2].path()).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    let ran = run(&mut start);
    assert!(ran.stdout.starts_with("#!/bin/sh") && ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn user_65534_is_started_without_the_pack() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return skip("only root can be another user");
    }
    let packed = Packed::of(&[("app", "#!/bin/sh\necho packed\n")], &["tree/bin/app"]);
    packed.write(&[("app", "#!/bin/sh\necho tree\n")]);
    for dir in [packed.0.path(), packed.1[2].path()] {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    }
    let program = packed.at("becalm");
    fs::copy(becalm().get_program(), &program).unwrap();
    let mut start = Command::new(program);
    start.args(["run", "--pack", &packed.at("pack.tar"), "--check", "never", "--"]);
    start.arg(packed.at("tree/bin/app")).uid(65534).gid(65534).env("HOME", "/nonexistent");
    let ran = run(&mut start);
    assert_eq!(ran.stdout, "tree\n", "{ran:?}");
    assert!(ran.stderr.contains("started without the pack: user 65534"), "{ran:?}");
}
