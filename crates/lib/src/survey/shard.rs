//! The share of one machine in a survey.

use std::path::Path;
use std::str::FromStr;

use becalm_core::index::hash;
use thiserror::Error;

use crate::path::path_bytes;

/// One of several shards. Each file is in exactly one, by the hash of its path: machines that see
/// the files at the same paths divide them without communicating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

/// Returned if a shard is not `I/N` with I from 1 to N.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not I/N with I from 1 to N")]
pub struct NoShard;

impl Default for Shard {
    /// Returns the shard of all files.
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl FromStr for Shard {
    type Err = NoShard;

    fn from_str(text: &str) -> Result<Self, NoShard> {
        let (index, count) = text.split_once('/').ok_or(NoShard)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| NoShard);
        let (index, count) = (number(index)?, number(count)?);
        if index == 0 || index > count {
            return Err(NoShard);
        }
        Ok(Self { index: index - 1, count })
    }
}

impl Shard {
    /// True if a file is in the shard.
    #[must_use]
    pub fn has(self, path: &Path) -> bool {
        self.count == 1 || hash::bytes(0, &path_bytes(path)) % self.count == self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_one_of_so_many() {
        assert_eq!("2/4".parse(), Ok(Shard { index: 1, count: 4 }));
        for text in ["0/4", "5/4", "1", "1/", "a/b", "1/0", "-1/2"] {
            assert_eq!(text.parse::<Shard>(), Err(NoShard), "{text}");
        }
    }

    #[test]
    fn every_path_is_in_one_shard_and_they_are_of_about_one_size() {
        let shards: Vec<Shard> = (0..4).map(|index| Shard { index, count: 4 }).collect();
        let mut sizes = [0; 4];
        for number in 0..4000 {
            let path = format!("/store/{number}-x/bin/prog");
            let of: Vec<usize> = (0..4).filter(|&at| shards[at].has(Path::new(&path))).collect();
            assert_eq!(of.len(), 1, "{path}");
            sizes[of[0]] += 1;
        }
        assert!(sizes.iter().all(|size| (800..1200).contains(size)), "{sizes:?}");
    }
}
