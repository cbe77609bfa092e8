//! Adds records, strings and sets of conditions to a table.

use std::sync::Arc;

use bstr::BString;
use rustc_hash::FxHashMap;

use super::layout::{self, Kind, Writer, seal};
use super::{Condition, EncodeError, Target, hash};

/// A section and its records.
pub(super) type Section = (Kind, Writer);

/// The parts of a table that several sections use.
pub(super) struct Encoder {
    pub(super) target: Target,
    /// The conditions and their numbers.
    conditions: FxHashMap<Arc<Condition>, u32>,
    pub(super) edges: Writer,
    pub(super) pool: Writer,
    pub(super) strings: Writer,
    string_places: FxHashMap<BString, u32>,
    sets: FxHashMap<Vec<u32>, u32>,
    pub(super) edge_lists: FxHashMap<Vec<u8>, u32>,
}

impl Encoder {
    pub(super) fn new(target: Target, conditions: &[&Arc<Condition>]) -> Self {
        let writer = || Writer::new(target.endian);
        Self {
            target,
            conditions: conditions.iter().map(|&it| Arc::clone(it)).zip(0..).collect(),
            edges: writer(),
            pool: writer(),
            strings: writer(),
            string_places: FxHashMap::default(),
            sets: FxHashMap::default(),
            edge_lists: FxHashMap::default(),
        }
    }

    /// Adds a string to the string section (its length, its bytes, a NUL) and returns its offset.
    pub(super) fn string(&mut self, string: &BString) -> Result<u32, EncodeError> {
        if let Some(&place) = self.string_places.get(string) {
            return Ok(place);
        }
        let length = u16::try_from(string.len())
            .map_err(|_| EncodeError::PathTooLong(string[..80].into()))?;
        let place = layout::narrow(self.strings.bytes.len(), "more than 4 GiB of strings")?;
        self.strings.half(length);
        self.strings.bytes.extend_from_slice(string);
        self.strings.bytes.push(0);
        self.string_places.insert(string.clone(), place);
        Ok(place)
    }

    /// Returns the number of a condition.
    pub(super) fn condition(&self, condition: &Arc<Condition>) -> u32 {
        self.conditions[condition]
    }

    /// Adds a set of conditions to the pool and returns its place.
    pub(super) fn set(&mut self, conditions: &[Arc<Condition>]) -> Result<u32, EncodeError> {
        let numbers: Vec<u32> = conditions.iter().map(|it| self.condition(it)).collect();
        self.numbers(&numbers)
    }

    /// Adds numbers to the pool (count, numbers, check) and returns their place.
    pub(super) fn numbers(&mut self, numbers: &[u32]) -> Result<u32, EncodeError> {
        if let Some(&place) = self.sets.get(numbers) {
            return Ok(place);
        }
        let start = self.pool.bytes.len();
        let place = u32::try_from(start / 4)
            .ok()
            .filter(|&place| place <= layout::EDGE_SET)
            .ok_or(EncodeError::TooLarge("too many sets of guards"))?;
        self.pool.word(numbers.len() as u32);
        self.pool.words(numbers.iter().copied());
        let check = hash::low(u64::from(place), &self.pool.bytes[start..]);
        self.pool.word(check);
        self.sets.insert(numbers.to_vec(), place);
        Ok(place)
    }

    /// Writes a record for each item. `write` returns the seed of the record's check.
    pub(super) fn records<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, &mut Writer, T) -> Result<u64, EncodeError>,
    ) -> Result<Writer, EncodeError> {
        let mut records = Writer::new(self.target.endian);
        for item in items {
            let start = records.bytes.len();
            let seed = write(self, &mut records, item)?;
            seal(&mut records, start, seed);
        }
        Ok(records)
    }
}
