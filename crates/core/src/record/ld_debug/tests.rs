//! Tests of the parser with well-formed and malformed lines.

use super::*;

/// Adds tags to lines as glibc does.
fn record(pid: u32, lines: &[&str]) -> Vec<u8> {
    lines.iter().map(|line| format!("{pid:>10}:\t{line}\n")).collect::<String>().into_bytes()
}

const FOUND: [&str; 11] = [
    "",
    "file=liba.so [0];  needed by ./prog [0]",
    "find library=liba.so [0]; searching",
    " search path=/r/glibc-hwcaps/x86-64-v2:/r\t\t(RUNPATH from file ./prog)",
    "  trying file=/r/glibc-hwcaps/x86-64-v2/liba.so",
    "  trying file=/r/liba.so",
    " search cache=/etc/ld.so.cache",
    "  trying file=/lib/liba.so",
    "",
    "file=liba.so [0];  generating link map",
    "  dynamic: 0x00007f88b4e7adc8  base: 0x00007f88b4de2000   size: 0x0000000000099388",
];

fn summary(probes: &[Probe]) -> Vec<(&str, SearchSource, Outcome)> {
    probes.iter().map(|p| (p.path.to_str().unwrap(), p.source, p.outcome)).collect()
}

#[test]
fn the_try_before_a_link_map_is_the_hit() {
    let processes = parse(&record(77, &FOUND));
    assert_eq!(processes.len(), 1);
    assert_eq!(processes[0].pid, 77);
    let probes = processes[0].probes(&["liba.so".into()]);
    assert_eq!(
        summary(&probes),
        [
            ("/r/glibc-hwcaps/x86-64-v2/liba.so", SearchSource::Runpath, Outcome::Miss),
            ("/r/liba.so", SearchSource::Runpath, Outcome::Miss),
            ("/lib/liba.so", SearchSource::LoaderCache, Outcome::Hit),
        ]
    );
    assert!(probes.iter().all(|p| p.needed_by == "./prog" && p.needed == "liba.so"));
}

#[test]
fn the_list_of_missing_libraries_decides_the_outcome_of_the_last_try() {
    let open_end = record(1, &FOUND[..9]);
    let process = &parse(&open_end)[0];
    assert_eq!(process.probes(&[]).last().unwrap().outcome, Outcome::Hit);
    assert_eq!(process.probes(&["liba.so".into()]).last().unwrap().outcome, Outcome::Miss);
}

#[test]
fn processes_that_share_a_stream_are_kept_apart() {
    let one = record(1, &FOUND[2..6]);
    let two = record(22222, &["find library=libb.so [0]; searching", "  trying file=/b/libb.so"]);
    let mixed: Vec<u8> = one
        .split_inclusive(|b| *b == b'\n')
        .zip(two.split_inclusive(|b| *b == b'\n').chain(std::iter::repeat(&b""[..])))
        .flat_map(|(a, b)| [a, b].concat())
        .collect();
    let processes = parse(&mixed);
    assert_eq!(processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [1, 22222]);
    assert_eq!(processes[0].searches[0].tries.len(), 2);
    assert_eq!(processes[1].searches[0].tries.len(), 1);
}

#[test]
fn annotations_of_glibc_2_43_are_believed() {
    let text = record(
        1,
        &[
            "find library=l [0]; searching",
            "  trying file=/a/l",
            "    (no such file)",
            "  trying file=/b/l",
            "    (incompatible ELF class)",
            "  trying file=/c/l",
            "    (incompatible ELF machine)",
            "  trying file=/d/l",
        ],
    );
    let probes = parse(&text)[0].probes(&[]);
    let outcomes: Vec<_> = probes.iter().map(|p| p.outcome).collect();
    let expected = [Outcome::Miss, Outcome::WrongClass, Outcome::WrongMachine, Outcome::Hit];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_name_with_newlines_and_brackets_is_one_name() {
    let text = record(
        1,
        &[
            "file=lib\n [0];x.so [0];  needed by /a\nb/prog [3] [0]",
            "find library=lib\n [0];x.so [0]; searching",
            "  trying file=/d\n/lib\n [0];x.so",
        ],
    );
    let process = &parse(&text)[0];
    assert_eq!(process.searches.len(), 1);
    let search = &process.searches[0];
    assert_eq!(search.needed, "lib\n [0];x.so");
    assert_eq!(search.needed_by.as_ref().unwrap(), "/a\nb/prog [3]");
    assert_eq!(search.tries[0].path, "/d\n/lib\n [0];x.so");
}

#[test]
fn a_needed_string_with_a_slash_is_a_direct_probe() {
    let text = record(
        1,
        &[
            "file=$ORIGIN/x/l.so [0];  needed by p [0]",
            "file=$ORIGIN/x/l.so [0];  generating link map",
        ],
    );
    let probes = parse(&text)[0].probes(&[]);
    assert_eq!(summary(&probes), [("$ORIGIN/x/l.so", SearchSource::Direct, Outcome::Hit)]);
}

#[test]
fn searches_after_the_first_initialiser_or_by_dlopen_are_at_run_time() {
    let text = record(
        1,
        &[
            "file=libd.so [0];  dynamically loaded by ./p [0]",
            "find library=libd.so [0]; searching",
            "  trying file=/d/libd.so",
            "calling init: /lib/libc.so.6",
            "find library=libe.so [0]; searching",
            "  trying file=/e/libe.so",
        ],
    );
    let process = &parse(&text)[0];
    assert_eq!(process.searches.len(), 2);
    assert!(process.probes(&[]).is_empty());
}

#[test]
fn noise_is_skipped() {
    for noise in [
        &b""[..],
        b"\n\n",
        b":\t",
        b"      99999999999999:\tfind library=x",
        b"         1:\tfind library=",
        b"         1:\tfind library= [0]; searching",
        b"         1:\tfile=];  needed by ]",
        b"         1:\t    (no such file)\n         1:\t  trying file=x",
        b"         1:\t search path=\t\t(",
        b"\xff\xfe:\t\x00",
    ] {
        let probes: usize = parse(noise).iter().map(|p| p.probes(&[]).len()).sum();
        assert_eq!(probes, 0, "{:?}", noise.as_bstr());
    }
}

#[test]
fn a_relocation_dependency_is_not_a_search() {
    let text = record(1, &["file=/a/l.so [0];  needed by p [0] (relocation dependency)"]);
    assert!(parse(&text)[0].searches.is_empty());
}

#[test]
fn the_lines_of_a_hundred_thousand_processes_are_separated() {
    let searching = |pid: u32| record(pid, &["find library=liba.so [0]; searching"]);
    let twice = (0..100_000).chain(0..100_000).flat_map(searching).collect::<Vec<u8>>();
    let processes = parse(&twice);
    assert!(processes.iter().map(|process| process.pid).eq(0..100_000));
    assert!(processes.iter().all(|process| process.searches.len() == 2));
}
