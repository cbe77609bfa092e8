//! The entries of `PT_DYNAMIC` that symbol lookup and relocation use.

use object::elf::{self, DynamicFlags, DynamicTag};
use object::read::ReadRef;

use crate::elf::{Image, Tags};

/// Address and size in bytes of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) address: u64,
    pub(super) size: u64,
}

impl Table {
    pub(super) fn end(self) -> u64 {
        self.address.wrapping_add(self.size)
    }

    /// Reads the table. An empty one may have any address.
    pub(super) fn bytes<'data, R: ReadRef<'data>>(
        self,
        image: &Image<'data, R>,
    ) -> Option<&'data [u8]> {
        if self.size == 0 { Some(&[]) } else { image.bytes(self.address, self.size) }
    }
}

impl Tags {
    pub(super) fn table(&self, address: DynamicTag, size: DynamicTag) -> Table {
        let value = |tag| self.get(tag).unwrap_or(0);
        Table { address: value(address), size: value(size) }
    }

    /// Returns true if there is an entry, or the flag that replaces it.
    pub(crate) fn has(&self, tag: DynamicTag, flag: DynamicFlags) -> bool {
        self.get(tag).is_some() || self.get(elf::DT_FLAGS).unwrap_or(0) & flag.0 != 0
    }

    /// `DT_BIND_NOW`, `DF_BIND_NOW` or `DF_1_NOW`.
    pub(super) fn bind_now(&self) -> bool {
        // `elf_get_dynamic_info` sets `l_info[DT_BIND_NOW]` for `DF_1_NOW` as well.
        let flags_1 = self.get(elf::DT_FLAGS_1).unwrap_or(0);
        self.has(elf::DT_BIND_NOW, elf::DF_BIND_NOW) || flags_1 & elf::DF_1_NOW.0 != 0
    }
}
