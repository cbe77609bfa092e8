//! Tests of each errno of the walk, and of the header of an object.

use super::*;
use crate::elf::{Class, Endian};

fn open_error(fs: &MemFs, path: &str) -> Errno {
    fs.open(path.into()).expect_err("the open must fail")
}

fn id(fs: &MemFs, path: &str) -> FileId {
    fs.open(path.into()).expect("the open must succeed").id
}

#[test]
fn missing_names_and_the_empty_path_are_enoent() {
    let fs = MemFs::new().dir("/a");
    for path in ["", "/a/b", "/b/c/d", "b"] {
        assert_eq!(open_error(&fs, path), Errno::NOENT, "{path}");
        assert_eq!(fs.stat(path.into()), Err(Errno::NOENT), "{path}");
    }
}

#[test]
fn a_file_as_a_parent_is_enotdir_even_before_a_name_too_long() {
    let fs = MemFs::new().file("/a/f", "x");
    let long = format!("/a/f/{}", "n".repeat(300));
    for path in ["/a/f/b", "/a/f/", "/a/f/.", "/a/f/..", &long] {
        assert_eq!(open_error(&fs, path), Errno::NOTDIR, "{path}");
    }
}

#[test]
fn a_directory_without_x_is_eacces_below_it_and_not_for_itself() {
    let fs = MemFs::new().file("/a/b/f", "x").mode("/a", 0o754);
    assert_eq!(open_error(&fs, "/a/b/f"), Errno::ACCES);
    assert_eq!(open_error(&fs, "/a/missing"), Errno::ACCES);
    assert_eq!(open_error(&fs, "/a/.."), Errno::ACCES);
    assert_eq!(fs.stat("/a/b".into()), Err(Errno::ACCES));
    assert_eq!(fs.stat("/a".into()), Ok(FileKind::Directory));
}

#[test]
fn a_directory_without_r_can_be_searched_and_not_opened() {
    let fs = MemFs::new().file("/a/f", "x").mode("/a", 0o711);
    assert!(fs.open("/a/f".into()).is_ok());
    assert_eq!(open_error(&fs, "/a"), Errno::ACCES);
}

#[test]
fn a_file_without_r_is_eacces_to_open_and_stats() {
    let fs = MemFs::new().file("/f", "x").mode("/f", 0o711);
    assert_eq!(open_error(&fs, "/f"), Errno::ACCES);
    assert_eq!(fs.read("/f".into()), Err(Errno::ACCES));
    assert_eq!(fs.stat("/f".into()), Ok(FileKind::File));
}

#[test]
fn a_cycle_of_links_is_eloop() {
    let fs = MemFs::new().link("/a", "b").link("/b", "/a").link("/self", "self/x");
    assert_eq!(open_error(&fs, "/a"), Errno::LOOP);
    assert_eq!(open_error(&fs, "/self"), Errno::LOOP);
}

#[test]
fn forty_links_are_followed_and_not_forty_one() {
    let mut fs = MemFs::new().file("/l0", "x");
    for n in 1..=41 {
        fs = fs.link(format!("/l{n}"), format!("l{}", n - 1));
    }
    assert!(fs.open("/l40".into()).is_ok());
    assert_eq!(open_error(&fs, "/l41"), Errno::LOOP);
}

#[test]
fn components_over_255_and_paths_over_4095_bytes_are_enametoolong() {
    let fs = MemFs::new().dir("/a");
    assert_eq!(open_error(&fs, &format!("/a/{}", "n".repeat(255))), Errno::NOENT);
    assert_eq!(open_error(&fs, &format!("/a/{}", "n".repeat(256))), Errno::NAMETOOLONG);
    assert_eq!(fs.stat("/".repeat(4095).as_str().into()), Ok(FileKind::Directory));
    assert_eq!(fs.stat("/".repeat(4096).as_str().into()), Err(Errno::NAMETOOLONG));
}

#[test]
fn a_directory_opens_and_cannot_be_read() {
    let fs = MemFs::new().dir("/a");
    let opened = fs.open("/a".into()).expect("a directory opens");
    assert_eq!(opened.head, Err(Errno::ISDIR));
    assert_eq!(opened.object, Err(ElfError::Unreadable(21)));
    assert_eq!(fs.read("/a".into()), Err(Errno::ISDIR));
}

#[test]
fn a_fifo_opens_without_a_head_and_has_another_kind() {
    let fs = MemFs::new().fifo("/p");
    assert_eq!(fs.open("/p".into()).expect("it opens").head, Err(Errno::NXIO));
    assert_eq!(fs.stat("/p".into()), Ok(FileKind::Other));
}

#[test]
fn dots_and_slashes_lead_to_the_same_file() {
    let fs = MemFs::new().file("/a/b/f", "x").cwd("/a");
    let file = id(&fs, "/a/b/f");
    for path in ["//a///b//f", "/a/./b/../b/f", "/../../a/b/f", "b/f", "./b/f", "../a/b/f"] {
        assert_eq!(id(&fs, path), file, "{path}");
    }
    assert_eq!(id(&fs, "/a/b/"), id(&fs, "/a/b"));
    assert_eq!(fs.current_dir(), "/a");
}

#[test]
fn relative_links_start_at_their_directory_and_dots_at_the_target() {
    let fs = MemFs::new()
        .file("/real/lib/f", "x")
        .file("/real/g", "y")
        .link("/a/up", "../real/lib")
        .link("/a/abs", "/real/lib/f");
    assert_eq!(id(&fs, "/a/up/f"), id(&fs, "/real/lib/f"));
    assert_eq!(id(&fs, "/a/abs"), id(&fs, "/real/lib/f"));
    assert_eq!(id(&fs, "/a/up/../g"), id(&fs, "/real/g"));
    assert_eq!(open_error(&fs, "/a/abs/"), Errno::NOTDIR);
    assert_eq!(fs.canonicalize("/a/up/../lib/./f".into()).unwrap(), "/real/lib/f");
    assert_eq!(fs.canonicalize("/a/..".into()).unwrap(), "/");
}

#[test]
fn files_are_added_through_a_parent_that_is_a_link() {
    let fs = MemFs::new().dir("/usr/lib").link("/lib", "usr/lib").file("/lib/sub/f", "x");
    assert!(fs.open("/usr/lib/sub/f".into()).is_ok());
}

#[test]
fn hard_links_share_an_inode_and_files_do_not() {
    let fs = MemFs::new().file("/a", "x").file("/b", "x").hard_link("/d/c", "/a");
    assert_eq!(id(&fs, "/a"), id(&fs, "/d/c"));
    assert_ne!(id(&fs, "/a"), id(&fs, "/b"));
    let fs = fs.remove("/a");
    assert_eq!(open_error(&fs, "/a"), Errno::NOENT);
    assert!(fs.open("/d/c".into()).is_ok());
}

#[test]
fn the_head_is_at_most_64_bytes_and_the_file_whole() {
    let fs = MemFs::new().file("/short", "ab").file("/long", [7; 100]);
    assert_eq!(fs.open("/short".into()).unwrap().head, Ok(b"ab".to_vec()));
    let long = fs.open("/long".into()).unwrap();
    assert_eq!((long.head.clone().unwrap().len(), long.len), (64, 100));
    assert_eq!(fs.read("/long".into()).unwrap().len(), 100);
    assert_eq!(long.object, Err(ElfError::NotElf));
}

#[test]
fn an_object_has_the_header_of_its_ident_in_both_classes_and_byte_orders() {
    let narrow = ObjectBuilder::library("")
        .class(Class::Elf32)
        .endian(Endian::Big)
        .machine(20)
        .e_flags(0x0102_0304)
        .os_abi(3, 1);
    let fs = MemFs::new().object("/wide", ObjectBuilder::library("a")).object("/narrow", narrow);

    let wide = fs.open("/wide".into()).unwrap().head.clone().unwrap();
    assert_eq!(wide[..9], *b"\x7fELF\x02\x01\x01\0\0");
    assert_eq!(wide[16..24], [3, 0, 62, 0, 1, 0, 0, 0]);
    assert_eq!((wide[32], wide[52], wide[54]), (64, 64, 56), "e_phoff, e_ehsize, e_phentsize");

    let narrow = fs.open("/narrow".into()).unwrap().head.clone().unwrap();
    assert_eq!(narrow[..9], *b"\x7fELF\x01\x02\x01\x03\x01");
    assert_eq!(narrow[16..24], [0, 3, 0, 20, 0, 0, 0, 1]);
    assert_eq!(narrow[36..40], [1, 2, 3, 4], "e_flags");
    assert_eq!((narrow[31], narrow[41], narrow[43]), (52, 52, 32));
}

#[test]
fn the_builder_gives_the_entries_in_their_order() {
    let view = ObjectBuilder::program().needed("a").filter("f").auxiliary("x").needed("b").build();
    let names: Vec<_> =
        view.dynamic.unwrap().dependencies.into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a", "f", "x", "b"]);
    assert_eq!(ObjectBuilder::program().without_dynamic().build().dynamic, None);
}

#[test]
fn a_directory_below_a_missing_one_is_not_made_in_a_namesake() {
    let fs = MemFs::new().dir("/lib").dir("/usr/lib");
    assert_eq!(fs.stat("/usr/lib".into()), Ok(FileKind::Directory));
    assert_eq!(fs.stat("/lib/usr".into()), Err(Errno::NOENT));
}

#[test]
fn a_link_is_read_without_being_followed_and_other_files_are_einval() {
    let fs = MemFs::new().file("/a/f", "x").link("/a/l", "f").link("/b", "a").link("/gone", "x/y");
    assert_eq!(fs.read_link("/a/l".into()).unwrap(), "f");
    assert_eq!(fs.read_link("/b/l".into()).unwrap(), "f");
    assert_eq!(fs.read_link("/gone".into()).unwrap(), "x/y");
    assert_eq!(fs.read_link("/a/f".into()), Err(Errno::INVAL));
    assert_eq!(fs.read_link("/a/none".into()), Err(Errno::NOENT));
    assert_eq!(fs.read_link("/a/f/none".into()), Err(Errno::NOTDIR));
}
