//! The file that the starter reads (`starter/starts.h`): which program a name leads to, the static TLS
//! that it needs, the becalm that reads ahead, and the folders of ready pages and of counts.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use becalm_core::index::hash;

/// The first bytes.
const MAGIC: &[u8; 8] = b"becalm\0\x04";
/// The seed of the check.
const SEED: u64 = 3;
/// Bytes before the starts, and of each of them.
const HEADER: usize = 72;
const START: usize = 48;

/// A file, as far as `stat` distinguishes it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Identity {
    pub(crate) fn of(facts: &Metadata) -> Self {
        Self {
            inode: facts.ino(),
            size: facts.size(),
            seconds: facts.mtime(),
            nanoseconds: facts.mtime_nsec(),
        }
    }

    /// Returns the identity of the file at a path; `None` if it cannot be examined.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        path.metadata().ok().map(|facts| Self::of(&facts))
    }

    pub(crate) fn encode(self, to: &mut Vec<u8>) {
        to.extend(self.inode.to_ne_bytes());
        to.extend(self.size.to_ne_bytes());
        to.extend(self.seconds.to_ne_bytes());
        to.extend(self.nanoseconds.to_ne_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(8 * at..)?.first_chunk()?));
        let (seconds, nanoseconds) = (word(2)?.cast_signed(), word(3)?.cast_signed());
        Some(Self { inode: word(0)?, size: word(1)?, seconds, nanoseconds })
    }
}

/// A program that is switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The name of its link.
    pub name: Vec<u8>,
    /// The path that was found for the name.
    pub path: Vec<u8>,
    pub program: Identity,
    pub static_tls: u32,
    pub shares_pages: bool,
}

/// The becalm that reads ahead, and the folders of ready pages and of counts; empty if there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Helpers {
    pub becalm: String,
    pub pages: String,
    pub counts: String,
}

impl Helpers {
    fn all(&self) -> [&str; 3] {
        [&self.becalm, &self.pages, &self.counts]
    }
}

/// Returns the file for an index and the programs.
pub(super) fn encode(index: Identity, helpers: &Helpers, starts: &[Start]) -> Vec<u8> {
    let mut strings = HEADER + starts.len() * START;
    let mut text = Vec::new();
    let mut rest = Vec::new();
    index.encode(&mut rest);
    let of_starts: Vec<usize> = starts.iter().map(|it| it.name.len() + it.path.len() + 2).collect();
    let of_helpers = helpers.all().map(|it| it.len() + 1);
    let length = strings + of_helpers.iter().chain(&of_starts).sum::<usize>();
    rest.extend((starts.len() as u32).to_ne_bytes());
    rest.extend((length as u32).to_ne_bytes());
    let mut string = |bytes: &[u8]| {
        let at = strings as u32;
        text.extend(bytes);
        text.push(0);
        strings += bytes.len() + 1;
        at.to_ne_bytes()
    };
    for helper in helpers.all() {
        rest.extend(string(helper.as_bytes()));
    }
    rest.extend([0; 4]);
    for start in starts {
        start.program.encode(&mut rest);
        rest.extend(start.static_tls.to_ne_bytes());
        rest.extend(string(&start.name));
        rest.extend(string(&start.path));
        rest.extend(u32::from(start.shares_pages).to_ne_bytes());
    }
    rest.extend(text);
    let check = hash::bytes(SEED, &rest);
    [&MAGIC[..], &check.to_ne_bytes(), &rest].concat()
}

/// Returns the index and the programs of a file; `None` if it is damaged.
pub(super) fn decode(file: &[u8]) -> Option<(Identity, Vec<Start>)> {
    let (check, rest) = file.strip_prefix(MAGIC)?.split_first_chunk()?;
    if u64::from_ne_bytes(*check) != hash::bytes(SEED, rest) {
        return None;
    }
    let word = |at: usize| Some(u32::from_ne_bytes(*file.get(at..)?.first_chunk()?));
    let string = |at: usize| {
        let text = file.get(word(at)? as usize..)?;
        text.split(|byte| *byte == 0).next().map(<[u8]>::to_vec)
    };
    let start = |number: usize| {
        let at = HEADER + START * number;
        let program = Identity::decode(file.get(at..)?)?;
        let (name, path) = (string(at + 36)?, string(at + 40)?);
        let (static_tls, shares_pages) = (word(at + 32)?, word(at + 44)? != 0);
        Some(Start { name, path, program, static_tls, shares_pages })
    };
    let starts = (0..word(48)? as usize).map(start).collect::<Option<_>>()?;
    Some((Identity::decode(file.get(16..)?)?, starts))
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
            shares_pages: true,
        };
        let [becalm, pages, counts] = ["/becalm", "/pages", "/counts"].map(str::to_owned);
        let helpers = Helpers { becalm, pages, counts };
        let file = encode(identity, &helpers, std::slice::from_ref(&start));
        assert_eq!(file.len(), HEADER + START + 36);
        let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((word(48), word(52)), (1, file.len()));
        assert_eq!(&file[word(56)..][..8], b"/becalm\0");
        assert_eq!(&file[word(60)..][..7], b"/pages\0");
        assert_eq!(&file[word(64)..][..8], b"/counts\0");
        assert_eq!((word(HEADER + 32), word(HEADER + 44)), (8192, 1));
        assert_eq!(&file[word(HEADER + 36)..][..4], b"app\0");
        assert_eq!(&file[word(HEADER + 40)..], b"/bin/app\0");
        assert_eq!(decode(&file), Some((identity, vec![start])));
        for at in 0..file.len() {
            assert_eq!(decode(&file[..at]), None);
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None);
        }
    }
}
