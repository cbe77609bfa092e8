//! Compares sessions with the kernel: every result must be that of the system call, whether the
//! directories are listed or not.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use becalm_core::fs::{Errno, FileKind, FileSystem};
use becalm_core::index::Time;
use becalm_testing::skip;
use becalm_testing::test_user::run_again;
use bstr::{BStr, BString, ByteSlice};
use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};

use super::*;

fn bytes(path: &Path) -> BString {
    <[u8]>::from_path(path).unwrap().into()
}

/// The kernel's results of `open` and `stat`: an inode or an errno.
type Answer = (Result<u64, i32>, Result<u64, i32>);

fn kernel(path: &BStr) -> Answer {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, path.as_bytes(), flags, Mode::empty())
        .and_then(rustix::fs::fstat)
        .map(|stat| stat.st_ino)
        .map_err(rustix::io::Errno::raw_os_error);
    let stat = rustix::fs::statat(CWD, path.as_bytes(), AtFlags::empty())
        .map(|stat| stat.st_ino)
        .map_err(rustix::io::Errno::raw_os_error);
    (opened, stat)
}

/// Returns the kernel's results inside a root.
fn kernel_in(root: &Path, path: &BStr) -> Answer {
    let root = fs::File::open(root).unwrap();
    let open = |flags| {
        rustix::fs::openat2(
            &root,
            path.as_bytes(),
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT,
        )
        .and_then(rustix::fs::fstat)
        .map(|stat| stat.st_ino)
        .map_err(rustix::io::Errno::raw_os_error)
    };
    (open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY), open(OFlags::PATH))
}

/// Checks that a session's results are the kernel's. A session's `stat` returns only the file's
/// kind, so a success counts as the kernel's inode.
fn agree(session: &Session<'_>, path: &BStr, expected: &Answer) {
    let opened = session.open(path).map(|file| file.id.ino).map_err(|errno| errno.0);
    assert_eq!(opened, expected.0, "open {path:?}");
    let stat = session.stat(path).map_err(|errno| errno.0);
    assert_eq!(stat.err(), expected.1.err(), "stat {path:?}");
}

/// Makes the session list a directory, if it can be listed.
fn prime(session: &Session<'_>, dir: &Path) {
    for absent in ["no-1", "no-2", "no-3", "no-4", "no-5"] {
        let _ = session.open(bytes(&dir.join(absent)).as_bstr());
    }
}

/// Creates a tree with one file for each possible errno. `top` has no slash at its end.
fn make_tree(top: &Path) {
    for dir in ["dir/sub", "empty", "closed", "search-only", "list-only", "lib/hwcaps"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    let file = ["file", "dir/file", "dir/sub/file", "closed/file", "search-only/file"];
    for path in file.into_iter().chain(["list-only/file", "secret", "lib/libx.so"]) {
        fs::write(top.join(path), b"text").unwrap();
    }
    let links = [
        ("to-dir", "dir"),
        ("to-file", "dir/file"),
        ("dangling", "nowhere"),
        ("dangling-deep", "nowhere/at/all"),
        ("self", "self"),
        ("loop-a", "loop-b"),
        ("loop-b", "loop-a"),
        ("up", ".."),
        ("dir/back", "../dir"),
        ("through-file", "file/x"),
    ];
    for (link, target) in links {
        symlink(target, top.join(link)).unwrap();
    }
    // 45 links in a row are more than the 40 that the kernel follows.
    symlink("dir", top.join("chain-0")).unwrap();
    for n in 1..45 {
        symlink(format!("chain-{}", n - 1), top.join(format!("chain-{n}"))).unwrap();
    }
    rustix::fs::mknodat(CWD, top.join("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    drop(UnixListener::bind(top.join("socket")).unwrap());
    let modes =
        [("closed", 0o000), ("search-only", 0o711), ("list-only", 0o744), ("secret", 0o000)];
    for (path, mode) in modes {
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    // Temporary directories are private; another user must read this one.
    fs::set_permissions(top, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns paths below the tree, one for each way in which a lookup can end.
fn paths_of_interest() -> Vec<String> {
    let long = "x".repeat(256);
    let fits = "x".repeat(255);
    let dirs = [
        "",
        "dir",
        "to-dir",
        "empty",
        "closed",
        "search-only",
        "list-only",
        "file",
        "nowhere",
        "dangling",
        "self",
        "loop-a",
        "up",
        "dir/back",
        "through-file",
        "chain-38",
        "chain-39",
        "chain-40",
        "chain-44",
        "fifo",
        "dir/..",
        "dir/./sub/..",
        "lib/hwcaps",
        "lib/none/deeper",
        "dir//sub",
        "dangling-deep",
        &long,
        &fits,
    ];
    let names = [
        "", "file", "absent", ".", "..", "sub", "sub/file", "fifo", "socket", "secret", "to-file",
        "dangling", "self", "FILE", "file/", "absent/", "sub/", "n\u{e9}", &long, &fits,
    ];
    dirs.iter().flat_map(|dir| names.iter().map(move |name| format!("{dir}/{name}"))).collect()
}

/// Checks all these paths in a new session, in a session that has listed the directories, and in a
/// third that inherits the listings.
fn check_tree(top: &Path) {
    let os = OsFs::new();
    let fresh = os.session();
    let primed = os.session();
    for dir in ["", "dir", "dir/sub", "empty", "closed", "search-only", "list-only", "lib"] {
        prime(&primed, &top.join(dir));
    }
    let later = os.session();
    for path in paths_of_interest() {
        let path = bytes(&top.join(path.trim_start_matches('/')));
        let expected = kernel(path.as_bstr());
        for session in [&fresh, &primed, &later] {
            agree(session, path.as_bstr(), &expected);
        }
    }
    for odd in [&b""[..], b"/", b"//", b".", b"..", b"no-such-file-here", b"/no-such-dir/x"] {
        agree(&primed, odd.as_bstr(), &kernel(odd.as_bstr()));
    }
}

#[test]
fn every_errno_is_the_kernels() {
    let top = tempfile::tempdir().unwrap();
    make_tree(top.path());
    check_tree(top.path());
}

#[test]
fn every_errno_is_the_kernels_for_an_ordinary_user() {
    // Runs again as another user on the tree that the first run created.
    if let Some(tree) = std::env::var_os("BECALM_TEST_TREE") {
        assert_ne!(rustix::process::geteuid().as_raw(), 0);
        let secret = OsFs::new().session().open(bytes(&Path::new(&tree).join("secret")).as_bstr());
        assert_eq!(secret.err(), Some(Errno::ACCES));
        return check_tree(Path::new(&tree));
    }
    let top = tempfile::tempdir().unwrap();
    make_tree(top.path());
    run_again("os_fs::tests::every_errno_is_the_kernels_for_an_ordinary_user", top.path());
}

#[test]
fn a_path_that_is_too_long_fails_before_any_lookup() {
    let os = OsFs::new();
    let session = os.session();
    for len in [4094, 4095, 4096, 5000] {
        let mut path = BString::from("/nowhere");
        path.resize(len, b'/');
        agree(&session, path.as_bstr(), &kernel(path.as_bstr()));
        let deep = BString::from("/x".repeat(len / 2 + 1).as_bytes()[..len].to_vec());
        agree(&session, deep.as_bstr(), &kernel(deep.as_bstr()));
    }
}

#[test]
fn a_relative_path_starts_at_the_current_directory() {
    let os = OsFs::new();
    let session = os.session();
    let here = std::env::current_dir().unwrap();
    assert_eq!(session.current_dir(), bytes(&here));
    for path in ["Cargo.toml", "./Cargo.toml", "src/../Cargo.toml", "absent", "src/absent/x"] {
        agree(&session, path.into(), &kernel(path.into()));
    }
    assert!(session.open("Cargo.toml".into()).is_ok());
}

#[test]
fn the_empty_path_is_absent_after_relative_paths_were_opened() {
    let os = OsFs::new();
    let session = os.session();
    for path in ["absent", "", "/absent", ""] {
        agree(&session, path.into(), &kernel(path.into()));
    }
    assert_eq!(session.stat("".into()), Err(Errno::NOENT));
}

#[test]
fn a_name_is_absent_without_a_system_call_once_its_directory_is_listed() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("lib")).unwrap();
    let os = OsFs::new();
    let session = os.session();
    prime(&session, &top.path().join("lib"));
    // Changes the directory during the session, which relies on its state; the next session reads
    // it again.
    fs::create_dir_all(top.path().join("lib/glibc-hwcaps/x86-64-v3")).unwrap();
    fs::write(top.path().join("lib/glibc-hwcaps/x86-64-v3/libx.so"), b"").unwrap();
    let deep = bytes(&top.path().join("lib/glibc-hwcaps/x86-64-v3/libx.so"));
    assert_eq!(session.open(deep.as_bstr()).err(), Some(Errno::NOENT));
    assert_eq!(session.stat(deep.as_bstr()).err(), Some(Errno::NOENT));
    assert!(os.session().open(deep.as_bstr()).is_ok());
}

#[test]
fn the_next_session_sees_a_change_on_disk() {
    let top = tempfile::tempdir().unwrap();
    let lib = top.path().join("lib");
    let added = bytes(&lib.join("added"));
    let kept = bytes(&lib.join("kept"));
    fs::create_dir(&lib).unwrap();
    fs::write(lib.join("kept"), b"old").unwrap();
    let os = OsFs::new();
    let look = |head: &[u8]| {
        let session = os.session();
        prime(&session, &lib);
        assert_eq!(session.open(kept.as_bstr()).unwrap().head.as_deref(), Ok(head));
        session.open(added.as_bstr()).map(|_| ())
    };
    // Several changes within the resolution of the file system's times.
    for round in 0..20 {
        assert_eq!(look(b"old"), Err(Errno::NOENT), "round {round}");
        fs::write(lib.join("added"), b"").unwrap();
        fs::write(lib.join("kept"), b"new").unwrap();
        assert_eq!(look(b"new"), Ok(()), "round {round}");
        fs::remove_file(lib.join("added")).unwrap();
        fs::write(lib.join("kept"), b"old").unwrap();
    }
    // The same with a listing that is old enough to be shared.
    let state = || os.root.stat(&bytes(&lib)).unwrap().fingerprint;
    while state().may_change_unseen(fingerprint::now()) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(look(b"old"), Err(Errno::NOENT));
    let known = os.dirs.get(&state()).unwrap();
    assert!(known.listing.get().is_some(), "an old listing is shared");
    fs::write(lib.join("added"), b"").unwrap();
    fs::write(lib.join("kept"), b"new").unwrap();
    assert_eq!(look(b"new"), Ok(()));
}

#[test]
fn a_whole_file_is_read_once_a_session_and_again_by_the_next() {
    let top = tempfile::tempdir().unwrap();
    let path = bytes(&top.path().join("list"));
    let os = OsFs::new();
    fs::write(top.path().join("list"), b"old").unwrap();
    let session = os.session();
    assert_eq!(*session.read(path.as_bstr()).unwrap(), *b"old");
    fs::write(top.path().join("list"), b"new").unwrap();
    assert_eq!(*session.read(path.as_bstr()).unwrap(), *b"old");
    assert_eq!(*os.session().read(path.as_bstr()).unwrap(), *b"new");
}

#[test]
fn a_change_within_the_clocks_resolution_is_not_cached() {
    let top = tempfile::tempdir().unwrap();
    let file = bytes(&top.path().join("file"));
    fs::write(top.path().join("file"), b"text").unwrap();
    let os = OsFs::new();
    let session = os.session();
    prime(&session, top.path());
    session.open(file.as_bstr()).unwrap();
    let dir = os.root.stat(&bytes(top.path())).unwrap();
    assert!(os.dirs.get(&dir.fingerprint).unwrap().listing.get().is_none());
    assert!(os.files.get(&os.root.stat(&file).unwrap().fingerprint).is_none());
    // The clock of a file server may be ahead of this machine's.
    let now = fingerprint::now();
    assert!(dir.fingerprint.may_change_unseen(Time { sec: now.sec - 3600, ..now }));
    assert!(!dir.fingerprint.may_change_unseen(Time { sec: now.sec + 3600, ..now }));
}

#[test]
fn special_files_are_not_opened() {
    let top = tempfile::tempdir().unwrap();
    make_tree(top.path());
    let os = OsFs::new();
    let session = os.session();
    let fifo = bytes(&top.path().join("fifo"));
    assert_eq!(session.open(fifo.as_bstr()).unwrap().head, Err(Errno::NXIO));
    assert_eq!(session.read(fifo.as_bstr()), Err(Errno::NXIO));
    assert_eq!(session.stat(fifo.as_bstr()), Ok(FileKind::Other));
    assert_eq!(session.open("/dev/zero".into()).unwrap().head, Err(Errno::NXIO));
    assert_eq!(session.read("/dev/zero".into()), Err(Errno::NXIO));
    let dir = session.open(bytes(top.path()).as_bstr()).unwrap();
    assert_eq!(dir.head, Err(Errno::ISDIR));
}

#[test]
fn files_of_proc_are_read_to_their_end() {
    let os = OsFs::new();
    let session = os.session();
    assert!(!session.read("/proc/self/status".into()).unwrap().is_empty());
    assert!(!session.open("/proc/self/status".into()).unwrap().head.clone().unwrap().is_empty());
    // /proc/TID exists without being listed, because /proc lists processes and not threads.
    prime(&session, Path::new("/proc"));
    let thread = format!("/proc/{}", rustix::thread::gettid().as_raw_nonzero());
    assert_eq!(session.stat(thread.as_str().into()), Ok(FileKind::Directory));
}

#[test]
fn a_file_too_large_to_read_whole_is_refused() {
    let top = tempfile::tempdir().unwrap();
    let file = fs::File::create(top.path().join("large")).unwrap();
    file.set_len(64 * 1024 * 1024 + 1).unwrap();
    let os = OsFs::new();
    let large = bytes(&top.path().join("large"));
    assert_eq!(os.session().read(large.as_bstr()), Err(Errno(27)));
}

#[test]
fn canonical_paths_have_no_links() {
    let top = tempfile::tempdir().unwrap();
    make_tree(top.path());
    let real = top.path().canonicalize().unwrap();
    let os = OsFs::new();
    let session = os.session();
    let canonical = |path: &str| session.canonicalize(bytes(&top.path().join(path)).as_bstr());
    assert_eq!(canonical("to-dir/back/../to-file"), Ok(bytes(&real.join("dir/file"))));
    assert_eq!(canonical("to-dir/absent"), Err(Errno::NOENT));
    assert_eq!(canonical("self"), Err(Errno::LOOP));
    assert_eq!(canonical("file/x"), Err(Errno::NOTDIR));
}

/// Creates a root with links that would lead out of it.
fn make_root(top: &Path) -> PathBuf {
    let root = top.join("root");
    fs::create_dir_all(root.join("usr/lib")).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("usr/lib/libx.so.1"), b"inside").unwrap();
    fs::write(top.join("outside"), b"outside").unwrap();
    fs::write(root.join("etc/list"), b"inside").unwrap();
    symlink("/usr/lib", root.join("lib")).unwrap();
    symlink("/usr/lib/libx.so.1", root.join("usr/lib/libx.so")).unwrap();
    symlink("../../../../../../outside", root.join("usr/climb")).unwrap();
    symlink(top.join("outside"), root.join("usr/absolute")).unwrap();
    symlink("/loop", root.join("loop")).unwrap();
    root
}

#[test]
fn links_and_dots_do_not_leave_another_root() {
    let top = tempfile::tempdir().unwrap();
    let root = make_root(top.path());
    let os = match OsFs::in_root(&root) {
        Ok(os) => os,
        Err(error) => return skip(&error.to_string()),
    };
    let session = os.session();
    prime(&session, Path::new("/usr/lib"));
    prime(&session, Path::new("/lib"));
    prime(&session, Path::new("/"));
    let head = |path: &str| session.open(path.into()).map(|file| file.head.clone().unwrap());
    assert_eq!(head("/lib/libx.so"), Ok(b"inside".to_vec()));
    assert_eq!(head("/../../../lib/libx.so.1"), Ok(b"inside".to_vec()));
    assert_eq!(head("usr/lib/libx.so"), Ok(b"inside".to_vec()));
    assert_eq!(head("/usr/climb"), Err(Errno::NOENT));
    assert_eq!(head("/usr/absolute"), Err(Errno::NOENT));
    assert_eq!(head("/../outside"), Err(Errno::NOENT));
    assert_eq!(head("/loop/x"), Err(Errno::LOOP));
    assert_eq!(session.read("/lib/../../etc/list".into()).err(), None);
    assert_eq!(session.canonicalize("/lib/libx.so".into()), Ok("/usr/lib/libx.so.1".into()));
    assert_eq!(session.canonicalize("/..".into()), Ok("/".into()));
    assert_eq!(session.current_dir(), "/");
}

#[test]
fn a_typed_path_is_converted_to_one_inside_the_root() {
    let top = tempfile::tempdir().unwrap();
    let root = make_root(top.path());
    symlink(&root, top.path().join("alias")).unwrap();
    symlink(root.join("usr"), top.path().join("usr-alias")).unwrap();
    let Ok(os) = OsFs::in_root(&root) else { return skip("no openat2") };
    let inside = |path: PathBuf| os.inside(&path);
    assert_eq!(inside(root.join("usr/lib/libx.so")), "/usr/lib/libx.so");
    assert_eq!(inside(root.join("lib/libx.so")), "/lib/libx.so", "links stay as typed");
    assert_eq!(inside(top.path().join("alias/usr/lib")), "/usr/lib");
    assert_eq!(inside(top.path().join("usr-alias/climb")), "/usr/climb");
    assert_eq!(inside(root.join("usr/../etc/list")), "/usr/../etc/list");
    assert_eq!(inside(root.clone()), "/");
    assert_eq!(inside("/usr/lib/libx.so".into()), "/usr/lib/libx.so");
    assert_eq!(inside("usr/lib".into()), "/usr/lib");
    let host = os.host_path("/lib/libx.so".into()).unwrap();
    assert_eq!(host, root.canonicalize().unwrap().join("usr/lib/libx.so.1"));
    assert_eq!(OsFs::new().inside(Path::new("a/b")), "a/b");
}

#[test]
fn a_root_must_be_a_directory() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("file"), b"").unwrap();
    for path in ["file", "absent"] {
        let error = OsFs::in_root(&top.path().join(path)).unwrap_err();
        assert!(error.to_string().contains(": cannot be used as a root: "), "{error}");
    }
}

/// A step in creating a random tree: kind, path and, for a link, its target.
#[derive(Clone, Debug)]
enum Step {
    Dir(String),
    File(String),
    Link(String, String),
}

/// Generates relative paths from a few names, so that paths meet.
fn path_of_few_names() -> impl Strategy<Value = String> {
    let component =
        prop::sample::select(vec!["a", "b", "c", "a", "b", "c", "A", "z", ".", "..", ""]);
    prop::collection::vec(component, 1..6).prop_map(|parts| parts.join("/"))
}

fn place_of_few_names() -> impl Strategy<Value = String> {
    let component = prop::sample::select(vec!["a", "b", "c"]);
    prop::collection::vec(component, 1..4).prop_map(|parts| parts.join("/"))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => place_of_few_names().prop_map(Step::Dir),
        2 => place_of_few_names().prop_map(Step::File),
        2 => (place_of_few_names(), path_of_few_names()).prop_map(|(at, to)| Step::Link(at, to)),
    ];
    prop::collection::vec(step, 0..14)
}

/// Makes the steps; an impossible step changes nothing.
fn take(top: &Path, steps: &[Step]) {
    let parent = |at: &str| fs::create_dir_all(top.join(at).parent().unwrap());
    for step in steps {
        let _ = match step {
            Step::Dir(at) => fs::create_dir_all(top.join(at)),
            // A link on the way may lead out of the tree, so no step follows one.
            Step::File(at) if !has_link(top, at) => {
                parent(at).and_then(|()| fs::write(top.join(at), at))
            }
            Step::Link(at, to) if !has_link(top, at) => parent(at)
                .and_then(|()| symlink(if to.is_empty() { "." } else { to }, top.join(at))),
            Step::File(_) | Step::Link(..) => Ok(()),
        };
    }
}

fn has_link(top: &Path, at: &str) -> bool {
    Path::new(at).ancestors().any(|part| top.join(part).is_symlink() && part != Path::new(""))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn random_paths_over_random_trees_answer_as_the_kernel_does(
        steps in steps(),
        paths in prop::collection::vec(path_of_few_names(), 1..40),
    ) {
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("1/2/3/4/5/6");
        fs::create_dir_all(&tree).unwrap();
        take(&tree, &steps);
        let os = OsFs::new();
        let session = os.session();
        let confined = OsFs::in_root(&tree).ok();
        let confined = confined.as_ref().map(OsFs::session);
        for path in &paths {
            let whole = bytes(&tree.join(path));
            agree(&session, whole.as_bstr(), &kernel(whole.as_bstr()));
            if let Some(confined) = &confined {
                let path = BString::from(format!("/{path}"));
                agree(confined, path.as_bstr(), &kernel_in(&tree, path.as_bstr()));
            }
        }
    }
}
