//! The bindings in an index, which the module writes into the objects of a start instead of the
//! loader.
//!
//! [`Binder`] takes the predicted bindings of one program after the other and shares equal parts
//! between them. [`block`] encodes the words of one object, and [`records`] the records of programs
//! and objects (`docs/index-format.md`). The module's readers are `audit/bound.c` and
//! `audit/apply.c`.

mod binder;
mod block;
mod compare;
mod convert;
mod image;
mod keep;
mod records;
mod start_variables;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use bstr::BString;
use object::elf::DT_DEBUG;

use super::Condition;
use super::layout::{Writer, kind};
use crate::facts::Environment;
use crate::symbols::ObjectSymbols;

pub use binder::{Binder, NewProgram};
pub use block::{Definer, Relative, Residual, SlotBinding, Written};
pub use convert::{NotBound, RELEASES, is_applied, written};
pub use image::ImageFacts;

pub(super) use records::{encode, read};

/// The bindings of all programs of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The programs. A path comes again for each environment in which other objects are loaded.
    pub programs: Vec<BoundProgram>,
    /// Their objects, each path once; members name them by position.
    pub objects: Vec<BoundObject>,
    /// The words that are written into objects, encoded ([`block`]); members name them by
    /// position.
    pub blocks: Vec<Vec<u8>>,
}

impl Bound {
    /// Returns the number of programs, each path counted once.
    #[must_use]
    pub fn program_count(&self) -> usize {
        self.programs.iter().map(|program| &program.path).collect::<BTreeSet<_>>().len()
    }

    /// Returns each environment that a start was predicted for, the empty one first.
    #[must_use]
    pub fn environments(&self) -> Vec<Environment> {
        let all: BTreeSet<_> = self.programs.iter().map(|program| &program.variables).collect();
        all.into_iter().cloned().collect()
    }

    /// Returns the bytes that the bindings take in a table, without strings and conditions.
    #[must_use]
    pub fn encoded_size(&self) -> usize {
        let members: usize = self.programs.iter().map(|program| program.members.len()).sum();
        let blocks: usize = self.blocks.iter().map(|block| block.len() + kind::BLOCKS.size).sum();
        blocks
            + self.programs.len() * kind::BOUND_PROGRAMS.size
            + self.objects.len() * kind::BOUND_OBJECTS.size
            + members * kind::MEMBERS.size
    }
}

/// A program whose bindings are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundProgram {
    /// Its real path.
    pub path: BString,
    /// The objects of its start in the order of `la_objopen`: the program, the loader, then the
    /// others as the loader maps them.
    pub members: Vec<Member>,
    /// True if a function is undefined, so that the program fails with `LD_BIND_NOW`.
    pub undefined_function: bool,
    /// Relocations with a symbol.
    pub relocations: u32,
    /// The number of those whose result is in the blocks.
    pub bindings: u32,
    /// The environment that the start was predicted for: `LD_LIBRARY_PATH` and `LD_PRELOAD`.
    pub variables: Environment,
}

/// An object of a program's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Position in [`Bound::objects`].
    pub object: u32,
    /// The blocks that are written; `None` if the object is left to the loader.
    pub writes: Option<Writes>,
}

/// The blocks of one member, by position in [`Bound::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// The relative relocations.
    pub relatives: u32,
    /// Everything else.
    pub bindings: u32,
    /// The words that this program binds differently, written after the others.
    pub changes: Option<u32>,
}

/// An object, and the fields by which the module recognises it in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// The path, as the loader names it; the real path of a program.
    pub path: BString,
    /// True if it is below an immutable prefix. While the conditions of the roots hold, its
    /// condition is not checked.
    pub is_rooted: bool,
    /// Address of the dynamic section, before the load address is added.
    pub dynamic: u64,
    /// The hash of [`dynamic_of`].
    pub dynamic_hash: u64,
    /// The build ID.
    pub build_id: Option<BuildId>,
    /// The tables that its bindings rest on.
    pub tables: Option<Tables>,
    /// The condition that the file is unchanged.
    pub condition: Arc<Condition>,
}

/// Address in memory of an object's build ID, and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildId {
    /// Address, before the load address is added.
    pub address: u32,
    /// Length in bytes.
    pub length: u32,
    /// [`super::hash::bytes`] of it, seed 0.
    pub hash: u64,
}

/// The tables of an object that its bindings rest on: symbols, strings, versions, relocations. They
/// prove the content of a file without a build ID, or one whose times have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Address, before the load address is added, and length of each range, ascending.
    pub ranges: Vec<(u32, u32)>,
    /// [`super::hash::block`] of one range after the other; each is the seed of the next.
    pub hash: u64,
}

/// Address and hash of an object's dynamic section.
///
/// The hash is that of its entries up to `DT_NULL`, in the byte order of the machine. `hash_dynamic` of
/// `audit/bind.c` computes the same from memory. The value of `DT_DEBUG`, which the loader writes, counts
/// as zero.
#[must_use]
pub fn dynamic_of(symbols: &ObjectSymbols) -> (u64, u64) {
    let hash = symbols.tags.0.iter().fold(0, |hash, &(tag, value)| {
        let mut entry = Writer::new(symbols.ident.endian);
        entry.long(tag.0.cast_unsigned());
        entry.long(if tag == DT_DEBUG { 0 } else { value });
        super::hash::bytes(hash, &entry.bytes)
    });
    (symbols.dynamic_address, hash)
}
