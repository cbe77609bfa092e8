//! Tests the C reader of the loader patch, compiled without glibc: the functions it calls, the
//! number of comparisons of a lookup, and the root of a package.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes a note of argv[2] pairs, looks up a thousand of the names and one that is absent, and prints
/// the maximum number of comparisons of one lookup. `root` prints the length of a root.
const DRIVER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <elf.h>
#include <link.h>
#include "dl-resolution.h"

static unsigned long comparisons;
int counted (const char *one, const char *other)
{
  ++comparisons;
  while (*one && *one == *other)
    ++one, ++other;
  return (unsigned char) *one - (unsigned char) *other;
}

int main (int argc, char **argv)
{
  if (argv[1][0] == 'r')
    return !printf ("%zu\n", _dl_resolution_root (argv[2], strlen (argv[2]),
					      argc > 4, argv[3]));
  size_t pairs = atoi (argv[2]);
  char *note = malloc (64 * pairs + 64), *end = note + 20;
  for (size_t i = 0; i < pairs; ++i)
    {
      end += sprintf (end, "lib%07zu.so", i) + 1;
      end += sprintf (end, "=/%zu", i) + 1;
    }
  *end++ = '\0';
  ElfW(Nhdr) header = { .n_namesz = 6, .n_descsz = end - note - 20, .n_type = 0x63a86cb6 };
  memcpy (note, &header, sizeof header);
  memcpy (note + sizeof header, "NixOS\0\0", 8);
  ElfW(Phdr) segments[2] = {
    { .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = end - note, .p_memsz = end - note },
    { .p_type = PT_NOTE, .p_filesz = end - note, .p_memsz = end - note, .p_align = 4 },
  };
  const char *found = _dl_resolution_find (segments, 2, (ElfW(Addr)) note);
  unsigned long most = 0;
  for (size_t i = 0; i < pairs; i += 1 + pairs / 997)
    {
      char name[32], expected[32];
      sprintf (name, "lib%07zu.so", i);
      sprintf (expected, "=/%zu", i);
      comparisons = 0;
      const char *list = _dl_resolution_lookup (found, name);
      if (list == NULL || memcmp (list, expected, strlen (expected) + 1) != 0)
        return 1;
      most = comparisons > most ? comparisons : most;
    }
  comparisons = 0;
  if (_dl_resolution_lookup (found, "libz.so") != NULL)
    return 2;
  return !printf ("%lu\n", comparisons > most ? comparisons : most);
}
"#;

struct Reader {
    folder: tempfile::TempDir,
}

impl Reader {
    /// Returns `None` and prints the reason if there is no C compiler.
    fn new() -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            becalm_testing::skip("no C compiler");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        Some(Self { folder })
    }

    fn cc(&self, arguments: &[&str]) {
        let common =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lib/patches/glibc/common/0001");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fno-stack-protector"]);
        cc.args(["-D_GNU_SOURCE", "-U_FORTIFY_SOURCE", "-I"]).arg(common.join("elf"));
        cc.args(arguments).arg(common.join("elf/dl-resolution.c"));
        let done = cc.current_dir(self.folder.path()).output().expect("cc");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Builds the driver with a reader whose comparisons are counted.
    fn driver(&self) -> &Self {
        fs::write(self.folder.path().join("driver.c"), DRIVER).expect("written");
        self.cc(&["-Dstrcmp=counted", "-fno-builtin", "-o", "driver", "driver.c"]);
        self
    }

    fn run(&self, arguments: &[&str]) -> usize {
        let mut driver = Command::new(self.folder.path().join("driver"));
        let done = driver.args(arguments).output().expect("starts");
        assert!(done.status.success(), "{arguments:?}: {}", done.status);
        String::from_utf8_lossy(&done.stdout).trim().parse().expect("a number")
    }
}

#[test]
fn the_reader_calls_nothing_that_allocates_or_enters_the_kernel() {
    let Some(reader) = Reader::new() else { return };
    reader.cc(&["-c", "-o", "reader.o"]);
    let mut nm = Command::new("nm");
    let done = nm.args(["-u", "reader.o"]).current_dir(reader.folder.path()).output();
    let text = String::from_utf8(done.expect("nm").stdout).expect("UTF-8");
    let known =
        ["memchr", "memcmp", "memcpy", "strchrnul", "strcmp", "strlen", "_GLOBAL_OFFSET_TABLE_"];
    for called in text.split_whitespace().filter(|word| *word != "U") {
        assert!(known.contains(&called), "it calls {called}");
    }
    assert!(text.contains("strcmp"), "nothing was seen: {text:?}");
}

#[test]
fn a_lookup_compares_each_name_at_most_once() {
    let Some(reader) = Reader::new() else { return };
    reader.driver();
    for pairs in [1, 10, 1000, 100_000] {
        assert_eq!(reader.run(&["lookup", &pairs.to_string()]), pairs);
    }
}

#[test]
fn a_package_is_the_component_below_a_store_prefix_and_none_without_prefixes() {
    let Some(reader) = Reader::new() else { return };
    reader.driver();
    let root = |path: &str, prefixes: &str| {
        let length = reader.run(&["root", path, prefixes]);
        path[..length].to_owned()
    };
    assert_eq!(root("/s/p/libexec/a/b/prog", "/s"), "/s/p");
    assert_eq!(root("/s/p/lib/x.so", "/r:/s/"), "/s/p");
    for prefixes in ["", ":", "/", "s", "/s/p/lib", "/sx"] {
        assert_eq!(root("/s/p/lib/x.so", prefixes), "", "{prefixes:?}");
    }
    for path in ["/s/p", "/s/../p/x.so", "/s/p/../q/x.so", "/s/p/lib/../../q/x", "/t/p/x", "/s//x"]
    {
        assert_eq!(root(path, "/s"), "", "{path:?}");
    }
    assert_eq!(root("/s/p/lib/../x.so", "/s"), "/s/p");
    assert_eq!(reader.run(&["root", "/s/p", "/s", "directory"]), 4);
}
