//! Reads the facts of a loader from its diagnostics or from its bytes.
//!
//! [`from_diagnostics`] parses the output of a loader that can run here. [`from_bytes`] reads
//! a loader that cannot run here, or that is too old to print diagnostics; the caller supplies
//! the CPU ([`crate::search::hwcaps::for_cpu`]). The cache path of the bytes ([`cache_path`])
//! is more reliable than that of the diagnostics: distributions that patch the compiled-in path
//! leave `path.sysconfdir` unchanged. The strategies that a loader supports ([`readers`]) are
//! in its bytes only.

mod diagnostics;
mod image;
mod readers;

pub use diagnostics::from_diagnostics;
pub use image::{cache_path, from_bytes, libc_of};
pub use readers::{readers, switched};

use bstr::{BStr, BString, ByteSlice};

use super::{GlibcVersion, Libc, LoaderFacts};

/// Returns the facts of musl's loader, which has no cache, no hwcaps and no `$LIB`. The
/// directories are the default of `load_library` (musl 1.2 ldso/dynlink.c), which a
/// `ld-musl-*.path` file replaces.
#[must_use]
pub fn musl() -> LoaderFacts {
    let system_dirs = ["/lib/", "/usr/local/lib/", "/usr/lib/"].map(BString::from).to_vec();
    LoaderFacts { libc: Libc::Musl, system_dirs, ..LoaderFacts::default() }
}

/// Returns the facts of a glibc without a cache, a platform or hwcaps.
#[cfg(test)]
pub(crate) fn plain_glibc(minor: u16) -> LoaderFacts {
    LoaderFacts {
        libc: Libc::Glibc(GlibcVersion { major: 2, minor }),
        system_dirs: vec!["/lib/".into(), "/usr/lib/".into()],
        lib: "lib".into(),
        ..musl()
    }
}

/// The limit on system directories and store prefixes. No build of glibc has ten.
const MAX_SYSTEM_DIRS: usize = 64;

/// Parses a release at the start of a text: `2.36`, `2.36.`, `2.42.9000`.
fn release(text: &[u8]) -> Option<GlibcVersion> {
    let (major, rest) = leading_number(text)?;
    let (minor, _) = leading_number(rest.strip_prefix(b".")?)?;
    Some(GlibcVersion { major, minor })
}

fn leading_number(text: &[u8]) -> Option<(u16, &[u8])> {
    let end = text.find_not_byteset(b"0123456789").unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Derives `DL_DST_LIB` from the system directories. glibc's build sets both from `slibdir`: it
/// is the first system directory (Makeconfig `default-rpath`), and `DL_DST_LIB` is `slibdir`
/// without one leading slash (elf/Makefile).
fn dst_lib(system_dirs: &[BString]) -> BString {
    let first = system_dirs.first().map_or(BStr::new(""), |dir| dir.as_bstr());
    let lib = first.strip_prefix(b"/").unwrap_or(first);
    BString::from(lib.strip_suffix(b"/").unwrap_or(lib))
}
