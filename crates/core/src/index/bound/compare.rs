//! Compares the bindings of programs in two tables, however the tables share blocks.

use std::collections::{BTreeMap, BTreeSet};

use bstr::BString;

use super::block::Definer;
use super::{Bound, BoundProgram, Member, Written};
use crate::elf::Endian;
use crate::facts::Environment;

impl Bound {
    /// Returns the programs that another table binds differently or does not have.
    #[must_use]
    pub fn differences(&self, other: &Self, endian: Endian) -> Vec<BString> {
        fn start(program: &BoundProgram) -> (&BString, &Environment) {
            (&program.path, &program.variables)
        }
        let others: BTreeMap<_, &BoundProgram> =
            other.programs.iter().map(|program| (start(program), program)).collect();
        let is_same = |program: &BoundProgram, now: &BoundProgram| {
            program.undefined_function == now.undefined_function
                && program.members.len() == now.members.len()
                && program.members.iter().zip(&now.members).all(|(a, b)| {
                    self.recognised(a) == other.recognised(b)
                        && self.words(a, endian) == other.words(b, endian)
                })
        };
        let differs = |program: &&BoundProgram| {
            others.get(&start(program)).is_none_or(|now| !is_same(program, now))
        };
        let paths = self.programs.iter().filter(differs).map(|program| program.path.clone());
        paths.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the fields by which the module recognises an object.
    fn recognised(&self, member: &Member) -> Option<impl PartialEq + use<'_>> {
        let object = self.objects.get(member.object as usize)?;
        Some((&object.path, object.dynamic, object.dynamic_hash, object.build_id))
    }

    /// Returns the words that are written into an object, without definers, and the paths of the definers;
    /// `None` if there is no block, or if one is damaged.
    fn words(&self, member: &Member, endian: Endian) -> Option<(Written, Vec<Option<&BString>>)> {
        let mut written = self.written(&member.writes?, endian)?;
        written.residuals.sort_unstable();
        let slots = written.slots.iter_mut().chain(&mut written.indirects);
        let path = |definer| match definer {
            Definer::Object(object) => self.objects.get(object as usize).map(|it| &it.path),
            Definer::Absolute => None,
        };
        let definers = slots.map(|it| path(std::mem::replace(&mut it.definer, Definer::Absolute)));
        let definers = definers.collect();
        Some((written, definers))
    }
}
