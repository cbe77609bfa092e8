//! Sources of an index's answers: `--update` compares these folders with the stores to find the
//! objects to read again. The module never reads this section.
//!
//! The section has a count of folders, then three words for each: the folder that contains it, with
//! the upper bit set if it was listed; its name; its fingerprint. The first folder is the root of
//! all paths. The next part has four words for each object, in the order of the object records:
//! [`Object::seen`], a list, [`Object::deferred`]. The lists follow, each a count and that many
//! folders.

use std::collections::BTreeMap;
use std::sync::Arc;

use bstr::BString;
use rustc_hash::FxHashMap;

use super::encoder::Encoder;
use super::layout::{self, Writer, kind};
use super::records::Table;
use super::{EncodeError, Folder, Object, TableError};
use crate::path;

/// Words of an object's record.
const RECORD: usize = 4;
/// Words of a folder.
const NODE: usize = 3;
/// Set if the folder was listed.
const WALKED: u32 = 1 << 31;
/// The limit on the length of a path (`PATH_MAX`).
const LONGEST: usize = 4096;
const OUTSIDE: TableError = TableError::Damaged("its origins leave it");

/// Encodes the section. `objects` are in the order of the object records.
pub(super) fn encode(
    folders: &[Folder],
    objects: &[&Object],
    encoder: &mut Encoder,
) -> Result<Writer, EncodeError> {
    // The folders and all their parents, sorted, so that a parent comes first.
    let mut nodes: BTreeMap<&[u8], Option<&Folder>> = BTreeMap::from([(&b""[..], None)]);
    for folder in folders {
        let mut parent: &[u8] = &folder.path;
        while !nodes.contains_key(parent) {
            nodes.insert(parent, None);
            parent = path::parent(parent);
        }
        nodes.insert(&folder.path, Some(folder));
    }
    let numbers: FxHashMap<&[u8], u32> = nodes.keys().copied().zip(0..).collect();
    let mut records = Writer::new(encoder.target.endian);
    records.word(nodes.len() as u32);
    for (path, folder) in nodes {
        let name = encoder.string(&path::name(path).to_owned())?;
        let (digest, walked) = folder.map_or((0, false), |folder| (folder.digest, folder.walked));
        let parent: &[u8] = path::parent(path);
        records.words([numbers[parent] | (u32::from(walked) * WALKED), name, digest]);
    }
    let start = records.bytes.len() / 4 + RECORD * objects.len();
    let mut lists = Writer::new(encoder.target.endian);
    let mut known: FxHashMap<&[Arc<BString>], u32> = FxHashMap::default();
    for object in objects {
        let place = start + lists.bytes.len() / 4;
        let place = layout::narrow(place, "too many search directories")?;
        let list = *known.entry(&object.searched).or_insert(place);
        if list == place {
            lists.word(object.searched.len() as u32);
            for folder in &object.searched {
                let number = numbers.get(folder.as_slice());
                let unknown = || EncodeError::NoSuchFolder(BString::clone(folder));
                lists.word(*number.ok_or_else(unknown)?);
            }
        }
        records.words([object.seen, list]);
        let deferred = object.deferred.as_chunks().0;
        records.words(deferred.iter().map(|four| u32::from_le_bytes(*four)));
    }
    records.bytes.extend_from_slice(&lists.bytes);
    Ok(records)
}

/// Reads the section: the folders, with the parents that are only in the paths of others, and the
/// fields that each object has here.
pub(super) fn read(
    table: &Table<'_>,
    objects: usize,
) -> Result<(Vec<Folder>, Vec<Object>), TableError> {
    let words = table.all(kind::ORIGINS, Table::word)?;
    let word = |at: usize| words.get(at).copied().ok_or(OUTSIDE);
    let nodes = word(0)? as usize;
    let mut folders: Vec<Folder> = Vec::new();
    for node in 1..nodes {
        let at = 1 + node * NODE;
        let (parent, name, digest) = (word(at)?, table.string(word(at + 1)?)?, word(at + 2)?);
        let above = (parent & !WALKED) as usize;
        if above >= node {
            return Err(OUTSIDE);
        }
        let above = above.checked_sub(1).map_or(&b""[..], |above| &folders[above].path);
        let path: BString = [above, b"/", name].concat().into();
        if path.len() > LONGEST {
            return Err(TableError::Damaged("a path is too long"));
        }
        folders.push(Folder { path, digest, walked: parent & WALKED != 0 });
    }
    let paths: Vec<_> = folders.iter().map(|folder| Arc::new(folder.path.clone())).collect();
    let object = |number: usize| {
        let at = 1 + nodes * NODE + number * RECORD;
        let (seen, list) = (word(at)?, word(at + 1)? as usize);
        let deferred = u64::from(word(at + 2)?) | u64::from(word(at + 3)?) << 32;
        let length = word(list)? as usize;
        let list = words[list + 1..].get(..length).ok_or(OUTSIDE)?;
        let path = |node: &u32| {
            let path = (*node as usize).checked_sub(1).and_then(|folder| paths.get(folder));
            path.cloned().ok_or(OUTSIDE)
        };
        let searched = list.iter().map(path).collect::<Result<_, _>>()?;
        Ok(Object { seen, searched, deferred: deferred.to_le_bytes(), ..Object::default() })
    };
    let objects = (0..objects).map(object).collect::<Result<_, _>>()?;
    Ok((folders, objects))
}
