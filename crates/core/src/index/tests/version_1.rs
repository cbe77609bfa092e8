//! Tables of version 1 for tests, made from tables of version 2. The tests of the command line include
//! this file too.

/// The table of version 1 with those sections of a little-endian one of version 2 that it had. `hash`
/// is that of the format, without a seed.
pub(super) fn of(table: &[u8], hash: impl Fn(&[u8]) -> u64) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().expect("a word"));
    let section = |kind: u32| {
        let mut sections = (0..word(24) as usize).map(|n| 64 + 16 * n);
        sections.find(|&at| word(at) == kind).expect("a section")
    };
    // Sections of version 2 begin later than a header of version 1 ends.
    let mut old = table.to_vec();
    let mut set = |at: usize, value: u32| old[at..at + 4].copy_from_slice(&value.to_le_bytes());
    set(12, 1);
    for (kind, at) in [(1, 24), (2, 32), (3, 40), (4, 48), (5, 56), (6, 64), (7, 72), (8, 84)] {
        set(at, word(section(kind) + 4));
        set(at + 4, word(section(kind) + 8));
    }
    set(80, word(28));
    set(92, word(32));
    old[96..120].fill(0);
    let checksum = hash(&old);
    old[104..112].copy_from_slice(&checksum.to_le_bytes());
    let check = hash(&old[..116]) as u32;
    old[116..120].copy_from_slice(&check.to_le_bytes());
    old
}
