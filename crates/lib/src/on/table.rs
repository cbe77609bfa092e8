//! The file that the starter reads (`starter/starts.h`): which program a name leads to, the static TLS
//! that it needs, and the becalm that reads ahead.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use becalm_core::index::hash;

/// The first bytes.
const MAGIC: &[u8; 8] = b"becalm\0\x02";
/// The seed of the check.
const SEED: u64 = 3;
/// Bytes before the starts, and of each of them.
const HEADER: usize = 64;
const START: usize = 48;

/// A file, as far as `stat` distinguishes it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Identity {
    pub(super) fn of(facts: &Metadata) -> Self {
        Self {
            inode: facts.ino(),
            size: facts.size(),
            seconds: facts.mtime(),
            nanoseconds: facts.mtime_nsec(),
        }
    }

    fn encode(self, to: &mut Vec<u8>) {
        to.extend(self.inode.to_ne_bytes());
        to.extend(self.size.to_ne_bytes());
        to.extend(self.seconds.to_ne_bytes());
        to.extend(self.nanoseconds.to_ne_bytes());
    }
}

/// A program that is switched on.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// The name of its link.
    pub name: Vec<u8>,
    /// The path that was found for the name.
    pub path: Vec<u8>,
    pub program: Identity,
    pub static_tls: u32,
}

/// Returns the file for an index, the path of the becalm that reads ahead, and the programs.
pub(super) fn encode(index: Identity, helper: &str, starts: &[Start]) -> Vec<u8> {
    let mut strings = HEADER + starts.len() * START;
    let mut text = Vec::new();
    let mut rest = Vec::new();
    index.encode(&mut rest);
    let of_starts = starts.iter().map(|it| it.name.len() + it.path.len() + 2);
    let length = strings + helper.len() + 1 + of_starts.sum::<usize>();
    rest.extend((starts.len() as u32).to_ne_bytes());
    rest.extend((length as u32).to_ne_bytes());
    let mut string = |bytes: &[u8]| {
        let at = strings as u32;
        text.extend(bytes);
        text.push(0);
        strings += bytes.len() + 1;
        at.to_ne_bytes()
    };
    rest.extend(string(helper.as_bytes()));
    rest.extend([0; 4]);
    for start in starts {
        start.program.encode(&mut rest);
        rest.extend(start.static_tls.to_ne_bytes());
        rest.extend(string(&start.name));
        rest.extend(string(&start.path));
        rest.extend([0; 4]);
    }
    rest.extend(text);
    let check = hash::bytes(SEED, &rest);
    [&MAGIC[..], &check.to_ne_bytes(), &rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_layout_of_the_header() {
        let identity = Identity { inode: 1, size: 2, seconds: 3, nanoseconds: 4 };
        let start = Start {
            name: b"app".to_vec(),
            path: b"/bin/app".to_vec(),
            program: identity,
            static_tls: 8192,
        };
        let file = encode(identity, "/becalm", &[start]);
        assert_eq!(file.len(), HEADER + START + 21);
        let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((word(48), word(52)), (1, file.len()));
        assert_eq!(&file[word(56)..][..8], b"/becalm\0");
        assert_eq!(word(HEADER + 32), 8192);
        assert_eq!(&file[word(HEADER + 36)..][..4], b"app\0");
        assert_eq!(&file[word(HEADER + 40)..], b"/bin/app\0");
    }
}
