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

/// A file, as far as `stat` distinguishes it from another: inode, size, and seconds and nanoseconds of its mtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity([u64; 4]);

impl Identity {
    pub(crate) fn of(facts: &Metadata) -> Self {
        let time = [facts.mtime(), facts.mtime_nsec()].map(i64::cast_unsigned);
        Self([facts.ino(), facts.size(), time[0], time[1]])
    }

    /// Returns the identity of the file at a path; `None` if it cannot be examined.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        path.metadata().ok().map(|facts| Self::of(&facts))
    }

    pub(crate) fn encode(self, to: &mut Vec<u8>) {
        to.extend(self.0.iter().flat_map(|number| number.to_ne_bytes()));
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.as_chunks().0.first_chunk()?.map(u64::from_ne_bytes)))
    }
}

/// Strings that follow the other parts of a file, each with a zero.
pub(crate) struct Strings {
    from: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Strings {
    /// Returns none yet; the first one will be at this offset.
    pub(crate) fn at(from: usize) -> Self {
        Self { from, bytes: Vec::new() }
    }

    /// Adds a string. Returns the bytes of its offset.
    pub(crate) fn add(&mut self, string: &[u8]) -> [u8; 4] {
        let at = self.end();
        self.bytes.extend(string);
        self.bytes.push(0);
        at
    }

    /// Returns the bytes of the length of the file so far.
    pub(crate) fn end(&self) -> [u8; 4] {
        ((self.from + self.bytes.len()) as u32).to_ne_bytes()
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

/// Returns the file for an index and the programs. `helpers` are the becalm that reads ahead, and the folders of ready
/// pages and of counts; empty if there is none.
pub(super) fn encode(index: Identity, helpers: [&str; 3], starts: &[Start]) -> Vec<u8> {
    let mut strings = Strings::at(HEADER + starts.len() * START);
    let helpers = helpers.map(|helper| strings.add(helper.as_bytes()));
    let mut list = Vec::new();
    for start in starts {
        start.program.encode(&mut list);
        list.extend(start.static_tls.to_ne_bytes());
        list.extend(strings.add(&start.name));
        list.extend(strings.add(&start.path));
        list.extend(u32::from(start.shares_pages).to_ne_bytes());
    }
    let mut rest = Vec::new();
    index.encode(&mut rest);
    rest.extend((starts.len() as u32).to_ne_bytes());
    rest.extend(strings.end());
    rest.extend(helpers.concat());
    rest.extend([0; 4]);
    let rest = [rest, list, strings.bytes].concat();
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
        let identity = Identity([1, 2, 3, 4]);
        let start = Start {
            name: b"app".to_vec(),
            path: b"/bin/app".to_vec(),
            program: identity,
            static_tls: 8192,
            shares_pages: true,
        };
        let helpers = ["/becalm", "/pages", "/counts"];
        let file = encode(identity, helpers, std::slice::from_ref(&start));
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
