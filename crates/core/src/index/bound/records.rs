//! Writes and reads the records of programs and objects with bindings.

use super::start_variables;
use super::{Bound, BoundObject, BoundProgram, BuildId, Member, Tables, Writes};
use crate::index::encoder::{Encoder, Section};
use crate::index::layout::{self, Writer, kind};
use crate::index::records::{Conditions, Table, condition_at};
use crate::index::{EncodeError, TableError, hash};

const NO_BLOCK: u32 = u32::MAX;

/// Encodes the bindings. An index without bound programs has none of these sections.
pub(in crate::index) fn encode(
    bound: &Bound,
    encoder: &mut Encoder,
) -> Result<Vec<Section>, EncodeError> {
    let writer = || Writer::new(encoder.target.endian);
    let (mut blocks, mut words, mut members) = (writer(), writer(), writer());
    for (index, block) in bound.blocks.iter().enumerate() {
        let at = layout::narrow(words.bytes.len() / 4, "too many bindings")?;
        blocks.words([at, (block.len() / 4) as u32]);
        blocks.long(hash::block(index as u64, block));
        words.bytes.extend_from_slice(block);
    }
    let objects = encoder.records(&bound.objects, |encoder, record, object| {
        let build_id = object.build_id.unwrap_or(BuildId { address: 0, length: 0, hash: 0 });
        let path = encoder.string(&object.path)?;
        record.words([path, u32::from(object.is_rooted) * layout::BOUND_OBJECT_ROOTED]);
        record.long(object.dynamic);
        record.long(object.dynamic_hash);
        record.long(build_id.hash);
        record.words([build_id.address, build_id.length]);
        record.long(object.tables.as_ref().map_or(0, |tables| tables.hash));
        // The place of the ranges, plus one.
        record.word(match &object.tables {
            Some(Tables { ranges, .. }) => {
                let words: Vec<u32> = ranges.iter().flat_map(|&(at, size)| [at, size]).collect();
                encoder.numbers(&words)? + 1
            }
            None => 0,
        });
        record.words([encoder.condition(&object.condition), 0]);
        Ok(hash::bytes(0, &object.path))
    })?;
    let mut sorted: Vec<&BoundProgram> = bound.programs.iter().collect();
    sorted.sort_by_key(|program| (hash::low(0, &program.path), &program.path));
    let programs = encoder.records(sorted, |encoder, record, program| {
        let variables = start_variables::text(&program.variables);
        let variables = variables.map(|text| encoder.string(&text)).transpose()?;
        let path = encoder.string(&program.path)?;
        let first = members.bytes.len();
        for Member { object, writes } in &program.members {
            let Writes { relatives, bindings, changes } =
                writes.unwrap_or(Writes { relatives: NO_BLOCK, bindings: NO_BLOCK, changes: None });
            members.words([*object, relatives, bindings, changes.unwrap_or(NO_BLOCK)]);
        }
        let members_check = hash::low(0, &members.bytes[first..]);
        record.words([hash::low(0, &program.path), path, (first / kind::MEMBERS.size) as u32]);
        record.words([program.members.len() as u32, members_check]);
        let flag = layout::BOUND_PROGRAM_UNDEFINED_FUNCTION;
        record.word(u32::from(program.undefined_function) * flag);
        record.words([program.relocations, program.bindings]);
        record.word(variables.map_or(0, |place| place.saturating_add(1)));
        Ok(hash::bytes(0, &program.path))
    })?;
    if bound.programs.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![
        (kind::BOUND_PROGRAMS, programs),
        (kind::BOUND_OBJECTS, objects),
        (kind::MEMBERS, members),
        (kind::BLOCKS, blocks),
        (kind::BLOCK_WORDS, words),
    ])
}

/// Reads the bindings of a table.
pub(in crate::index) fn read(
    table: &Table<'_>,
    known: Conditions<'_>,
) -> Result<Bound, TableError> {
    let bound = Bound {
        objects: table.all(kind::BOUND_OBJECTS, |table, at| object(table, at, known))?,
        programs: table.all(kind::BOUND_PROGRAMS, program)?,
        blocks: blocks(table)?,
    };
    let is_there = |index: u32, count: usize| (index as usize) < count;
    let fits = |member: &Member| {
        let blocks = member
            .writes
            .iter()
            .flat_map(|w| [Some(w.relatives), Some(w.bindings), w.changes].into_iter().flatten());
        is_there(member.object, bound.objects.len())
            && blocks.into_iter().all(|block| is_there(block, bound.blocks.len()))
    };
    if bound.programs.iter().flat_map(|program| &program.members).all(fits) {
        Ok(bound)
    } else {
        Err(TableError::Damaged("a program's objects leave it"))
    }
}

fn object(table: &Table<'_>, at: usize, known: Conditions<'_>) -> Result<BoundObject, TableError> {
    let path = table.path(at, 0, kind::BOUND_OBJECTS)?.to_owned();
    let length = table.word(at + 36)?;
    let build_id = BuildId { hash: table.long(at + 24)?, address: table.word(at + 32)?, length };
    let ranges = table.optional_numbers(at + 48)?;
    let hash = table.long(at + 40)?;
    let pairs = |words: Vec<u32>| {
        words.as_chunks::<2>().0.iter().map(|&[at, length]| (at, length)).collect()
    };
    let tables = ranges.map(|words| Tables { ranges: pairs(words), hash });
    Ok(BoundObject {
        path,
        is_rooted: table.word(at + 4)? & layout::BOUND_OBJECT_ROOTED != 0,
        dynamic: table.long(at + 8)?,
        dynamic_hash: table.long(at + 16)?,
        build_id: (length > 0).then_some(build_id),
        tables,
        condition: condition_at(known, table.word(at + 52)?)?,
    })
}

fn program(table: &Table<'_>, at: usize) -> Result<BoundProgram, TableError> {
    let path = table.path(at, 4, kind::BOUND_PROGRAMS)?.to_owned();
    let members = table.part(kind::MEMBERS, at + 8, "a program's objects leave it")?;
    let flags = table.word(at + 20)?;
    let variables = table.word(at + 32)?.checked_sub(1);
    let variables = variables.map(|place| table.string(place)).transpose()?;
    Ok(BoundProgram {
        path,
        members: members.records().map(|at| member(table, at)).collect::<Result<_, _>>()?,
        undefined_function: flags & layout::BOUND_PROGRAM_UNDEFINED_FUNCTION != 0,
        relocations: table.word(at + 24)?,
        bindings: table.word(at + 28)?,
        variables: variables.map(|text| start_variables::read(text)).unwrap_or_default(),
    })
}

fn member(table: &Table<'_>, at: usize) -> Result<Member, TableError> {
    let block = |field: usize| {
        let block = table.word(at + field)?;
        Ok((block != NO_BLOCK).then_some(block))
    };
    let (relatives, bindings, changes) = (block(4)?, block(8)?, block(12)?);
    let writes = relatives.zip(bindings);
    let writes = writes.map(|(relatives, bindings)| Writes { relatives, bindings, changes });
    Ok(Member { object: table.word(at)?, writes })
}

fn blocks(table: &Table<'_>) -> Result<Vec<Vec<u8>>, TableError> {
    let mut blocks = Vec::new();
    for (index, at) in table.section(kind::BLOCKS)?.records().enumerate() {
        let words = table.part(kind::BLOCK_WORDS, at, "a block of bindings leaves it")?;
        let block = table.reader.bytes[words.at..words.at + 4 * words.count].to_vec();
        if hash::block(index as u64, &block) != table.long(at + 8)? {
            return Err(TableError::Damaged("the check of a block of bindings does not fit"));
        }
        blocks.push(block);
    }
    Ok(blocks)
}
