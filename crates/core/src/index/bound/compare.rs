//! Compares the bindings of programs in two tables, however the tables share blocks.

use std::collections::{BTreeMap, BTreeSet};

use bstr::{BStr, BString, ByteSlice};

use super::block::{self, Definer};
use super::{Bound, BoundProgram, Member, StartVariables, Written};
use crate::elf::Endian;

/// The words that are written into an object, by offset.
type Memory<'a> = BTreeMap<u32, Word<'a>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word<'a> {
    Address(Option<&'a BStr>, i32),
    Resolver(Option<&'a BStr>, i32),
    /// Called at the first call of the function.
    LazyResolver(Option<&'a BStr>, i32),
    Residual(u32, u32, i32),
    Lazy,
}

impl Bound {
    /// Returns the programs that another table binds differently or does not have.
    #[must_use]
    pub fn differences(&self, other: &Self, endian: Endian) -> Vec<BString> {
        fn start(program: &BoundProgram) -> (&BString, &StartVariables) {
            (&program.path, &program.variables)
        }
        let others: BTreeMap<_, &BoundProgram> =
            other.programs.iter().map(|program| (start(program), program)).collect();
        let differs = |program: &&BoundProgram| {
            others.get(&start(program)).is_none_or(|now| !self.is_same(program, other, now, endian))
        };
        let paths = self.programs.iter().filter(differs).map(|program| program.path.clone());
        paths.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn is_same(
        &self,
        program: &BoundProgram,
        other: &Self,
        now: &BoundProgram,
        endian: Endian,
    ) -> bool {
        program.undefined_function == now.undefined_function
            && program.members.len() == now.members.len()
            && program.members.iter().zip(&now.members).all(|(a, b)| {
                self.recognised(a) == other.recognised(b)
                    && self.relatives(a) == other.relatives(b)
                    && self.memory(a, endian) == other.memory(b, endian)
            })
    }

    /// Returns the fields by which the module recognises an object.
    fn recognised(&self, member: &Member) -> Option<impl PartialEq + use<'_>> {
        let object = self.objects.get(member.object as usize)?;
        Some((&object.path, object.dynamic, object.dynamic_hash, object.build_id))
    }

    fn relatives(&self, member: &Member) -> Option<&Vec<u8>> {
        self.blocks.get(member.writes?.relatives as usize)
    }

    /// Returns the words that the blocks of bindings write, one after the other; `None` if there is
    /// no block, or if one is damaged.
    fn memory(&self, member: &Member, endian: Endian) -> Option<Memory<'_>> {
        let writes = member.writes?;
        let mut memory = Memory::new();
        let mut resolved = BTreeSet::new();
        for block in [Some(writes.bindings), writes.changes].into_iter().flatten() {
            let bytes = self.blocks.get(block as usize)?;
            let block = block::decode_bindings(bytes, endian)?;
            let Written { slots, indirects, residuals, lazies, .. } = block;
            let name = |definer| match definer {
                Definer::Object(object) => {
                    self.objects.get(object as usize).map(|object| object.path.as_bstr())
                }
                Definer::Absolute => None,
            };
            let slots = slots.iter().map(|s| (s.offset, Word::Address(name(s.definer), s.value)));
            memory.extend(slots);
            memory.extend(lazies.iter().map(|&offset| (offset, Word::Lazy)));
            memory.extend(
                residuals.iter().map(|r| (r.offset, Word::Residual(r.symbol, r.kind, r.addend))),
            );
            // The loader calls resolvers last.
            resolved.extend(indirects.iter().map(|i| (i.offset, name(i.definer), i.value)));
        }
        for (at, name, value) in resolved {
            let is_lazy = memory.get(&at) == Some(&Word::Lazy);
            let kind = if is_lazy { Word::LazyResolver } else { Word::Resolver };
            memory.insert(at, kind(name, value));
        }
        Some(memory)
    }
}
