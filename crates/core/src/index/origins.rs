//! Where an index's answers come from: what `--update` has to hold against the stores to know
//! which objects to read again. The module never looks at it.
//!
//! Four words an object, in the order of the object records: [`Object::seen`], the list of its
//! search directories (a word index into the section), [`Object::left`]. Then the lists: a
//! count, that many strings.

use rustc_hash::FxHashMap;

use super::layout::{self, Reader, Writer};
use super::{EncodeError, Object, TableError};
use crate::elf::Endian;

/// Words of an object's record.
const RECORD: usize = 4;

/// Writes the section.
pub(super) struct Origins<'a> {
    records: Writer,
    lists: Writer,
    known: FxHashMap<Vec<u32>, u32>,
    /// The string of each search directory.
    places: &'a [u32],
    objects: usize,
}

impl<'a> Origins<'a> {
    pub(super) fn new(endian: Endian, places: &'a [u32], objects: usize) -> Self {
        let (records, lists) = (Writer::new(endian), Writer::new(endian));
        Self { records, lists, known: FxHashMap::default(), places, objects }
    }

    pub(super) fn object(&mut self, object: &Object) -> Result<(), EncodeError> {
        let list = self.list(&object.searched)?;
        self.records.word(object.seen);
        self.records.word(list);
        let left = object.left.as_chunks::<4>().0;
        left.iter().for_each(|four| self.records.word(u32::from_le_bytes(*four)));
        Ok(())
    }

    fn list(&mut self, searched: &[u32]) -> Result<u32, EncodeError> {
        if let Some(&place) = self.known.get(searched) {
            return Ok(place);
        }
        let place = u32::try_from(RECORD * self.objects + self.lists.bytes.len() / 4)
            .map_err(|_| EncodeError::TooLarge("too many search directories"))?;
        self.lists.word(searched.len() as u32);
        for &directory in searched {
            let string = self.places.get(directory as usize).copied();
            self.lists.word(string.ok_or(EncodeError::NoSuchDirectory(directory))?);
        }
        self.known.insert(searched.to_vec(), place);
        Ok(place)
    }

    pub(super) fn finish(mut self) -> Writer {
        self.records.bytes.extend_from_slice(&self.lists.bytes);
        self.records
    }
}

/// What the section says of one object; directories by their strings' places.
pub(super) struct Origin {
    pub(super) seen: u32,
    pub(super) searched: Vec<u32>,
    pub(super) left: [u8; 8],
}

/// Reads the record of the object at a position of the table.
///
/// # Errors
/// Where it leaves the section.
pub(super) fn read(table: Reader<'_>, object: usize) -> Result<Origin, TableError> {
    let outside = TableError::Damaged("an object's origins leave it");
    let whole = |at| table.word(at).map(|word| word as usize);
    let (Some(at), Some(count)) = (whole(layout::ORIGINS), whole(layout::ORIGINS + 4)) else {
        return Err(outside);
    };
    let word = |index: usize| {
        let place = index.checked_mul(4).and_then(|bytes| bytes.checked_add(at));
        place.filter(|_| index < count).and_then(|place| table.word(place)).ok_or(outside.clone())
    };
    let record = object.checked_mul(RECORD).ok_or(outside.clone())?;
    let list = word(record + 1)? as usize;
    let length = word(list)? as usize;
    if list.checked_add(length).is_none_or(|end| end >= count) {
        return Err(outside);
    }
    let mut left = [0; 8];
    left[..4].copy_from_slice(&word(record + 2)?.to_le_bytes());
    left[4..].copy_from_slice(&word(record + 3)?.to_le_bytes());
    let searched = (1..=length).map(|step| word(list + step)).collect::<Result<_, _>>()?;
    Ok(Origin { seen: word(record)?, searched, left })
}
