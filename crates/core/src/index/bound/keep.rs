//! Takes the bindings of a program from one table, for another table.

use std::collections::BTreeMap;

use super::block::{self, SlotBinding};
use super::{Bound, BoundObject, BoundProgram, NewProgram, Writes, Written};
use crate::elf::Endian;

impl Bound {
    /// Returns a program for [`super::Binder::add`]. Returns `None` if the table is damaged, or if
    /// one of its objects is not as it was.
    #[must_use]
    pub fn taken(
        &self,
        program: &BoundProgram,
        endian: Endian,
        is_as_it_was: &dyn Fn(&BoundObject) -> bool,
    ) -> Option<NewProgram> {
        let mut members = Vec::with_capacity(program.members.len());
        for member in &program.members {
            let known = self.objects.get(member.object as usize);
            let known = known.filter(|object| is_as_it_was(object))?.clone();
            let written = match &member.writes {
                Some(writes) => Some(self.written(writes, endian)?),
                None => None,
            };
            // Definers are positions in this table.
            members.push((member.object as usize, known, written));
        }
        Some(NewProgram {
            path: program.path.clone(),
            members,
            undefined_function: program.undefined_function,
            relocations: program.relocations,
            variables: program.variables.clone(),
        })
    }

    /// Returns the words that the blocks of a member write, one after the other.
    pub(super) fn written(&self, writes: &Writes, endian: Endian) -> Option<Written> {
        let block = |index: u32| self.blocks.get(index as usize);
        let relatives = block::decode_relatives(block(writes.relatives)?, endian)?;
        let mut written = Written { relatives, ..Written::default() };
        let mut memory: BTreeMap<u32, SlotBinding> = BTreeMap::new();
        for index in [Some(writes.bindings), writes.changes].into_iter().flatten() {
            let block = block::decode_bindings(block(index)?, endian)?;
            memory.extend(block.slots.into_iter().map(|slot| (slot.offset, slot)));
            written.indirects.extend(block.indirects);
            written.residuals.extend(block.residuals);
            written.lazies.extend(block.lazies);
        }
        written.indirects.sort_unstable();
        for indirect in &written.indirects {
            memory.remove(&indirect.offset);
        }
        written.slots = memory.into_values().collect();
        Some(written)
    }
}
