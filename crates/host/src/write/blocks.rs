//! Widens the writes of a patch to whole blocks.
//!
//! A new file whose blocks are shared has nothing in the page cache. If a write covers only a part of
//! a block, the kernel must first read the rest of it from the disk. The old file's blocks are in
//! the cache, because the editor has read them.

use std::io;

use becalm_core::patch::{Patch, Write};

/// The block size of the file systems that share blocks, and the smallest page.
const BLOCK: u64 = 4096;

/// Returns the last offset at or before `offset` at which a block starts.
pub(super) fn start_of(offset: u64) -> u64 {
    offset - offset % BLOCK
}

/// Returns the writes of `patch` as ranges of whole blocks, in ascending order. `read` reads the old
/// file, which has `size` bytes. If `tail` is true, the block in which the shorter of both files
/// ends is one of them.
pub(super) fn whole(
    patch: &Patch,
    size: u64,
    tail: bool,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<Write>> {
    let kept = size.min(patch.length);
    let mut ranges: Vec<(u64, u64)> = patch
        .writes
        .iter()
        .filter(|write| !write.bytes.is_empty())
        .map(|write| (write.offset, write.offset + write.bytes.len() as u64))
        .collect();
    if tail && !kept.is_multiple_of(BLOCK) {
        // One byte is enough, because it is widened to its block below.
        ranges.push((kept - 1, kept));
        ranges.sort_unstable();
    }
    let mut whole: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        let (start, end) = (start_of(start), end.next_multiple_of(BLOCK).min(patch.length));
        match whole.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => whole.push((start, end)),
        }
    }
    let mut writes = Vec::with_capacity(whole.len());
    for (start, end) in whole {
        let mut bytes = vec![0; (end - start) as usize];
        let old = end.min(kept).saturating_sub(start) as usize;
        read(start, &mut bytes[..old])?;
        writes.push(Write { offset: start, bytes });
    }
    for write in &patch.writes {
        if write.bytes.is_empty() {
            continue;
        }
        let block = writes.partition_point(|whole| whole.offset <= write.offset);
        let whole = block.checked_sub(1).and_then(|at| writes.get_mut(at));
        let range = whole.and_then(|whole| {
            let at = (write.offset - whole.offset) as usize;
            whole.bytes.get_mut(at..at + write.bytes.len())
        });
        // A write past the end of the patched file would otherwise be lost.
        range.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(&write.bytes);
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(writes: &[(u64, usize)], length: u64) -> Patch {
        let write = |&(offset, size)| Write { offset, bytes: vec![b'N'; size] };
        Patch { writes: writes.iter().map(write).collect(), length }
    }

    fn content(size: usize) -> Vec<u8> {
        (0..size).map(|at| b'a' + (at % 23) as u8).collect()
    }

    /// Applies the widened writes to what a file system that shares blocks keeps of `old`.
    fn applied(patch: &Patch, old: &[u8]) -> (Vec<u8>, Vec<(u64, usize)>) {
        let read = |offset: u64, bytes: &mut [u8]| {
            bytes.copy_from_slice(&old[offset as usize..][..bytes.len()]);
            Ok(())
        };
        let writes = whole(patch, old.len() as u64, true, read).unwrap();
        let mut new = old.to_vec();
        if patch.length < old.len() as u64 {
            new.truncate(start_of(patch.length) as usize);
        }
        let ranges = writes.iter().map(|write| (write.offset, write.bytes.len())).collect();
        for write in writes {
            let at = write.offset as usize;
            assert!(at <= new.len(), "a hole before {at}");
            new.resize(new.len().max(at + write.bytes.len()), b'?');
            new[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
        }
        (new, ranges)
    }

    #[test]
    fn no_write_covers_a_part_of_a_block_except_at_the_end() {
        let old = content(3 * 4096 + 100);
        let longer = patch(&[(8, 4), (100, 30), (4096, 4096), (14_000, 500)], 14_500);
        let (new, ranges) = applied(&longer, &old);
        assert_eq!(new, longer.applied_to(&old));
        assert_eq!(ranges, [(0, 8192), (12_288, 14_500 - 12_288)]);
    }

    #[test]
    fn the_block_in_which_a_shorter_file_ends_is_written_and_not_read_back() {
        let old = content(5 * 4096 + 7);
        for length in [2 * 4096, 2 * 4096 + 1, 4096 - 1, 1] {
            let shorter = patch(&[(0, 1)], length);
            let mut expected = old[..length as usize].to_vec();
            expected[0] = b'N';
            assert_eq!(applied(&shorter, &old).0, expected, "{length}");
        }
    }

    #[test]
    fn a_write_past_the_end_is_an_error() {
        let past = patch(&[(10, 5), (90, 20)], 100);
        let read = |_: u64, _: &mut [u8]| Ok(());
        assert!(whole(&past, 100, false, read).is_err());
    }

    #[test]
    fn writes_at_any_places_give_what_the_patch_gives() {
        let mut number = 1_u64;
        let mut next = |limit: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % limit
        };
        for _ in 0..2000 {
            let old = content(next(20_000) as usize + 1);
            let mut writes = Vec::new();
            let mut at = 0;
            while writes.len() < 6 {
                let (offset, size) = (at + next(5000), next(3000) + 1);
                if offset >= old.len() as u64 {
                    break;
                }
                writes.push((offset, size as usize));
                at = offset + size;
            }
            let grown = patch(&writes, at.max(old.len() as u64) + next(100));
            let (mut new, _) = applied(&grown, &old);
            assert!(new.len() as u64 <= grown.length);
            new.resize(grown.length as usize, 0);
            assert_eq!(new, grown.applied_to(&old));
        }
    }
}
