//! Encodes the bindings of programs in blocks. Programs with equal blocks share them.

use bstr::BString;
use rustc_hash::FxHashMap;

use super::block::{self, Definer, SlotBinding};
use super::{Bound, BoundObject, BoundProgram, Member, Writes, Written};
use crate::elf::Endian;
use crate::facts::Environment;

/// The limit on the sets of bindings of one object that are kept for comparison. A similar set is
/// written as changes to one of them.
const MOST_BASES: usize = 4;

/// Gathers the bindings of programs.
pub struct Binder {
    endian: Endian,
    bound: Bound,
    objects: FxHashMap<BString, u32>,
    blocks: FxHashMap<Vec<u8>, u32>,
    /// The sets of each object that were written as a whole, with their blocks.
    bases: FxHashMap<u32, Vec<(Written, u32)>>,
}

/// A program to be added.
pub struct NewProgram {
    /// Its real path.
    pub path: BString,
    /// Every object of the program's namespace in the order of `la_objopen`, with its index in
    /// `Load::objects`. `None` if the module leaves the object to the loader.
    pub members: Vec<(usize, BoundObject, Option<Written>)>,
    /// As in [`BoundProgram`].
    pub undefined_function: bool,
    /// As in [`BoundProgram`].
    pub relocations: u32,
    /// As in [`BoundProgram`].
    pub variables: Environment,
}

impl Binder {
    /// Makes an empty binder for a machine of this byte order.
    #[must_use]
    pub fn new(endian: Endian) -> Self {
        Self {
            endian,
            bound: Bound::default(),
            objects: FxHashMap::default(),
            blocks: FxHashMap::default(),
            bases: FxHashMap::default(),
        }
    }

    /// Adds a program, unless the same program with the same objects was added before.
    pub fn add(&mut self, program: NewProgram) {
        let NewProgram { path, members, undefined_function, relocations, variables } = program;
        let mut numbers: FxHashMap<usize, u32> = FxHashMap::default();
        // All members get their numbers first, because a definer may be a later member.
        for (index, object, _) in &members {
            numbers.insert(*index, self.object(object));
        }
        let objects = || members.iter().map(|(index, ..)| numbers[index]);
        let mut same_path = self.bound.programs.iter().filter(|known| known.path == path);
        if same_path.any(|known| known.members.iter().map(|member| member.object).eq(objects())) {
            return;
        }
        let mut bindings = 0;
        let mut bound_members = Vec::with_capacity(members.len());
        for (index, _, written) in members {
            let object = numbers[&index];
            let writes = written.map(|mut written| {
                let lazy = written.indirects.iter().filter(|i| written.is_lazy(i)).count();
                bindings += (written.slots.len() + written.indirects.len() - lazy) as u32;
                renumber(&mut written, &numbers);
                self.writes(object, written)
            });
            bound_members.push(Member { object, writes });
        }
        let members = bound_members;
        self.bound.programs.push(BoundProgram {
            path,
            members,
            undefined_function,
            relocations,
            bindings,
            variables,
        });
    }

    /// Returns the bindings of all programs.
    #[must_use]
    pub fn finish(self) -> Bound {
        self.bound
    }

    fn object(&mut self, object: &BoundObject) -> u32 {
        let next = self.bound.objects.len() as u32;
        let objects = &mut self.bound.objects;
        *self.objects.entry(object.path.clone()).or_insert_with(|| {
            objects.push(object.clone());
            next
        })
    }

    fn block(&mut self, bytes: Vec<u8>) -> u32 {
        if let Some(&known) = self.blocks.get(&bytes) {
            return known;
        }
        let number = self.bound.blocks.len() as u32;
        self.bound.blocks.push(bytes.clone());
        self.blocks.insert(bytes, number);
        number
    }

    fn writes(&mut self, object: u32, written: Written) -> Writes {
        let relatives = self.block(block::encode_relatives(&written.relatives, self.endian));
        let bases = self.bases.get(&object).map_or(&[][..], Vec::as_slice);
        let close = bases.iter().find_map(|(base, block)| Some((*block, changes(base, &written)?)));
        if let Some((bindings, (slots, indirects))) = close {
            let changes = (!slots.is_empty() || !indirects.is_empty()).then(|| {
                let changes = Written { slots, indirects, ..Written::default() };
                self.block(block::encode_bindings(&changes, self.endian))
            });
            return Writes { relatives, bindings, changes };
        }
        let bindings = self.block(block::encode_bindings(&written, self.endian));
        let bases = self.bases.entry(object).or_default();
        if bases.len() < MOST_BASES {
            bases.push((written, bindings));
        }
        Writes { relatives, bindings, changes: None }
    }
}

fn renumber(written: &mut Written, numbers: &FxHashMap<usize, u32>) {
    for slot in written.slots.iter_mut().chain(&mut written.indirects) {
        if let Definer::Object(object) = &mut slot.definer {
            *object = numbers[&(*object as usize)];
        }
    }
}

/// Returns the words to write after `base` to get `own`. Returns `None` if that is impossible, or
/// if they are not fewer than half of `own`. The module writes slots, then changed slots, and calls
/// resolvers after both.
fn changes(base: &Written, own: &Written) -> Option<(Vec<SlotBinding>, Vec<SlotBinding>)> {
    // Changes have no residuals and no lazy slots, so these must be equal.
    if base.residuals != own.residuals || base.lazies != own.lazies {
        return None;
    }
    let mut slots: Vec<SlotBinding> = Vec::new();
    let mut old = base.slots.iter().peekable();
    let mut passed: Vec<u32> = Vec::new();
    for slot in &own.slots {
        while let Some(before) = old.next_if(|before| before.offset < slot.offset) {
            passed.push(before.offset);
        }
        if old.next_if(|before| before.offset == slot.offset) != Some(slot) {
            slots.push(*slot);
        }
    }
    passed.extend(old.map(|slot| slot.offset));
    let is_indirect = |offset: &u32| {
        own.indirects.binary_search_by_key(offset, |indirect| indirect.offset).is_ok()
    };
    let keeps = base.indirects.iter().all(|i| own.indirects.binary_search(i).is_ok());
    // A slot that only the base has would get a wrong word, unless a resolver overwrites it.
    if !keeps || !passed.iter().all(is_indirect) || slots.len() * 2 > own.slots.len() {
        return None;
    }
    let is_new = |indirect: &&SlotBinding| base.indirects.binary_search(indirect).is_err();
    let new: Vec<SlotBinding> = own.indirects.iter().filter(is_new).copied().collect();
    // Without the lazy slots beside them, the resolvers would be called at the start.
    (!new.iter().any(|indirect| own.is_lazy(indirect))).then_some((slots, new))
}
