//! The hwcaps subdirectories of a search directory.
//!
//! [`subdirectories`] lists them in the loader's order, for the glibc model. [`cpu`] has the
//! capabilities of the CPUs that `--cpu` names, and [`arch`] the tables of glibc for each
//! architecture. [`variants`] searches a directory for the subdirectories of every CPU.

pub mod arch;
pub mod cpu;
pub(crate) mod variants;

use bstr::{BStr, BString, ByteSlice};

use self::arch::Arch;
use crate::facts::{Libc, LoaderFacts};

pub use cpu::{UnknownCpu, for_cpu};

/// The first release with `glibc-hwcaps/<level>` (glibc 2.33, "elf: Add glibc-hwcaps support for
/// LD_LIBRARY_PATH").
pub(crate) const FIRST_NAMED: u16 = 33;
/// The first release without legacy subdirectories (glibc 2.37, "elf: Remove legacy hwcaps support
/// from the dynamic loader").
pub const FIRST_WITHOUT_LEGACY: u16 = 37;

/// The limit on legacy names, so that no input makes a huge power set. s390x has the most: seven
/// bits, the platform and `tls`.
const MAX_LEGACY_NAMES: usize = 12;

/// Lists the subdirectories that the loader tries in every search directory, in its order. Each
/// ends in a slash, and the last one is empty and means the directory itself.
///
/// The order is that of `_dl_important_hwcaps` (glibc 2.36 elf/dl-hwcaps.c): the named
/// subdirectories, then up to 2.36 the power set of the legacy names. musl has none of them.
#[must_use]
pub fn subdirectories(facts: &LoaderFacts) -> Vec<BString> {
    let Libc::Glibc(release) = facts.libc else { return vec![BString::default()] };
    let mut prefixes = Vec::new();
    // `_dl_important_hwcaps` puts the named subdirectories before the legacy ones.
    if release.minor >= FIRST_NAMED {
        let prefix = |level: &BString| [b"glibc-hwcaps/", level.as_slice(), b"/"].concat().into();
        prefixes.extend(facts.hwcaps.iter().map(prefix));
    }
    if release.minor < FIRST_WITHOUT_LEGACY {
        power_set(&facts.legacy_hwcaps, &mut prefixes);
    } else {
        prefixes.push(BString::default());
    }
    prefixes
}

/// Appends every combination of the names, from the full one to the empty one. Within a combination
/// the names are in the reverse order of the table.
fn power_set(names: &[BString], prefixes: &mut Vec<BString>) {
    let names = &names[..names.len().min(MAX_LEGACY_NAMES)];
    for chosen in (0..1_usize << names.len()).rev() {
        let mut prefix = BString::default();
        for (index, name) in names.iter().enumerate().rev() {
            if chosen & (1 << index) != 0 {
                prefix.extend_from_slice(name.as_bytes());
                prefix.push(b'/');
            }
        }
        prefixes.push(prefix);
    }
}

/// Removes the hwcaps subdirectory of any architecture and the trailing slash from a directory. The
/// result is the search directory, as far as names show.
#[must_use]
pub fn search_dir(dir: &BStr) -> &BStr {
    let mut dir: &[u8] = dir.trim_end_with(|c| c == '/');
    if let Some(at) = dir.rfind("/glibc-hwcaps/") {
        dir = &dir[..at];
    }
    // Legacy components are nested: `tls/haswell/x86_64`.
    while let Some(at) = dir.rfind_byte(b'/').filter(|at| is_legacy(&dir[at + 1..])) {
        dir = &dir[..at];
    }
    dir.as_bstr()
}

/// True for a component of a legacy subdirectory.
fn is_legacy(name: &[u8]) -> bool {
    Arch::ALL.iter().any(|arch| arch.legacy_names().any(|word| word.as_bytes() == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::GlibcVersion;

    #[test]
    fn a_hwcaps_subdirectory_belongs_to_its_search_directory() {
        let of = |dir: &str| search_dir(BStr::new(dir)).to_string();
        assert_eq!(of("/a/glibc-hwcaps/x86-64-v3/"), "/a");
        assert_eq!(of("/a/tls/haswell/avx512_1/x86_64"), "/a");
        assert_eq!(of("/a/atomics"), "/a");
        assert_eq!(of("/a/lib.linux-x86_64/b/"), "/a/lib.linux-x86_64/b");
    }

    fn facts(minor: u16, hwcaps: &[&str], legacy: &[&str]) -> LoaderFacts {
        let strings = |list: &[&str]| list.iter().map(|word| BString::from(*word)).collect();
        LoaderFacts {
            libc: Libc::Glibc(GlibcVersion { major: 2, minor }),
            system_dirs: vec![BString::from("/lib/")],
            cache_path: None,
            lib: BString::from("lib"),
            platform: None,
            hwcaps: strings(hwcaps),
            legacy_hwcaps: strings(legacy),
            hwcap_mask: 0,
            platform_bit: None,
            reads: Default::default(),
            no_exec_stack: false,
        }
    }

    #[test]
    fn legacy_names_make_a_power_set_with_tls_first() {
        let facts = facts(31, &[], &["x86_64", "haswell", "tls"]);
        assert_eq!(
            subdirectories(&facts),
            [
                "tls/haswell/x86_64/",
                "tls/haswell/",
                "tls/x86_64/",
                "tls/",
                "haswell/x86_64/",
                "haswell/",
                "x86_64/",
                ""
            ]
        );
    }

    /// The order that `LD_DEBUG=libs` of glibc 2.36 printed on a CPU with AVX-512.
    #[test]
    fn named_levels_come_before_the_legacy_set_in_2_36() {
        let facts =
            facts(36, &["x86-64-v4", "x86-64-v3"], &["x86_64", "avx512_1", "haswell", "tls"]);
        let found = subdirectories(&facts);
        assert_eq!(found.len(), 2 + 16);
        assert_eq!(found[0], "glibc-hwcaps/x86-64-v4/");
        assert_eq!(found[1], "glibc-hwcaps/x86-64-v3/");
        assert_eq!(found[2], "tls/haswell/avx512_1/x86_64/");
        assert_eq!(found[4], "tls/haswell/x86_64/");
        assert_eq!(found[17], "");
    }

    #[test]
    fn a_single_legacy_name_gives_itself_and_the_plain_directory() {
        assert_eq!(subdirectories(&facts(36, &[], &["tls"])), ["tls/", ""]);
    }

    #[test]
    fn since_2_37_only_named_levels_are_tried() {
        let facts = facts(37, &["z15", "z14"], &["tls"]);
        assert_eq!(subdirectories(&facts), ["glibc-hwcaps/z15/", "glibc-hwcaps/z14/", ""]);
    }

    #[test]
    fn before_2_33_no_named_level_is_tried() {
        assert_eq!(subdirectories(&facts(32, &["x86-64-v2"], &["tls"])), ["tls/", ""]);
    }

    #[test]
    fn the_power_set_of_too_many_names_is_bounded() {
        let names = vec!["w"; 200];
        assert_eq!(subdirectories(&facts(31, &[], &names)).len(), 1 << MAX_LEGACY_NAMES);
    }
}
