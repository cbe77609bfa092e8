//! Tests that an existing path is never reported as absent.

use std::collections::BTreeMap;

use bstr::BString;
use proptest::prelude::*;

use super::*;
use crate::elf::{Class, Endian};
use crate::index::{Index, Table, Target, Time, encode};

const STORE: &str = "/s/store";

/// A tree by path below the package: directories, files, links to directories by target.
#[derive(Clone, Debug)]
enum Node {
    Directory,
    File,
    Link(String),
}

fn fingerprint(number: u64) -> Fingerprint {
    let time = Time { sec: number.cast_signed(), nsec: 7 };
    Fingerprint { volume: 0, ino: number, size: 0, mtime: time, ctime: time }
}

/// The packages of [`STORE`] and the nodes in them.
fn paths_of(packages: &BTreeMap<String, BTreeMap<String, Node>>) -> Paths {
    let root = root_state(STORE.into());
    let state = |path: &str| path.split('/').fold(root, |state, name| step(state, name.as_bytes()));
    let package = |(number, (name, nodes)): (usize, (&String, &BTreeMap<String, Node>))| {
        let mut builder = PackageBuilder::default();
        for (path, node) in nodes {
            let own = state(&format!("{name}/{path}"));
            match node {
                Node::Directory => builder.add(own, Kind::Directory),
                Node::File => builder.add(own, Kind::File),
                Node::Link(target) => {
                    let package = target.split('/').next().unwrap_or_default();
                    let link = Link { state: own, target: state(target), package: state(package) };
                    builder.add_link(link);
                }
            }
        }
        Package {
            root: 0,
            name: name.as_str().into(),
            state: state(name),
            fingerprint: fingerprint(number as u64),
            young: number % 2 == 1,
            table: builder.finish(),
        }
    };
    let root = Root { path: STORE.into(), is_chosen: false, fingerprint: fingerprint(99) };
    Paths::new(vec![root], packages.iter().enumerate().map(package).collect())
}

fn two_packages() -> Paths {
    let nodes = |list: &[(&str, Node)]| {
        list.iter().map(|(path, node)| ((*path).to_owned(), node.clone())).collect()
    };
    let packages = BTreeMap::from([
        (
            "a-x".to_owned(),
            nodes(&[
                ("lib", Node::Directory),
                ("lib/m", Node::Directory),
                ("lib/m/f.py", Node::File),
                ("other", Node::Link("b-y/share".to_owned())),
            ]),
        ),
        ("b-y".to_owned(), nodes(&[("share", Node::Directory), ("share/d", Node::File)])),
    ]);
    paths_of(&packages)
}

#[test]
fn only_the_first_absent_name_below_real_directories_is_absent() {
    let paths = two_packages();
    let ask = |path: &str| paths.ask(format!("{STORE}/{path}").as_bytes());
    assert_eq!(ask("a-x"), Answer::Directory);
    assert_eq!(ask("a-x/lib"), Answer::Directory);
    assert_eq!(ask("a-x/lib/m/f.py"), Answer::File);
    assert_eq!(ask("a-x//./lib/m"), Answer::Directory);
    for absent in ["a-x/no", "a-x/lib/no", "a-x/no/../lib", "a-x/lib/m/f.pyc", "a-x/other/no"] {
        assert_eq!(ask(absent), Answer::Absent, "{absent}");
    }
    for unknown in [
        "",
        "c-z",
        "c-z/lib",
        "a-x/lib/..",
        "a-x/lib/../no",
        "a-x/lib/m/f.py/x",
        "a-x/no/",
        "a-x/other",
        "a-x/other/d",
        "a-x/lib/.snapshot",
        "a-x/lib/\u{e9}",
    ] {
        assert_eq!(ask(unknown), Answer::Unknown, "{unknown}");
    }
    assert_eq!(paths.ask(b"a-x/no"), Answer::Unknown);
    assert_eq!(paths.ask(b"/s/storeroom/a-x/no"), Answer::Unknown);
    let long = format!("{STORE}/a-x/{}", "n".repeat(256));
    assert_eq!(paths.ask(long.as_bytes()), Answer::Unknown);
}

#[test]
fn roots_of_every_kind_are_written_and_read() {
    let mut paths = two_packages();
    let chosen = Root { path: "/s/a".into(), is_chosen: true, fingerprint: fingerprint(3) };
    paths.roots.push(chosen);
    let index = Index { paths: Some(paths.clone()), ..Index::default() };
    for target in targets() {
        let bytes = encode(&index, target).expect("a table");
        let read = Table::read(&bytes).expect("a table").index().expect("an index").paths;
        assert_eq!(read, Some(paths.clone()));
    }
}

#[test]
fn a_link_to_what_is_no_directory_any_more_is_the_kernels() {
    let mut paths = two_packages();
    let share =
        step(paths.package(step(root_state(STORE.into()), b"b-y")).unwrap().state, b"share");
    let at = paths.packages.iter().position(|package| package.name == "b-y").unwrap();
    let mut builder = PackageBuilder::default();
    builder.add(share, Kind::Other);
    paths.packages[at].table = builder.finish();
    assert_eq!(paths.ask(format!("{STORE}/a-x/other/no").as_bytes()), Answer::Unknown);
    paths.packages.remove(at);
    assert_eq!(paths.ask(format!("{STORE}/a-x/other/no").as_bytes()), Answer::Unknown);
}

#[test]
fn two_paths_with_one_fingerprint_are_both_found_and_of_unknown_kind() {
    let mut builder = PackageBuilder::default();
    let (one, other) = (0x1_2345_6780, 0x1_2345_6781);
    builder.add(one, Kind::Directory);
    builder.add(other, Kind::File);
    let table = builder.finish();
    assert_eq!((table.kind(one), table.kind(other)), (Some(Kind::Other), Some(Kind::Other)));
    assert_eq!(table.count(), 1);
}

#[test]
fn links_with_one_state_are_followed_by_nobody() {
    let mut builder = PackageBuilder::default();
    for target in [1, 2] {
        builder.add_link(Link { state: 77, target, package: 1 });
    }
    let table = builder.finish();
    assert_eq!((table.kind(77), table.links.len()), (Some(Kind::Link), 0));
}

/// 1 M paths take at most 8 MB.
#[test]
fn a_large_package_takes_little_more_than_six_bytes_a_path() {
    let mut builder = PackageBuilder::default();
    let count = 200_000_u64;
    let state = |number: u64| step(3, &number.to_le_bytes());
    (0..count).for_each(|number| builder.add(state(number), Kind::File));
    let table = builder.finish();
    let words: usize = table.blocks.iter().map(|block| 1 + block.len()).sum();
    assert!(4 * words as u64 <= 65 * count / 10, "{words}");
    assert!((0..count).all(|number| table.kind(state(number)).is_some()));
    let found = (count..2 * count).filter(|&number| table.kind(state(number)).is_some()).count();
    assert!(found <= 2, "{found}");
}

#[test]
fn packages_with_one_state_are_left_out() {
    let paths = two_packages();
    let mut packages = paths.packages.clone();
    packages.push(Package { name: "twin".into(), ..packages[0].clone() });
    assert_eq!(Paths::new(paths.roots.clone(), packages).packages, paths.packages[1..]);
}

fn targets() -> [Target; 2] {
    [
        Target { machine: 62, class: Class::Elf64, endian: Endian::Little },
        Target { machine: 21, class: Class::Elf64, endian: Endian::Big },
    ]
}

#[test]
fn a_table_says_what_was_written_and_a_changed_bit_is_damage() {
    let paths = two_packages();
    let index = Index { paths: Some(paths.clone()), ..Index::default() };
    for target in targets() {
        let bytes = encode(&index, target).expect("a table");
        let table = Table::read(&bytes).expect("a table");
        assert_eq!(table.index().expect("an index").paths, Some(paths.clone()));
        // An existing path is never absent, whichever bit is wrong.
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let table = Table::unchecked(&damaged);
            let Ok(index) = table.and_then(|table| table.index()) else { continue };
            for there in ["a-x/lib/m/f.py", "a-x/lib", "a-x/other/d", "b-y/share/d"] {
                let path = format!("{STORE}/{there}");
                let answer = index.paths.as_ref().map(|paths| paths.ask(path.as_bytes()));
                assert_ne!(answer, Some(Answer::Absent), "{there}, byte {at}");
            }
        }
    }
}

/// Names of few letters, so that trees share them.
fn tree() -> impl Strategy<Value = BTreeMap<String, Node>> {
    let path = proptest::collection::vec("[a-c]{1,2}", 1..5);
    proptest::collection::vec((path, 0..3_u8), 0..60).prop_map(|list| {
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        for (names, kind) in list {
            // The part above it becomes a directory, unless it has another kind.
            let above: Vec<String> = (1..names.len()).map(|n| names[..n].join("/")).collect();
            let is_other = |path: &String| !matches!(nodes.get(path), None | Some(Node::Directory));
            let path = names.join("/");
            if above.iter().any(is_other) || nodes.contains_key(&path) {
                continue;
            }
            for directory in above {
                nodes.insert(directory, Node::Directory);
            }
            let node = match kind {
                0 => Node::Directory,
                1 => Node::File,
                _ => Node::Link("0-b/a".to_owned()),
            };
            nodes.insert(path, node);
        }
        nodes
    })
}

/// Returns the kernel's answer for a path below a store; `None` for a path through a link or file.
fn exists(packages: &BTreeMap<String, BTreeMap<String, Node>>, path: &str) -> Option<bool> {
    let (package, rest) = path.split_once('/')?;
    let nodes = packages.get(package)?;
    let names: Vec<&str> = rest.split('/').collect();
    for count in 1..=names.len() {
        let here = names[..count].join("/");
        match nodes.get(&here) {
            None => return Some(false),
            Some(Node::Directory) => {}
            Some(Node::File) if count == names.len() => {}
            Some(Node::File) => return None,
            Some(Node::Link(_)) if count == names.len() => return Some(true),
            Some(Node::Link(target)) => {
                let is_there = match packages.get("0-b").and_then(|nodes| nodes.get("a")) {
                    Some(Node::Directory) => true,
                    Some(_) | None => return None,
                };
                let rest = names[count..].join("/");
                return is_there.then(|| exists(packages, &format!("{target}/{rest}")))?;
            }
        }
    }
    Some(true)
}

proptest! {
    #[test]
    fn absent_is_only_what_does_not_exist(
        one in tree(), other in tree(),
        asked in proptest::collection::vec(proptest::collection::vec("[a-c]{1,2}", 1..6), 1..60),
    ) {
        let packages = BTreeMap::from([("0-a".to_owned(), one), ("0-b".to_owned(), other)]);
        let paths = paths_of(&packages);
        let asked = asked.into_iter().map(|names| names.join("/"));
        let known = packages.values().flat_map(|nodes| nodes.keys().cloned());
        for path in asked.chain(known).collect::<Vec<String>>() {
            for package in ["0-a", "0-b"] {
                let path = format!("{package}/{path}");
                let answer = paths.ask(format!("{STORE}/{path}").as_bytes());
                let exists = exists(&packages, &path);
                prop_assert!(
                    answer != Answer::Absent || exists == Some(false),
                    "{path} {exists:?}"
                );
                prop_assert!(
                    exists != Some(false) || answer == Answer::Absent,
                    "{path} {answer:?}"
                );
            }
        }
    }
}

/// A name that was given to no builder may only be `Absent` if no path has its state.
#[test]
fn names_are_bytes() {
    let name = BString::from(b"a\xffb".to_vec());
    assert!(is_odd(&name));
    assert!(is_odd(b".zfs") && !is_odd(b".hidden"));
}
