//! The identity of a file system, by which a fingerprint holds after a reboot or on another machine
//! and does not hold in another image (`docs/identity.md`). `crates/audit/module/volume.c` computes the
//! same number in the process.

use super::hash;

/// `OVERLAYFS_SUPER_MAGIC` of Linux `include/uapi/linux/magic.h`.
const OVERLAY: u32 = 0x794c_7630;
/// Major number of loop devices (Linux `include/uapi/linux/major.h`).
const LOOP_MAJOR: u32 = 7;
/// It sets both times of a directory at each change of its names.
const TIMES: u8 = 1;
/// Each call can take a round trip.
const NETWORKED: u8 = 2;
/// The content is an image: inodes and times are chosen by whoever makes it.
const IMAGE: u8 = 4;
/// Its listings are complete, and its lookups compare bytes except in case-insensitive directories.
const LISTED: u8 = 8;
/// File systems by `f_type`, and their properties.
const KNOWN: [(u32, u8); 34] = [
    (0xef53, TIMES | LISTED),                  // ext2, ext3, ext4
    (0x5846_5342, TIMES | LISTED),             // XFS
    (0x9123_683e, TIMES | LISTED),             // Btrfs
    (0xf2f5_2010, TIMES | LISTED),             // F2FS
    (0xca45_1a4e, TIMES | LISTED),             // bcachefs
    (0x2fc1_2fc1, TIMES | LISTED),             // ZFS
    (0x0102_1994, TIMES | LISTED),             // tmpfs
    (0x8584_58f6, TIMES | LISTED),             // ramfs
    (0x3153_464a, TIMES),                      // JFS
    (0x5265_4973, TIMES),                      // ReiserFS
    (0x3434, TIMES),                           // NILFS
    (0x2405_1905, TIMES),                      // UBIFS
    (0x7461_636f, TIMES),                      // OCFS2
    (0x0116_1970, TIMES),                      // GFS2
    (OVERLAY, LISTED),                         // overlayfs
    (0x7371_7368, IMAGE | LISTED),             // squashfs
    (0xe0f5_e1e2, IMAGE | LISTED),             // EROFS
    (0x28cd_3d45, IMAGE),                      // cramfs
    (0x9660, IMAGE),                           // ISO 9660
    (0x7275, IMAGE),                           // romfs
    (0x6969, NETWORKED | TIMES | LISTED),      // NFS
    (0x0bd0_0bd0, NETWORKED | TIMES | LISTED), // Lustre
    (0x4750_4653, NETWORKED | TIMES | LISTED), // GPFS
    (0x00c3_6400, NETWORKED | TIMES),          // Ceph
    (0x1983_0326, NETWORKED | TIMES),          // BeeGFS
    (0x6b41_4653, NETWORKED | TIMES),          // AFS
    (0x5346_414f, NETWORKED | TIMES),          // AFS
    (0x517b, NETWORKED),                       // SMB
    (0xfe53_4d42, NETWORKED),                  // SMB
    (0xff53_4d42, NETWORKED),                  // SMB
    (0x0102_1997, NETWORKED),                  // 9P
    (0xaad7_aaea, NETWORKED),                  // PanFS
    (0x7375_7245, NETWORKED),                  // Coda
    (0x6573_5546, NETWORKED),                  // FUSE
];

fn has(kind: u32, property: u8) -> bool {
    KNOWN.iter().any(|&(known, properties)| known == kind && properties & property != 0)
}

/// Returns true for a network file system and for FUSE, by `f_type`: each call can take a round trip.
#[must_use]
pub fn is_networked(kind: u32) -> bool {
    has(kind, NETWORKED)
}

/// Returns true if the file system sets the times of a file at each change, by `f_type`.
#[must_use]
pub fn sets_times(kind: u32) -> bool {
    has(kind, TIMES)
}

/// Returns true if a name that a directory does not list is absent, by `f_type`. Directories that do
/// not tell upper from lower case are an exception.
#[must_use]
pub fn lists_all(kind: u32) -> bool {
    has(kind, LISTED)
}

/// The fields of `statfs` and `statx` that identify a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// `f_type`.
    pub kind: u32,
    /// `f_fsid`, its first word in the lower half.
    pub fsid: u64,
    /// `f_blocks`.
    pub blocks: u64,
    /// `ST_RDONLY` of `f_flags`.
    pub read_only: bool,
    /// `stx_dev_major`.
    pub major: u32,
    /// `stx_dev_minor`.
    pub minor: u32,
}

/// The property that identifies a file system besides its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifiedBy {
    /// An overlay: its mount (`STATX_MNT_ID_UNIQUE`) and the boot, because its layers may be others
    /// in the next mount.
    Mount = 1,
    /// An image on a loop device: the file behind it (`/sys/dev/block/7:N/loop/backing_file`).
    BackingFile = 2,
    /// `f_fsid`, which most file systems derive from their UUID.
    Fsid = 3,
    /// The number of blocks: `f_fsid` is made from the device number (XFS, VFAT).
    Blocks = 4,
    /// Nothing: network file systems, FUSE.
    Type = 5,
    /// An image whose file is not known.
    Unknown = 6,
}

impl Volume {
    /// Returns the property that identifies this file system.
    #[must_use]
    pub fn identified_by(&self) -> IdentifiedBy {
        let is_image = has(self.kind, IMAGE);
        if self.kind == OVERLAY {
            IdentifiedBy::Mount
        } else if self.major == LOOP_MAJOR && (is_image || self.read_only) {
            IdentifiedBy::BackingFile
        } else if is_image {
            IdentifiedBy::Unknown
        } else if self.fsid != 0 && self.fsid != self.encoded_device() {
            IdentifiedBy::Fsid
        } else if self.major != 0 {
            IdentifiedBy::Blocks
        } else {
            IdentifiedBy::Type
        }
    }

    /// The device number as the kernel writes it into `f_fsid` (`huge_encode_dev` of Linux
    /// `include/linux/kdev_t.h`).
    fn encoded_device(&self) -> u64 {
        u64::from((self.minor & 0xff) | self.major << 8 | (self.minor & !0xff) << 12)
    }

    /// Returns the number of this file system, which is never 0. `own` has the words of the mount or
    /// of the backing file; it is empty if they are not known or not needed.
    #[must_use]
    pub fn number(&self, own: &[u64]) -> u64 {
        let by = self.identified_by();
        let word = match by {
            IdentifiedBy::Fsid => self.fsid,
            IdentifiedBy::Blocks | IdentifiedBy::Unknown => self.blocks,
            _ => 0,
        };
        let words = [u64::from(self.kind), by as u64, word];
        hash::words(2, words.iter().chain(own).copied()).max(1)
    }

    /// Returns true if the times of a directory change with the names in it, as long as the file
    /// system has the same number.
    #[must_use]
    pub fn shows_changes(&self, own: &[u64]) -> bool {
        match self.identified_by() {
            IdentifiedBy::Mount | IdentifiedBy::BackingFile => !own.is_empty(),
            IdentifiedBy::Unknown => false,
            _ => sets_times(self.kind),
        }
    }
}

/// Adds up the names in a directory. The order of the names does not matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing {
    sum: u64,
    count: u64,
}

impl Listing {
    /// The largest number of names that the module reads.
    pub const MOST: u64 = 65_536;

    /// Adds a name other than `.` and `..`.
    pub fn add(&mut self, name: &[u8]) {
        self.sum = self.sum.wrapping_add(hash::bytes(3, name));
        self.count += 1;
    }

    /// Returns the hash, or 0 if there are too many names.
    #[must_use]
    pub fn hash(self) -> u64 {
        if self.count > Self::MOST {
            return 0;
        }
        hash::words(4, [self.sum, self.count]).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: Volume =
        Volume { kind: 0xef53, fsid: 77, blocks: 9, read_only: false, major: 7, minor: 0 };

    #[test]
    fn a_file_system_with_a_uuid_keeps_its_number_on_another_device() {
        let again = Volume { minor: 3, blocks: 10, ..EXT4 };
        assert_eq!(EXT4.number(&[]), again.number(&[]));
        assert_ne!(EXT4.number(&[]), Volume { fsid: 78, ..EXT4 }.number(&[]));
        assert!(EXT4.shows_changes(&[]));
    }

    #[test]
    fn an_fsid_made_from_the_device_number_is_none() {
        let minor = 0x1203;
        let fsid = u64::from(0x03_u32 | 253 << 8 | 0x1200 << 12);
        let xfs = Volume { kind: 0x5846_5342, fsid, major: 253, minor, ..EXT4 };
        assert_eq!(xfs.identified_by(), IdentifiedBy::Blocks);
    }

    #[test]
    fn an_image_is_identified_by_the_file_behind_its_loop_device() {
        let image = Volume { kind: 0x7371_7368, ..EXT4 };
        assert!(image.shows_changes(&[1]) && !image.shows_changes(&[]));
        assert_ne!(image.number(&[1]), image.number(&[2]));
        let of_disk = Volume { major: 253, ..image };
        assert_eq!(of_disk.identified_by(), IdentifiedBy::Unknown);
        assert!(!of_disk.shows_changes(&[1]));
    }

    #[test]
    fn a_listing_has_no_order() {
        let of = |names: &[&[u8]]| {
            let mut listing = Listing::default();
            names.iter().for_each(|name| listing.add(name));
            listing.hash()
        };
        assert_eq!(of(&[b"a", b"b"]), of(&[b"b", b"a"]));
        assert_ne!(of(&[b"a", b"b"]), of(&[b"a", b"c"]));
        assert_ne!(of(&[]), 0);
    }
}
