//! A Bloom filter of the file names of an index's programs. `embed` writes it into the first page of the
//! module, so that the module declines a start of another program without a look at the table
//! (`crates/audit/module/idle.c`).

use bstr::{BStr, ByteSlice};

use super::layout::{self, kind};
use super::records::Table;
use super::{TableError, hash};

/// Bits of a position in the filter.
const BITS: u32 = 14;
const PROBES: u32 = 4;
/// Bytes of the filter.
pub(super) const SIZE: usize = (1 << BITS) / 8;

/// Returns the filter of a table. If the table cannot be read, every program may be in it.
pub(super) fn of(table: &[u8]) -> [u8; SIZE] {
    let mut filter = [0; SIZE];
    add_all(&mut filter, table).map_or([0xff; SIZE], |()| filter)
}

fn add_all(filter: &mut [u8; SIZE], table: &[u8]) -> Result<(), TableError> {
    let records = Table::unchecked(table)?;
    let mut add = |path: u32| records.string(path).map(|path| insert(filter, path));
    for at in records.section(kind::PROGRAMS)?.records() {
        add(records.word(at)?)?;
    }
    for at in records.section(kind::BOUND_PROGRAMS)?.records() {
        add(records.word(at + 4)?)?;
    }
    for at in records.section(kind::OBJECTS)?.records() {
        if records.word(at + 16)? & layout::OBJECT_PROGRAM != 0 {
            add(records.word(at)?)?;
        }
    }
    Ok(())
}

fn insert(filter: &mut [u8; SIZE], path: &BStr) {
    let name = path.rsplit_str("/").next().unwrap_or_default();
    let mut hash = hash::bytes(0, name);
    for _ in 0..PROBES {
        let bit = hash as usize % (8 * SIZE);
        filter[bit / 8] |= 1 << (bit % 8);
        hash >>= BITS;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TARGETS, store};
    use super::super::{Index, Program, encode};
    use super::*;

    fn has(filter: &[u8; SIZE], path: &str) -> bool {
        let mut with = *filter;
        insert(&mut with, path.into());
        with == *filter
    }

    #[test]
    fn a_filter_has_all_programs_and_few_others() {
        let program = |n| Program { path: format!("/bin/prog{n}").into(), ..Program::default() };
        let index = Index { programs: (0..1000).map(program).collect(), ..store(5) };
        for target in TARGETS {
            let filter = of(&encode(&index, target).unwrap());
            assert!((0..1000).all(|n| has(&filter, &format!("/other/prog{n}"))));
            let others = (0..1000).filter(|n| has(&filter, &format!("/bin/other{n}"))).count();
            assert!(others < 50, "{others} of 1000");
        }
    }

    #[test]
    fn every_program_may_be_in_a_table_that_cannot_be_read() {
        let table = encode(&store(5), TARGETS[0]).unwrap();
        assert_eq!(of(&table[..table.len() - 1]), [0xff; SIZE]);
    }
}
