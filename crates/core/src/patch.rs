//! A change to the bytes of one file. `becalm-rewrite` computes it and `becalm-host` writes it.

/// The ranges to write and the new length of a file. Its other bytes stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The ranges, in ascending order, none overlapping.
    pub writes: Vec<Write>,
    /// The length of the file afterwards, in bytes.
    pub length: u64,
}

/// Bytes for one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The start of the range.
    pub offset: u64,
    /// The new bytes.
    pub bytes: Vec<u8>,
}

impl Patch {
    /// Applies the patch to `old` in memory, for tests and small files.
    #[must_use]
    pub fn applied_to(&self, old: &[u8]) -> Vec<u8> {
        let mut new = old.to_vec();
        new.resize(self.length as usize, 0);
        for write in &self.writes {
            let at = write.offset as usize;
            new[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
        }
        new
    }
}
