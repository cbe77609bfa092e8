//! A change to the bytes of one file: what `becalm-rewrite` computes and `becalm-host`
//! writes, neither of which knows the other.

/// Ranges to write and the length the file is to have. The file's other bytes stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The ranges, in ascending order, none overlapping.
    pub writes: Vec<Write>,
    /// Length of the file afterwards, in bytes.
    pub length: u64,
}

/// Bytes for one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where the range begins.
    pub offset: u64,
    /// What is to stand there.
    pub bytes: Vec<u8>,
}

impl Patch {
    /// The file's bytes once the patch is applied to `old`, all in memory: for tests and
    /// small files.
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
