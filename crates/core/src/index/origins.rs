//! Sources of an index's answers: `--update` compares these folders with the stores to find the
//! objects to read again. The module never reads this section.
//!
//! The section has a count of folders, then three words for each: the folder that contains it, with
//! the upper bit set if it was listed; its name; its fingerprint. The first folder is the root of
//! all paths. The next part has four words for each object, in the order of the object records:
//! [`Object::seen`], a list, [`Object::deferred`]. The lists follow, each a count and that many
//! folders.

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use super::layout::{self, Reader, Writer};
use super::{EncodeError, Folder, Object, TableError};
use crate::elf::Endian;
use crate::path;

/// Words of an object's record.
const RECORD: usize = 4;
/// Words of a folder.
const NODE: usize = 3;
/// Set if the folder was listed.
const WALKED: u32 = 1 << 31;
/// The limit on the length of a path (`PATH_MAX`).
const LONGEST: usize = 4096;

/// The folders as a tree of names, so that paths share their common beginnings.
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// The node of each folder.
    places: Vec<u32>,
}

/// A folder in another.
pub(super) struct Node {
    parent: u32,
    pub(super) name: BString,
    digest: u32,
    walked: bool,
}

impl Tree {
    pub(super) fn of(folders: &[Folder]) -> Self {
        let root = Node { parent: 0, name: BString::default(), digest: 0, walked: false };
        let mut tree = Self { nodes: vec![root], places: Vec::with_capacity(folders.len()) };
        let mut known: FxHashMap<&[u8], u32> = FxHashMap::default();
        known.insert(b"", 0);
        for folder in folders {
            let place = tree.place(&folder.path, &mut known);
            let node = &mut tree.nodes[place as usize];
            (node.digest, node.walked) = (folder.digest, folder.walked);
            tree.places.push(place);
        }
        tree
    }

    /// Returns the node of a path. Missing parents are added before it.
    fn place<'p>(&mut self, path: &'p BString, known: &mut FxHashMap<&'p [u8], u32>) -> u32 {
        let mut missing: Vec<&'p [u8]> = Vec::new();
        let mut at: &[u8] = path;
        let mut parent = loop {
            if let Some(&place) = known.get(at) {
                break place;
            }
            missing.push(at);
            at = path::parent(at);
        };
        for path in missing.into_iter().rev() {
            let name = path::name(path);
            let place = self.nodes.len() as u32;
            self.nodes.push(Node { parent, name: name.into(), digest: 0, walked: false });
            known.insert(path, place);
            parent = place;
        }
        parent
    }
}

/// Writes the section of sources.
pub(super) struct Origins<'a> {
    records: Writer,
    lists: Writer,
    known: FxHashMap<&'a [u32], u32>,
    tree: &'a Tree,
    /// Position of the lists.
    start: usize,
}

impl<'a> Origins<'a> {
    /// `names`: the string of each node of the tree.
    pub(super) fn new(endian: Endian, tree: &'a Tree, names: &[u32], objects: usize) -> Self {
        let mut records = Writer::new(endian);
        records.word(tree.nodes.len() as u32);
        for (node, &name) in tree.nodes.iter().zip(names) {
            let parent = node.parent | (u32::from(node.walked) * WALKED);
            records.words([parent, name, node.digest]);
        }
        let start = records.bytes.len() / 4 + RECORD * objects;
        Self { records, lists: Writer::new(endian), known: FxHashMap::default(), tree, start }
    }

    pub(super) fn object(&mut self, object: &'a Object) -> Result<(), EncodeError> {
        let list = self.list(&object.searched)?;
        self.records.words([object.seen, list]);
        let deferred = object.deferred.as_chunks::<4>().0;
        deferred.iter().for_each(|four| self.records.word(u32::from_le_bytes(*four)));
        Ok(())
    }

    fn list(&mut self, searched: &'a [u32]) -> Result<u32, EncodeError> {
        if let Some(&place) = self.known.get(searched) {
            return Ok(place);
        }
        let place = self.start + self.lists.bytes.len() / 4;
        let place = layout::narrow(place, "too many search directories")?;
        self.lists.word(searched.len() as u32);
        for &folder in searched {
            let node = self.tree.places.get(folder as usize).copied();
            self.lists.word(node.ok_or(EncodeError::NoSuchFolder(folder))?);
        }
        self.known.insert(searched, place);
        Ok(place)
    }

    pub(super) fn finish(mut self) -> Writer {
        self.records.bytes.extend_from_slice(&self.lists.bytes);
        self.records
    }
}

/// The section's record of one object, with folders as positions.
pub(super) struct Origin {
    pub(super) seen: u32,
    pub(super) searched: Vec<u32>,
    pub(super) deferred: [u8; 8],
}

/// Reads the section of sources.
pub(super) struct OriginsReader<'a> {
    table: Reader<'a>,
    at: usize,
    count: usize,
    nodes: usize,
}

const OUTSIDE: TableError = TableError::Damaged("its origins leave it");

impl<'a> OriginsReader<'a> {
    /// Checks the header of the section. `at` is its offset and `count` its length in words.
    pub(super) fn read(
        table: Reader<'a>,
        at: usize,
        count: usize,
        objects: usize,
    ) -> Result<Self, TableError> {
        let reader = Self { table, at, count, nodes: 0 };
        let nodes = reader.word(0)? as usize;
        let words = nodes.checked_mul(NODE).zip(objects.checked_mul(RECORD));
        let words = words.and_then(|(nodes, records)| nodes.checked_add(records));
        if nodes == 0 || words.is_none_or(|words| words >= count) {
            return Err(OUTSIDE);
        }
        Ok(Self { nodes, ..reader })
    }

    fn word(&self, index: usize) -> Result<u32, TableError> {
        let place = index.checked_mul(4).and_then(|bytes| bytes.checked_add(self.at));
        let inside = place.filter(|_| index < self.count);
        inside.and_then(|place| self.table.word(place)).ok_or(OUTSIDE)
    }

    /// Returns the folders, and the parents that are only in the paths of others. `string` reads a
    /// string.
    pub(super) fn folders<'s>(
        &self,
        string: impl Fn(u32) -> Result<&'s BStr, TableError>,
    ) -> Result<Vec<Folder>, TableError> {
        let mut folders: Vec<Folder> = Vec::new();
        for node in 1..self.nodes {
            let first = 1 + node * NODE;
            let (parent, name) = (self.word(first)?, string(self.word(first + 1)?)?);
            let above = (parent & !WALKED) as usize;
            if above >= node {
                return Err(OUTSIDE);
            }
            let above = above.checked_sub(1).map_or(&b""[..], |above| &folders[above].path);
            let path: BString = [above, b"/", name].concat().into();
            if path.len() > LONGEST {
                return Err(TableError::Damaged("a path is too long"));
            }
            let (digest, walked) = (self.word(first + 2)?, parent & WALKED != 0);
            folders.push(Folder { path, digest, walked });
        }
        Ok(folders)
    }

    /// Returns the origin of the object at a position of the table.
    pub(super) fn object(&self, object: usize) -> Result<Origin, TableError> {
        let record = 1 + self.nodes * NODE + object * RECORD;
        let list = self.word(record + 1)? as usize;
        let length = self.word(list)? as usize;
        if list.checked_add(length).is_none_or(|end| end >= self.count) {
            return Err(OUTSIDE);
        }
        let mut deferred = [0; 8];
        deferred[..4].copy_from_slice(&self.word(record + 2)?.to_le_bytes());
        deferred[4..].copy_from_slice(&self.word(record + 3)?.to_le_bytes());
        let position = |step: usize| {
            let node = self.word(list + step)? as usize;
            let folder = node.checked_sub(1).filter(|&folder| folder + 1 < self.nodes);
            folder.map(|folder| folder as u32).ok_or(OUTSIDE)
        };
        let searched = (1..=length).map(position).collect::<Result<_, _>>()?;
        Ok(Origin { seen: self.word(record)?, searched, deferred })
    }
}
