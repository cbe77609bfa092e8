//! A file with an applied patch, in memory. The original of an edited file is read through it, and a
//! finished image is checked through it before it is written. Only ranges that cross the edge of a
//! write are copied.

use std::cell::OnceCell;
use std::marker::PhantomData;
use std::ops::Range;

use becalm_core::patch::Write;
use object::ReadRef;

/// The limit on a range that is copied from old and new bytes.
const MAX_PIECE: u64 = 64 << 20;

/// `base` with `writes` applied and a new length. Bytes that neither has are zero.
#[derive(Debug)]
pub(crate) struct Overlay<'a, 'w, R> {
    base: R,
    base_length: u64,
    writes: &'w [Write],
    length: u64,
    pieces: Pieces,
    marker: PhantomData<&'a [u8]>,
}

/// Copied ranges, which live as long as the overlay.
#[derive(Debug, Default)]
struct Pieces {
    first: OnceCell<Box<Piece>>,
}

#[derive(Debug)]
struct Piece {
    start: u64,
    bytes: Vec<u8>,
    next: OnceCell<Box<Piece>>,
}

impl Piece {
    fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..)?.get(..usize::try_from(range.end - range.start).ok()?)
    }
}

impl Pieces {
    /// Returns the bytes of a range from a known piece, or from a new one.
    fn get(&self, range: Range<u64>, compose: impl Fn() -> Option<Vec<u8>>) -> Option<&[u8]> {
        // Readers read the same block again and again.
        let mut place = &self.first;
        while let Some(piece) = place.get() {
            if let Some(bytes) = piece.get(&range) {
                return Some(bytes);
            }
            place = &piece.next;
        }
        let (start, bytes) = (range.start, compose()?);
        Some(&place.get_or_init(|| Box::new(Piece { start, bytes, next: OnceCell::new() })).bytes)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        // The default drop of a long chain would recurse.
        let mut next = self.first.take();
        while let Some(mut piece) = next {
            next = piece.next.take();
        }
    }
}

impl<'a, 'w, R: ReadRef<'a>> Overlay<'a, 'w, R> {
    /// Makes an overlay. `writes` must be in ascending order and must not overlap.
    pub(crate) fn new(base: R, writes: &'w [Write], length: u64) -> Self {
        let base_length = base.len().unwrap_or(0);
        Self { base, base_length, writes, length, pieces: Pieces::default(), marker: PhantomData }
    }

    fn touching(&self, range: Range<u64>) -> &'w [Write] {
        let end = |write: &Write| write.offset + write.bytes.len() as u64;
        let first = self.writes.partition_point(|write| end(write) <= range.start);
        let last = self.writes.partition_point(|write| write.offset < range.end);
        self.writes.get(first..last).unwrap_or_default()
    }

    fn compose(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let size = range.end - range.start;
        if size > MAX_PIECE {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        // The rest stays zero: the patch lengthens the file.
        let from_base = self.base_length.min(range.end).saturating_sub(range.start);
        if from_base > 0 {
            let old = self.base.read_bytes_at(range.start, from_base).ok()?;
            bytes[..old.len()].copy_from_slice(old);
        }
        for write in self.touching(range.clone()) {
            let start = write.offset.max(range.start);
            let end = (write.offset + write.bytes.len() as u64).min(range.end);
            let new = &write.bytes[(start - write.offset) as usize..(end - write.offset) as usize];
            bytes[(start - range.start) as usize..][..new.len()].copy_from_slice(new);
        }
        Some(bytes)
    }
}

impl<'o, 'a: 'o, 'w: 'o, R: ReadRef<'a>> ReadRef<'o> for &'o Overlay<'a, 'w, R> {
    fn len(self) -> Result<u64, ()> {
        Ok(self.length)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'o [u8], ()> {
        let end = offset.checked_add(size).filter(|&end| end <= self.length).ok_or(())?;
        let composed = || self.pieces.get(offset..end, || self.compose(offset..end)).ok_or(());
        match self.touching(offset..end) {
            [] if end <= self.base_length => self.base.read_bytes_at(offset, size),
            [write] if write.offset <= offset => {
                let start = usize::try_from(offset - write.offset).map_err(|_| ())?;
                match write.bytes.get(start..start + usize::try_from(size).map_err(|_| ())?) {
                    Some(bytes) => Ok(bytes),
                    None => composed(),
                }
            }
            _ => composed(),
        }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'o [u8], ()> {
        let end = range.end.min(self.length);
        let bytes = self.read_bytes_at(range.start, end.checked_sub(range.start).ok_or(())?)?;
        let length = bytes.iter().position(|&byte| byte == delimiter).ok_or(())?;
        Ok(&bytes[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, bytes: &[u8]) -> Write {
        Write { offset, bytes: bytes.to_vec() }
    }

    #[test]
    fn reads_across_old_new_and_absent_bytes() {
        let base: &[u8] = b"0123456789";
        let writes = [write(2, b"ab"), write(6, b"cd"), write(12, b"ef")];
        let overlay = Overlay::new(base, &writes, 15);
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
        let overlay = Overlay::new(base, &writes, 10);
        let whole = (&overlay).read_bytes_at(0, 8).unwrap();
        for (offset, size) in [(0, 8), (1, 3), (3, 5)] {
            let part = (&overlay).read_bytes_at(offset, size).unwrap();
            assert_eq!(part.as_ptr(), whole[offset as usize..].as_ptr());
        }
        assert!(overlay.pieces.first.get().is_some_and(|piece| piece.next.get().is_none()));
    }

    #[test]
    fn a_shortened_file_ends_at_its_new_length() {
        let base: &[u8] = b"0123456789";
        let overlay = Overlay::new(base, &[], 4);
        assert_eq!((&overlay).read_bytes_at(0, 4), Ok(&b"0123"[..]));
        assert_eq!((&overlay).read_bytes_at(0, 5), Err(()));
    }
}
