//! Tests that a block has the written words, and that programs with equal bindings share blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::block::{self, Definer, Residual, SlotBinding};
use super::{Binder, BoundObject, Member, NewProgram, Written};
use crate::elf::Endian;
use crate::index::Condition;

/// Decodes the words that the module writes, by offset: definer and value.
fn decode(bytes: &[u8], endian: Endian) -> BTreeMap<u32, (u32, i32)> {
    let written = block::decode_bindings(bytes, endian).expect("a block of bindings");
    written.slots.iter().map(|slot| (slot.offset, (slot.definer.word(), slot.value))).collect()
}

fn definer(number: u32) -> Definer {
    if number == 3 { Definer::Absolute } else { Definer::Object(number) }
}

fn slots(of: &BTreeMap<u32, (u32, i32)>) -> Vec<SlotBinding> {
    let slot = |(&word, &(number, value)): (&u32, &(u32, i32))| SlotBinding {
        offset: 8 * word,
        definer: definer(number),
        value,
    };
    of.iter().map(slot).collect()
}

proptest! {
    #[test]
    fn a_block_of_bindings_says_what_is_written(
        of in btree_map(0_u32..5000, (0_u32..4, -9_i32..900), 0..400),
        lazies in vec(0_u32..100, 0..3),
    ) {
        for endian in [Endian::Little, Endian::Big] {
            let indirects = vec![SlotBinding { offset: 80_000, definer: definer(1), value: 7 }];
            let residuals = vec![Residual { offset: 8, symbol: 1, kind: 16, addend: -1 }];
            let (slots, lazies) = (slots(&of), lazies.clone());
            let written = Written { relatives: vec![], slots, indirects, residuals, lazies };
            let bytes = block::encode_bindings(&written, endian);
            prop_assert_eq!(block::decode_bindings(&bytes, endian), Some(written));
        }
    }

    #[test]
    fn a_damaged_block_is_read_without_a_panic(bytes in vec(any::<u8>(), 0..400), small in 0_u8..5) {
        let mut bytes = bytes;
        for (at, byte) in bytes.iter_mut().enumerate().take(28) {
            *byte = if at % 4 == 0 { *byte % 8 * small } else { 0 };
        }
        let _ = block::decode_bindings(&bytes, Endian::Little);
    }

    /// Base and changes, written in this order as the module does, give the bindings of the
    /// program. The loader later writes the slots of the base that now have a resolver.
    #[test]
    fn changes_after_the_base_give_the_program(
        first in btree_map(0_u32..60, (0_u32..3, 0_i32..4), 1..60),
        second in btree_map(0_u32..60, (0_u32..3, 0_i32..4), 1..60),
        resolver in 0_u32..60,
    ) {
        let written = |of: &BTreeMap<u32, (u32, i32)>, indirects: Vec<SlotBinding>| {
            let mut slots = slots(of);
            slots.retain(|slot| indirects.iter().all(|i| i.offset != slot.offset));
            Written { slots, indirects, ..Written::default() }
        };
        let indirect = SlotBinding { offset: 8 * resolver, definer: definer(1), value: 5 };
        let both = [written(&first, Vec::new()), written(&second, vec![indirect])];
        let mut binder = Binder::new(Endian::Little);
        for (name, written) in ["/p", "/q"].into_iter().zip(&both) {
            binder.add(program(name, written.clone()));
        }
        let bound = binder.finish();
        for (program, written) in bound.programs.iter().zip(&both) {
            let Member { writes: Some(writes), .. } = program.members[0] else { unreachable!() };
            let mut memory = decode(&bound.blocks[writes.bindings as usize], Endian::Little);
            if let Some(changes) = writes.changes {
                memory.extend(decode(&bound.blocks[changes as usize], Endian::Little));
            }
            written.indirects.iter().for_each(|i| { memory.remove(&i.offset); });
            let number = |definer: Definer| match definer {
                Definer::Object(load_index) => program.members[load_index as usize].object,
                Definer::Absolute => u32::MAX,
            };
            let wanted = written.slots.iter().map(|s| (s.offset, (number(s.definer), s.value)));
            prop_assert_eq!(memory, wanted.collect::<BTreeMap<_, _>>());
        }
    }
}

fn object(path: &str) -> BoundObject {
    BoundObject {
        path: path.into(),
        is_rooted: false,
        dynamic: 1,
        dynamic_hash: 2,
        build_id: None,
        tables: None,
        condition: Arc::new(Condition::Absent("/none".into())),
    }
}

/// A program whose library's bindings are these.
fn program(path: &str, written: Written) -> NewProgram {
    let members = vec![
        (0, object("/lib/library"), Some(written)),
        (1, object("/lib/other"), None),
        (2, object(path), None),
    ];
    let variables = crate::facts::Environment::default();
    NewProgram { path: path.into(), members, undefined_function: false, relocations: 9, variables }
}

#[test]
fn programs_that_bind_alike_share_a_block() {
    let of: BTreeMap<u32, (u32, i32)> = (0..100).map(|word| (word, (1, 4))).collect();
    let own = |changed: u32| {
        let mut of = of.clone();
        of.insert(changed, (2, 8));
        Written { slots: slots(&of), ..Written::default() }
    };
    let mut binder = Binder::new(Endian::Little);
    for (path, changed) in [("/a", 7), ("/b", 7), ("/c", 9)] {
        binder.add(program(path, own(changed)));
    }
    let bound = binder.finish();
    let writes: Vec<_> = bound.programs.iter().map(|p| p.members[0].writes.unwrap()).collect();
    assert!(writes.iter().all(|w| w.bindings == writes[0].bindings));
    assert_eq!(writes[0].changes, None);
    // The program is another object in each, so that slot 7 is bound otherwise in /b.
    let changes = writes.iter().map(|w| w.changes.map(|c| bound.blocks[c as usize].len()));
    assert!(changes.skip(1).all(|length| length.is_some_and(|length| length <= 64)));
    assert_eq!(bound.objects.len(), 5);
    let mut taken = Binder::new(Endian::Little);
    for program in bound.programs.iter().rev() {
        taken.add(bound.taken(program, Endian::Little, &|_| true).unwrap());
    }
    let taken = taken.finish();
    assert_eq!(bound.differences(&taken, Endian::Little), [""; 0]);
    assert_eq!(taken.differences(&bound, Endian::Little), [""; 0]);
    let mut other = Binder::new(Endian::Little);
    for (path, changed) in [("/c", 9), ("/b", 8), ("/a", 7)] {
        other.add(program(path, own(changed)));
    }
    assert_eq!(bound.differences(&other.finish(), Endian::Little), ["/b"]);
}

#[test]
fn a_function_that_is_lazy_in_one_program_alone_is_no_change() {
    let of: BTreeMap<u32, (u32, i32)> = (0..100).map(|word| (word, (1, 4))).collect();
    let whole = Written { slots: slots(&of), ..Written::default() };
    let lazy = Written { slots: whole.slots[1..].to_vec(), lazies: vec![0], ..Written::default() };
    let mut binder = Binder::new(Endian::Little);
    binder.add(program("/a", whole));
    binder.add(program("/b", lazy));
    let bound = binder.finish();
    let writes: Vec<_> = bound.programs.iter().map(|p| p.members[0].writes.unwrap()).collect();
    assert_ne!(writes[0].bindings, writes[1].bindings);
    assert_eq!(writes[1].changes, None);
}

#[test]
fn a_resolver_of_a_lazy_function_is_no_change() {
    let of: BTreeMap<u32, (u32, i32)> = (1..100).map(|word| (word, (1, 4))).collect();
    let undefined = Written { slots: slots(&of), lazies: vec![0], ..Written::default() };
    let indirect = SlotBinding { offset: 0, definer: definer(1), value: 7 };
    let resolved = Written { indirects: vec![indirect], ..undefined.clone() };
    let mut binder = Binder::new(Endian::Little);
    binder.add(program("/a", undefined));
    binder.add(program("/b", resolved.clone()));
    let bound = binder.finish();
    assert_eq!(bound.programs.iter().map(|p| p.bindings).collect::<Vec<_>>(), [99, 99]);
    let Member { writes: Some(writes), .. } = bound.programs[1].members[0] else { unreachable!() };
    assert_eq!(writes.changes, None);
    let mut eager = Binder::new(Endian::Little);
    eager.add(program("/b", Written { lazies: Vec::new(), ..resolved }));
    assert_eq!(eager.finish().differences(&bound, Endian::Little), ["/b"]);
}
