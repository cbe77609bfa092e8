//! Tests the files that a walk finds, ignores and reports.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const ELF: &[u8] = b"\x7fELF and more";

/// Returns the found paths, relative to `top`.
fn names(top: &Path, walked: &Walked) -> Vec<String> {
    let relative = |f: &Found| f.path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
    walked.objects.iter().map(relative).collect()
}

fn walk(paths: &[PathBuf]) -> Walked {
    find_objects(paths, WalkOptions::default())
}

#[test]
fn a_folder_gives_its_objects_sorted_and_each_once() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    fs::create_dir_all(top.join("b/deep")).unwrap();
    fs::create_dir_all(top.join("a")).unwrap();
    fs::write(top.join("b/deep/one"), ELF).unwrap();
    fs::write(top.join("a/two\nlines"), ELF).unwrap();
    fs::write(top.join("mach"), [0xCF, 0xFA, 0xED, 0xFE, 7, 0, 0, 1]).unwrap();
    fs::write(top.join("universal"), [0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 2]).unwrap();
    fs::write(top.join("Some.class"), [0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 52]).unwrap();
    fs::write(top.join("text"), b"text").unwrap();
    fs::write(top.join("short"), b"\x7fEL").unwrap();
    fs::write(top.join("empty"), b"").unwrap();
    fs::hard_link(top.join("b/deep/one"), top.join("b/hard")).unwrap();
    symlink("b/deep/one", top.join("soft")).unwrap();
    symlink("..", top.join("b/up")).unwrap();
    rustix::fs::mknodat(CWD, top.join("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    drop(UnixListener::bind(top.join("socket")).unwrap());
    let walked = walk(&[top.to_owned()]);
    assert_eq!(names(top, &walked), ["a/two\nlines", "b/deep/one", "mach", "universal"]);
    assert!(walked.errors.is_empty(), "{:?}", walked.errors);
    let formats: Vec<_> = walked.objects.iter().map(|found| found.format).collect();
    assert_eq!(formats, [Format::Elf, Format::Elf, Format::MachO, Format::MachO]);
    // The same folder twice, and one inside the other.
    assert_eq!(walk(&[top.to_owned(), top.join("b"), top.to_owned()]).objects, walked.objects);
}

#[test]
fn a_file_named_by_the_user_is_kept_by_every_name_given() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    fs::write(top.join("one"), ELF).unwrap();
    fs::hard_link(top.join("one"), top.join("two")).unwrap();
    symlink("one", top.join("link")).unwrap();
    let paths = ["link", "two", "two", ""].map(|name| top.join(name));
    let walked = walk(&paths);
    assert_eq!(names(top, &walked), ["link", "two"]);
    assert!(walked.objects.iter().all(|found| found.named));
}

#[test]
fn a_bad_named_file_is_an_error_and_the_walk_goes_on() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    fs::write(top.join("good"), ELF).unwrap();
    fs::write(top.join("text"), b"text").unwrap();
    rustix::fs::mknodat(CWD, top.join("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    let walked = walk(&["absent", "fifo", "good", "text"].map(|name| top.join(name)));
    assert_eq!(names(top, &walked), ["good"]);
    let [HostError::Read { .. }, fifo, text] = &walked.errors[..] else {
        panic!("{:?}", walked.errors);
    };
    assert!(fifo.to_string().ends_with("/fifo: not a regular file"), "{fifo}");
    assert!(text.to_string().ends_with("/text: neither an ELF nor a Mach-O file"), "{text}");
}

#[test]
fn an_unreadable_directory_or_file_is_an_error_and_the_walk_goes_on() {
    if let Some(tree) = std::env::var_os("BECALM_TEST_TREE") {
        let walked = walk(&[PathBuf::from(&tree)]);
        let of = |name: &str| Path::new(&tree).join(name);
        let paths: Vec<_> = walked.errors.iter().map(HostError::path).collect();
        assert_eq!(paths, [of("closed"), of("secret")]);
        assert!(walked.objects.iter().any(|found| found.path == of("good")));
        return;
    }
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("closed")).unwrap();
    fs::write(top.path().join("good"), ELF).unwrap();
    fs::write(top.path().join("secret"), ELF).unwrap();
    for (name, mode) in [("closed", 0), ("secret", 0), ("", 0o755)] {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(top.path().join(name), mode).unwrap();
    }
    becalm_testing::test_user::run_again(
        "walk::tests::an_unreadable_directory_or_file_is_an_error_and_the_walk_goes_on",
        top.path(),
    );
}

#[test]
fn progress_counts_every_file_of_a_folder() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("sub")).unwrap();
    for name in ["a", "b", "sub/c"] {
        fs::write(top.path().join(name), b"text").unwrap();
    }
    let count = AtomicUsize::new(0);
    let progress = |seen: usize| {
        count.fetch_add(seen, Ordering::Relaxed);
    };
    let _ = find_objects(
        &[top.path().to_owned()],
        WalkOptions { progress: Some(&progress), ..WalkOptions::default() },
    );
    assert_eq!(count.into_inner(), 3);
}

#[test]
fn a_walk_hands_out_what_it_keeps_and_remembers_no_file() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    fs::create_dir(top.join("many")).unwrap();
    for number in 0..100 {
        fs::write(top.join(format!("many/{number}")), ELF).unwrap();
    }
    fs::write(top.join("named"), ELF).unwrap();
    let (taken, longest) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let take = |found: &[Found]| {
        longest.fetch_max(found.len(), Ordering::Relaxed);
        let names = found.iter().map(|found| found.path.file_name().unwrap().to_owned());
        taken.lock().unwrap().extend(names);
    };
    let keep = |path: &Path| !path.to_str().unwrap().ends_with('7');
    let options = WalkOptions { keep: Some(&keep), take: Some(&take), ..WalkOptions::default() };
    let walked = find_objects(&[top.join("many"), top.join("named")], options);
    assert_eq!(names(top, &walked), ["named"]);
    let taken = taken.into_inner().unwrap();
    assert_eq!(taken.len(), 90, "{taken:?}");
    assert!(longest.into_inner() <= TAKEN_AT_ONCE);
}

#[test]
fn directories_of_the_kernel_are_told_by_their_file_system() {
    let is_of_kernel = |path: &str| super::is_of_kernel(Path::new(path));
    assert!(is_of_kernel("/proc") && is_of_kernel("/proc/self/fd") && is_of_kernel("/sys"));
    assert!(!is_of_kernel("/") && !is_of_kernel("/usr/lib"));
}
