//! The two hash tables of symbol names (gABI, "Hash Table"; the GNU table by glibc's
//! `do_lookup_x`).

use object::elf;
use object::read::ReadRef;

use super::machine::KnownMachine;
use crate::elf::{ElfError, Image, Tags};

/// The hash table in which a loader searches an object.
#[derive(Clone, Debug, Default)]
pub(super) enum HashTable {
    /// `DT_GNU_HASH`: a Bloom filter, buckets, and chains of hashes.
    Gnu {
        /// Words of the size of an address.
        bloom: Vec<u64>,
        bits: u32,
        shift: u32,
        buckets: Vec<u32>,
        /// Index of the first symbol in the chains.
        first: u32,
        chains: Vec<u32>,
    },
    /// `DT_HASH`: buckets and chains of symbol indices.
    Sysv { buckets: Vec<u32>, chains: Vec<u32> },
    /// No table: no symbol is found in the object.
    #[default]
    None,
}

/// The hashes of a name.
#[derive(Clone, Copy)]
pub(super) struct Hashes {
    gnu: u32,
    sysv: u32,
}

impl Hashes {
    pub(super) fn of(name: &[u8]) -> Self {
        Self { gnu: elf::gnu_hash(name), sysv: elf::hash(name) }
    }
}

impl HashTable {
    /// Reads the table that a loader uses.
    pub(super) fn read<'data, R: ReadRef<'data>>(
        image: &Image<'data, R>,
        tags: &Tags,
        machine: KnownMachine,
    ) -> Result<Self, ElfError> {
        // glibc's _dl_setup_hash uses the GNU table if there is one.
        if let Some(at) = tags.get(elf::DT_GNU_HASH) {
            let malformed = ElfError::Malformed("its DT_GNU_HASH lies outside its segments");
            return Self::gnu(image, at).ok_or(malformed);
        }
        let Some(at) = tags.get(elf::DT_HASH) else { return Ok(Self::None) };
        let malformed = ElfError::Malformed("its DT_HASH lies outside its segments");
        Self::sysv(image, at, machine.hash_entry()).ok_or(malformed)
    }

    fn gnu<'data, R: ReadRef<'data>>(image: &Image<'data, R>, address: u64) -> Option<Self> {
        let head = numbers(image, address, 4, 4)?;
        let [bucket_count, first, bloom_count, shift] = head[..] else { return None };
        let size = image.ident.address_size();
        let bloom_at = address.wrapping_add(16);
        let bloom_size = u64::from(bloom_count) * size as u64;
        let bloom = image.bytes(bloom_at, bloom_size)?.chunks_exact(size);
        let bloom = bloom.filter_map(|word| image.ident.address(word, 0)).collect();
        let buckets_at = bloom_at.wrapping_add(bloom_size);
        let buckets = numbers(image, buckets_at, bucket_count, 4)?;
        let chains_at = buckets_at.wrapping_add(u64::from(bucket_count) * 4);
        // The table has no count of symbols. It ends with the chain that starts last.
        let mut count = 0;
        if let Some(last) = buckets.iter().max().and_then(|last| last.checked_sub(first)) {
            count = last;
            loop {
                let at = chains_at.wrapping_add(u64::from(count) * 4);
                // The walk ends with the segment, even if no entry marks the end of the chain.
                let entry = image.ident.endian.u32(image.bytes(at, 4)?, 0)?;
                count = count.checked_add(1)?;
                if entry & 1 == 1 {
                    break;
                }
            }
        }
        let chains = numbers(image, chains_at, count, 4)?;
        Some(Self::Gnu { bloom, bits: size as u32 * 8, shift, buckets, first, chains })
    }

    /// Reads a table whose entries have `entry` bytes.
    fn sysv<'data, R: ReadRef<'data>>(
        image: &Image<'data, R>,
        address: u64,
        entry: u64,
    ) -> Option<Self> {
        let head = numbers(image, address, 2, entry)?;
        let [bucket_count, chain_count] = head[..] else { return None };
        let buckets_at = address.wrapping_add(entry * 2);
        let buckets = numbers(image, buckets_at, bucket_count, entry)?;
        let chains_at = buckets_at.wrapping_add(u64::from(bucket_count) * entry);
        Some(Self::Sysv { buckets, chains: numbers(image, chains_at, chain_count, entry)? })
    }

    /// Returns the number of symbols that the table proves to exist.
    pub(super) fn symbol_count(&self) -> u64 {
        match self {
            Self::Gnu { first, chains, .. } => u64::from(*first) + chains.len() as u64,
            Self::Sysv { chains, .. } => chains.len() as u64,
            Self::None => 0,
        }
    }

    /// Returns the first result for a symbol that may have these hashes.
    pub(super) fn find_map<T>(
        &self,
        hashes: Hashes,
        mut check: impl FnMut(u32) -> Option<T>,
    ) -> Option<T> {
        match self {
            Self::Gnu { bloom, bits, shift, buckets, first, chains } => {
                let hash = hashes.gnu;
                let mask = (bloom.len() as u32).wrapping_sub(1);
                let word = *bloom.get(((hash / bits) & mask) as usize)?;
                let second = hash.checked_shr(*shift).unwrap_or(0) & (bits - 1);
                if (word >> (hash & (bits - 1))) & (word >> second) & 1 == 0 {
                    return None;
                }
                // 0 is an empty bucket: symbol 0 is never defined.
                let start = *bucket(buckets, hash).filter(|&&symbol| symbol != 0)?;
                let chain = chains.get(start.checked_sub(*first)? as usize..)?;
                for (entry, index) in chain.iter().zip(start..=u32::MAX) {
                    // The lowest bit marks the end of a chain, so that a hash has 31 bits.
                    if (entry ^ hash) >> 1 == 0
                        && let Some(found) = check(index)
                    {
                        return Some(found);
                    }
                    if entry & 1 == 1 {
                        break;
                    }
                }
                None
            }
            Self::Sysv { buckets, chains } => {
                let start = bucket(buckets, hashes.sysv).copied();
                let follow = |index: &u32| chains.get(*index as usize).copied();
                let chain = std::iter::successors(start, follow).take_while(|&index| index != 0);
                // A chain that is longer than the table is a circle.
                chain.take(chains.len()).find_map(check)
            }
            // `do_lookup_x` skips such an object (`l_nbuckets` is 0).
            Self::None => None,
        }
    }
}

fn bucket(buckets: &[u32], hash: u32) -> Option<&u32> {
    buckets.get((hash as usize).checked_rem(buckets.len())?)
}

/// Reads numbers of `size` bytes, 4 or 8. One beyond 32 bits names no symbol. `None` if they are
/// outside the segments.
fn numbers<'data, R: ReadRef<'data>>(
    image: &Image<'data, R>,
    at: u64,
    count: u32,
    size: u64,
) -> Option<Vec<u32>> {
    let endian = image.ident.endian;
    let number = |chunk: &[u8]| match size {
        4 => endian.u32(chunk, 0),
        _ => endian.u64(chunk, 0).map(|wide| u32::try_from(wide).unwrap_or(u32::MAX)),
    };
    let bytes = image.bytes(at, u64::from(count) * size)?;
    Some(bytes.chunks_exact(size as usize).filter_map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_specification() {
        let printf = Hashes::of(b"printf");
        assert_eq!((printf.gnu, printf.sysv), (0x156b_2bb8, 0x0779_05a6));
        assert_eq!(Hashes::of(b"GLIBC_ABI_DT_RELR").sysv, 0xfd_0e42);
    }
}
