//! `DT_VERSYM`, `DT_VERNEED` and `DT_VERDEF` of one object.

use object::elf;
use object::read::ReadRef;

use crate::elf::{ElfError, Image, Reader, Tags};

/// The limit on entries of `DT_VERNEED` and of `DT_VERDEF`. A version index has 15 bits.
const MAX_ENTRIES: usize = 1 << 15;
/// The bit of a version index that hides a version from references without one.
const HIDDEN: u16 = 0x8000;

/// The versions of an object that glibc's `_dl_check_map_versions` stores (`l_versyms`,
/// `l_versions`).
#[derive(Clone, Debug, Default)]
pub(super) struct VersionTable {
    /// `l_versyms`: the version index of each symbol; `None` if the object has no versions.
    pub(super) symbols: Option<Vec<u16>>,
    /// The versions by index.
    versions: Vec<Version>,
    /// `DT_VERNEED`.
    pub(super) needs: Vec<VersionNeed>,
    /// `DT_VERDEF`, including the base version. `None` if the object has no such table.
    pub(super) definitions: Option<Vec<Version>>,
}

/// A version that is needed or defined. All fields are zero for the base version, and for an index
/// without an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Version {
    pub(super) hash: u32,
    /// Offset of the name in the string table.
    pub(super) name: u64,
    /// Set in `vna_other`: only a definition of exactly this version matches.
    pub(super) hidden: bool,
    /// `VER_FLG_WEAK`: the start continues if the version is missing.
    pub(super) weak: bool,
}

/// The versions of one library that an object needs.
#[derive(Clone, Debug)]
pub(super) struct VersionNeed {
    /// Offset of the library's name in the string table.
    pub(super) file: u64,
    pub(super) versions: Vec<Version>,
}

impl VersionTable {
    /// Reads the tables. `symbol_count` is the size of the symbol table.
    pub(super) fn read<'data, R: ReadRef<'data>>(
        image: &Image<'data, R>,
        tags: &Tags,
        symbol_count: u64,
    ) -> Result<Self, ElfError> {
        let mut table = Self::default();
        // `_dl_check_map_versions` stores the needed versions first, so that a definition replaces
        // one with the same index.
        if let Some(at) = tags.get(elf::DT_VERNEED) {
            let malformed = ElfError::Malformed("its DT_VERNEED lies outside its segments");
            table.read_needs(image, at).ok_or(malformed)?;
        }
        if let Some(at) = tags.get(elf::DT_VERDEF) {
            let malformed = ElfError::Malformed("its DT_VERDEF lies outside its segments");
            table.definitions = Some(table.read_definitions(image, at).ok_or(malformed)?);
        }
        // glibc sets l_versyms only if some version has an index above 0.
        if let Some(at) = tags.get(elf::DT_VERSYM).filter(|_| table.versions.len() > 1) {
            let malformed = ElfError::Malformed("its DT_VERSYM lies outside its segments");
            let bytes = image.bytes(at, symbol_count * 2).ok_or(malformed)?;
            let halves = bytes.chunks_exact(2).filter_map(|chunk| image.ident.endian.u16(chunk, 0));
            table.symbols = Some(halves.collect());
        }
        Ok(table)
    }

    /// `Elfxx_Verneed` and its `Elfxx_Vernaux`, the same in both classes.
    fn read_needs<'data, R: ReadRef<'data>>(
        &mut self,
        image: &Image<'data, R>,
        mut at: u64,
    ) -> Option<()> {
        let mut left = MAX_ENTRIES;
        loop {
            let need = entry(image, at, 16)?;
            let mut versions = Vec::new();
            let mut aux_at = at.wrapping_add(need.word(8)?.into());
            loop {
                // `vna_next` may lead back to an earlier entry of a hostile file.
                left = left.checked_sub(1)?;
                let aux = entry(image, aux_at, 16)?;
                let (hash, name) = (aux.word(0)?, aux.word(8)?.into());
                let (other, weak) = (aux.half(6)?, aux.half(4)? & elf::VER_FLG_WEAK.0 != 0);
                let version = Version { hash, name, hidden: other & HIDDEN != 0, weak };
                versions.push(version);
                self.set(other & !HIDDEN, version);
                // `_dl_check_map_versions` follows the links and never reads `vn_cnt`.
                match aux.word(12)? {
                    0 => break,
                    step => aux_at = aux_at.wrapping_add(step.into()),
                }
            }
            self.needs.push(VersionNeed { file: need.word(4)?.into(), versions });
            match need.word(12)? {
                0 => return Some(()),
                step => at = at.wrapping_add(step.into()),
            }
        }
    }

    /// `Elfxx_Verdef`, and the first `Elfxx_Verdaux` of each, which is its name.
    fn read_definitions<'data, R: ReadRef<'data>>(
        &mut self,
        image: &Image<'data, R>,
        mut at: u64,
    ) -> Option<Vec<Version>> {
        let mut definitions = Vec::new();
        for _ in 0..MAX_ENTRIES {
            let definition = entry(image, at, 20)?;
            let (flags, index) = (definition.half(2)?, definition.half(4)? & !HIDDEN);
            let hash = definition.word(8)?;
            let aux_at = at.wrapping_add(definition.word(12)?.into());
            let name = entry(image, aux_at, 8)?.word(0)?.into();
            // `match_symbol` compares the base version as well.
            let version = Version { hash, name, ..self.get(index) };
            definitions.push(version);
            // The base version is the library's own name, which no symbol reference has.
            let is_base = flags & elf::VER_FLG_BASE.0 != 0;
            self.set(index, if is_base { self.get(index) } else { version });
            match definition.word(16)? {
                0 => return Some(definitions),
                step => at = at.wrapping_add(step.into()),
            }
        }
        None
    }

    fn set(&mut self, index: u16, version: Version) {
        let index = usize::from(index);
        if self.versions.len() <= index {
            self.versions.resize(index + 1, Version::default());
        }
        self.versions[index] = version;
    }

    /// Returns the entry of a symbol in `DT_VERSYM`, including the hidden bit.
    pub(super) fn entry(&self, symbol: u32) -> Option<u16> {
        self.symbols.as_ref()?.get(symbol as usize).copied()
    }

    /// Returns the version with an index. All fields are zero beyond the table.
    pub(super) fn get(&self, index: u16) -> Version {
        self.versions.get(usize::from(index & !HIDDEN)).copied().unwrap_or_default()
    }
}

/// Reads the fixed part of an entry.
fn entry<'data, R: ReadRef<'data>>(
    image: &Image<'data, R>,
    at: u64,
    size: u64,
) -> Option<Reader<'data>> {
    Some(Reader { endian: image.ident.endian, bytes: image.bytes(at, size)? })
}
