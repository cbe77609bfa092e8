//! Tests that a written table is read again, and that damage is detected.

use std::sync::Arc;

use bstr::BString;
use proptest::prelude::*;

use super::bound::{Bound, BoundObject, BoundProgram, BuildId, Member, Tables, Writes};
use super::hash::NameHash;
use super::{
    Condition, Directory, Edge, EmbedError, Fingerprint, Folder, Index, Object, Program, Ranged,
    ReadAt, SearchDir, Start, Table, TableError, Target, Time, embed, encode, layout,
    module_is_whole, split,
};
use crate::elf::{Class, Endian};
use crate::facts::Environment;

pub(super) const TARGETS: [Target; 3] = [
    Target { machine: 62, class: Class::Elf64, endian: Endian::Little },
    Target { machine: 22, class: Class::Elf64, endian: Endian::Big },
    Target { machine: 40, class: Class::Elf32, endian: Endian::Little },
];

fn fingerprint(seed: u64) -> Fingerprint {
    let time = Time { sec: -1 - seed.cast_signed(), nsec: seed as u32 % 1_000_000_000 };
    Fingerprint { volume: seed << 32 | 1, ino: seed, size: seed ^ 7, mtime: time, ctime: time }
}

/// A store of `objects` objects that need ten others each, as in a Nix store.
pub(super) fn store(objects: usize) -> Index {
    let path = |object: usize| {
        BString::from(format!(
            "/nix/store/{:032x}-package-{}-1.{object}/lib/lib{object}.so.{}",
            object * 77_777,
            object % 50,
            object % 7
        ))
    };
    let conditions = [
        Condition::Directory("/nix/store".into(), fingerprint(1)),
        Condition::Absent("/usr/local/lib".into()),
        Condition::File("/etc/ld.so.cache".into(), fingerprint(2)),
        Condition::Loader("/lib64/ld-linux-x86-64.so.2".into()),
        Condition::AbsentPackage("/nix/store/none/lib".into()),
        Condition::Directory("/usr/lib".into(), fingerprint(3)).of_image(),
        Condition::File("/usr/lib/libc.so.6".into(), fingerprint(4)).of_image(),
        Condition::StoreDirectory("/nix/store/a/lib".into(), fingerprint(5)),
    ]
    .map(Arc::new);
    let conditions = |numbers: &[usize]| -> Vec<_> {
        numbers.iter().map(|&number| Arc::clone(&conditions[number])).collect()
    };
    let dirs = |paths: &[&str]| -> Vec<_> {
        paths.iter().map(|&path| Arc::new(BString::from(path))).collect()
    };
    let edges = |object: usize| -> Vec<Edge> {
        (1..=10)
            .map(|step| Edge {
                path: path((object + step * step) % objects),
                before_library_path: step == 1,
                outside: step == 5,
                look: step == 4,
                conditions: match step {
                    4 => conditions(&[0, 2]),
                    7 => conditions(&[1, 3, 5, 6]),
                    _ => vec![],
                },
            })
            .collect()
    };
    Index {
        paths: None,
        objects: (0..objects)
            .map(|object| Object {
                path: path(object),
                in_stores: if object == 1 { conditions(&[7, 4]) } else { vec![] },
                canonical: object % 2 == 0,
                closed: object % 3 == 0,
                run_path: object as u32 * 31,
                is_program: object % 2 == 1,
                seen: object as u32,
                searched: match object {
                    0 => vec![],
                    _ => dirs(&[["/a/lib", "/a"][object % 2], "/b//c/lib/.."]),
                },
                rpath: (object % 3 == 1).then(|| dirs(&["/opt/absent", "/opt/rpath"])),
                deferred: [object as u8, 0, 1, 2, 3, 4, 5, 255],
                edges: edges(object),
            })
            .collect(),
        roots: conditions(&[0]),
        folders: [
            ("/a/lib", 7, true),
            ("/a", 1, false),
            ("/b//c/lib/..", 99, false),
            ("/", 5, true),
        ]
        .map(|(path, digest, walked)| Folder { path: path.into(), digest, walked })
        .to_vec(),
        settings: 77,
        filters: 3,
        is_told: true,
        search_dirs: ["/opt/rpath", "/opt/absent"]
            .map(|path| SearchDir {
                path: path.into(),
                conditions: conditions(&[0, 1]),
                look: path == "/opt/rpath",
                names: vec![NameHash::of("a".into(), true), NameHash::of("c".into(), false)],
            })
            .to_vec(),
        programs: (0..objects)
            .step_by(2)
            .map(|object| Program {
                path: path(object),
                interpreter: "/lib64/ld-linux-x86-64.so.2".into(),
                needs: Start {
                    static_tls: if object == 4 { 4096 } else { 0 },
                    no_start: object == 6,
                },
                load_order: super::load_order([path(object + 1).as_ref()]),
                seen: object as u32,
            })
            .collect(),
        directories: vec![
            Directory {
                path: "/opt/lib".into(),
                condition: conditions(&[0]).remove(0),
                names: Some(vec![NameHash::of("a".into(), true), NameHash::of("b".into(), false)]),
            },
            Directory {
                path: "/nix/store".into(),
                condition: conditions(&[1]).remove(0),
                names: None,
            },
        ],
        bound: bound(),
    }
}

/// Two programs with a library that is written into, and the loader, which is not.
fn bound() -> Bound {
    let object = |path: &str| BoundObject {
        path: path.into(),
        is_rooted: path.starts_with("/nix"),
        dynamic: 0x3de0,
        dynamic_hash: 7 << 40,
        tables: path
            .ends_with(".so")
            .then(|| Tables { ranges: vec![(64, 96), (4096, 8)], hash: 5 }),
        build_id: path.ends_with(".so").then_some(BuildId {
            address: 648,
            length: 20,
            hash: 1 << 50,
        }),
        condition: Arc::new(Condition::File("/etc/ld.so.cache".into(), fingerprint(2))),
    };
    let program = |path: &str, object: u32, changes: Option<u32>| BoundProgram {
        path: path.into(),
        members: vec![
            Member { object, writes: None },
            Member { object: 2, writes: Some(Writes { relatives: 0, bindings: 1, changes }) },
        ],
        undefined_function: changes.is_some(),
        relocations: 70,
        bindings: 60,
        variables: Environment {
            preload: changes.map(|_| "/usr/lib/libx.so".into()),
            ..Environment::default()
        },
    };
    Bound {
        programs: vec![program("/usr/bin/a", 0, None), program("/usr/bin/b", 1, Some(2))],
        objects: vec![object("/usr/bin/a"), object("/usr/bin/b"), object("/nix/store/x.so")],
        blocks: vec![vec![0; 8], vec![1; 12], vec![2; 4]],
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let at = usize::try_from(at).ok()?;
        into.copy_from_slice(self.get(at..at.checked_add(into.len())?)?);
        Some(())
    }
}

/// Sorts everything, so that two indexes can be compared.
fn sorted(mut index: Index) -> Index {
    index.bound.programs.sort_by(|a, b| a.path.cmp(&b.path));
    for object in &mut index.objects {
        object.edges.sort_by(|a, b| a.path.cmp(&b.path));
    }
    for directory in &mut index.directories {
        if let Some(names) = &mut directory.names {
            names.sort_unstable();
        }
    }
    for dir in &mut index.search_dirs {
        dir.names.sort_unstable();
    }
    index.objects.sort_by(|a, b| a.path.cmp(&b.path));
    index.programs.sort_by(|a, b| a.path.cmp(&b.path));
    // Sorted by path, because the parents of folders are returned as well.
    index.folders.retain(|folder| folder.digest > 0);
    index.folders.sort_by(|a, b| a.path.cmp(&b.path));
    index
}

#[test]
fn what_is_written_is_read_again_in_every_byte_order() {
    for target in TARGETS {
        let index = store(40);
        let bytes = encode(&index, target).unwrap();
        let table = Table::read(&bytes).unwrap();
        assert_eq!(table.target(), target);
        assert_eq!(sorted(table.index().unwrap()), sorted(index));
    }
}

#[test]
fn an_edge_takes_at_most_a_hundred_bytes() {
    let bytes = encode(&store(2000), TARGETS[0]).unwrap();
    assert!(bytes.len() <= 100 * 10 * 2000, "{} bytes an edge", bytes.len() / 20_000);
}

#[test]
fn an_empty_index_is_a_table() {
    let bytes = encode(&Index::default(), TARGETS[0]).unwrap();
    assert_eq!(Table::read(&bytes).unwrap().index().unwrap(), Index::default());
}

#[test]
fn a_cut_or_grown_table_is_none() {
    let bytes = encode(&store(5), TARGETS[0]).unwrap();
    for end in 0..bytes.len() {
        assert!(Table::read(&bytes[..end]).is_err(), "cut to {end}");
    }
    let mut grown = bytes;
    grown.push(0);
    assert_eq!(Table::read(&grown).err(), Some(TableError::WrongLength));
}

#[test]
fn an_object_that_names_no_folder_is_an_error() {
    let none = Arc::new(BString::from("/none"));
    let error = Err(super::EncodeError::NoSuchFolder("/none".into()));
    let mut index = store(2);
    index.objects[0].searched = vec![Arc::clone(&none)];
    assert_eq!(encode(&index, TARGETS[0]), error);
    let mut index = store(2);
    index.objects[0].rpath = Some(vec![none]);
    assert_eq!(encode(&index, TARGETS[0]), error);
}

proptest! {
    #[test]
    fn a_flipped_bit_is_noticed(at in 0_usize..1 << 16, bit in 0_u8..8) {
        let mut bytes = encode(&store(20), TARGETS[0]).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(Table::read(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
        let _ = Table::read(&bytes);
        let mut table = encode(&store(3), TARGETS[0]).unwrap();
        let from = table.len().min(64 + 12 * 16);
        for (at, byte) in bytes.iter().enumerate() {
            let place = from + at * 37 % (table.len() - from);
            table[place] = *byte;
        }
        // The checksum is made valid again, so that each record's own check is tested.
        if let Ok(table) = Table::unchecked(&table) {
            let _ = table.index();
        }
    }
}

/// A module as the linker makes it, without anything in it: two segments, the second last,
/// and a dynamic section in the first.
fn module() -> Vec<u8> {
    let mut file = vec![0; 0x200];
    file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    file[16] = 3;
    file[18] = 62;
    file[32] = 64;
    file[54] = 56;
    file[56] = 3;
    let headers = [(64, 1, 0_u64, 0x120_u64), (120, 1, 0x120, 0x60), (176, 2, 0xe8, 0x10)];
    for (header, kind, offset, size) in headers {
        file[header] = kind;
        file[header + 8..header + 16].copy_from_slice(&offset.to_le_bytes());
        file[header + 32..header + 40].copy_from_slice(&size.to_le_bytes());
    }
    file
}

#[test]
fn a_table_goes_into_a_module_and_comes_out_again() {
    let table = encode(&store(5), TARGETS[0]).unwrap();
    let file = embed(&module(), &table).unwrap();
    assert_eq!(file.len(), 0x180 + table.len());
    let (bare, found) = split(&file).unwrap();
    assert_eq!(found, table);
    let other = encode(&store(7), TARGETS[0]).unwrap();
    assert_eq!(embed(&file, &other).unwrap(), embed(&bare, &other).unwrap());
    assert_eq!(split(&bare), Err(EmbedError::NoTable));
}

#[test]
fn a_flipped_bit_of_the_module_is_noticed_but_for_what_the_loader_writes_to() {
    let file = embed(&module(), &encode(&store(5), TARGETS[0]).unwrap()).unwrap();
    assert_eq!(module_is_whole(&file), Ok(true));
    let written_to = 0xe8..0x120;
    let after_the_check = 0x148..0x180;
    for at in (0..0x180).filter(|at| !written_to.contains(at) && !after_the_check.contains(at)) {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        assert_ne!(module_is_whole(&damaged), Ok(true), "byte {at}");
    }
}

#[test]
fn a_table_for_another_machine_is_refused() {
    for target in &TARGETS[1..] {
        let table = encode(&store(5), *target).unwrap();
        assert_eq!(embed(&module(), &table), Err(EmbedError::OtherMachine));
    }
}

#[test]
fn a_stamp_of_a_moment_ago_is_not_settled() {
    let at = |sec, nsec| {
        let time = Time { sec, nsec };
        Fingerprint { volume: 1, mtime: time, ctime: time, ..Fingerprint::default() }
    };
    let now = Time { sec: 100, nsec: 50_000_000 };
    assert!(at(99, 900_000_000).is_settled(now));
    assert!(!at(99, 999_999_999).is_settled(now));
    assert!(!at(99, 0).is_settled(now) && at(98, 0).is_settled(now));
    assert!(!at(101, 5).is_settled(now));
    // Where times prove nothing, no time is long enough ago.
    assert!(!Fingerprint { volume: 0, ..at(1, 1) }.is_settled(now));
}

/// The same table with the number of an earlier version, and checks that fit.
fn of_an_earlier_version(new: &[u8]) -> Vec<u8> {
    let mut old = new.to_vec();
    old[12] = 3;
    old[layout::HEADER_CHECKSUM..layout::HEADER].fill(0);
    let checksum = super::hash::bytes(0, &old);
    old[layout::HEADER_CHECKSUM..][..8].copy_from_slice(&checksum.to_le_bytes());
    let sections = u32::from_le_bytes(old[24..28].try_into().unwrap()) as usize;
    let directory = super::hash::bytes(0, &old[layout::HEADER..][..16 * sections]);
    let check = super::hash::low(directory, &old[..layout::HEADER_CHECK]);
    old[layout::HEADER_CHECK..layout::HEADER].copy_from_slice(&check.to_le_bytes());
    old
}

#[test]
fn an_index_of_another_version_is_refused_by_both_readers() {
    let old = of_an_earlier_version(&encode(&store(40), TARGETS[0]).unwrap());
    let error = super::TableError::OtherVersion(3);
    assert_eq!(Table::read(&old).err(), Some(error.clone()));
    let file = embed(&module(), &old).unwrap();
    let ranged = Ranged::open(&file[..], file.len() as u64);
    assert_eq!(ranged.err(), Some(error));
}

#[test]
fn what_a_start_needs_is_read_in_ranges_as_it_was_written() {
    let index = store(40);
    let file = embed(&module(), &encode(&index, TARGETS[0]).unwrap()).unwrap();
    let ranged = Ranged::open(&file[..], file.len() as u64).unwrap();
    assert_eq!((ranged.target(), ranged.static_tls()), (TARGETS[0], 4096));
    assert_eq!(ranged.roots().unwrap(), ["/nix/store"]);
    for program in &index.programs {
        let start = ranged.program(program.path.as_ref());
        assert_eq!(start, Ok(Some(program.needs)), "{}", program.path);
    }
    let marked = index.programs.iter().filter(|program| program.needs.no_start);
    let marked: Vec<_> = marked.map(|program| (program.path.clone(), program.needs)).collect();
    assert_eq!(ranged.programs(|need| need.no_start), Ok(marked));
    assert_eq!(ranged.program("/nix/store".into()), Ok(None));
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_in_ranges_without_a_panic(flips: Vec<(u16, u8)>) {
        let index = store(3);
        let mut file = embed(&module(), &encode(&index, TARGETS[0]).unwrap()).unwrap();
        for (at, byte) in flips {
            let at = usize::from(at) % file.len();
            file[at] = byte;
        }
        if let Ok(ranged) = Ranged::open(&file[..], file.len() as u64) {
            let _ = (ranged.roots(), ranged.programs(|_| true), ranged.static_tls());
            let _ = ranged.program(index.programs[0].path.as_ref());
        }
    }
}

#[test]
fn the_page_of_the_format_and_the_error_name_the_version_that_is_written() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/index-format.md");
    let page = std::fs::read_to_string(page).unwrap();
    let version = layout::VERSION;
    assert!(page.contains(&format!("| 12 | 4 | version, {version} |")));
    assert!(page.contains(&format!("This is version {version}.")));
    let error = super::TableError::OtherVersion(9).to_string();
    assert!(error.contains(&format!("version 9, not {version};")), "{error}");
}
