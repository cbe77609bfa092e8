//! Property tests of random edits of random images: an undo restores the original, a repeated edit
//! changes nothing, and independent edits give the same file in any order.

use becalm_core::edit::{Edit, RunPathKind};
use proptest::prelude::*;

use super::{undone, view};
use crate::tests::builder::{Builder, FORMATS};
use crate::{edit, edit_in_place};

fn string() -> impl Strategy<Value = String> {
    "[a-z/.:$]{1,40}"
}

fn needed() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("libone.so.1".to_owned()),
        Just("libc.so.6".to_owned()),
        "/[a-z]{1,30}/lib[a-z]{1,3}.so",
    ]
}

fn kind() -> impl Strategy<Value = RunPathKind> {
    prop_oneof![Just(RunPathKind::Keep), Just(RunPathKind::Rpath), Just(RunPathKind::Runpath)]
}

fn step() -> impl Strategy<Value = Edit> {
    prop_oneof![
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300))
            .prop_map(Edit::ResolutionNote),
        (kind(), proptest::option::of(string()))
            .prop_map(|(kind, value)| Edit::RunPath { kind, value: value.map(Into::into) }),
        (needed(), needed())
            .prop_map(|(from, to)| Edit::ReplaceNeeded { from: from.into(), to: to.into() }),
        needed().prop_map(|name| Edit::AddNeeded(name.into())),
        needed().prop_map(|name| Edit::RemoveNeeded(name.into())),
        proptest::option::of(string()).prop_map(|it| Edit::Audit(it.map(Into::into))),
        string().prop_map(|path| Edit::Interpreter(path.into())),
        string().prop_map(|name| Edit::Soname(name.into())),
        any::<u8>().prop_map(Edit::OsAbi),
        Just(Edit::NoDefaultLibraries),
        Just(Edit::DebugTag),
    ]
}

prop_compose! {
    fn builder()(
        format in 0..FORMATS.len(),
        fixed in any::<bool>(),
        note in any::<bool>(),
        sections in any::<bool>(),
        hash in prop_oneof![Just(0_usize), 8_usize..600],
        spare in 0..6_usize,
        bss in 0..0x9_0000_u64,
        mips in any::<bool>(),
    ) -> Builder {
        let mut builder = Builder::program(FORMATS[format]);
        if fixed {
            (builder.kind, builder.base) = (2, 0x40_0000);
        }
        if mips {
            builder.machine = 8;
        }
        Builder { note, sections, hash: hash & !7, spare, bss, ..builder }
    }
}

fn apply(image: &[u8], steps: &[Edit]) -> Option<Vec<u8>> {
    let edited = edit(image, steps).ok()?;
    Some(edited.patch.map_or(image.to_vec(), |patch| patch.applied_to(image)))
}

/// Returns a number for the part that an edit changes. Edits of one part depend on their order.
fn slot(step: &Edit) -> u8 {
    match step {
        Edit::ResolutionNote(_) => 0,
        Edit::RunPath { .. } => 1,
        Edit::ReplaceNeeded { .. } | Edit::AddNeeded(_) | Edit::RemoveNeeded(_) => 2,
        Edit::Audit(_) => 3,
        Edit::Interpreter(_) => 4,
        Edit::Soname(_) => 5,
        Edit::OsAbi(_) => 6,
        Edit::ExecutableStack(_) => 7,
        Edit::NoDefaultLibraries => 8,
        Edit::DebugTag => 9,
        Edit::ClearSymbolVersion(_) => 10,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_undone_is_the_original(
        builder in builder(), steps in proptest::collection::vec(step(), 1..6),
    ) {
        let original = builder.build();
        if let Some(image) = apply(&original, &steps).filter(|image| *image != original) {
            view(&image);
            prop_assert_eq!(undone(&image), original);
        }
    }

    #[test]
    fn a_single_edit_repeated_changes_nothing(builder in builder(), step in step()) {
        let original = builder.build();
        if let Some(image) = apply(&original, std::slice::from_ref(&step)) {
            let again = edit(image.as_slice(), &[step]).map(|it| it.patch);
            prop_assert_eq!(again, Ok(None));
        }
    }

    #[test]
    fn edits_one_by_one_give_the_same_file_as_edits_at_once(
        builder in builder(), steps in proptest::collection::vec(step(), 2..5),
    ) {
        let original = builder.build();
        let (first, rest) = steps.split_at(1);
        if let (Some(one), Some(both)) = (apply(&original, first), apply(&original, &steps)) {
            prop_assert_eq!(apply(&one, rest), Some(both.clone()));
            let in_place = edit_in_place(one.as_slice(), rest).expect("an edit").patch;
            let in_place = in_place.map_or(one.clone(), |patch| patch.applied_to(&one));
            let (now, then) = (view(&in_place), view(&both));
            prop_assert_eq!(now.dynamic, then.dynamic);
            prop_assert_eq!(now.notes, then.notes);
            prop_assert_eq!(now.interpreter, then.interpreter);
            if in_place != original {
                prop_assert_eq!(undone(&in_place), original);
            }
        }
    }

    #[test]
    fn independent_edits_give_the_same_file_in_any_order(
        builder in builder(), one in step(), other in step(),
    ) {
        prop_assume!(slot(&one) != slot(&other));
        let original = builder.build();
        let there = apply(&original, &[one.clone(), other.clone()]);
        prop_assert_eq!(there, apply(&original, &[other, one]));
    }
}
