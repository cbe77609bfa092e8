//! The paths that exist below the packages of stores, so that the module can answer "not found".
//!
//! Each package has a hash table with the kind of each path, by a fingerprint of 29 bits. A path
//! that exists is always in the table. A path that does not exist is found by chance once in some
//! hundred million. So "not found" is certain, and after "found" the kernel still does the call.
//! The tables of packages are independent: an update copies those of unchanged packages.
//!
//! [`PackageBuilder`] makes a table, and `crates/audit/module/paths.c` reads it. [`records`] writes and
//! reads the sections of the index (`docs/index-format.md`).

#[cfg(any(test, feature = "mem"))]
#[path = "tests/ask.rs"]
mod ask;
mod records;
#[cfg(test)]
mod tests;

use bstr::{BStr, BString};
use rustc_hash::FxHashSet;

use super::{Fingerprint, hash};

#[cfg(any(test, feature = "mem"))]
pub use ask::Answer;
pub(super) use records::{encode, read};

/// Roots that an index can have.
pub const MOST_ROOTS: usize = 64;
/// Words of a block: its check, then slots.
const BLOCK: usize = 512;
/// The limit on paths of a package with one block, and the mean of a block if there are more.
const PER_BLOCK: usize = 338;
/// Slots of a full block. One word is its check.
const SLOTS: usize = BLOCK - 1;
/// The limit on paths of a block, so that every search in it ends soon.
const FULLEST: usize = 470;
/// The bits of a slot with the kind. The others are the fingerprint.
const KIND: u32 = 7;

/// All paths below the packages of some stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The stores.
    pub roots: Vec<Root>,
    /// The packages, ascending by [`Package::state`], each state once.
    pub packages: Vec<Package>,
}

/// A store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its real path.
    pub path: BString,
    /// True if the table has only some of its packages. An update adds none.
    pub is_chosen: bool,
    /// Its fingerprint; the length is zero.
    pub fingerprint: Fingerprint,
}

/// An entry of a store, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Position in [`Paths::roots`].
    pub root: u32,
    /// Its name in the store.
    pub name: BString,
    /// [`step`] from its root by its name.
    pub state: u64,
    /// Its fingerprint. Device and length are zero (the device is the root's).
    pub fingerprint: Fingerprint,
    /// True if it changed shortly before it was read: it may still be being installed. An update
    /// reads it again.
    pub young: bool,
    /// The paths below it.
    pub table: PackageTable,
}

impl Package {
    /// A package that was changing, so that the kernel resolves its paths until an update reads it.
    #[must_use]
    pub fn left_out(root: u32, name: BString, state: u64) -> Self {
        let (fingerprint, table) = Default::default();
        Self { root, name, state, fingerprint, young: false, table }
    }

    /// Returns false for a package that was left out.
    #[must_use]
    pub fn is_read(&self) -> bool {
        !self.table.blocks.is_empty()
    }
}

/// The paths below a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageTable {
    /// Slots of each block; none if the package was left out.
    blocks: Vec<Vec<u32>>,
    /// The links to directories, ascending by state.
    pub links: Vec<Link>,
}

/// A link to a directory of an indexed package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The link's own state.
    pub state: u64,
    /// State of the directory.
    pub target: u64,
    /// State of the package of the directory.
    pub package: u64,
}

/// The kinds of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A directory on the store's own device that every user may search.
    Directory = 1,
    /// A regular file.
    File = 2,
    /// A link, in one step, to such a directory of an indexed package.
    Link = 3,
    /// Any other path. The kernel must resolve it.
    Other = 4,
}

/// Returns the state of a store, from which [`step`] derives the states of its packages.
#[must_use]
pub fn root_state(path: &BStr) -> u64 {
    hash::bytes(0, path)
}

/// Returns the state of an entry of a directory.
#[must_use]
pub fn step(directory: u64, name: &[u8]) -> u64 {
    hash::bytes(directory, name)
}

/// Returns true for a name that can exist in a store although `readdir` does not return it:
/// snapshot directories of NFS, ZFS and GPFS, and names outside ASCII, for which some file systems
/// accept two spellings.
#[must_use]
pub fn is_odd(name: &[u8]) -> bool {
    matches!(name, b".zfs" | b".snapshot" | b".snapshots" | b".lustre" | b"~snapshot")
        || !name.is_ascii()
}

/// Returns the block and slot where the search for a state begins.
fn place(state: u64, blocks: usize, slots: usize) -> (usize, usize) {
    let wide = (state >> 32) * blocks as u64;
    let slot = ((wide & 0xffff_ffff) * slots as u64) >> 32;
    ((wide >> 32) as usize, slot as usize)
}

/// Returns the fingerprint of a state.
fn print(state: u64) -> u32 {
    state as u32 & !KIND
}

/// Collects the paths of a package.
#[derive(Clone, Debug, Default)]
pub struct PackageBuilder {
    entries: Vec<(u64, Kind)>,
    links: Vec<Link>,
}

impl PackageBuilder {
    /// Adds a path by its state, other than a link.
    pub fn add(&mut self, state: u64, kind: Kind) {
        self.entries.push((state, kind));
    }

    /// Adds a link to a directory.
    pub fn add_link(&mut self, link: Link) {
        self.entries.push((link.state, Kind::Link));
        self.links.push(link);
    }

    /// Makes the table.
    #[must_use]
    pub fn finish(self) -> PackageTable {
        let Self { entries, mut links } = self;
        links.sort_unstable();
        links.dedup();
        // If two links have one state, neither is followed. The slot stays, and the kernel decides.
        let of_state = links.chunk_by(|one, other| one.state == other.state);
        let links = of_state.filter(|links| links.len() == 1).flatten().copied().collect();
        let count = entries.len();
        let (mut number, mut slots) = (1, count + count / 2 + 2);
        if count > PER_BLOCK {
            (number, slots) = (count.div_ceil(PER_BLOCK).max(2), SLOTS);
            loop {
                let mut in_block = vec![0_usize; number];
                for &(state, _) in &entries {
                    in_block[place(state, number, SLOTS).0] += 1;
                }
                if in_block.iter().all(|&count| count <= FULLEST) {
                    break;
                }
                number += number / 8 + 1;
            }
        }
        let mut blocks = vec![vec![0; slots]; number];
        entries.iter().for_each(|&entry| insert(&mut blocks, entry));
        PackageTable { blocks, links }
    }
}

/// Puts a path into the slot where its search begins, or the next free one. If a path with the same
/// fingerprint has another kind, the kind becomes unknown.
fn insert(blocks: &mut [Vec<u32>], (state, kind): (u64, Kind)) {
    let (block, mut at) = place(state, blocks.len(), blocks[0].len());
    let slots = &mut blocks[block];
    loop {
        let slot = slots[at];
        if slot == 0 {
            slots[at] = print(state) | kind as u32;
            return;
        }
        if slot & !KIND == print(state) {
            if slot & KIND != kind as u32 {
                slots[at] = print(state) | Kind::Other as u32;
            }
            return;
        }
        at = if at + 1 == slots.len() { 0 } else { at + 1 };
    }
}

impl PackageTable {
    /// Returns the number of paths. Paths that share a slot count once.
    #[must_use]
    pub fn count(&self) -> usize {
        self.blocks.iter().flatten().filter(|&&slot| slot != 0).count()
    }
}

impl Paths {
    /// Sorts packages by state. If several have one state, all of them are removed.
    #[must_use]
    pub fn new(roots: Vec<Root>, mut packages: Vec<Package>) -> Self {
        packages.sort_by_key(|package| package.state);
        let of_state = packages.chunk_by(|one, other| one.state == other.state);
        let several = of_state.filter(|same| same.len() > 1).map(|same| same[0].state);
        let several: FxHashSet<u64> = several.collect();
        packages.retain(|package| !several.contains(&package.state));
        Self { roots, packages }
    }

    /// The packages that were not left out.
    pub fn read(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_read())
    }

    /// Returns the number of paths.
    #[must_use]
    pub fn count(&self) -> usize {
        self.read().map(|package| 1 + package.table.count()).sum()
    }
}
