//! Which carriers a loader reads beyond what released ones do: becalm's patch of glibc
//! (`crates/lib/patches/glibc`) leaves its store prefixes in the loader's file, behind a name.
//!
//! The patch of nixpkgs, which reads notes alone, leaves nothing to be told by.

use bstr::{BStr, BString, ByteSlice};

use super::MAX_SYSTEM_DIRS;
use crate::facts::Readers;

/// What stands before the prefixes (`elf/dl-resolution-open.h`, `STORES_NAME`).
const NAME: &[u8] = b"dl_resolution_stores=";

/// Bytes of a list of prefixes that are looked at.
const LONGEST: usize = 4096;

/// The tunable that switches the readers.
const TUNABLE: &[u8] = b"glibc.rtld.resolution";

/// What a loader reads, by its bytes: nothing without becalm's patch; with it notes, and
/// the caches of packages below the prefixes that it was configured with.
#[must_use]
pub fn readers(ld_so: &[u8]) -> Readers {
    let told = ld_so.find(NAME).map(|at| &ld_so[at + NAME.len()..]);
    let list = told.and_then(|rest| {
        let rest = &rest[..rest.len().min(LONGEST)];
        rest.find_byte(0).map(|end| &rest[..end])
    });
    let Some(list) = list else { return Readers::default() };
    let prefixes = list.split_str(":").filter(|prefix| prefix.starts_with(b"/"));
    let stores: Vec<_> = prefixes.take(MAX_SYSTEM_DIRS).map(BString::from).collect();
    Readers { note: true, package_caches: stores.clone(), stores }
}

/// What is left of a loader's readers under a value of `GLIBC_TUNABLES`
/// (`glibc.rtld.resolution`: 1 notes, 2 caches, added up). The last value counts; one out
/// of range is none (glibc 2.36 elf/dl-tunables.c, `do_tunable_update_val`).
#[must_use]
pub fn switched(readers: Readers, tunables: &BStr) -> Readers {
    let values = tunables.split_str(":").filter_map(|tunable| {
        let value = tunable.strip_prefix(TUNABLE)?.strip_prefix(b"=")?;
        value.to_str().ok()?.parse::<u32>().ok().filter(|value| *value <= 3)
    });
    let value = values.last().unwrap_or(3);
    Readers {
        note: readers.note && value & 1 != 0,
        package_caches: if value & 2 != 0 { readers.package_caches } else { Vec::new() },
        stores: readers.stores,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> Readers {
        readers(b"\x7fELF\0\x07dl_resolution_stores=/nix/store:/gnu/store/:x\0/junk\0")
    }

    #[test]
    fn a_patched_loader_tells_its_prefixes() {
        assert!(both().note);
        assert_eq!(both().package_caches, ["/nix/store", "/gnu/store/"]);
        assert_eq!(both().stores, both().package_caches);
    }

    #[test]
    fn a_loader_patched_without_prefixes_reads_notes_alone() {
        let reads = readers(b"\0dl_resolution_stores=\0/nix/store\0");
        assert_eq!(reads, Readers { note: true, ..Readers::default() });
    }

    #[test]
    fn a_list_that_does_not_end_is_no_fact() {
        let stock = readers(b"\x7fELF\0/etc/ld.so.cache\0");
        assert_eq!(stock, Readers::default());
        assert_eq!(readers(b"dl_resolution_stores="), stock);
        assert_eq!(readers(b"dl_resolution_stores=/nix/store"), stock);
        let long = [b"dl_resolution_stores=".as_slice(), &[b'/'; 5000], b"\0"].concat();
        assert_eq!(readers(&long), stock);
    }

    #[test]
    fn the_tunable_switches_each_reader_by_its_last_value_in_range() {
        let left = |tunables: &str| {
            let left = switched(both(), tunables.into());
            (left.note, !left.package_caches.is_empty())
        };
        let value = |value: &str| left(&format!("glibc.rtld.resolution={value}"));
        assert_eq!(
            ["0", "1", "2", "3"].map(value),
            [(false, false), (true, false), (false, true), (true, true)]
        );
        assert_eq!(["4", "-1", "", "x"].map(value), [(true, true); 4]);
        assert_eq!(left(""), (true, true));
        assert_eq!(left("glibc.rtld.resolution=0:a=b:glibc.rtld.resolution=1"), (true, false));
        assert_eq!(left("glibc.rtld.resolution_=0:glibc.rtld.nns=0"), (true, true));
    }
}
