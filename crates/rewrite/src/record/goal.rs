//! Encodes the goal of an edit in the trailer, so that a further edit can be added to it. The trailer
//! has the position of the note's descriptor, not a copy.

use bstr::BString;

use super::codec::{In, Out};
use crate::fields::Fields;
use crate::goal::{Goal, Names, Needed};

const UNCHANGED: u8 = 0;
const ABSENT: u8 = 1;
const PRESENT: u8 = 2;

/// Encodes a goal. `note` is the offset and length of the descriptor in the file.
pub(super) fn encode(goal: &Goal, note: Option<(u64, u64)>) -> Vec<u8> {
    let mut out = Out::default();
    match (&goal.note, note) {
        (None, _) => out.0.push(UNCHANGED),
        (Some(Some(_)), Some((offset, size))) => {
            out.0.push(PRESENT);
            out.u64(offset);
            out.u64(size);
        }
        (Some(_), _) => out.0.push(ABSENT),
    }
    optional(&mut out, goal.interpreter.as_ref());
    match &goal.names {
        None => out.0.push(UNCHANGED),
        Some(names) => encode_names(&mut out, names),
    }
    // A record without changed fields is as it was before there were such edits.
    if goal.fields != Fields::default() {
        encode_fields(&mut out, &goal.fields);
    }
    out.0
}

fn encode_names(out: &mut Out, names: &Names) {
    out.0.push(PRESENT);
    out.u64(names.needed.len() as u64);
    for needed in &names.needed {
        // A dynamic section of 2^32 entries was refused before.
        out.u32(needed.from.map_or(u32::MAX, |from| from as u32));
        out.bytes(&needed.name);
    }
    for string in [&names.rpath, &names.runpath, &names.audit, &names.soname] {
        optional(out, string.as_ref());
    }
}

fn encode_fields(out: &mut Out, fields: &Fields) {
    for byte in [fields.os_abi, fields.executable_stack.map(u8::from)] {
        match byte {
            None => out.0.push(UNCHANGED),
            Some(byte) => out.0.extend([PRESENT, byte]),
        }
    }
    out.0.push(u8::from(fields.no_default_libraries));
    out.0.push(u8::from(fields.debug_tag));
    out.u64(fields.unversioned.len() as u64);
    for name in &fields.unversioned {
        out.bytes(name);
    }
}

fn optional(out: &mut Out, string: Option<&BString>) {
    match string {
        None => out.0.push(ABSENT),
        Some(string) => {
            out.0.push(PRESENT);
            out.bytes(string);
        }
    }
}

/// Decodes a goal. `read` returns the bytes of the file at an offset.
pub(super) fn decode(bytes: &[u8], read: impl Fn(u64, u64) -> Option<Vec<u8>>) -> Option<Goal> {
    let mut from = In(bytes);
    let note = match from.u8()? {
        UNCHANGED => None,
        ABSENT => Some(None),
        PRESENT => Some(Some(read(from.u64()?, from.u64()?)?)),
        _ => return None,
    };
    let interpreter = string(&mut from)?;
    let names = match from.u8()? {
        UNCHANGED => None,
        PRESENT => Some(names(&mut from)?),
        _ => return None,
    };
    let fields = if from.0.is_empty() { Fields::default() } else { fields(&mut from)? };
    from.0.is_empty().then_some(Goal { note, interpreter, names, fields })
}

fn fields(from: &mut In) -> Option<Fields> {
    let mut byte = || match from.u8()? {
        UNCHANGED => Some(None),
        PRESENT => Some(Some(from.u8()?)),
        _ => None,
    };
    let (os_abi, executable_stack) = (byte()?, byte()?.map(|byte| byte != 0));
    let (no_default_libraries, debug_tag) = (from.u8()? != 0, from.u8()? != 0);
    let mut unversioned = Vec::new();
    for _ in 0..from.u64()? {
        unversioned.push(from.bytes()?.into());
    }
    Some(Fields { os_abi, executable_stack, no_default_libraries, debug_tag, unversioned })
}

fn string(from: &mut In) -> Option<Option<BString>> {
    match from.u8()? {
        ABSENT => Some(None),
        PRESENT => Some(Some(from.bytes()?.into())),
        _ => None,
    }
}

fn names(from: &mut In) -> Option<Names> {
    let count = from.u64()?;
    let mut needed = Vec::new();
    for _ in 0..count {
        let index = from.u32()?;
        let index = if index == u32::MAX { None } else { Some(usize::try_from(index).ok()?) };
        needed.push(Needed { from: index, name: from.bytes()?.into() });
    }
    Some(Names {
        needed,
        rpath: string(from)?,
        runpath: string(from)?,
        audit: string(from)?,
        soname: string(from)?,
    })
}
