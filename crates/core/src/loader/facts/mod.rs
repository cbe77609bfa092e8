//! The facts of a loader, from what it prints or from its bytes.
//!
//! A loader that can be run here is asked ([`from_diagnostics`]); one that cannot, or
//! that is too old to answer, is read ([`from_bytes`]), with the CPU named by the
//! caller ([`crate::search::hwcaps::for_cpu`]). Even beside an answer the cache path
//! is better read ([`cache_path`]): it is compiled in, and distributions that patch it
//! leave `path.sysconfdir` as it was. Which carriers a loader reads ([`readers`]) only its
//! bytes tell.

mod diagnostics;
mod image;
mod readers;

pub use diagnostics::from_diagnostics;
pub use image::{cache_path, from_bytes, libc_of};
pub use readers::{readers, switched};

use bstr::{BStr, BString, ByteSlice};

use super::{GlibcVersion, Libc, LoaderFacts};
use crate::facts::Readers;

/// The facts of musl's loader: no cache, no hwcaps, no `$LIB`; the directories are
/// those searched where no `ld-musl-*.path` file replaces them (musl 1.2
/// ldso/dynlink.c).
#[must_use]
pub fn musl() -> LoaderFacts {
    LoaderFacts {
        libc: Libc::Musl,
        system_dirs: ["/lib/", "/usr/local/lib/", "/usr/lib/"].map(BString::from).to_vec(),
        cache_path: None,
        lib: BString::default(),
        platform: None,
        hwcaps: Vec::new(),
        legacy_hwcaps: Vec::new(),
        hwcap_mask: 0,
        platform_bit: None,
        reads: Readers::default(),
    }
}

/// The facts of a glibc without a cache, a platform or hwcaps, to start tests from.
#[cfg(test)]
pub(crate) fn plain_glibc(minor: u16) -> LoaderFacts {
    LoaderFacts {
        libc: Libc::Glibc(GlibcVersion { major: 2, minor }),
        system_dirs: vec!["/lib/".into(), "/usr/lib/".into()],
        lib: "lib".into(),
        ..musl()
    }
}

/// System directories believed at the most; no build of glibc has ten.
const MAX_SYSTEM_DIRS: usize = 64;

/// Reads a release at the start of a text: `2.36`, `2.36.`, `2.42.9000`.
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

/// `DL_DST_LIB`, from the system directories: glibc's build takes both from
/// `slibdir`, which is the first of the directories (Makeconfig `default-rpath`,
/// elf/Makefile `DL_DST_LIB`), and takes one slash off its front.
fn dst_lib(system_dirs: &[BString]) -> BString {
    let first = system_dirs.first().map_or(BStr::new(""), |dir| dir.as_bstr());
    let lib = first.strip_prefix(b"/").unwrap_or(first);
    BString::from(lib.strip_suffix(b"/").unwrap_or(lib))
}
