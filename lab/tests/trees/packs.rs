//! Packs of what starts have learned.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

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
    for name in ["home", "copies"] {
        fs::remove_dir_all(scene.at(name)).unwrap();
        fs::create_dir(scene.at(name)).unwrap();
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
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
    // Its generation is as it was. The first start has no index yet.
    let began = Instant::now();
    while start(&of_generation, "start").0 != first {
        assert!(began.elapsed() < Duration::from_secs(60), "the generation is not trusted");
    }
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
