//! `becalm elf`: single edits of ELF files, with the flags of `patchelf`.

pub(crate) mod args;
pub(crate) mod manual;
mod os_abi;
pub(crate) mod run;
