//! Files and libraries that are read from copies.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use super::scene::{Scene, compile, text};

/// Says whether the file is opened, or its copy, and prints it. A descriptor that another process has got is no
/// copy's.
const READS: &str = "sleep .3; exec 3<\"$1/dir/file\"; \
                     [ /proc/$$/fd/3 -ef \"$1/dir/file\" ] && echo original || echo copy; cat <&3";

#[test]
fn a_file_is_read_from_its_copy_until_it_changes() {
    let Some(scene) = Scene::new() else { return };
    let of_original = |content: &str| format!("original\n{content}");
    scene.learn(READS, "\"copy\"", &of_original("first content"));
    // A path that is not looked at yet is the kernel's.
    let began = Instant::now();
    let copied = loop {
        let (copied, _) = scene.run("", READS);
        assert!(copied.ends_with("\nfirst content"), "{copied}");
        if copied != of_original("first content") || began.elapsed() > Duration::from_secs(60) {
            break copied;
        }
    };
    assert_eq!(copied, "copy\nfirst content");
    // The same length and time.
    let before = scene.at("tree/dir/file").metadata().unwrap();
    scene.write("other content");
    let after = scene.at("tree/dir/file").metadata().unwrap();
    let seen = |facts: &fs::Metadata| (facts.ino(), facts.len(), facts.modified().unwrap());
    assert_eq!(seen(&before), seen(&after));
    assert_eq!(scene.run("", READS).0, of_original("other content"));
}

#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    let Some(scene) = Scene::new() else { return };
    let printed = "original\nfirst content";
    scene.learn(READS, "\"copy\"", printed);
    for copy in fs::read_dir(scene.at("copies/copies")).unwrap().flatten() {
        fs::write(copy.path(), "other content").unwrap();
    }
    fs::set_permissions(scene.at("copies"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(scene.run("", READS).0, printed);
}

/// Prints what four ways to open a file open and what a link to it does, locks the file by the third while another
/// program tries, and prints what the third and the fourth are then.
const LOCKS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
static const char *at (int fd)
{
  char link[64], path[4096] = "";
  snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
  return readlink (link, path, sizeof path - 1) > 0 && strstr (path, "/copies/") ? "copy" : "original";
}
int main (int argc, char **args)
{
  char path[4096], command[4200], byte[3] = "";
  snprintf (path, sizeof path, "%s/dir/file", args[1]);
  snprintf (command, sizeof command, "flock --nonblock '%s' true", path);
  usleep (300000);
  FILE *both = fopen (path, "r+"), *file = fopen (path, "re");
  int locked = open (path, O_RDONLY), passed = open (path, O_RDONLY);
  printf ("%s %s %s %s", at (fileno (both)), at (fileno (file)), at (locked), at (passed));
  snprintf (path, sizeof path, "%s/dir/link", args[1]);
  printf (" %s %d: ", at (open (path, O_RDONLY)), open (path, O_RDONLY | O_NOFOLLOW));
  if (read (locked, byte, 1) != 1 || flock (locked, LOCK_EX) != 0 || read (locked, byte + 1, 1) != 1)
    return 1;
  printf ("%s %c%s %d ", at (locked), fgetc (file), byte, fcntl (fileno (file), F_GETFD));
  fflush (stdout);
  printf ("%d ", system (command) != 0);
  printf ("%s\n", at (passed));
  return 0;
}
"#;

#[test]
fn a_copy_is_never_written_and_is_the_original_before_it_is_locked_or_passed_on() {
    let Some(scene) = Scene::new() else { return };
    let program = scene.at("program");
    compile(LOCKS, &program, &[]);
    std::os::unix::fs::symlink("file", scene.at("tree/dir/link")).unwrap();
    // A file that has just changed is not bound.
    sleep(Duration::from_secs(3));
    let (program, mount) = (text(&program).to_owned(), scene.at("mount"));
    let start = || scene.start("", &[&program, text(&mount)]).0;
    let end = "original ffi 1 1 original\n";
    let plain = format!("original original original original original -1: {end}");
    scene.learn_by("\"copy\"", || assert_eq!(start(), plain));
    let began = Instant::now();
    loop {
        let printed = start();
        if printed == format!("original copy copy copy copy -1: {end}") {
            break;
        }
        assert_eq!(printed, plain);
        assert!(began.elapsed() < Duration::from_secs(60), "no copy is opened");
    }
}

/// Opens `lib.so` by two names and `named.so`, which asks where it is; replaces `lib.so`, opens it again, while
/// it is open and after it was closed. `C` stands for a copy. Then the names in the directory are counted, one
/// is made, and they are counted again.
const OPENS: &str = r#"
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char path[4096], root[2048];
static const char *in (const char *name) { snprintf (path, sizeof path, "%s/dir/%s", root, name); return path; }
static void *see (const char *name)
{
  void *opened = dlopen (in (name), RTLD_NOW);
  struct link_map *map = opened;
  int (*value) (void) = opened ? (int (*) (void)) dlsym (opened, "value") : 0;
  if (value)
    printf ("%s%d ", strstr (map->l_name, "/copies/") ? "C" : "", value ());
  else
    printf ("none ");
  return opened;
}
static int names (void)
{
  int count = 0;
  DIR *dir = opendir (in (""));
  while (dir && readdir (dir)) count++;
  if (dir) closedir (dir);
  return count;
}
int main (int argc, char **args)
{
  char other[4200];
  snprintf (root, sizeof root, "%s", args[1]);
  usleep (300000);
  void *first = see ("lib.so"), *second = see ("link.so"), *third = see ("hard.so");
  printf ("%d %d ", first == second, first == third);
  see ("named.so");
  int before = names ();
  FILE *made = fopen (in ("made"), "w");
  fclose (made);
  printf ("%d ", names () - before);
  unlink (in ("made"));
  snprintf (other, sizeof other, "%s", in ("new.so"));
  if (access (other, F_OK) == 0) rename (other, in ("lib.so"));
  void *again = see ("lib.so");
  printf ("%d ", again == first);
  dlclose (first); dlclose (second); dlclose (third); dlclose (again);
  see ("lib.so");
  puts ("");
  return 0;
}
"#;

#[test]
fn a_library_is_loaded_once_from_its_copy_and_a_new_one_when_it_was_closed() {
    let Some(scene) = Scene::new() else { return };
    let dir = scene.at("tree/dir");
    let value = |number: u32| format!("int value(void) {{ return {number}; }}\n");
    compile(&value(1), &dir.join("lib.so"), &["-shared", "-fPIC"]);
    let asks = "int dladdr(void *, void *); int where(void *of) { return dladdr(of, of); }\n";
    compile(&format!("{asks}{}", value(3)), &dir.join("named.so"), &["-shared", "-fPIC"]);
    std::os::unix::fs::symlink("lib.so", dir.join("link.so")).unwrap();
    fs::hard_link(dir.join("lib.so"), dir.join("hard.so")).unwrap();
    for name in ["lib.so", "named.so"] {
        let yesterday = SystemTime::now() - Duration::from_secs(100_000);
        File::open(dir.join(name)).unwrap().set_modified(yesterday).unwrap();
    }
    let program = scene.at("program");
    compile(OPENS, &program, &["-ldl"]);
    // A file that has just changed is not bound.
    sleep(Duration::from_secs(3));
    let (program, mount) = (text(&program).to_owned(), scene.at("mount"));
    let start = |switches: &str| scene.start(switches, &[&program, text(&mount)]).0;
    let plain = "1 1 1 1 1 3 1 1 1 1 \n";
    scene.learn_by("\"loads\":true", || assert_eq!(start(""), plain));
    let copied = "C1 C1 C1 1 1 3 1 C1 1 1 \n";
    let began = Instant::now();
    while start("") != copied {
        assert!(began.elapsed() < Duration::from_secs(60), "{} {:?}", start(""), scene.record());
        sleep(Duration::from_secs(1));
    }
    // From now on the program replaces the library while it runs.
    compile(&value(2), &dir.join("new.so"), &["-shared", "-fPIC"]);
    assert_eq!(start(""), "C1 C1 C1 1 1 3 1 C1 1 2 \n");
    assert_eq!(start(""), "2 2 1 1 0 3 1 2 1 2 \n");
    assert_eq!(start("notrees,"), "2 2 1 1 0 3 1 2 1 2 \n");
}
