//! File names of the libraries of glibc itself.

/// File names without `.so.VERSION` or `-RELEASE.so`.
const LIBRARIES: &str = "libc libm libmvec libpthread libdl librt libresolv libutil libnsl libanl \
                         libBrokenLocale libthread_db";

/// Returns true if `file_name` is that of a library of glibc, such as `libm.so.6`. Such a library
/// works only with the other libraries and the loader of the same build. Releases before 2.34
/// called the file `libm-2.31.so`.
#[must_use]
pub fn is_of_c_library(file_name: &[u8]) -> bool {
    LIBRARIES.split(' ').any(|known| {
        file_name
            .strip_prefix(known.as_bytes())
            .is_some_and(|rest| rest.starts_with(b".so.") || rest.starts_with(b"-2."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_of_glibc_are_recognised() {
        assert!(is_of_c_library(b"libc.so.6") && is_of_c_library(b"libm-2.31.so"));
        assert!(!is_of_c_library(b"libcap.so.2") && !is_of_c_library(b"libmagic.so.1"));
        assert!(!is_of_c_library(b"/lib/libc.so.6"));
    }
}
