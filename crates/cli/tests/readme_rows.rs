//! The rows of README's table "Who you are", typed as they stand. Each runs in a mount namespace whose root has the
//! directories of this machine, and empty ones at `/nix`, `/gnu`, `/apps` and `/opt`. Not run here are the Nix
//! daemon, a real Spack, NFS and other nodes (`lab/tests/trees` has both) and a container engine: that row is typed
//! in the namespace. inkscape, clang, gimp and solver are small programs of these names.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use becalm_testing::skip;
use support::store::{Store, nothing_to_test_with, text};
use support::{cc, run};

/// Makes the root, and runs the row in it.
const NAMESPACE: &str = r#"
set -e
mount --make-rprivate /
mkdir "$HERE/top" && mount -t tmpfs root "$HERE/top"
for entry in /*; do
  if [ -L "$entry" ]; then
    cp -P "$entry" "$HERE/top"
  elif [ -d "$entry" ]; then
    mkdir "$HERE/top$entry"
    case $entry in
      /dev | /proc | /sys) mount --rbind "$entry" "$HERE/top$entry" ;;
      /nix | /gnu | /apps | /opt) ;;
      *) mount --bind "$entry" "$HERE/top$entry" ;;
    esac
  fi
done
for place in nix gnu apps opt; do
  mkdir -p "$HERE/places/$place" "$HERE/top/$place"
  mount --bind "$HERE/places/$place" "$HERE/top/$place"
done
PATH=$PATH:/usr/sbin:/sbin exec chroot "$HERE/top" /bin/sh -e "$HERE/row"
"#;

/// Functions for the rows: `store DIR` makes packages whose program searches, `calm` is a start without a miss,
/// `kept` is true if there is an index of a program.
const PRELUDE: &str = r#"
mkdir "$HERE/cwd" "$HERE/home" && cd "$HERE/cwd"
store() {
  two=$1/fghijklmnpqrsvwxyz0123456789abcd-two-1/lib one=$1/0123456789abcdfghijklmnpqrsvwxyz-one-1/lib
  app=$1/abcdfghijklmnpqrsvwxyz0123456789-app-1/bin/app
  mkdir -p "$two" "$one" "${app%/app}" "$1/none"
  echo 'int one(void) { return 1; }' | cc -x c -shared -fPIC -Wl,-soname,libone.so -o "$one/libone.so" -
  echo 'int two(void) { return 2; }' | cc -x c -shared -fPIC -Wl,-soname,libtwo.so -o "$two/libtwo.so" -
  echo 'int puts(const char *); int one(void), two(void);
    int main(void) { return one() + two() != 3 || puts("hello 3") < 0; }' |
    cc -x c -o "$app" - -x none -Wl,-rpath,"$two:$one" -Wl,--no-as-needed "$one/libone.so" "$two/libtwo.so"
  sleep 0.5
  ! calm "$app"
}
calm() { becalm trace -- "$@" 2>&1 | grep -q '  no misses'; }
until_is() {
  tries=0
  until "$@" >"$HERE/said" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { cat "$HERE/said"; exit 9; }
    sleep 0.1
  done
}
heavy() { mkdir -p "${1%/*}" && cp "$HERE/heavy" "$1" && sleep 0.5; }
kept() { becalm doctor "$1" | grep 'index of .* MiB' || { becalm doctor "$1"; false; }; }
says() { grep -qx "$1" "$HERE/typed" || { cat "$HERE/typed"; exit 8; }; }
"#;

/// A row: the beginning of its first cell, what it needs, and what its commands have done; after `!`, why they fail here.
const CASES: [[&str; 3]; 17] = [
    ["use Nix", "store /nix/store", "calm $app"],
    ["use Guix", "store /gnu/store", "calm $app"],
    [
        "install with Spack",
        "store ~/spack/opt/spack; ln -s $app solver",
        "says 'hello 3'; calm becalm run -- ./solver",
    ],
    [
        "import Python packages",
        "ln -s /usr/bin/python3 bin/python; echo 'print(\"hello 3\")' >app.py",
        "says 'hello 3'; until_is kept /usr/bin/python3",
    ],
    [
        "have them, or",
        "/usr/bin/python3 -m venv --without-pip .venv; echo 'print(\"hello 3\")' >app.py",
        "says 'hello 3'; until_is kept .venv/bin/python",
    ],
    [
        "do so on many nodes",
        "/usr/bin/python3 -m venv --without-pip .venv; echo 'print(\"hello 3\")' >app.py
        becalm run -- .venv/bin/python app.py",
        "!no start of it was learned here on a network file system",
    ],
    [
        "run a cluster with modules",
        "store /apps; mv $app ${app%app}solver; export PATH=${app%/app}:$PATH LD_LIBRARY_PATH=/apps/none:$one",
        "says 'hello 3'; calm becalm run --index /apps/index.so -- solver",
    ],
    ["ship a container", "store /opt", "calm $app"],
    [
        "make packages",
        "store /nix/store; ln -s ${app%/bin/app} result",
        "calm $app; test \"$($app)\" = 'hello 3'",
    ],
    ["ship one program", "store /opt; cp $app tool", "calm ./tool; test \"$(./tool)\" = 'hello 3'"],
    [
        "start one large program",
        "heavy bin/inkscape",
        "says 'hello'; until_is kept inkscape; becalm run -- inkscape",
    ],
    [
        "want an index for every",
        "heavy bin/heavy; export PATH=$HERE/bin:$PWD/bin",
        "export PATH=$PATH:/usr/bin:/bin; grep 'started with --version, .*: 1 program' $HERE/typed
        becalm off; test ! -e ~/.profile",
    ],
    [
        "start it many times",
        "heavy bin/clang",
        "becalm on --list | grep -w clang; ~/.local/state/becalm/on/bin/clang",
    ],
    [
        "wait for a first start",
        "heavy bin/gimp",
        "says 'hello'; until_is kept gimp",
    ],
    ["want to see a start", ":", "test -s git.html; says 'git version.*'"],
    [
        "want no program to get slower",
        "store /opt; mkdir result; cp $app result",
        "heavy result/heavy; ! becalm check --max-misses 100 --max-lookups 20000 ./result 2>said >listed
        grep 'heavy: .* symbol lookups, over the budget of 20,000' said",
    ],
    [
        "see that it did not",
        "heavy bin/inkscape; becalm run -- inkscape; until_is kept inkscape",
        "says 'inkscape: about .* with an index about .*'",
    ],
];

/// Returns the rows: the first cell, and the commands.
fn rows() -> Vec<(String, Vec<String>)> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).expect("the page");
    let table = readme.split("\n## Who you are").nth(1).expect("the table");
    let lines = table.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let spans = cells[1].split('`').skip(1).step_by(2).map(str::to_owned);
        (cells[0].trim_start_matches("| ").to_owned(), spans.collect())
    };
    lines.take_while(|line| line.starts_with('|')).map(row).collect()
}

/// Returns a command as a shell types it: of a Dockerfile what its line does.
fn typed(command: &str) -> String {
    match command.split_once(' ') {
        Some(("RUN", command)) => command.to_owned(),
        Some(("ENV", setting)) => format!("export {setting}"),
        _ => command.to_owned(),
    }
}

fn heavy_program(store: &Store) {
    store.heavy_library();
    store.source("heavy.c", "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n");
    let run_path = format!("-Wl,-rpath,{}", text(&store.path("")));
    let linked = ["-L.", "-Wl,--no-as-needed", "-lmany"];
    cc(
        &store.path(""),
        &[&["-fPIE", "-pie", "heavy.c", "-o", "heavy", &run_path], &linked[..]].concat(),
    );
}

#[test]
fn each_row_of_the_readme_does_what_it_says() {
    if nothing_to_test_with() {
        return;
    }
    let rows = rows();
    assert_eq!(rows.len(), CASES.len(), "{rows:?}");
    for ((you, commands), [begin, prepare, check]) in rows.iter().zip(CASES) {
        assert!(you.starts_with(begin) && !commands.is_empty(), "{you}: {commands:?}");
        let store = Store::new();
        heavy_program(&store);
        fs::create_dir(store.path("bin")).expect("made");
        let us = env!("CARGO_BIN_EXE_becalm");
        std::os::unix::fs::symlink(us, store.path("bin/becalm")).expect("linked");
        let commands: Vec<String> = commands.iter().map(|it| typed(it)).collect();
        let commands_typed = format!("{{\n{}\n}} >\"$HERE/typed\" 2>&1", commands.join(" &&\n"));
        let done = match check.strip_prefix('!') {
            Some(words) => format!("! {commands_typed}\ngrep '{words}' \"$HERE/typed\""),
            None => format!("{commands_typed} || {{ cat \"$HERE/typed\"; exit 6; }}\n{check}"),
        };
        let row = format!("{PRELUDE}mkdir bin\n{prepare}\n{done}\necho done\n");
        fs::write(store.path("row"), row).expect("written");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", NAMESPACE]).env_clear();
        let path =
            format!("{}:{}/cwd/bin:/usr/bin:/bin", text(&store.path("bin")), text(&store.path("")));
        let here = store.path("");
        command.env("HERE", &here).env("HOME", store.path("home")).env("PATH", path);
        let ran = run(command.env("XDG_DATA_DIRS", store.path("none")));
        if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
            skip(&format!("no root can be mounted here: {}", ran.stderr.trim()));
            return;
        }
        assert!(
            ran.code == Some(0) && ran.stdout.ends_with("done\n"),
            "{you}: {commands:?}: {ran:#?}"
        );
    }
}
