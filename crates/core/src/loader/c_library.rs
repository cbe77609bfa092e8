//! The libraries of glibc itself.

/// Names up to `.so` or a release.
const LIBRARIES: [&[u8]; 12] = [
    b"libc",
    b"libm",
    b"libmvec",
    b"libpthread",
    b"libdl",
    b"librt",
    b"libresolv",
    b"libutil",
    b"libnsl",
    b"libanl",
    b"libBrokenLocale",
    b"libthread_db",
];

/// True for the file name of a library of glibc, which works only with the others and with their
/// loader: `libm.so.6`, and `libm-2.31.so` as releases before 2.34 called the file.
#[must_use]
pub fn is_of_c_library(file_name: &[u8]) -> bool {
    LIBRARIES.iter().any(|known| {
        file_name
            .strip_prefix(*known)
            .is_some_and(|rest| rest.starts_with(b".so.") || rest.starts_with(b"-2."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_told_from_others() {
        assert!(is_of_c_library(b"libc.so.6") && is_of_c_library(b"libm-2.31.so"));
        assert!(!is_of_c_library(b"libcap.so.2") && !is_of_c_library(b"libmagic.so.1"));
        assert!(!is_of_c_library(b"/lib/libc.so.6"));
    }
}
