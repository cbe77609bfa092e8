//! Packs of what starts have learned.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::scene::{Scene, becalm, compile, text};

/// A program that prints a file with its size, the names beside it and what its library returns.
const READER: &str = r#"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int answer (void);
int main (int argc, char **argv)
{
  char path[4096], content[64] = "";
  struct stat file;
  const struct dirent *entry;
  /* The results are there when the program asks. */
  usleep (300000);
  snprintf (path, sizeof path, "%s/dir/none", argv[1]);
  int none = access (path, F_OK) == 0;
  snprintf (path, sizeof path, "%s/dir/file", argv[1]);
  long size = stat (path, &file) == 0 ? (long) file.st_size : -1;
  FILE *from = fopen (path, "r");
  if (from == NULL || fgets (content, sizeof content, from) == NULL)
    strcpy (content, "unreadable");
  printf ("%d %ld %s %d:", answer (), size, content, none);
  snprintf (path, sizeof path, "%s/dir", argv[1]);
  DIR *names = opendir (path);
  while (names != NULL && (entry = readdir (names)) != NULL)
    if (entry->d_name[0] != '.')
      printf (" %s", entry->d_name);
  puts ("");
  return 0;
}"#;

/// Ends the processes of becalm that were started with an argument.
fn end_all(argument: &str) {
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        let is_becalm = words.next().is_some_and(|it| it.ends_with(b"/becalm"));
        if is_becalm && words.any(|it| it == argument.as_bytes()) {
            let id = process.file_name().into_string().unwrap();
            let _ = Command::new("kill").args(["-9", &id]).status();
        }
    }
}

#[test]
fn a_pack_is_compared_in_each_start_once_a_machine_or_never() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir(scene.at("tree/bin")).unwrap();
    let (library, program) = (scene.at("tree/bin/libanswer.so"), scene.at("tree/bin/reader"));
    let name = "-Wl,-soname,libanswer.so";
    compile("int answer (void) { return 42; }", &library, &["-shared", "-fPIC", name]);
    compile(READER, &program, &[text(&library), "-Wl,-rpath,$ORIGIN"]);
    fs::write(scene.at("tree/generation"), "1").unwrap();
    std::os::unix::fs::symlink("reader", scene.at("tree/bin/link")).unwrap();
    let (program, mount) = (scene.at("mount/bin/link"), scene.at("mount"));
    let command = [text(&program), text(&mount)];
    let first = "42 13 first content 0: file\n";
    scene.learn_by("dir/none", || assert_eq!(scene.start("", &command).0, first));
    scene.learn_by("\"copy\"", || assert_eq!(scene.start("", &command).0, first));
    let becalm = becalm();
    let generation = scene.at("mount/generation");
    let write = |name: &str, more: &[&str]| {
        let pack = scene.at(name).into_os_string().into_string().unwrap();
        let write = [text(&becalm), "pack", "-o", &pack, command[0]];
        scene.mounted("", &[&write[..], more].concat());
        pack
    };
    let pack = write("pack.tar", &[]);
    let of_generation = write("generation.tar", &["--generation", text(&generation)]);

    // Another machine, whose home has no index.
    forget(&scene);
    let start = |pack: &str, check: &str| {
        let run = [text(&becalm), "run", "-q", "--pack", pack, "--check", check, "--"];
        let printed = scene.mounted("", &[&run[..], &command].concat()).0;
        end_all(pack);
        (printed, scene.lookups())
    };
    let (printed, lookups) = start(&pack, "never");
    assert_eq!(printed, first);
    assert!(lookups <= 4, "{lookups}: nothing of the tree is looked up");
    scene.write("second, longer");
    fs::write(scene.at("tree/dir/none"), "").unwrap();
    let second = "42 14 second, longer 1: file none\n";
    let sorted = |printed: &str| printed.replace(": none file", ": file none");
    assert_eq!(start(&pack, "never").0, first);
    // Its generation is as it was, so the first start has all of the pack too.
    assert_eq!(start(&of_generation, "start").0, first);
    for check in ["start", "node"] {
        assert_eq!(sorted(&start(&pack, check).0), second, "{check}");
    }
    fs::write(scene.at("tree/generation"), "2").unwrap();
    assert_eq!(sorted(&start(&of_generation, "start").0), second);

    // On one mount: a change by another machine is not seen, one by this machine is.
    let script = "run() { \"$0\" run -q --pack \"$3\" --check node -- \"$1\" \"$2\"; }; run \"$@\"; \
                  printf 'other content' > \"$4\"; run \"$@\"; touch \"$2/dir/more\"; run \"$@\"";
    let below = scene.at("tree/dir/file");
    let shell =
        ["/bin/sh", "-c", script, text(&becalm), command[0], command[1], &pack, text(&below)];
    let printed = scene.mounted("", &shell).0;
    end_all(&pack);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[0].starts_with("42 14 second, longer 1:"), "{printed}");
    // The file is not that of the pack, so it is read from the tree; its size is that of the first start.
    assert!(lines[1].starts_with("42 14 other content 1:"), "{printed}");
    assert!(lines[2].starts_with("42 13 other content 1:"), "{printed}");

    // The tree is gone, with the program itself.
    fs::remove_dir_all(scene.at("tree")).unwrap();
    fs::create_dir(scene.at("tree")).unwrap();
    let (printed, lookups) = start(&pack, "never");
    assert_eq!(printed, first);
    assert!(lookups <= 4, "{lookups}");
}

/// Makes `bin` and `lib` of the tree, with a library in it that no run path leads to.
fn make_library(scene: &Scene) -> PathBuf {
    for name in ["bin", "lib"] {
        fs::create_dir(scene.at("tree").join(name)).unwrap();
    }
    let library = scene.at("tree/lib/libdeep.so");
    compile(CHAIN[0], &library, &["-shared", "-fPIC", "-Wl,-soname,libdeep.so"]);
    library
}

/// A program that prints what it is told of the directory in its argument.
const ASKER: &str = r#"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
int deep (void);
int main (int argc, char **argv)
{
  char path[4096], real[PATH_MAX] = "none";
  struct stat found;
  struct statfs system;
  printf ("%d", deep ());
#define AT(name) (snprintf (path, sizeof path, "%s%s", argv[1], name), path)
  printf (" %d %d %d", access (AT ("/dir"), R_OK), access (AT ("/dir/file"), X_OK), access (AT ("/dir/"), F_OK));
  printf (" %d %d", stat (AT ("//dir/.//file"), &found), stat (AT ("/dir/file/"), &found));
  fclose (fopen (AT ("/dir/file"), "r"));
  realpath (AT ("/bin/../dir/"), real);
  printf (" %s %d", real, statfs (AT ("/dir/file"), &system));
  int made = mkdir (AT ("/dir"), 0777);
  printf (" %d %d", made, errno == EEXIST);
  /* Nothing reads this file, so the pack of a run has no copy of it. */
  int names = stat (AT ("/dir/seen"), &found);
  for (DIR *of = opendir (AT ("/dir")); readdir (of) != NULL;)
    names++;
  printf (" %d\n", names);
  return 0;
}"#;

#[test]
fn a_program_that_another_one_starts_is_found_without_the_tree_with_its_libraries_and_answers() {
    let Some(scene) = Scene::new() else { return };
    let library = make_library(&scene);
    compile(ASKER, &scene.at("tree/bin/asker"), &[text(&library)]);
    fs::write(scene.at("tree/dir/seen"), "").unwrap();
    let [script, asker, mount] =
        ["mount/bin/script", "mount/bin/asker", "mount"].map(|name| scene.at(name));
    // Nothing but the script knows where its library is.
    let of_script = format!(
        "#!/bin/sh\nexport LD_LIBRARY_PATH={}/lib\n\"{}\" \"$1\" && exec \"{1}\" \"$1\"\n",
        mount.display(),
        asker.display()
    );
    fs::write(scene.at("tree/bin/script"), of_script).unwrap();
    fs::set_permissions(scene.at("tree/bin/script"), fs::Permissions::from_mode(0o755)).unwrap();
    let (becalm, run) = (becalm(), scene.at("run.json"));
    let command = [text(&script), text(&mount)];
    let trace = [text(&becalm), "trace", "--files", "--follow", "--json", "-o", text(&run), "--"];
    let plain = scene.mounted("", &[&trace[..], &command].concat()).0;
    let line = format!("21 0 -1 0 0 -1 {}/dir 0 -1 1 4\n", mount.display());
    assert_eq!(plain, line.repeat(2));
    let packs = [
        ("run.tar", [text(&mount), "--from", text(&run)]),
        ("whole.tar", [text(&script), text(&asker), text(&mount)]),
    ];
    let packs = packs.map(|(name, of)| {
        let pack = scene.at(name);
        scene.mounted("", &[&[text(&becalm), "pack", "-o", text(&pack)], &of[..]].concat());
        pack
    });
    forget(&scene);
    // A start that compares has what the run used, as if it had been learned here.
    scene.mounted("", &[text(&becalm), "unpack", text(&packs[0])]);
    let known = scene.mounted("", &[text(&becalm), "cache", "--json"]).0;
    let known: serde_json::Value = serde_json::from_str(&known).unwrap();
    let known = known["trees"]["records"].as_array().unwrap().iter();
    let of_asker = known.filter(|it| it["command"] == text(&asker)).collect::<Vec<_>>();
    assert!(
        matches!(of_asker[..], [it] if it["starts"] == 1 && it["copies"].as_u64() > Some(2)),
        "{of_asker:?}"
    );
    forget(&scene);
    fs::remove_dir_all(scene.at("tree")).unwrap();
    fs::create_dir(scene.at("tree")).unwrap();
    for pack in packs {
        let run =
            [text(&becalm), "run", "--strict", "--pack", text(&pack), "--check", "never", "--"];
        let printed = scene.mounted("", &[&run[..], &command].concat()).0;
        end_all(text(&pack));
        assert_eq!(printed, plain, "{}", pack.display());
    }
}

/// A program that prints what its library returns, and a library that needs another one.
const CHAIN: [&str; 3] = [
    "int deep (void) { return 21; }",
    "int deep (void); int twice (void) { return 2 * deep (); }",
    "#include <stdio.h>\nint twice (void); int main (void) { printf (\"%d\\n\", twice ()); return 0; }",
];

/// Makes a program in `bin` of the tree, with each library in a directory of its own that a run path names by the
/// path of the mount; the library of the first is a link, as of a soname.
fn make_chain(scene: &Scene, flag: &str) {
    for name in ["bin", "one", "two", "two/real"] {
        fs::create_dir_all(scene.at("tree").join(name)).unwrap();
    }
    let [deep, twice, program] = CHAIN;
    let of_mount = |names: &[&str]| {
        let dirs = names.iter().map(|name| scene.at("mount").join(name).display().to_string());
        format!("-Wl,{flag},-rpath,{}", dirs.collect::<Vec<_>>().join(":"))
    };
    let at = |name: &str| scene.at("tree").join(name);
    let [deep_file, twice_file] = [at("one/libdeep.so.1"), at("two/real/libtwice.so.1.2")];
    let shared = ["-shared", "-fPIC"];
    compile(deep, &deep_file, &[&shared[..], &["-Wl,-soname,libdeep.so.1"]].concat());
    let of_twice = ["-Wl,-soname,libtwice.so.1", text(&deep_file), &of_mount(&["one"])];
    compile(twice, &twice_file, &[&shared[..], &of_twice].concat());
    // An absolute link inside the tree, and a relative one.
    let middle = scene.at("mount/two/libtwice.so.1.0");
    std::os::unix::fs::symlink(&middle, at("two/libtwice.so.1")).unwrap();
    std::os::unix::fs::symlink("real/libtwice.so.1.2", at("two/libtwice.so.1.0")).unwrap();
    let names = if flag == "--disable-new-dtags" { &["two", "one"][..] } else { &["two"] };
    let link = format!("-Wl,-rpath-link,{}", at("one").display());
    let of_program = [text(&twice_file), &of_mount(names), &link];
    compile(program, &at("bin/program"), &of_program);
}

/// Removes all that this machine knows.
fn forget(scene: &Scene) {
    for name in ["home", "copies"] {
        fs::remove_dir_all(scene.at(name)).unwrap();
        fs::create_dir(scene.at(name)).unwrap();
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn libraries_of_absolute_run_paths_and_interpreters_of_scripts_are_found_without_the_tree() {
    for flag in ["--enable-new-dtags", "--disable-new-dtags"] {
        let Some(scene) = Scene::new() else { return };
        make_chain(&scene, flag);
        fs::copy("/bin/sh", scene.at("tree/bin/shell")).unwrap();
        let [program, shell, script, mount] =
            ["mount/bin/program", "mount/bin/shell", "mount/bin/script", "mount"]
                .map(|name| scene.at(name));
        let text_of_script = format!("#! {} -e\necho \"$1 $-\"\n", shell.display());
        fs::write(scene.at("tree/bin/script"), text_of_script).unwrap();
        fs::set_permissions(scene.at("tree/bin/script"), fs::Permissions::from_mode(0o755))
            .unwrap();
        let (becalm, pack) = (becalm(), scene.at("pack.tar"));
        let write = [text(&becalm), "pack", "-o", text(&pack), text(&program), text(&script)];
        let packed = scene.mounted("", &[&write[..], &[text(&mount)]].concat()).0;
        assert!(packed.contains("packed 2 indexes"), "{packed}");
        forget(&scene);
        let start = |check: &str, command: &[&str]| {
            let run =
                [text(&becalm), "run", "--strict", "--pack", text(&pack), "--check", check, "--"];
            let printed = scene.mounted("", &[&run[..], command].concat()).0;
            end_all(text(&pack));
            (printed, scene.lookups())
        };
        // A library has changed since.
        let other = CHAIN[0].replace("21", "20");
        let flags = ["-shared", "-fPIC", "-Wl,-soname,libdeep.so.1"];
        compile(&other, &scene.at("tree/one/libdeep.so.1"), &flags);
        for (check, printed) in [("never", "42\n"), ("start", "40\n"), ("node", "40\n")] {
            assert_eq!(start(check, &[text(&program)]).0, printed, "{flag} {check}");
        }
        forget(&scene);
        fs::remove_dir_all(scene.at("tree")).unwrap();
        fs::create_dir(scene.at("tree")).unwrap();
        let of_script = [text(&script), "argument"];
        let commands = [(&[text(&program)][..], "42\n"), (&of_script, "argument e\n")];
        for (command, expected) in commands {
            let (printed, lookups) = start("never", command);
            assert_eq!(printed, expected, "{flag}");
            assert!(lookups <= 4, "{flag}: {lookups}");
        }
        // The pack has the indexes: none was made.
        let made = scene.at("home/.cache/becalm/programs").read_dir();
        assert_eq!(made.into_iter().flatten().count(), 0, "{flag}");
    }
}

#[test]
fn ld_library_path_leads_to_the_pack_without_the_tree_and_is_as_it_was_for_the_program() {
    let Some(scene) = Scene::new() else { return };
    let library = make_library(&scene);
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint deep (void); int main (void) \
                  { printf (\"%d %s\\n\", deep (), getenv (\"LD_LIBRARY_PATH\")); fflush (stdout); \
                  return system (\"echo $LD_LIBRARY_PATH\"); }";
    compile(source, &scene.at("tree/bin/program"), &[text(&library)]);
    let [program, mount, libraries] =
        ["mount/bin/program", "mount", "mount/lib"].map(|name| scene.at(name));
    let list = format!("/nowhere:{}", libraries.display());
    let (becalm, pack) = (becalm(), scene.at("pack.tar"));
    let set = ["/usr/bin/env".to_owned(), format!("LD_LIBRARY_PATH={list}")];
    let set = set.each_ref().map(String::as_str);
    let write = [text(&becalm), "pack", "-o", text(&pack), text(&program), text(&mount)];
    scene.mounted("", &[&set[..], &write].concat());
    forget(&scene);
    fs::remove_dir_all(scene.at("tree")).unwrap();
    fs::create_dir(scene.at("tree")).unwrap();
    let run = [text(&becalm), "run", "--strict", "--pack", text(&pack), "--check", "never", "--"];
    let printed = scene.mounted("", &[&set[..], &run, &[text(&program)]].concat()).0;
    end_all(text(&pack));
    assert_eq!(printed, format!("21 {list}\n{list}\n"));
}

#[test]
fn of_the_starts_of_a_node_the_first_alone_compares_the_pack_with_the_tree() {
    let Some(scene) = Scene::new() else { return };
    let script = "sleep .5; for i in $(seq 300); do [ -e \"$1/dir/no$i\" ]; done; echo done";
    scene.learn(script, "dir/no300", "done\n");
    let (becalm, pack, mount) = (becalm(), scene.at("pack.tar"), scene.at("mount"));
    scene.mounted("", &[text(&becalm), "pack", "-o", text(&pack), "/bin/sh"]);
    forget(&scene);
    let lookups = |check: &str, number: usize| {
        let starts = "for start in $(seq $1); do \"$0\" run -q --pack \"$2\" --check \"$3\" -- \
                      /bin/sh -c \"$4\" sh \"$5\"; done";
        let number_text = number.to_string();
        let of_starts = [&number_text, text(&pack), check, script, text(&mount)];
        let command = [&["/bin/sh", "-c", starts, text(&becalm)][..], &of_starts].concat();
        assert_eq!(scene.mounted("", &command).0, "done\n".repeat(number));
        end_all(text(&pack));
        scene.lookups()
    };
    let [first, all] = [1, 4].map(|number| lookups("node", number));
    assert!(first >= 300, "{first}");
    assert!(all < first + 60, "{all} after {first}");
    let compared = lookups("start", 4);
    assert!(compared > 3 * first, "{compared}");
}

#[test]
fn a_tree_that_does_not_answer_is_said_and_the_program_starts_without_it() {
    let Some(scene) = Scene::new() else { return };
    let script = "sleep .5; [ -e \"$1/dir/none\" ] || echo none";
    scene.learn(script, "dir/none", "none\n");
    let (becalm, pack, mount) = (becalm(), scene.at("pack.tar"), scene.at("mount"));
    scene.mounted("", &[text(&becalm), "pack", "-o", text(&pack), "/bin/sh"]);
    forget(&scene);
    for (check, is_asked) in [("start", true), ("node", true), ("never", false)] {
        let run = [text(&becalm), "run", "--pack", text(&pack), "--check", check, "--"];
        let program = ["/bin/sh", "-c", if is_asked { "echo none" } else { script }, "sh"];
        let merged = ["/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1"];
        let command = [&merged[..], &run, &program, &[text(&mount)]].concat();
        let printed = scene.mounted_as(&["--fail", "hang"], "", &command).0;
        end_all(text(&pack));
        assert_eq!(printed.lines().last(), Some("none"), "{check}: {printed}");
        assert_eq!(printed.contains("does not answer; started without"), is_asked, "{printed}");
    }
}
