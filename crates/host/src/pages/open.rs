//! Opens a file only if it is a regular one, without an effect on anything else that has its name.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags};

use crate::path::proc_path;

/// Opens a regular file for reading. A FIFO, a socket or a device is not opened, and neither is a
/// symbolic link.
///
/// # Errors
/// Returns an error if it is not a regular file or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = File::from(fs::open(path, flags, Mode::empty())?);
    if !found.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    // The same file, whatever has its name now.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(fs::open(proc_path(&found), flags, Mode::empty())?.into())
}

/// Opens a directory for reading; not by a symbolic link.
///
/// # Errors
/// Returns an error if it is not a directory or cannot be opened.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::open(path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{OpenOptionsExt, symlink};

    use rustix::fs::{CWD, FileType, mknodat};
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().expect("made");
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| dir.path().join(name));
        std::fs::write(&file, "x").expect("written");
        symlink(&file, &link).expect("made");
        let mode = Mode::from_raw_mode(0o644);
        mknodat(CWD, &fifo, FileType::Fifo, mode, 0).expect("made");
        assert!(open(&file).is_ok());
        for path in [&link, &fifo, dir.path(), Path::new("/dev/null"), &dir.path().join("gone")] {
            assert!(open(path).is_err(), "{}", path.display());
        }
        assert!(open_directory(dir.path()).is_ok());
        assert!([&file, &link, &fifo].iter().all(|path| open_directory(path).is_err()));
        // A writer that does not wait finds no reader.
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let error = options.open(&fifo).expect_err("no reader");
        assert_eq!(error.raw_os_error(), Some(Errno::NXIO.raw_os_error()));
    }
}
