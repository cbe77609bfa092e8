//! A file with an applied patch, in memory. The original of an edited file is read through it, and a
//! finished image is checked through it before it is written. Only the ranges that are read are copied.

use becalm_core::patch::Write;
use object::read::{ReadCache, ReadCacheOps};

use crate::image::Source;

/// A file with an applied patch.
pub(crate) type Overlay<'a> = ReadCache<Patched<'a>>;

/// `base` with `writes` applied and a new length. Bytes that neither has are zero.
pub(crate) struct Patched<'a> {
    base: &'a dyn Source,
    writes: &'a [Write],
    length: u64,
    /// The offset of the next read.
    at: u64,
}

/// Makes an overlay. `writes` must be in ascending order and must not overlap.
pub(crate) fn new<'a>(base: &'a dyn Source, writes: &'a [Write], length: u64) -> Overlay<'a> {
    ReadCache::new(Patched { base, writes, length, at: 0 })
}

impl ReadCacheOps for Patched<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        Ok(self.length)
    }

    fn seek(&mut self, at: u64) -> Result<u64, ()> {
        self.at = at;
        Ok(at)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, ()> {
        let left = usize::try_from(self.length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let size = into.len().min(left);
        self.read_exact(&mut into[..size])?;
        Ok(size)
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), ()> {
        let (start, end) = (self.at, self.at + into.len() as u64);
        // The rest stays zero: the patch lengthens the file.
        into.fill(0);
        let from_base = self.base.length().unwrap_or(0).min(end).saturating_sub(start);
        if from_base > 0 {
            let old = self.base.bytes_at(start, from_base).ok_or(())?;
            into[..old.len()].copy_from_slice(old);
        }
        let end_of = |write: &Write| write.offset + write.bytes.len() as u64;
        let first = self.writes.partition_point(|write| end_of(write) <= start);
        for write in self.writes[first..].iter().take_while(|write| write.offset < end) {
            let (from, to) = (write.offset.max(start), end_of(write).min(end));
            let new = &write.bytes[(from - write.offset) as usize..(to - write.offset) as usize];
            into[(from - start) as usize..][..new.len()].copy_from_slice(new);
        }
        self.at = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use object::ReadRef;

    use super::*;
    use crate::image::File;

    fn write(offset: u64, bytes: &[u8]) -> Write {
        Write { offset, bytes: bytes.to_vec() }
    }

    #[test]
    fn reads_across_old_new_and_absent_bytes() {
        let base: &[u8] = b"0123456789";
        let writes = [write(2, b"ab"), write(6, b"cd"), write(12, b"ef")];
        let base = File::new(base);
        let overlay = new(&base, &writes, 15);
        assert_eq!((&overlay).read_bytes_at(0, 15), Ok(&b"01ab45cd89\0\0ef\0"[..]));
        assert_eq!((&overlay).read_bytes_at(4, 2), Ok(&b"45"[..]));
        assert_eq!((&overlay).read_bytes_at(3, 4), Ok(&b"b45c"[..]));
        assert_eq!((&overlay).read_bytes_at(13, 1), Ok(&b"f"[..]));
        assert_eq!((&overlay).read_bytes_at(9, 7), Err(()));
        assert_eq!((&overlay).read_bytes_at_until(0..15, b'c'), Ok(&b"01ab45"[..]));
    }

    #[test]
    fn a_block_that_is_read_again_is_copied_once() {
        let base: &[u8] = b"0123456789";
        let writes = [write(2, b"ab")];
        let base = File::new(base);
        let overlay = new(&base, &writes, 10);
        for (offset, size) in [(0, 8), (1, 3), (3, 5)] {
            let once = (&overlay).read_bytes_at(offset, size).unwrap();
            let again = (&overlay).read_bytes_at(offset, size).unwrap();
            assert_eq!(once.as_ptr(), again.as_ptr());
        }
    }

    #[test]
    fn a_shortened_file_ends_at_its_new_length() {
        let base: &[u8] = b"0123456789";
        let base = File::new(base);
        let overlay = new(&base, &[], 4);
        assert_eq!((&overlay).read_bytes_at(0, 4), Ok(&b"0123"[..]));
        assert_eq!((&overlay).read_bytes_at(0, 5), Err(()));
    }
}
