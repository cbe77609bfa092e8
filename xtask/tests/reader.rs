//! Tests the C reader of the loader patch for glibc, compiled without glibc
//! (`patches/glibc/tests/reader.c`): the descriptors of `vectors/`, damaged notes under
//! sanitizers, and the number of comparisons of a lookup.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use becalm_testing::vectors::{cases, unescaped};

/// `list NAME` prints the list of the descriptor on stdin. `compare N` makes a note of N records and
/// prints the comparisons of one lookup. `damage N` reads N damaged notes and prints how many elements
/// were tried.
const DRIVER: &str = r#"
#include <stdio.h>
#include "reader.c"

static unsigned long comparisons;
int counted (const char *one, const char *other)
{
  ++comparisons;
  while (*one && *one == *other)
    ++one, ++other;
  return (unsigned char) *one - (unsigned char) *other;
}

static const char note[] = "/complete/1\0?\0liba.so\0?/m:=$ORIGIN/../lib/liba.so:?/n\0"
  "libb.so\0=/s/a/libb.so\0";
static const char run_path[] = "/s/n:/m/:$ORIGIN/../lib:/s/a:";
static unsigned seed;
static unsigned next (unsigned n) { return (seed = seed * 1103515245 + 12345) / 65536 % n; }

static const char *read_note (char *segment, size_t size, const char *name, ElfW(Phdr) *phdr)
{
  phdr[0] = (ElfW(Phdr)) { .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = size, .p_memsz = size };
  phdr[1] = (ElfW(Phdr)) { .p_type = PT_NOTE, .p_filesz = size, .p_align = 4 };
  return reader_tries (phdr, 2, (ElfW(Addr)) segment, run_path, name);
}

static char *segment_of (const char *descriptor, size_t length)
{
  ElfW(Nhdr) header = { .n_namesz = 6, .n_descsz = length, .n_type = 0x63a86cb6 };
  char *segment = calloc (1, 20 + length);
  memcpy (segment, &header, sizeof header);
  memcpy (segment + sizeof header, "NixOS", 6);
  memcpy (segment + 20, descriptor, length);
  return segment;
}

int main (int argc, char **argv)
{
  ElfW(Phdr) phdr[2];
  size_t count = argc > 2 ? atoi (argv[2]) : 0;
  if (argv[1][0] == 'l')
    {
      static char input[65536];
      size_t length = fread (input, 1, sizeof input, stdin);
      char *exact = memcpy (malloc (length), input, length);
      fputs (reader_list (exact, length, argv[2]), stdout);
      free (exact);
    }
  else if (argv[1][0] == 'c')
    {
      char *descriptor = calloc (count + 1, 64), *end = descriptor;
      end = mempcpy (end, "/complete/1\0?", 14);
      for (size_t i = 0; i < count; ++i)
	end += sprintf (end, "lib%07zu.so%c=/s/a/lib%07zu.so", i, 0, i) + 1;
      char *segment = segment_of (descriptor, end + 1 - descriptor), name[32];
      sprintf (name, "lib%07zu.so", count - 1);
      const char *list = read_note (segment, 20 + end + 1 - descriptor, name, phdr);
      free (descriptor);
      printf ("%lu %s\n", comparisons, list);
      free (segment);
    }
  else
    {
      size_t tried = 0, size = 20 + sizeof note;
      for (; count > 0; --count)
	{
	  char *whole = segment_of (note, sizeof note);
	  size_t length = next (4) ? size : next (size + 1);
	  char *segment = memcpy (malloc (length), whole, length);
	  for (unsigned i = next (6); length > 0 && i > 0; --i)
	    segment[next (length)] = "\0=?:/\1\377a"[next (8)];
	  tried += *read_note (segment, length, next (2) ? "liba.so" : "libb.so", phdr) != '\0';
	  /* The headers are damaged as well, in an object that has nothing after its segment.  */
	  if (length > 0)
	    {
	      ((unsigned char *) &phdr[1])[next (sizeof phdr[1])] = next (256);
	      tried += *reader_tries (phdr, 2, (ElfW(Addr)) segment, run_path, "liba.so") != '\0';
	    }
	  free (segment);
	  free (whole);
	}
      printf ("%zu\n", tried);
    }
  free (tried);
  return 0;
}
"#;

struct Reader {
    folder: tempfile::TempDir,
}

impl Reader {
    /// Returns `None` and prints the reason if there is no C compiler.
    fn new(arguments: &[&str]) -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            becalm_testing::skip("no C compiler");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let patches = Path::new(env!("CARGO_MANIFEST_DIR")).join("../patches/glibc");
        fs::write(folder.path().join("driver.c"), DRIVER).expect("written");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]);
        cc.args(arguments);
        cc.arg("-I").arg(patches.join("common/0001/elf")).arg("-I").arg(patches.join("tests"));
        cc.args(["-o", "driver", "driver.c"]);
        let done = cc.current_dir(folder.path()).output().expect("cc");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(Self { folder })
    }

    /// Returns what the driver prints.
    fn run(&self, mode: &str, argument: &[u8], input: &[u8]) -> Vec<u8> {
        let mut driver = Command::new(self.folder.path().join("driver"));
        driver
            .arg(mode)
            .arg(OsStr::from_bytes(argument))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = driver.spawn().expect("starts");
        child.stdin.take().expect("a pipe").write_all(input).expect("written");
        let done = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{mode}: {}: {stderr}", done.status);
        done.stdout.trim_ascii_end().to_vec()
    }
}

fn name_and_list(line: &[u8]) -> (&[u8], &[u8]) {
    let space = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    (&line[..space], line.get(space + 1..).unwrap_or_default())
}

const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

#[test]
fn descriptors_are_read_as_the_vectors_say() {
    let Some(reader) = Reader::new(&SANITIZERS) else { return };
    let mut lists = 0;
    for case in cases("descriptors.txt", "@") {
        let lines: Vec<Vec<u8>> = case.all("list").map(unescaped).collect();
        let pairs: Vec<(&[u8], &[u8])> = lines.iter().map(|line| name_and_list(line)).collect();
        // This reader takes an empty list as invalid.
        let is_read = case.one("verdict") == Some("complete")
            && pairs.iter().all(|(_, list)| !list.is_empty());
        let descriptor = case.bytes("descriptor").expect("a descriptor");
        let names: Vec<Vec<u8>> = case.all("none").map(unescaped).collect();
        let nones = names.iter().map(|name| (name.as_slice(), &b""[..]));
        for (name, list) in pairs.iter().copied().chain(nones) {
            let read = reader.run("list", name, &descriptor);
            let expected = if is_read { list } else { &b""[..] };
            assert_eq!(read, expected, "{}", case.name);
            lists += usize::from(!read.is_empty());
        }
    }
    assert!(lists > 10, "{lists}");
}

#[test]
fn damaged_notes_are_read_without_a_fault() {
    let Some(reader) = Reader::new(&SANITIZERS) else { return };
    let tried = String::from_utf8(reader.run("damage", b"100000", b"")).expect("UTF-8");
    let tried: usize = tried.parse().expect("a number");
    assert!(tried > 10_000, "{tried}");
}

#[test]
fn a_lookup_compares_each_name_once() {
    let Some(reader) = Reader::new(&["-Dstrcmp=counted", "-fno-builtin"]) else { return };
    for count in [1, 10, 1000, 100_000] {
        // The mark is a record as well.
        let last = format!("{} =/s/a/lib{:07}.so", count + 1, count - 1);
        assert_eq!(reader.run("compare", count.to_string().as_bytes(), b""), last.as_bytes());
    }
}
