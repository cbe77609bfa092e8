//! `becalm on` for all users, and without names: the places that are written, and the programs that are
//! started to find those that gain.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_testing::skip;
use serde_json::Value;
use support::store::{Store, json, nothing_to_test_with, text};
use support::{cc, run};

/// Switches the app on and off, with the system's directories under overlays. Another user starts it in
/// between.
const SYSTEM: &str = r#"
set -e
mount --make-rprivate /
mkdir "$HERE/layers"
mount -t tmpfs layers "$HERE/layers"
for dir in etc usr/lib var/lib; do
  mkdir -p "$HERE/layers/$dir/upper" "$HERE/layers/$dir/work"
  mount -t overlay over -o \
    "lowerdir=/$dir,upperdir=$HERE/layers/$dir/upper,workdir=$HERE/layers/$dir/work" "/$dir"
done
mkdir -p /etc/fish
all() { find /etc /usr/lib /var/lib | sort; }
all >"$HERE/before"
"$US" on --system --json "$APP" >"$HERE/on.json"
(cd "$HERE/layers" && find . -type f -o -type l) | sort
chmod 755 "$HERE"
mkdir -m 1777 "$HERE/layers/logs"
setpriv --reuid 65534 --regid 65534 --clear-groups env -i BECALM="log:$HERE/layers/logs/log" PATH=/usr/bin:/bin \
  sh -c '. /etc/profile.d/becalm-on.sh && command -v app && app'
grep -o -m 1 "$(printf "\tsearch\t")" "$HERE/layers/logs/log"
for helper in own theirs; do
  mkdir "$HERE/$helper"
  cp "$US" "$HERE/$helper/becalm"
  [ $helper = own ] || chown 65534 "$HERE/$helper"
  "$HERE/$helper/becalm" on --update --system >"$HERE/on"
  grep -a -o "/$helper/becalm" /var/lib/becalm/on/starts || echo "not $helper"
done
"$US" off --system >"$HERE/off"
all | diff "$HERE/before" -
"#;

#[test]
fn all_users_start_what_root_has_switched_on_until_it_is_off() {
    if nothing_to_test_with() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        skip("only root switches on for all users");
        return;
    }
    let store = Store::new();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SYSTEM]);
    command.env("HERE", store.path("")).env("APP", store.app()).env("HOME", store.path("home"));
    let ran = run(command.env("US", env!("CARGO_BIN_EXE_becalm")));
    if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
        skip(&format!("no overlay can be mounted here: {}", ran.stderr.trim()));
        return;
    }
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let is_index = |line: &&str| !line.contains("/index.so.d/");
    let written: Vec<&str> =
        lines.iter().copied().take_while(|line| line.starts_with("./")).filter(is_index).collect();
    let on = "./var/lib/upper/becalm/on";
    let mut wanted: Vec<String> =
        ["bin/app", "becalm-starter", "index.so", "lock", "on.json", "starts"]
            .map(|name| format!("{on}/{name}"))
            .into();
    wanted.extend(
        [
            "etc/upper/fish/conf.d/becalm-on.fish",
            "etc/upper/profile.d/becalm-on.sh",
            "usr/lib/upper/environment.d/60-becalm-on.conf",
        ]
        .map(|file| format!("./{file}")),
    );
    let sorted = |lines: Vec<String>| lines.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(sorted(written.iter().map(|it| (*it).to_owned()).collect()), sorted(wanted));
    let (started, helpers) = lines[lines.len() - 5..].split_at(3);
    assert_eq!(started, ["/var/lib/becalm/on/bin/app", "one two", "\tsearch\t"]);
    // For all users, becalm reads ahead only if nobody but root can replace it.
    assert_eq!(helpers, ["/own/becalm", "not theirs"]);
    let report: Value =
        serde_json::from_slice(&fs::read(store.path("on.json")).expect("read")).expect("JSON");
    let files = report["files"].as_array().expect("files");
    assert!(files.len() == 3 && files.iter().all(|file| file["changed"] == true), "{report}");
}

#[test]
fn a_set_id_program_is_refused_whoever_starts_it() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    fs::set_permissions(&app, fs::Permissions::from_mode(0o4755)).expect("set");
    let ran = run(&mut store.becalm(&["on", "--dry-run", text(&app)]));
    let refused = format!("becalm: {}: a set-id program\n", text(&app));
    assert_eq!((ran.code, ran.stderr), (Some(2), refused));
}

/// A library of many functions, and programs that bind all of them. Each adds a line with its name to
/// the file `started` before its BODY.
struct Heavy {
    store: Store,
}

impl Heavy {
    fn new() -> Self {
        let store = Store::new();
        store.heavy_library();
        Self { store }
    }

    fn program(&self, name: &str, body: &str) -> PathBuf {
        let started = self.store.path("started");
        let source = format!(
            "#include <stdio.h>\n#include <unistd.h>\n\
             int main(int n, char **a) {{ FILE *f = fopen(\"{}\", \"a\");\n\
             fprintf(f, \"%s %s\\n\", a[0], n == 2 ? a[1] : \"\"); fclose(f);\n{body} return 0; }}\n",
            text(&started)
        );
        self.store.source("heavy.c", &source);
        let to = self.store.path(name);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        let run_path = format!("-Wl,-rpath,{}", text(&self.store.path("")));
        cc(
            &self.store.path(""),
            &[
                "-fPIE",
                "-pie",
                "heavy.c",
                "-o",
                text(&to),
                &run_path,
                "-L.",
                "-Wl,--no-as-needed",
                "-lmany",
            ],
        );
        to
    }

    /// Chooses from these directories, and returns the report.
    fn chosen(&self, dirs: &[&Path]) -> Value {
        let path = std::env::join_paths(dirs).expect("joined");
        let report = self.report(self.becalm(&["on", "--dry-run"]).env("PATH", path));
        assert!(!self.store.path("home/.local").exists(), "a dry run writes nothing");
        report
    }

    /// Returns a command with the launchers of the folder `share`.
    fn becalm(&self, arguments: &[&str]) -> Command {
        let mut command = self.store.becalm(&[arguments, &["--json"]].concat());
        command.env("XDG_DATA_DIRS", self.store.path("share"));
        command.env("BECALM_CACHE", self.store.path("cache"));
        command
    }

    fn report(&self, command: &mut Command) -> Value {
        let ran = run(command);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        json(&ran)
    }

    fn launcher(&self, name: &str, exec: &str) -> PathBuf {
        let dir = self.store.path("share/applications");
        fs::create_dir_all(&dir).expect("made");
        let text = format!("[Desktop Entry]\nName=X\nTryExec=/bin/sh\nExec={exec}\n");
        fs::write(dir.join(name), text).expect("written");
        dir.join(name)
    }

    /// Returns the lines that the programs have written, each once.
    fn started(&self) -> BTreeSet<String> {
        let text = fs::read_to_string(self.store.path("started")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn paths<'a>(of: impl IntoIterator<Item = &'a Value>, field: &str) -> BTreeSet<String> {
    let texts = of.into_iter().filter_map(|it| it.get(field).unwrap_or(it).as_str());
    texts.map(str::to_owned).collect()
}

#[test]
fn programs_that_may_gain_are_started_with_version_and_no_others() {
    if nothing_to_test_with() {
        return;
    }
    let heavy = Heavy::new();
    let all = [
        heavy.program("bin/heavy", ""),
        heavy.program("bin/unlike", "printf(\"%d\\n\", (int) getpid());"),
    ];
    heavy.program("sbin/heavy-of-sbin", "");
    heavy.program("bin/reboot", "");
    fs::write(heavy.store.path("bin/script"), "#!/bin/sh\n").expect("written");
    symlink(heavy.store.app(), heavy.store.path("bin/light")).expect("linked");
    let (bin, sbin) = (heavy.store.path("bin"), heavy.store.path("sbin"));
    let report = heavy.chosen(&[&sbin, &bin]);
    let trials = &report["trials"];
    let started = paths(trials["started"].as_array().expect("started"), "");
    assert_eq!(started, all.iter().map(|path| text(path).to_owned()).collect());
    assert_eq!(heavy.started(), all.iter().map(|it| format!("{} --version", text(it))).collect());
    // Whether a program gains depends on the machine, but not whether its output differs.
    let not_chosen = trials["not_chosen"].as_array().expect("not chosen");
    let differs = not_chosen.iter().find(|it| it["name"] == "unlike").expect("unlike");
    assert_eq!(differs["reason"], "differs", "{report}");
    let chosen = paths(report["programs"].as_array().expect("programs"), "name");
    let both = &chosen | &paths(not_chosen, "name");
    assert_eq!(both, ["heavy", "unlike"].map(str::to_owned).into(), "{report}");
    assert_eq!((&report["written"], report["files"].is_array()), (&Value::Bool(false), true));
}

#[test]
fn programs_of_launchers_are_tried_and_those_named_by_their_paths_are_listed() {
    if nothing_to_test_with() {
        return;
    }
    let heavy = Heavy::new();
    let opt = heavy.program("opt/heavy-of-opt", "");
    let in_path = heavy.program("bin/heavy", "");
    let of_sbin = heavy.program("sbin/heavy-of-sbin", "");
    heavy.launcher("opt.desktop", &format!("\"{}\" %U", text(&opt)));
    let by_path = heavy.launcher("path.desktop", &format!("env X=1 {} --new", text(&in_path)));
    heavy.launcher("sbin.desktop", text(&of_sbin));
    heavy.launcher("name.desktop", "heavy %U");
    let report = heavy.chosen(&[&heavy.store.path("bin")]);
    let started = paths(report["trials"]["started"].as_array().expect("started"), "");
    assert_eq!(started, [&opt, &in_path].map(|path| text(path).to_owned()).into(), "{report}");
    heavy.report(&mut heavy.becalm(&["on", text(&in_path), text(&opt), text(&heavy.store.app())]));
    let list = heavy.report(&mut heavy.becalm(&["on", "--list"]));
    let programs = list["programs"].as_array().expect("programs");
    let launchers = |name: &str| {
        let program = programs.iter().find(|it| it["name"] == name).expect("a program");
        paths(program["launchers"].as_array().expect("launchers"), "")
    };
    assert_eq!(launchers("heavy"), [text(&by_path).to_owned()].into());
    assert_eq!((launchers("heavy-of-opt").len(), launchers("app").len()), (1, 0));
}
