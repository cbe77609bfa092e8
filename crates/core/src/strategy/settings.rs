//! The user's settings for a plan, which all strategies share.

use bstr::BString;

use super::plan::FindingKind;
use crate::path;
use crate::search::Stores;

/// The settings of all strategies.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The stores, whose packages cannot change (`--store`).
    pub stores: Stores,
    /// The named folders, links resolved. The files for an object in a folder are created in this
    /// folder, even if it is only a part of a package.
    pub folders: Vec<BString>,
    /// The names that `absolute` does not replace (`--keep`), in which `*` matches any bytes.
    /// [`kept_short`] is the default.
    pub keep: Vec<BString>,
    /// The sonames that programs open with `dlopen` (`--dlopen`), besides those in their
    /// `.note.dlopen`.
    pub dlopen: Vec<BString>,
    /// The release 2.*minor* of the target's glibc. If it is not known, a plan is valid for every
    /// release.
    pub glibc_minor: Option<u16>,
}

/// The loader and the C library, which must be the interpreter's own.
const LIBC: [&str; 20] = [
    "ld-linux*.so.*",
    "ld64.so.*",
    "ld.so.1",
    "ld-musl-*.so.1",
    "libc.musl-*.so.1",
    "libc.so.6*",
    "libm.so.6*",
    "libmvec.so.1",
    "libpthread.so.0",
    "libdl.so.2*",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2*",
    "libanl.so.1",
    "libnsl.so.1*",
    "libnss_*.so.*",
    "libBrokenLocale.so.1*",
    "libthread_db.so.1",
    "libc_malloc_debug.so.0",
    "libmemusage.so",
];

/// The libraries that the graphics driver of the running system provides (`/run/opengl-driver/lib`,
/// `LD_LIBRARY_PATH`).
const DRIVERS: [&str; 15] = [
    "libGL.so.*",
    "libGLX.so.*",
    "libGLX_*.so.*",
    "libEGL.so.*",
    "libEGL_*.so.*",
    "libGLdispatch.so.*",
    "libOpenGL.so.*",
    "libGLESv1_CM.so.*",
    "libGLESv2.so.*",
    "libgbm.so.*",
    "libvulkan.so.*",
    "libOpenCL.so.*",
    "libcuda.so.*",
    "libnvcuvid.so.*",
    "libnvidia-*.so.*",
];

/// Returns the names that `absolute` does not replace by default: the C library, its loader, and the
/// libraries of the system's graphics driver.
#[must_use]
pub fn kept_short() -> Vec<BString> {
    LIBC.iter().chain(&DRIVERS).map(|name| BString::from(*name)).collect()
}

/// Returns true if a name matches a pattern, in which `*` matches any bytes.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    path::matches(pattern, name, |pattern, byte| pattern == byte)
}

/// Recognises the sonames of the loader and of the C library, which strategies skip.
pub(super) fn special(soname: &[u8]) -> Option<FindingKind> {
    let any = |patterns: &[&str]| patterns.iter().any(|p| matches(p.as_bytes(), soname));
    if any(&LIBC[..4]) {
        return Some(FindingKind::Loader);
    }
    any(&LIBC[4..6]).then_some(FindingKind::Libc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_bytes() {
        for (pattern, name, does) in [
            ("libc.so.6", "libc.so.6", true),
            ("libc.so.6", "libc.so.60", false),
            ("libGL.so.*", "libGL.so.1", true),
            ("libGL.so.*", "libGLX.so.0", false),
            ("lib*-*.so.*", "libnvidia-ml.so.1", true),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), does, "{pattern} {name}");
        }
    }

    #[test]
    fn loader_and_libc_are_recognised_by_their_sonames() {
        assert_eq!(special(b"ld-linux-x86-64.so.2"), Some(FindingKind::Loader));
        assert_eq!(special(b"ld64.so.2"), Some(FindingKind::Loader));
        assert_eq!(special(b"libc.so.6.1"), Some(FindingKind::Libc));
        assert_eq!(special(b"libm.so.6"), None);
    }
}
