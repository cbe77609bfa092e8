//! Parses `/proc/PID/maps` (proc_pid_maps(5)).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bstr::ByteSlice;

/// A mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) path: &'a Path,
}

/// Returns the mappings of files that have a name, in order of their addresses.
pub(crate) fn mappings(text: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    text.lines().filter_map(mapping)
}

fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn_str(6, " ");
    let (from, to) = fields.next()?.split_once_str("-")?;
    let _permissions = fields.next()?;
    let offset = number(fields.next()?)?;
    let _device = fields.next()?;
    let inode = fields.next()?;
    let path = fields.next()?.trim_ascii_start();
    let is_file = path.first() == Some(&b'/') && inode != b"0" && !path.ends_with(b" (deleted)");
    let path = Path::new(OsStr::from_bytes(path));
    is_file.then_some(Mapping { from: number(from)?, to: number(to)?, offset, path })
}

fn number(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(digits.to_str().ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_named_files_are_read() {
        let text = b"\
55d0-55f0 r--p 00002000 fe:00 1234    /usr/bin/a b\n\
7f00-7f10 rw-p 00000000 00:00 0 \n\
7f10-7f20 r-xp 00000000 fe:00 77      /tmp/gone (deleted)\n\
7f20-7f30 rw-s 00000000 00:01 0       /memfd:x\n\
7ffd-7ffe r-xp 00000000 00:00 0       [vdso]\n\
broken\n";
        let found: Vec<Mapping<'_>> = mappings(text).collect();
        let path = Path::new("/usr/bin/a b");
        assert_eq!(found, [Mapping { from: 0x55d0, to: 0x55f0, offset: 0x2000, path }]);
    }
}
