//! The two hash tables of symbol names (gABI, "Hash Table"; the GNU table by glibc's
//! `do_lookup_x`).

use crate::elf::{Class, Image, Words};
use object::read::ReadRef;

/// The hash table in which a loader searches an object.
#[derive(Clone, Debug)]
pub(super) enum HashTable {
    /// `DT_GNU_HASH`.
    Gnu(GnuHash),
    /// `DT_HASH`.
    Sysv(SysvHash),
    /// No table: no symbol is found in the object.
    None,
}

/// `DT_GNU_HASH`: a Bloom filter, buckets, and chains of hashes.
#[derive(Clone, Debug)]
pub(super) struct GnuHash {
    words: Words,
    bloom: Vec<u8>,
    bloom_mask: u32,
    shift: u32,
    buckets: Vec<u32>,
    /// Index of the first symbol in the chains.
    first: u32,
    chains: Vec<u32>,
}

/// `DT_HASH`: buckets and chains of symbol indices.
#[derive(Clone, Debug)]
pub(super) struct SysvHash {
    buckets: Vec<u32>,
    chains: Vec<u32>,
}

/// The hashes of a name.
#[derive(Clone, Copy)]
pub(super) struct Hashes {
    gnu: u32,
    sysv: u32,
}

impl Hashes {
    pub(super) fn of(name: &[u8]) -> Self {
        Self { gnu: gnu_hash(name), sysv: sysv_hash(name) }
    }
}

impl HashTable {
    /// Returns the first result for a symbol that may have these hashes.
    pub(super) fn find_map<T>(
        &self,
        hashes: Hashes,
        check: impl FnMut(u32) -> Option<T>,
    ) -> Option<T> {
        match self {
            Self::Gnu(table) => table.candidates(hashes.gnu).find_map(check),
            Self::Sysv(table) => table.candidates(hashes.sysv).find_map(check),
            // `do_lookup_x` skips such an object (`l_nbuckets` is 0).
            Self::None => None,
        }
    }
}

/// Returns the hash of `DT_GNU_HASH` (glibc `_dl_new_hash`).
pub(super) fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

/// Returns the hash of `DT_HASH` and of versions (gABI; glibc `_dl_elf_hash`).
pub(super) fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let top = hash & 0xf000_0000;
        (hash ^ (top >> 24)) & !top
    })
}

impl GnuHash {
    /// Reads the table at `address`. `None` if it is outside the segments.
    pub(super) fn read<'data, R: ReadRef<'data>>(
        image: &Image<'data, R>,
        address: u64,
    ) -> Option<Self> {
        let words = image.words();
        let head = numbers(words, image.bytes(address, 16)?);
        let [bucket_count, first, bloom_count, shift] = head[..] else { return None };
        let bloom_size = u64::from(bloom_count) * words.size() as u64;
        let bloom_at = address.wrapping_add(16);
        let bloom = image.bytes(bloom_at, bloom_size)?.to_vec();
        let buckets_at = bloom_at.wrapping_add(bloom_size);
        let bucket_size = u64::from(bucket_count) * 4;
        let buckets = numbers(words, image.bytes(buckets_at, bucket_size)?);
        let chains_at = buckets_at.wrapping_add(bucket_size);
        // The table has no count of symbols. It ends with the chain that starts last.
        let last = buckets.iter().copied().max().unwrap_or(0);
        let count = match last.checked_sub(first) {
            Some(last) => chain_end(image, chains_at, last)?,
            None => 0,
        };
        let chains = numbers(words, image.bytes(chains_at, u64::from(count) * 4)?);
        let bloom_mask = bloom_count.wrapping_sub(1);
        Some(Self { words, bloom, bloom_mask, shift, buckets, first, chains })
    }

    /// Returns the number of symbols that the table proves to exist.
    pub(super) fn symbol_count(&self) -> u64 {
        u64::from(self.first) + self.chains.len() as u64
    }

    /// Returns the symbols whose hash equals `hash` apart from the lowest bit, in the order of
    /// their chain.
    pub(super) fn candidates(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        let start = if self.may_have(hash) { self.bucket(hash) } else { None };
        let mut next = start;
        std::iter::from_fn(move || {
            loop {
                let index = next?;
                let entry = *self.chains.get(index.checked_sub(self.first)? as usize)?;
                // The lowest bit marks the end of a chain, so that a hash has 31 bits.
                next = if entry & 1 == 0 { index.checked_add(1) } else { None };
                if (entry ^ hash) >> 1 == 0 {
                    return Some(index);
                }
            }
        })
    }

    /// Checks the Bloom filter. Returns false if no symbol has the hash.
    fn may_have(&self, hash: u32) -> bool {
        let bits = match self.words.class {
            Class::Elf32 => 32,
            Class::Elf64 => 64,
        };
        let at = ((hash / bits) & self.bloom_mask) as usize * self.words.size();
        let Some(word) = self.words.address(&self.bloom, at) else { return false };
        let second = hash.checked_shr(self.shift).unwrap_or(0) & (bits - 1);
        (word >> (hash & (bits - 1))) & (word >> second) & 1 == 1
    }

    fn bucket(&self, hash: u32) -> Option<u32> {
        let index = hash.checked_rem(u32::try_from(self.buckets.len()).ok()?)?;
        // 0 is an empty bucket: symbol 0 is never defined.
        self.buckets.get(index as usize).copied().filter(|&symbol| symbol != 0)
    }
}

/// Returns the number of entries of the chains, if the last chain starts at entry `last`.
fn chain_end<'data, R: ReadRef<'data>>(
    image: &Image<'data, R>,
    chains_at: u64,
    last: u32,
) -> Option<u32> {
    let mut entry = last;
    loop {
        let at = chains_at.wrapping_add(u64::from(entry) * 4);
        // The walk ends with the segment, even if no entry marks the end of the chain.
        let bytes = image.bytes(at, 4)?;
        entry = entry.checked_add(1)?;
        if image.words().word(bytes, 0)? & 1 == 1 {
            return Some(entry);
        }
    }
}

impl SysvHash {
    /// Reads the table at `address`. Its entries have `entry` bytes. `None` if it is outside the
    /// segments.
    pub(super) fn read<'data, R: ReadRef<'data>>(
        image: &Image<'data, R>,
        address: u64,
        entry: u64,
    ) -> Option<Self> {
        let table = |at: u64, count: u32| {
            let bytes = image.bytes(at, u64::from(count) * entry)?;
            Some(entries(image.words(), bytes, entry))
        };
        let head = table(address, 2)?;
        let [bucket_count, chain_count] = head[..] else { return None };
        let buckets_at = address.wrapping_add(entry * 2);
        let buckets = table(buckets_at, bucket_count)?;
        let chains_at = buckets_at.wrapping_add(u64::from(bucket_count) * entry);
        Some(Self { buckets, chains: table(chains_at, chain_count)? })
    }

    /// Returns the number of symbols that the table proves to exist.
    pub(super) fn symbol_count(&self) -> u64 {
        self.chains.len() as u64
    }

    /// Returns the symbols in the bucket of a hash. A chain that is longer than the table is a
    /// circle and ends there.
    pub(super) fn candidates(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        let count = u32::try_from(self.buckets.len()).unwrap_or(u32::MAX);
        let bucket = hash.checked_rem(count).unwrap_or(0) as usize;
        let start = self.buckets.get(bucket).copied();
        let follow = |index: &u32| self.chains.get(*index as usize).copied();
        std::iter::successors(start, follow).take_while(|&index| index != 0).take(self.chains.len())
    }
}

fn numbers(words: Words, bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).filter_map(|chunk| words.word(chunk, 0)).collect()
}

/// Reads entries of 4 or 8 bytes. An entry beyond 32 bits names no symbol.
fn entries(words: Words, bytes: &[u8], entry: u64) -> Vec<u32> {
    if entry == 4 {
        return numbers(words, bytes);
    }
    let wide = |chunk: &[u8]| {
        let value = words.endian.u64(chunk, 0).unwrap_or(u64::MAX);
        u32::try_from(value).unwrap_or(u32::MAX)
    };
    bytes.chunks_exact(8).map(wide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_specification() {
        assert_eq!(gnu_hash(b"printf"), 0x156b_2bb8);
        assert_eq!(sysv_hash(b"printf"), 0x0779_05a6);
        assert_eq!(sysv_hash(b"GLIBC_ABI_DT_RELR"), 0xfd_0e42);
    }
}
