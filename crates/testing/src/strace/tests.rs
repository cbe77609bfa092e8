//! Tests of the parser with well-formed and malformed lines.

use super::*;

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("\\x{b:02x}")).collect()
}

#[test]
fn opens_and_stats_become_attempts_with_their_errno() {
    let record = format!(
        "12 execve(\"{prog}\", [\"\\x70\"], 0x7ffd /* 1 var */) = 0\n\
         12 openat(AT_FDCWD, \"{a}\", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)\n\
         12 newfstatat(AT_FDCWD, \"{d}\", 0x7ffc, 0) = -1 ENOENT (No such file or directory)\n\
         12 openat(AT_FDCWD, \"{b}\", O_RDONLY|O_CLOEXEC) = 3\n\
         12 newfstatat(3, \"\", {{st_mode=S_IFREG|0755, st_size=1, ...}}, AT_EMPTY_PATH) = 0\n\
         12 stat(\"{d}\", {{st_mode=S_IFDIR|0755, ...}}) = 0\n\
         12 open(\"{b}\", O_RDONLY) = -1 EACCES (Permission denied)\n\
         12 +++ exited with 0 +++\n",
        prog = hex("/p"),
        a = hex("/d/) = 0 \"\n.so"),
        b = hex("/e/b.so"),
        d = hex("/d/"),
    );
    let calls = parse(record.as_bytes());
    assert_eq!(calls[0].name, "execve");
    assert_eq!(calls[0].path.as_ref().unwrap(), "/p");
    let attempts = attempts(&calls);
    let seen: Vec<_> =
        attempts.iter().map(|a| (a.call, a.path.to_str().unwrap(), a.outcome)).collect();
    assert_eq!(
        seen,
        [
            (Call::Open, "/d/) = 0 \"\n.so", Outcome::Miss),
            (Call::Stat, "/d/", Outcome::Miss),
            (Call::Open, "/e/b.so", Outcome::Hit),
            (Call::Stat, "/d/", Outcome::Hit),
            (Call::Open, "/e/b.so", Outcome::Denied),
        ]
    );
}

#[test]
fn the_parts_of_an_interrupted_call_are_joined() {
    let record = b"1 openat(AT_FDCWD, \"\\x61\", O_RDONLY <unfinished ...>\n\
                   2 openat(AT_FDCWD, \"\\x62\", O_RDONLY) = 3\n\
                   1 <... openat resumed>) = -1 ELOOP (Too many levels of symbolic links)\n";
    let calls = parse(record);
    let seen: Vec<_> = calls.iter().map(|c| (c.pid, c.path.clone().unwrap(), c.result)).collect();
    assert_eq!(
        seen,
        [(2, "b".into(), CallResult::Ok(3)), (1, "a".into(), CallResult::Err(Errno::LOOP)),]
    );
}

#[test]
fn escapes_without_xx_are_decoded() {
    let calls = parse(b"openat(AT_FDCWD, \"a\\n\\\"\\\\\\0\\1012\\x7f\", O_RDONLY) = 3\n");
    assert_eq!(calls[0].path.as_ref().unwrap(), "a\n\"\\\0A2\x7f");
}

#[test]
fn a_path_below_a_directory_descriptor_is_not_an_attempt() {
    let calls = parse(b"openat(3, \"x\", O_RDONLY) = 4\n");
    assert_eq!(calls.len(), 1);
    assert!(attempts(&calls).is_empty());
}

#[test]
fn the_empty_path_is_an_attempt_if_the_call_fails() {
    let calls = parse(
        b"newfstatat(AT_FDCWD, \"\", 0x7ffc, 0) = -1 ENOENT (No such file or directory)\n\
          newfstatat(AT_FDCWD, \"\", {st_mode=S_IFDIR|0755, ...}, AT_EMPTY_PATH) = 0\n\
          newfstatat(3, \"\", {st_mode=S_IFREG|0755, ...}, AT_EMPTY_PATH) = 0\n",
    );
    assert_eq!(calls.len(), 3);
    let attempt = Attempt { call: Call::Stat, path: "".into(), outcome: Outcome::Miss };
    assert_eq!(attempts(&calls), [attempt]);
}

#[test]
fn noise_is_skipped() {
    for noise in [
        &b""[..],
        b"1 openat(",
        b"1 openat(AT_FDCWD, \"\\x",
        b"1 <... openat resumed>) = 3",
        b"[pid  x] openat(AT_FDCWD, \"a\")",
        b"1 --- SIGCHLD {si_signo=SIGCHLD} ---",
        b"99999999999999 ) = 3",
        b"\xff(\xff) = \xff",
    ] {
        assert!(attempts(&parse(noise)).is_empty(), "{:?}", noise.as_bstr());
    }
}
