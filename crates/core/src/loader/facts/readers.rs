//! Detects the strategies that a patched loader supports, from its bytes.
//!
//! The readers of becalm's patches (`patches`), for glibc and musl, have the mark of a
//! complete note in the loader's file. The second patch for glibc puts a marker and its store
//! prefixes there. The patch of nixpkgs reads notes as well, but has neither and is not detected.

use bstr::{BStr, BString, ByteSlice};

use super::MAX_SYSTEM_DIRS;
use crate::elf::resolution_note::COMPLETE;
use crate::facts::Readers;

/// The marker before the prefixes (`elf/dl-package-cache-open.h`, `STORES_NAME`).
const NAME: &[u8] = b"dl_resolution_stores=";

/// The limit on the length of the list of prefixes, in bytes.
const LONGEST: usize = 4096;

/// The tunable that switches the strategies on and off.
const TUNABLE: &[u8] = b"glibc.rtld.resolution";

/// Detects the strategies that a loader supports: none without becalm's patches. With the first
/// it reads notes, with the second the package caches below the prefixes that it was configured
/// with.
#[must_use]
pub fn readers(ld_so: &[u8]) -> Readers {
    let after_name = ld_so.find(NAME).map(|at| &ld_so[at + NAME.len()..]);
    // The bytes are those of any file that a program names as its interpreter, so the list is
    // bounded.
    let list = after_name.and_then(|rest| {
        let rest = &rest[..rest.len().min(LONGEST)];
        rest.find_byte(0).map(|end| &rest[..end])
    });
    // A loader without the marker, or with a truncated list, reads no caches. A relative prefix would
    // make the current directory a store.
    let list = list.unwrap_or_default().split_str(":").filter(|prefix| prefix.starts_with(b"/"));
    Readers {
        note: ld_so.contains_str(COMPLETE),
        package_caches: list.take(MAX_SYSTEM_DIRS).map(BString::from).collect(),
    }
}

/// Applies a value of `GLIBC_TUNABLES` to the strategies that a loader supports.
/// `glibc.rtld.resolution` is the sum of 1 (notes) and 2 (package caches). The last value in range
/// counts; a value out of range is ignored (glibc 2.36 elf/dl-tunables.c,
/// `do_tunable_update_val`).
#[must_use]
pub fn switched(readers: Readers, tunables: &BStr) -> Readers {
    let values = tunables.split_str(":").filter_map(|tunable| {
        let value = tunable.strip_prefix(TUNABLE)?.strip_prefix(b"=")?;
        value.to_str().ok()?.parse::<u32>().ok().filter(|value| *value <= 3)
    });
    // A patched loader uses both by default.
    let value = values.last().unwrap_or(3);
    Readers {
        note: readers.note && value & 1 != 0,
        package_caches: if value & 2 != 0 { readers.package_caches } else { Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORES: &[u8] = b"\x7fELF\0\x07dl_resolution_stores=/nix/store:/gnu/store/:x\0/junk\0";

    fn both() -> Readers {
        readers(&[STORES, COMPLETE].concat())
    }

    #[test]
    fn the_prefixes_of_a_patched_loader_are_read() {
        assert!(both().note);
        assert_eq!(both().package_caches, ["/nix/store", "/gnu/store/"]);
    }

    #[test]
    fn a_loader_with_the_first_patch_reads_notes_only() {
        let reads = Readers { note: true, ..Readers::default() };
        assert_eq!(readers(&[b"\x7fELF\0", COMPLETE].concat()), reads);
    }

    /// Such a loader reads other notes in another way.
    #[test]
    fn a_loader_with_an_earlier_patch_is_not_known_to_read_notes() {
        assert!(!readers(STORES).note);
    }

    #[test]
    fn a_list_without_an_end_is_ignored() {
        let stock = readers(b"\x7fELF\0/etc/ld.so.cache\0");
        assert_eq!(stock, Readers::default());
        assert_eq!(readers(b"dl_resolution_stores="), stock);
        assert_eq!(readers(b"dl_resolution_stores=/nix/store"), stock);
        let long = [b"dl_resolution_stores=".as_slice(), &[b'/'; 5000], b"\0"].concat();
        assert_eq!(readers(&long), stock);
    }

    #[test]
    fn the_tunable_switches_each_reader_by_its_last_value_in_range() {
        let under = |tunables: &str| {
            let reads = switched(both(), tunables.into());
            (reads.note, !reads.package_caches.is_empty())
        };
        let value = |value: &str| under(&format!("glibc.rtld.resolution={value}"));
        assert_eq!(
            ["0", "1", "2", "3"].map(value),
            [(false, false), (true, false), (false, true), (true, true)]
        );
        assert_eq!(["4", "-1", "", "x"].map(value), [(true, true); 4]);
        assert_eq!(under(""), (true, true));
        assert_eq!(under("glibc.rtld.resolution=0:a=b:glibc.rtld.resolution=1"), (true, false));
        assert_eq!(under("glibc.rtld.resolution_=0:glibc.rtld.nns=0"), (true, true));
    }
}
