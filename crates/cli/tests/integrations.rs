//! Runs the files in `integrations/` as their tools would, on a small store.

mod support;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use becalm_testing::skip;

use support::store::Store;
use support::{Ran, becalm, no_compiler, run};

/// A file of the project.
fn integration(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations").join(name)
}

/// A command that finds this becalm by its name.
fn tool(program: &str, arguments: &[&str]) -> Command {
    let built = Path::new(env!("CARGO_BIN_EXE_becalm")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", format!("{}:{path}", built.display()));
    for variable in ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

fn shell(program: &str, script: &str, variables: &[(&str, &Path)]) -> Ran {
    run(tool(program, &["-euc", script]).envs(variables.iter().copied()))
}

fn misses(store: &Store) -> u64 {
    let ran = run(becalm().args(["check", "--json"]).arg(store.app()));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let storm = &json["total"];
    storm["missed_opens"].as_u64().unwrap() + storm["missed_stats"].as_u64().unwrap()
}

fn package(store: &Store) -> PathBuf {
    store.root().join(store.packages[0])
}

fn prints(store: &Store) -> String {
    run(&mut Command::new(store.app())).stdout
}

#[test]
fn the_hook_for_nix_calms_an_output_in_its_fixup_phase() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let (before, prefix) = (misses(&store), package(&store));
    // As stdenv calls it: for each output, with `prefix` set.
    let script =
        "fixupOutputHooks=(); source \"$hook\"; becalmStrategy=absolute; becalmMaxMisses=$budget
                  for hook in \"${fixupOutputHooks[@]}\"; do prefix=$output; $hook; done";
    let root = store.root();
    let hook = integration("nix/becalm-hook.sh");
    let with = |budget: &str| {
        let budget = Path::new(budget);
        let variables =
            [("hook", &*hook), ("output", &*prefix), ("NIX_STORE", &*root), ("budget", budget)];
        shell("bash", script, &variables)
    };
    let ran = with("1000");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(misses(&store) < before);
    assert_eq!(prints(&store), "one two\n");
    let left = misses(&store);
    assert!(left > 0, "the C library's own search is left, so that a budget can fail");
    assert_eq!(with(&(left - 1).to_string()).code, Some(1), "over the budget");
}

#[test]
fn the_phase_for_guix_calms_every_output() {
    if no_compiler() {
        return;
    }
    if !Path::new("/usr/bin/guile").exists() {
        skip("no guile");
        return;
    }
    let store = Store::new();
    let before = misses(&store);
    let (module, root) = (integration("guix"), store.root());
    let call = format!(
        "(use-modules (becalm)) (exit (calm #:outputs '((\"out\" . \"{}\") (\"gone\" . \"/nonexistent\")) \
         #:store \"{}\" #:strategy \"absolute\"))",
        package(&store).display(),
        root.display()
    );
    let module = module.to_str().expect("UTF-8");
    let ran = run(&mut tool("guile", &["--no-auto-compile", "-L", module, "-c", &call]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(misses(&store) < before);
    assert_eq!(prints(&store), "one two\n");
    let no_strategy = call.replace("absolute", "none");
    let ran = run(&mut tool("guile", &["--no-auto-compile", "-L", module, "-c", &no_strategy]));
    assert_eq!(ran.code, Some(1), "becalm's failure is the phase's");
}

#[test]
fn prefixes_of_spack_are_calmed_one_by_one() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = misses(&store);
    let script = "printf '%s\\n' \"$prefix\" /nonexistent | \"$calm\" \"$store\" --with absolute";
    let (root, prefix) = (store.root(), package(&store));
    let calm = integration("spack/calm-prefixes.sh");
    let ran = shell("sh", script, &[("calm", &calm), ("store", &root), ("prefix", &prefix)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(misses(&store) < before);
    assert_eq!(prints(&store), "one two\n");
}

#[test]
fn the_pieces_for_packages_leave_what_a_package_depends_on_alone() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let (root, prefix) = (store.root(), package(&store));
    let libraries = [store.one("libone.so"), store.two("libtwo.so")];
    let bytes = || libraries.each_ref().map(|library| std::fs::read(library).expect("readable"));
    let before = bytes();
    let (hook, calm) = (integration("nix/becalm-hook.sh"), integration("spack/calm-prefixes.sh"));
    let variables =
        [("hook", &*hook), ("calm", &*calm), ("prefix", &*prefix), ("NIX_STORE", &*root)];
    let script = "fixupOutputHooks=(); source \"$hook\"; becalmFixOutput
                  printf '%s\\n' \"$prefix\" | \"$calm\" \"$NIX_STORE\"";
    let ran = shell("bash", script, &variables);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(bytes(), before);
    let farms =
        [store.packages[1], store.packages[2]].map(|it| root.join(it).join("lib/becalm-farm"));
    assert!(!farms.iter().any(|farm| farm.exists()));
}

#[test]
fn a_task_of_slurm_follows_the_pointer_of_the_site_and_runs_no_becalm() {
    if no_compiler() || support::is_missing("flock", "util-linux") {
        return;
    }
    let store = Store::new();
    let (shared, node) = (store.path("shared"), store.path("node"));
    // The index is for all users.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(store.dir.path(), open).expect("opened");
    let publish = |version: &str| {
        let folder = shared.join(version);
        std::fs::create_dir_all(&folder).expect("made");
        let (root, index) = (store.root(), folder.join("index.so"));
        let made = run(becalm().arg("index").arg("--store").args([
            &*root,
            &*root,
            Path::new("-o"),
            &*index,
        ]));
        assert_eq!(made.code, Some(0), "{made:?}");
        let lines = run(becalm().args(["env", "--for", "profile.d", "--index"]).arg(index));
        std::fs::write(folder.join("env.sh"), lines.stdout).expect("written");
        std::fs::write(folder.join("job-line"), format!("becalm: {version}\n")).expect("written");
    };
    let point = |pointer: &str, target: &str| {
        let _ = std::fs::remove_file(shared.join(pointer));
        symlink(target, shared.join(pointer)).expect("a link");
    };
    let tool_of_site = |piece: &str| {
        let mut tool = tool("/bin/sh", &[integration(piece).to_str().expect("UTF-8")]);
        tool.env("BECALM_SHARED", &shared).env("BECALM_NODE_FOLDER", &node);
        tool.env("SLURM_JOB_USER", "ada").env("SLURM_JOB_PARTITION", "small");
        tool.env("SLURMD_NODENAME", "n1").env("SLURM_STEP_ID", "0").env_remove("LD_AUDIT");
        tool
    };
    let prolog = || assert_eq!(run(&mut tool_of_site("slurm/prolog")).code, Some(0));
    let task_with = |name: &str, value: &str| {
        let mut task = tool_of_site("slurm/task-prolog");
        let ran = run(task.env("PATH", "/nowhere").env(name, value));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let task = || task_with("BECALM", "");
    let lines = |version: &str| {
        format!(
            "export LD_AUDIT={}/{version}/index.so.d/$PLATFORM\n\
             export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096\n",
            node.display()
        )
    };
    let next = || {
        prolog();
        task()
    };
    assert_eq!((task(), next()), (String::new(), String::new()), "nothing is published");
    publish("versions/two");
    publish("versions/one");
    for version in ["versions/one", "versions/two", "versions/one"] {
        // Times go forth and back.
        point("current", version);
        assert_eq!(next(), lines(version));
    }
    // The script of a batch job is no step.
    let expected = format!("print becalm: versions/one\n{}", lines("versions/one"));
    assert_eq!(task_with("SLURM_STEP_ID", ""), expected);
    // A version that cannot be copied leaves no part of it on the node.
    std::fs::create_dir_all(shared.join("versions/bad/env.sh")).expect("made");
    point("current", "versions/bad");
    assert_eq!((next(), node.join(".part").exists()), (lines("versions/one"), false));
    point("current", "versions/one");
    // A job that is to run without the index, also if it has removed LD_AUDIT.
    assert_eq!(task_with("BECALM", "nobind,off"), "");
    let expected = format!("{}export BECALM=nobind\n", lines("versions/one"));
    assert_eq!(task_with("BECALM", "nobind"), expected);
    // The session that submits the job has another version.
    let inherited = format!("/other.so:{}/versions/0/index.so.d/$PLATFORM", node.display());
    let expected = lines("versions/one").replace("LD_AUDIT=", "LD_AUDIT=/other.so:");
    assert_eq!(task_with("LD_AUDIT", &inherited), expected);
    // The first of the four pointers counts.
    point("partition-small", "versions/two");
    assert_eq!(next(), lines("versions/two"));
    point("node-n1", "versions/one");
    assert_eq!(next(), lines("versions/one"));
    point("user-ada", "off");
    assert_eq!(next(), "");
    std::fs::remove_file(shared.join("user-ada")).expect("removed");
    std::fs::remove_file(shared.join("node-n1")).expect("removed");
    assert_eq!(next(), lines("versions/two"));
    for pointer in ["partition-small", "current"] {
        std::fs::remove_file(shared.join(pointer)).expect("removed");
    }
    assert_eq!(next(), "", "all pointers are gone");
    assert_eq!(task_with("LD_AUDIT", &inherited[10..]), "unset LD_AUDIT\n");
    // Jobs that began before still have their version. Without the site's folder, nothing is removed.
    assert!(node.join("versions/two/index.so").exists());
    point("current", "versions/two");
    prolog();
    std::fs::rename(&shared, store.path("away")).expect("renamed");
    assert_eq!(next(), lines("versions/two"));
}

#[test]
fn a_conda_environment_is_calmed_while_it_is_active() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let prefix = store.root();
    // Twice, since the second activation brings the index up to date.
    let script = ". \"$activate\"; . \"$deactivate\"; . \"$activate\"
                  echo \"${LD_AUDIT:-none}\"; \"$app\"; . \"$deactivate\"; echo \"${LD_AUDIT:-none}\"";
    let variables = [
        ("CONDA_PREFIX", prefix.clone()),
        ("activate", integration("conda/activate.sh")),
        ("deactivate", integration("conda/deactivate.sh")),
        ("app", store.app()),
    ];
    let variables: Vec<(&str, &Path)> =
        variables.iter().map(|(name, value)| (*name, value.as_path())).collect();
    let ran = shell("sh", script, &variables);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].contains("/var/becalm/index.so"), "{lines:?}");
    assert_eq!(lines[1..], ["one two", "none"]);
}

#[test]
fn a_budget_in_ci_fails_a_package_that_searches_too_much() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let (root, prefix) = (store.root(), package(&store));
    let budget = integration("ci/storm-budget.sh");
    let with = |misses: u64| {
        let misses = misses.to_string();
        let mut command = tool(budget.to_str().expect("UTF-8"), &[&misses]);
        run(command.args([&root, &prefix]))
    };
    let now = misses(&store);
    assert!(now > 0);
    assert_eq!(with(now).code, Some(0), "{}", with(now).stderr);
    assert_eq!(with(now - 1).code, Some(1));
}

/// The packages install these files with their modes; lintian refuses a script without the right to
/// execute it.
#[test]
fn scripts_may_be_executed() {
    let files = run(Command::new("find").arg(integration("")).args(["-type", "f"])).stdout;
    let is_script = |file: &&str| std::fs::read(file).expect("read").starts_with(b"#!");
    let scripts: Vec<&str> = files.lines().filter(is_script).collect();
    assert!(!scripts.is_empty());
    for script in scripts {
        let mode = Path::new(script).metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{script}");
    }
}
