//! Reads the facts from the bytes of a loader.
//!
//! Each fact is a NUL-terminated string in the loader's read-only data. The search for it uses
//! no section and no symbol, so that it works on stripped loaders and on other machines' loaders.

use bstr::{BStr, BString, ByteSlice};

use super::{MAX_SYSTEM_DIRS, dst_lib, musl, readers, release};
use crate::elf::resolution_note::COMPLETE;
use crate::facts::Readers;
use crate::loader::{Libc, LoaderFacts};
use crate::path::PATH_MAX;

/// Finds the C library that a loader belongs to, and its release.
///
/// Since 2.33 a glibc loader has its release in its `--version` text. For older loaders the
/// release is read from `hint`: the file name that the interpreter leads to (`ld-2.31.so`), or
/// the bytes of the `libc.so.6` in the loader's directory, which print the release as well.
#[must_use]
pub fn libc_of(ld_so: &[u8], hint: &[u8]) -> Option<Libc> {
    // musl prints this text if it is run without a program. glibc's loader has no such string.
    if ld_so.contains_str("musl libc") {
        return Some(Libc::Musl);
    }
    let banner = |bytes: &[u8]| {
        // The banner says "stable release version" or "development release version".
        let mut texts = bytes.find_iter(" release version ").map(|at| &bytes[at + 17..]);
        texts.find_map(release)
    };
    let file_name = || {
        let mut names = hint.find_iter("ld-").map(|at| &hint[at + 3..]);
        names.find_map(release)
    };
    // The loader's own text is the most reliable, a file name the least.
    banner(ld_so).or_else(|| banner(hint)).or_else(file_name).map(Libc::Glibc)
}

/// Reads the facts from a loader's bytes and combines them with those of a CPU.
///
/// `libc` is the result of [`libc_of`] for the same bytes, or the value of `--libc`. `cpu` is the
/// result of [`crate::search::hwcaps::for_cpu`]. Returns `None` if the bytes contain no list of
/// system directories.
#[must_use]
pub fn from_bytes(ld_so: &[u8], libc: Libc, cpu: LoaderFacts) -> Option<LoaderFacts> {
    if libc == Libc::Musl {
        let note = ld_so.contains_str(COMPLETE);
        return Some(LoaderFacts { reads: Readers { note, ..Readers::default() }, ..musl() });
    }
    let system_dirs = system_dirs(ld_so)?;
    Some(LoaderFacts {
        libc,
        lib: dst_lib(&system_dirs),
        system_dirs,
        cache_path: cache_path(ld_so),
        reads: readers(ld_so),
        ..cpu
    })
}

/// Finds the path of the loader cache (`LD_SO_CACHE`): the string that is an absolute path and
/// ends in `/ld.so.cache`. Distributions with a cache elsewhere patch this string and leave
/// `path.sysconfdir` unchanged.
#[must_use]
pub fn cache_path(ld_so: &[u8]) -> Option<BString> {
    const NAME: &str = "/ld.so.cache\0";
    let mut ends = ld_so.find_iter(NAME).map(|at| at + NAME.len() - 1);
    ends.find_map(|end| {
        let text = &ld_so[start_of(ld_so, end)..end];
        text.starts_with(b"/").then(|| text.into())
    })
}

/// Finds `SYSTEM_DIRS` (elf/gen-trusted-dirs.awk): adjacent strings with a slash at both ends.
/// The longest run of such strings is taken, because a loader can contain the list twice, and
/// the bytes before one copy can hide its first element.
fn system_dirs(ld_so: &[u8]) -> Option<Vec<BString>> {
    let mut best: Vec<&BStr> = Vec::new();
    let mut run: Vec<&BStr> = Vec::new();
    let mut end_of_last = None;
    for end in ld_so.find_iter("/\0").map(|at| at + 1) {
        let start = start_of(ld_so, end);
        let text = BStr::new(&ld_so[start..end]);
        // Other paths have this form as well: `/proc/self/fd/`.
        if !is_library_dir(text) {
            continue;
        }
        if end_of_last != Some(start) {
            run.clear();
        }
        // The next element follows right after the NUL.
        end_of_last = Some(end + 1);
        // A hostile file can repeat `/lib/` a million times.
        if run.len() == MAX_SYSTEM_DIRS {
            continue;
        }
        run.push(text);
        if run.len() > best.len() {
            best.clone_from(&run);
        }
    }
    (!best.is_empty()).then(|| best.into_iter().map(BString::from).collect())
}

/// Returns the start of the printable string that ends before `end`, at most `PATH_MAX` bytes
/// before it.
fn start_of(bytes: &[u8], end: usize) -> usize {
    let is_printable = |byte: &u8| *byte >= 0x20 && *byte != 0x7f;
    // Without this bound a file of printable bytes would be scanned from its start for each
    // candidate.
    let first = end.saturating_sub(PATH_MAX);
    let unprintable = bytes[first..end].iter().rposition(|byte| !is_printable(byte));
    unprintable.map_or(first, |at| first + at + 1)
}

/// Returns true if the path has a slash at both ends and a component that starts with `lib`.
fn is_library_dir(text: &BStr) -> bool {
    let ends =
        text.starts_with(b"/") && text.ends_with(b"/") && (2..PATH_MAX).contains(&text.len());
    ends && text.split_str("/").any(|component| component.starts_with(b"lib"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::GlibcVersion;

    fn glibc(minor: u16) -> Libc {
        Libc::Glibc(GlibcVersion { major: 2, minor })
    }

    /// The strings of a loader of 2.43 and their surroundings: the list twice, one copy right
    /// after a printable byte, and a path of the same form that is not in the list.
    const IMAGE: &[u8] = b"\x7fELF\x02\x01junk\0/\0/proc/self/fd/\0\
        ld.so (Debian GLIBC 2.36-9) stable release version 2.36.\n\0\
        A/lib/x86_64-linux-gnu/\0/usr/lib/x86_64-linux-gnu/\0/lib/\0/usr/lib/\0\
        \0/lib/x86_64-linux-gnu/\0/usr/lib/x86_64-linux-gnu/\0/lib/\0/usr/lib/\0\
        \0lib/x86_64-linux-gnu\0 search cache=%s\n\0/etc/ld.so.cache\0/usr/lib/\0";

    #[test]
    fn a_distribution_loader_gives_its_facts() {
        let libc = libc_of(IMAGE, b"").unwrap();
        assert_eq!(libc, glibc(36));
        let facts = from_bytes(IMAGE, libc, LoaderFacts::default()).unwrap();
        assert_eq!(
            facts.system_dirs,
            ["/lib/x86_64-linux-gnu/", "/usr/lib/x86_64-linux-gnu/", "/lib/", "/usr/lib/"]
        );
        assert_eq!(facts.lib, "lib/x86_64-linux-gnu");
        assert_eq!(facts.cache_path.unwrap(), "/etc/ld.so.cache");
    }

    #[test]
    fn a_store_loader_has_one_directory_and_its_own_cache() {
        let image = b"\0/proc/self/fd/\0\x01/nix/store/abc-glibc-2.38-44/lib/\0\
            /nix/store/abc-glibc-2.38-44/etc/ld.so.cache\0";
        let facts = from_bytes(image, glibc(38), LoaderFacts::default()).unwrap();
        assert_eq!(facts.system_dirs, ["/nix/store/abc-glibc-2.38-44/lib/"]);
        // glibc's build removes one leading slash.
        assert_eq!(facts.lib, "nix/store/abc-glibc-2.38-44/lib");
        assert_eq!(facts.cache_path.unwrap(), "/nix/store/abc-glibc-2.38-44/etc/ld.so.cache");
    }

    #[test]
    fn a_release_before_2_33_comes_from_the_hint() {
        assert_eq!(libc_of(b"no banner", b""), None);
        assert_eq!(libc_of(b"no banner", b"/lib/x86_64-linux-gnu/ld-2.31.so"), Some(glibc(31)));
        assert_eq!(libc_of(b"no banner", b"ld-linux-x86-64.so.2"), None);
        let libc = b"GNU C Library (Debian) stable release version 2.31.\n";
        assert_eq!(libc_of(b"no banner", libc), Some(glibc(31)));
        // The loader's own text takes precedence.
        assert_eq!(libc_of(IMAGE, b"ld-2.31.so"), Some(glibc(36)));
    }

    #[test]
    fn musl_is_recognised_by_its_version_text() {
        let image = b"\0musl libc (x86_64)\nVersion %s\n\0";
        assert_eq!(libc_of(image, b""), Some(Libc::Musl));
        let facts = from_bytes(image, Libc::Musl, LoaderFacts::default()).unwrap();
        assert_eq!(facts.system_dirs, ["/lib/", "/usr/local/lib/", "/usr/lib/"]);
        assert_eq!(facts.cache_path, None);
        assert!(!facts.reads.note);
        let patched = [image, COMPLETE].concat();
        assert!(from_bytes(&patched, Libc::Musl, LoaderFacts::default()).unwrap().reads.note);
    }

    #[test]
    fn a_list_longer_than_that_of_any_loader_is_cut() {
        let image = b"/lib/\0".repeat(50_000);
        let facts = from_bytes(&image, glibc(36), LoaderFacts::default()).unwrap();
        assert_eq!(facts.system_dirs.len(), MAX_SYSTEM_DIRS);
        let long = ["\0/lib/", &"x".repeat(5000), "/\0/usr/lib/\0"].concat();
        let facts = from_bytes(long.as_bytes(), glibc(36), LoaderFacts::default()).unwrap();
        assert_eq!(facts.system_dirs, ["/usr/lib/"]);
    }

    #[test]
    fn bytes_without_a_list_of_directories_give_nothing() {
        assert_eq!(from_bytes(b"", glibc(36), LoaderFacts::default()), None);
        assert_eq!(from_bytes(b"\0/\0//\0/proc/\0", glibc(36), LoaderFacts::default()), None);
    }
}
