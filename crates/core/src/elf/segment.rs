//! One entry of the program header table.

use object::elf::ProgramType;

/// One program header, widened to 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) kind: ProgramType,
    pub(super) is_executable: bool,
    pub(super) is_writable: bool,
    pub(super) offset: u64,
    pub(super) vaddr: u64,
    pub(super) filesz: u64,
    pub(super) memsz: u64,
    pub(super) align: u64,
}
