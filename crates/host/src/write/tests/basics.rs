//! One file at a time: what is written, what is kept, what is refused.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use becalm_core::patch::{Patch, Write};

use crate::write::{WriteOptions, Writer};

fn patch() -> Patch {
    Patch {
        writes: vec![
            Write { offset: 2, bytes: b"IN".to_vec() },
            Write { offset: 10, bytes: b"TRAILER".to_vec() },
        ],
        length: 17,
    }
}

#[test]
fn both_ways_write_what_the_patch_says() {
    for in_place in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"0123456789").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let writer = Writer::new(WriteOptions { in_place, ..Default::default() });
        let file = writer.open(&path).unwrap();
        let written = writer.apply(file, patch()).unwrap();
        assert_eq!((written.old_length, written.new_length), (10, 17));
        assert_eq!(fs::read(&path).unwrap(), b"01IN456789TRAILER");
        let now = fs::metadata(&path).unwrap();
        assert_eq!(now.mode() & 0o7777, 0o555);
        assert_eq!(now.ino() == inode, in_place);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
