//! Files that are not in memory, and the records of the pages that starts use.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use becalm_host::pages::FileState;
use becalm_host::pages::resident::{self, Residency};
use becalm_testing::skip;
use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};

use super::store::{Store, text};
use super::{cc, cc_library};

/// The libraries of the program. It waits for each while the loader maps them.
const LIBRARIES: usize = 8;

/// Makes `cold`, a program with large libraries, which prints its children and the number of its
/// descriptors, and ends with its input. Returns its files.
pub fn large_program(store: &Store) -> Vec<PathBuf> {
    let dir = store.path("");
    let mut flags = vec!["-L.".to_owned(), "-Wl,-rpath,$ORIGIN".to_owned()];
    let mut main = String::from(
        "#include <stdio.h>\n#include <dirent.h>\nint main(void){int n=0;char t[64]=\"\";\n\
         DIR*d=opendir(\"/proc/self/fd\");while(readdir(d))n++;closedir(d);\n\
         FILE*f=fopen(\"/proc/thread-self/children\",\"r\");fgets(t,64,f);fclose(f);\n",
    );
    for at in 0..LIBRARIES {
        let source = format!(
            "static const char data[400000]={{1}};int f{at}(int n){{return data[n]-data[n];}}\n"
        );
        store.source("large.c", &source);
        cc_library(&dir, "large.c", &format!("liblarge{at}.so"), &[]);
        flags.push(format!("-llarge{at}"));
        main.push_str(&format!("extern int f{at}(int);n+=f{at}(n*9000);\n"));
    }
    main.push_str("printf(\"%d:%s\\n\",n,t);fflush(stdout);while(getchar()>=0);return 7;}\n");
    store.source("cold.c", &main);
    let flags = flags.iter().map(String::as_str);
    cc(&dir, &["cold.c", "-o", "cold"].into_iter().chain(flags).collect::<Vec<_>>());
    let libraries = (0..LIBRARIES).map(|at| format!("liblarge{at}.so"));
    libraries.chain(["cold".to_owned()]).map(|name| store.path(&name)).collect()
}

/// Returns the number of a file's pages that are in memory, without reading any. Only right for files
/// of this user.
pub fn pages_in_memory(path: &Path) -> u64 {
    let mut fincore = Command::new("fincore");
    let ran = fincore.args(["--noheadings", "--output", "PAGES"]).arg(path).output();
    let text = String::from_utf8(ran.expect("fincore starts").stdout).expect("text");
    text.trim().parse().expect("a number")
}

/// Drops a file from memory.
pub fn evict(path: &Path) {
    let file = File::open(path).expect("is there");
    file.sync_all().expect("written");
    fadvise(&file, 0, None, Advice::DontNeed).expect("dropped");
}

/// Looks at a page of a file of this user.
pub fn residency(path: &Path, page: u64) -> Residency {
    resident::of(&File::open(path).expect("is there"), page)
}

/// Drops all of a file from memory. False on a file system that is memory.
pub fn is_evicted(path: &Path) -> bool {
    // What another processor has not yet put on a list of pages stays, and goes with a later attempt.
    let is_out = (0..100).any(|_| {
        evict(path);
        let is_out = pages_in_memory(path) == 0;
        if !is_out {
            thread::sleep(Duration::from_millis(10));
        }
        is_out
    });
    if !is_out {
        skip("the scratch directory is in memory");
    }
    is_out
}

/// Returns the files with this ending that becalm keeps for the programs of a user.
pub fn kept(home: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.join(".cache/becalm/programs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| text(path).ends_with(ending)).collect()
}

/// Returns the lines of a record.
pub fn lines(record: &Path) -> Vec<Value> {
    let text = fs::read_to_string(record).expect("a record");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns a line of a record for the first `pages` pages of a file.
pub fn line(path: &Path, pages: u64) -> Value {
    let facts = path.symlink_metadata().expect("is there");
    let FileState { inode, size, changed } = FileState::of(&facts);
    json!({"path": text(path), "inode": inode, "size": size, "changed": [changed.0, changed.1],
           "ranges": [[0, pages, 3]]})
}
