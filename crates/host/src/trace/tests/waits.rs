//! Waits for pages: which file and which image they belong to.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use super::fixture::run;
use super::parent::program;
use crate::pages::resident::{self, Residency};
use crate::trace::{Command, Image, Options};
use becalm_testing::skip;

/// Touches the first page of a file that `FILE` names, in the program, in a thread and in a child.
const TOUCHES: &str = "
    static void *touch(void *path) {
        int file = open(path, O_RDONLY);
        volatile char *map = mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE, file, 0);
        madvise((void *)map, 1 << 20, MADV_RANDOM);
        (void)map[4096 * 5];
        close(file);
        return 0;
    }
    int main(int n, char **a) {
        pthread_t thread;
        touch(a[1]);
        pthread_create(&thread, 0, touch, a[2]);
        pthread_join(thread, 0);
        if (fork() == 0) { touch(a[3]); _exit(0); }
        wait(0);
        return 0;
    }";

/// Makes a file whose pages are not in memory; `None` on a file system that is memory.
fn on_disk(dir: &Path, name: &str) -> Option<PathBuf> {
    let path = dir.join(name);
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    // The kernel leaves pages that it is still moving to a list of its own.
    let is_out = (0..100).any(|_| {
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let is_out = resident::of(&file, 250) == Residency::OnDisk;
        if !is_out {
            sleep(Duration::from_millis(10));
        }
        is_out
    });
    if !is_out {
        skip("the scratch directory is in memory");
    }
    is_out.then_some(path)
}

/// Returns the waits of an image for each of the files; `None` if the kernel tells none here.
fn waits(image: &Image, files: &[PathBuf]) -> Option<Vec<u64>> {
    let Some(pages) = &image.pages else {
        skip("the kernel reports no page faults here (perf_event_open)");
        return None;
    };
    let of = |file: &PathBuf| {
        let seen = pages.files.iter().find(|seen| Path::new(&seen.path.to_string()) == file);
        seen.map_or(0, |seen| {
            assert!(seen.seconds > 0.0 && pages.seconds > 0.0, "{pages:?}");
            seen.waits
        })
    };
    Some(files.iter().map(of).collect())
}

#[test]
fn waits_are_those_of_the_program_and_its_threads_or_of_its_children() {
    let fixture = program(TOUCHES);
    let dir = fixture.dir.path();
    let names = ["program", "thread", "child"].map(|name| on_disk(dir, &format!("{name}.data")));
    let [Some(program), Some(thread), Some(child)] = names else { return };
    let files = [program, thread, child];
    let arguments = files.iter().map(|file| file.clone().into_os_string());
    let command = Command::new(&fixture.program, arguments);
    let traced = run(&command, Options { pages: true, follow: true, ..Options::default() });
    let cold = traced.unwrap().images;
    let [first, forked] = cold.as_slice() else { panic!("{} images", cold.len()) };
    let Some(of_first) = waits(first, &files) else { return };
    assert_eq!(of_first, [1, 1, 0]);
    assert_eq!(waits(forked, &files), Some(vec![0, 0, 1]));
    // Another process may drop the caches meanwhile.
    let is_warm = || {
        let warm = run(&command, Options { pages: true, ..Options::default() }).unwrap().images;
        waits(&warm[0], &files) == Some(vec![0, 0, 0])
    };
    assert!((0..20).any(|_| is_warm()));
}
