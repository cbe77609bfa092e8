//! `becalm run` records the pages of a start, reads them ahead of a cold one, and starts the program
//! whatever is in the record.

mod support;

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use becalm_host::pages::PAGE;
use becalm_host::pages::resident::Residency;
use serde_json::{Value, json};
use support::cold::{
    evict, is_evicted, kept, large_program, line, lines, pages_in_memory, residency,
};
use support::store::{Store, nothing_to_test_with, text};
use support::{finish, run, twenty, wait_for};

fn files(store: &Store, ending: &str) -> Vec<PathBuf> {
    kept(&store.path("home"), ending)
}

/// Starts the program until its start is known, and returns the path of the record.
fn learned(store: &Store, command: &[&str]) -> PathBuf {
    for _ in 0..8 {
        assert_eq!(run(&mut store.becalm(command)).code, Some(0));
        wait_for("the learner", || {
            files(store, "lock").is_empty() && !files(store, ".so").is_empty()
        });
        let record = files(store, ".pages").pop();
        let is_complete = |path: &PathBuf| {
            let header = lines(path).remove(0);
            let [starts, since] = ["starts", "since"].map(|name| header[name].as_u64());
            starts >= since.map(|since| since + 3) || starts == Some(7)
        };
        if let Some(record) = record.filter(is_complete) {
            return record;
        }
    }
    panic!("not learned: {:?}", files(store, ""));
}

/// Replaces the record of a program by one with these files; the last page of the last is the sample.
fn replace(record: &Path, files: &[Value]) {
    let mut header = lines(record).remove(0);
    (header["starts"], header["since"]) = (json!(3), json!(0));
    let sample = files.last().map(|file| json!([file["path"], 0]));
    header["samples"] = json!(sample.into_iter().collect::<Vec<Value>>());
    let lines = std::iter::once(&header).chain(files);
    let text: Vec<String> = lines.map(Value::to_string).collect();
    fs::write(record, text.join("\n")).expect("written");
}

/// Makes a file of a MiB that is not in memory; `None` on a file system that is memory.
fn on_disk(dir: &Path, name: &str) -> Option<PathBuf> {
    let path = dir.join(name);
    fs::write(&path, vec![7; 1 << 20]).expect("written");
    is_evicted(&path).then_some(path)
}

#[test]
fn a_start_is_known_after_three_and_its_pages_are_those_that_it_touched() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let record = learned(&store, &["run", "--", text(&store.app())]);
    let lines = lines(&record);
    let paths: Vec<&str> = lines[1..].iter().filter_map(|line| line["path"].as_str()).collect();
    for path in [store.app(), store.one("libone.so"), store.two("libtwo.so")] {
        assert!(paths.contains(&text(&path)), "{} in {paths:?}", path.display());
    }
    let index = files(&store, ".so").remove(0);
    assert!(paths.contains(&text(&index)), "the index in {paths:?}");
    // Linux 6.7.
    assert!(lines[0]["exact"] == true || !has_asynchronous_faults(), "{}", lines[0]);
    // The C library has code of 1.3 MiB, of which this program uses little.
    let libc = lines[1..].iter().find(|line| text_of(&line["path"]).contains("libc.so.6"));
    let ranges = libc.expect("the C library")["ranges"].as_array().expect("ranges");
    let pages: u64 = ranges.iter().filter_map(|range| range[1].as_u64()).sum();
    assert!(pages < 200 || lines[0]["exact"] == false, "{pages} pages of the C library");
}

fn text_of(value: &Value) -> &str {
    value.as_str().expect("text")
}

fn has_asynchronous_faults() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(7))
        && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

#[test]
fn recorded_pages_are_read_ahead_if_they_are_not_in_memory() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let Some(data) = on_disk(&store.path(""), "data") else { return };
    let record = learned(&store, &["run", "--", text(&app)]);
    replace(&record, &[line(&data, 100)]);
    for flags in [&["run", "--no-ahead", "--"][..], &["run", "--"]] {
        let mut command = store.becalm(&[flags, &[text(&app)]].concat());
        if flags.len() == 2 {
            command.env("BECALM", "noahead");
        }
        assert_eq!(run(&mut command).stdout, "one two\n");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(residency(&data, 10 + flags.len() as u64), Residency::OnDisk, "{flags:?}");
    }
    assert_eq!(run(&mut store.becalm(&["run", "--", text(&app)])).stdout, "one two\n");
    wait_for("100 pages", || pages_in_memory(&data) >= 100);
    assert_eq!(residency(&data, 99), Residency::InMemory);
    assert_eq!(residency(&data, 3), Residency::InMemory);
    assert_eq!(residency(&data, 200), Residency::OnDisk, "only what was recorded");

    evict(&data);
    let ran = run(&mut store.becalm(&["run", "--warm", "--json", text(&app)]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report["programs"][0]["bytes"], 100 * PAGE);
    assert_eq!(residency(&data, 99), Residency::InMemory);
    let ran = run(&mut store.becalm(&["run", "--warm", text(&app)]));
    assert_eq!(ran.stdout, format!("{}: 0.4 MiB of 1 file\n", app.display()));
}

#[test]
fn a_changed_file_is_not_read_ahead() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (app, dir) = (store.app(), store.path(""));
    let (Some(changed), Some(same)) = (on_disk(&dir, "changed"), on_disk(&dir, "same")) else {
        return;
    };
    let record = learned(&store, &["run", "--", text(&app)]);
    let old = line(&changed, 100);
    fs::write(&changed, vec![8; 1 << 20]).expect("written");
    assert!(is_evicted(&changed));
    replace(&record, &[old, line(&same, 100)]);
    assert_eq!(run(&mut store.becalm(&["run", "--", text(&app)])).stdout, "one two\n");
    wait_for("the other file", || pages_in_memory(&same) >= 100);
    assert_eq!(residency(&changed, 3), Residency::OnDisk);
    let ran = run(&mut store.becalm(&["run", "--warm", text(&app)]));
    assert!(ran.stdout.ends_with("0.4 MiB of 1 file; 1 file changed or missing\n"), "{ran:?}");
}

#[test]
fn whatever_is_in_a_record_the_program_starts_and_no_fifo_is_opened() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let record = learned(&store, &["run", "--", text(&app)]);
    let whole = fs::read(&record).expect("a record");
    let fifo = store.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let link = store.path("link");
    symlink(&app, &link).expect("made");
    let start = |what: &str| {
        let ran = run(&mut store.becalm(&["run", "--", text(&app)]));
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), "one two\n", ""),
            "{what}"
        );
    };
    let paths = [fifo.as_path(), Path::new("/dev/zero"), &store.root(), &link];
    let directory = |mut line: Value| {
        line["directory"] = json!(true);
        line
    };
    let odd = paths.iter().flat_map(|path| [line(path, 9), directory(line(path, 9))]);
    let odd: Vec<Value> = odd.collect();
    for (at, path) in paths.iter().enumerate() {
        let mut lines = odd.clone();
        lines.rotate_left(2 * at);
        replace(&record, &lines);
        start(text(path));
        assert!(is_without_reader(&fifo));
        assert_eq!(run(&mut store.becalm(&["run", "--warm", text(&app)])).code, Some(0));
    }
    let many = json!({"path": "/x", "inode": 1, "size": 1, "changed": [0, 0],
                      "ranges": vec![json!([0, 1, 3]); 1_000_000]});
    replace(&record, &[many]);
    start("a million ranges");
    for cut in (0..whole.len()).step_by(whole.len() / 20 + 1) {
        fs::write(&record, &whole[..cut]).expect("written");
        start("a part of a record");
    }
    fs::write(&record, vec![0; 100_000]).expect("written");
    start("zeros");
    fs::remove_file(&record).expect("removed");
    fs::create_dir(&record).expect("made");
    start("a directory");
    fs::remove_dir(&record).expect("removed");
    fs::rename(&fifo, &record).expect("renamed");
    start("a FIFO as record");
}

/// True if no process has the FIFO open for reading.
fn is_without_reader(fifo: &Path) -> bool {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    rustix::fs::open(fifo, flags, rustix::fs::Mode::empty()).err() == Some(rustix::io::Errno::NXIO)
}

#[test]
fn a_learned_start_has_the_descriptors_and_children_of_a_plain_one() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let script = "ls /proc/self/fd; cat /proc/self/task/*/children";
    let shell = || store.becalm(&["run", "--", "/bin/sh", "-c", script]);
    let plain = run(Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null())).stdout;
    for start in 0..4 {
        assert_eq!(run(&mut shell()).stdout, plain, "start {start}");
        wait_for("the learner", || files(&store, "lock").is_empty());
    }
    assert!(!files(&store, ".pages").is_empty());
}

/// The thread that looks at page tables leaves the processor to others. A process that ends waits for
/// the other thread.
#[test]
fn only_the_thread_that_no_process_waits_for_has_the_lowest_priority() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let marked = store.path("a-name-that-only-this-start-has");
    let mut command = store.becalm(&["run", "--", "/bin/cat", "-", text(&marked)]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("starts");
    let normal = priorities(std::process::id()).first().copied().expect("a thread");
    wait_for("the learner's threads", || {
        let names = fs::read_dir("/proc").expect("mounted").flatten();
        let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| *pid != child.id()).any(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text(&marked))
                && priorities(pid) == [normal, 19]
        })
    });
    assert_eq!(finish(child).status.code(), Some(1), "the file is missing");
}

/// Returns the nice values of a process's threads in order (proc_pid_stat(5)).
fn priorities(pid: u32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lines = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let nice = |line: String| line.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok();
    let mut values: Vec<i32> = lines.filter_map(nice).collect();
    values.sort_unstable();
    values
}

#[test]
fn what_the_last_image_of_a_script_touches_is_recorded() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let script = store.path("script");
    let text_of_script = format!(
        "#!/bin/sh\n[ $1 = 0 ] && exec '{}'\nexec \"$0\" $(($1 - 1))\n",
        store.app().display()
    );
    fs::write(&script, text_of_script).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    let record = learned(&store, &["run", "--", text(&script), "20"]);
    let lines = lines(&record);
    for path in [store.app(), store.one("libone.so"), store.two("libtwo.so")] {
        let line = lines[1..].iter().find(|line| line["path"] == text(&path));
        let ranges = line.map(|line| &line["ranges"]);
        let counts = ranges.and_then(Value::as_array).into_iter().flatten();
        let all = &lines[0]["starts"];
        assert!(counts.clone().any(|range| range[2] == *all), "{}: {ranges:?}", path.display());
    }
}

#[test]
fn files_that_are_read_and_closed_and_directories_that_are_listed_are_recorded() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let script = store.path("script");
    let (data, read) = (store.path("data"), store.path("data/read"));
    let unread = store.path("data/unread");
    fs::create_dir(&data).expect("made");
    for path in [&read, &unread] {
        fs::write(path, vec![7; 5 * PAGE as usize]).expect("written");
    }
    // The learner begins beside the program.
    let text_of_script =
        format!("#!/bin/sh\nsleep 0.3; ls '{}'; cat '{}'\n", data.display(), read.display());
    fs::write(&script, text_of_script).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    let lines = lines(&learned(&store, &["run", "--", text(&script)]));
    let found = |path: &Path| lines[1..].iter().find(|line| line["path"] == text(path));
    let starts = lines[0]["starts"].as_u64().expect("a number");
    let counted = |path: &Path, pages: u64| {
        let range = &found(path).unwrap_or_else(|| panic!("{} in {lines:?}", path.display()));
        let [first, length, count] = [0, 1, 2].map(|at| range["ranges"][0][at].as_u64());
        let since = found(path).and_then(|line| line["since"].as_u64()).unwrap_or(0);
        (first, length) == (Some(0), Some(pages))
            && count.is_some_and(|it| 2 * it >= starts - since)
    };
    assert!(counted(&read, 5) && counted(&data, 1), "{lines:?}");
    assert_eq!(found(&data).map(|line| &line["directory"]), Some(&json!(true)));
    assert_eq!(found(&unread), None);
}

#[test]
fn twenty_starts_beside_each_other_leave_one_record() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    for _ in 0..3 {
        for output in twenty(|_| store.becalm(&["run", "--", text(&app)])) {
            assert_eq!((output.stdout.as_slice(), output.stderr.len()), (&b"one two\n"[..], 0));
        }
    }
    // On a busy machine each of them may have ended before it was looked at: a later start is learned.
    wait_for("the learners", || files(&store, "lock").is_empty());
    learned(&store, &["run", "--", text(&app)]);
    assert_eq!(files(&store, ".pages").len(), 1);
}

/// A descriptor that changes memory is sent only to the process that the name names.
#[test]
fn a_name_that_another_process_has_taken_gets_no_descriptor() {
    if nothing_to_test_with() || !has_asynchronous_faults() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let pid = std::process::id();
    for (name, is_ours) in [
        (format!("becalm-{pid}-1"), true),
        (format!("becalm-{}-2", pid + 1), false),
        ("becalm".to_owned(), false),
    ] {
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixListener::bind_addr(&address).expect("free");
        let mut command = Command::new(store.app());
        command.env("LD_AUDIT", store.index()).env("BECALM", format!("learn:{name}"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        listener.set_nonblocking(true).expect("set");
        assert_eq!(finish(child).stdout, b"one two\n");
        let sent = std::iter::from_fn(|| listener.accept().ok());
        let bytes: usize = sent.map(|(connection, _)| received(connection)).sum();
        // One with a descriptor, one at the end.
        assert_eq!(bytes, if is_ours { 2 } else { 0 }, "{name}");
    }
}

fn received(mut connection: UnixStream) -> usize {
    use std::io::Read;
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).expect("read")
}

#[test]
fn pages_of_a_program_that_was_never_started_are_predicted() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (files, program) = (large_program(&store), store.path("cold"));
    let [library, ..] = files.as_slice() else { panic!("no files") };
    if on_disk(&store.path(""), "data").is_none() {
        return;
    }
    evict(library);
    let ran = run(&mut store.becalm(&["run", "--warm", "--json", text(&program)]));
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let program = &report["programs"][0];
    assert_eq!((ran.code, &program["predicted"]), (Some(0), &json!(true)), "{ran:?}");
    // The program and its eight libraries; the C library and the loader.
    assert!(program["files"].as_u64() >= Some(10), "{report}");
    assert_eq!(residency(library, 0), Residency::InMemory);
    assert_eq!(residency(library, 60), Residency::OnDisk, "data that nothing relocates");
    let ran = run(&mut store.becalm(&["run", "--warm"]));
    assert_eq!((ran.code, ran.stdout.starts_with("no program is switched on")), (Some(0), true));
}

#[test]
fn without_a_cache_directory_or_a_record_the_program_starts() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let ran = run(store.becalm(&["run", "--quiet", "--", text(&app)]).env_remove("HOME"));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "one two\n", ""));
    let ran = run(&mut store.becalm(&["run", "--warm", text(&app), "no-such-program"]));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "{ran:?}");
    assert!(lines[0].ends_with(" files, predicted: no start was recorded"), "{ran:?}");
    assert_eq!(ran.stderr, "becalm: no-such-program: command not found\n");
    assert_eq!(store.app().metadata().expect("is there").nlink(), 1);
}
