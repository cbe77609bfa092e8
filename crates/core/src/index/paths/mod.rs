//! The paths that exist below the packages of stores, so that the module can answer "not found".
//!
//! Each package has a hash table with the kind of each path, by a fingerprint of 29 bits. A path
//! that exists is always in the table. A path that does not exist is found by chance once in some
//! hundred million. So "not found" is certain, and after "found" the kernel still does the call.
//! The tables of packages are independent: an update copies those of unchanged packages.
//!
//! [`PackageBuilder`] makes a table, and [`Paths::ask`] reads it as `crates/audit/module/paths.c`
//! does. [`records`] writes and reads the sections of the index (`docs/index-format.md`).

mod records;
#[cfg(test)]
mod tests;

use bstr::{BStr, BString};

use super::{Fingerprint, hash};

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
    /// The packages that it has.
    pub extent: Extent,
    /// Its fingerprint; the length is zero.
    pub fingerprint: Fingerprint,
}

/// The packages of a root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All that the store has.
    #[default]
    All,
    /// Some of them; an update adds none.
    Chosen,
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
    links: Vec<Link>,
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

impl Kind {
    fn of(slot: u32) -> Self {
        match slot & KIND {
            1 => Self::Directory,
            2 => Self::File,
            3 => Self::Link,
            _ => Self::Other,
        }
    }
}

/// The table's answer for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel must resolve the path.
    Unknown,
    /// It does not exist.
    Absent,
    /// It probably exists and is a directory, reached through no link.
    Directory,
    /// It probably exists and is a regular file, reached through no link.
    File,
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
        // If two links have one state, neither is followed. The slot stays, and the kernel decides.
        let twice: Vec<u64> = links
            .windows(2)
            .filter(|pair| pair[0].state == pair[1].state && pair[0] != pair[1])
            .map(|pair| pair[0].state)
            .collect();
        links.retain(|link| twice.binary_search(&link.state).is_err());
        links.dedup();
        let count = entries.len();
        if count <= PER_BLOCK {
            let mut blocks = vec![vec![0; count + count / 2 + 2]];
            entries.iter().for_each(|&entry| insert(&mut blocks, entry));
            return PackageTable { blocks, links };
        }
        let mut number = count.div_ceil(PER_BLOCK).max(2);
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
        let mut blocks = vec![vec![0; SLOTS]; number];
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
    /// Returns the kind of path at a state; `None` if there is no path.
    #[must_use]
    pub fn kind(&self, state: u64) -> Option<Kind> {
        let slots = self.blocks.first()?.len();
        let (block, mut at) = place(state, self.blocks.len(), slots);
        let slots = &self.blocks[block];
        loop {
            match slots[at] {
                0 => return None,
                slot if slot & !KIND == print(state) => return Some(Kind::of(slot)),
                _ => at = if at + 1 == slots.len() { 0 } else { at + 1 },
            }
        }
    }

    /// Returns the number of paths. Paths that share a slot count once.
    #[must_use]
    pub fn count(&self) -> usize {
        self.blocks.iter().flatten().filter(|&&slot| slot != 0).count()
    }

    /// Returns the links to directories.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }
}

impl Paths {
    /// Sorts packages by state. If several have one state, all of them are removed.
    #[must_use]
    pub fn new(roots: Vec<Root>, mut packages: Vec<Package>) -> Self {
        packages.sort_by_key(|package| package.state);
        let states: Vec<u64> = packages.iter().map(|package| package.state).collect();
        let is_single = |at: usize| {
            (at == 0 || states[at - 1] != states[at]) && states.get(at + 1) != Some(&states[at])
        };
        let mut at = 0;
        packages.retain(|_| {
            at += 1;
            is_single(at - 1)
        });
        Self { roots, packages }
    }

    /// Returns the package with a state, unless it was left out.
    #[must_use]
    pub fn package(&self, state: u64) -> Option<&Package> {
        let at = self.packages.binary_search_by_key(&state, |package| package.state).ok()?;
        self.packages.get(at).filter(|package| package.is_read())
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

    /// Returns the table's answer for a path if every package is unchanged, as `paths_ask` of
    /// `crates/audit/module/paths.c` does.
    #[must_use]
    pub fn ask(&self, path: &[u8]) -> Answer {
        self.look(path).unwrap_or(Answer::Unknown)
    }

    /// Returns `None` for a path that the kernel must resolve.
    fn look(&self, path: &[u8]) -> Option<Answer> {
        const LONGEST_NAME: usize = 255;
        const LONGEST_PATH: usize = 4095;
        if path.len() > LONGEST_PATH || path.ends_with(b"/") || path.contains(&0) {
            return None;
        }
        let (root, rest) = self.roots.iter().find_map(|root| {
            let rest = path.strip_prefix(&root.path[..])?;
            rest.starts_with(b"/").then_some((root, rest))
        })?;
        let names = rest.split(|&byte| byte == b'/');
        let mut names = names.filter(|name| !name.is_empty() && *name != b".");
        let mut package = self.package(step(root_state(root.path.as_ref()), names.next()?))?;
        let (mut state, mut kind, mut is_indirect) = (package.state, Kind::Directory, false);
        for name in names {
            if kind != Kind::Directory || name == b".." || name.len() > LONGEST_NAME || is_odd(name)
            {
                return None;
            }
            state = step(state, name);
            kind = match package.table.kind(state) {
                None => return Some(Answer::Absent),
                Some(Kind::Link) => {
                    (package, state) = self.follow(package, state)?;
                    is_indirect = true;
                    Kind::Directory
                }
                Some(kind) => kind,
            };
        }
        match kind {
            _ if is_indirect => None,
            Kind::Directory => Some(Answer::Directory),
            Kind::File => Some(Answer::File),
            Kind::Link | Kind::Other => None,
        }
    }

    /// Returns the directory that a link leads to.
    fn follow(&self, package: &Package, state: u64) -> Option<(&Package, u64)> {
        let links = &package.table.links;
        let link = links[links.binary_search_by_key(&state, |link| link.state).ok()?];
        let target = self.package(link.package)?;
        let is_directory =
            link.target == link.package || target.table.kind(link.target) == Some(Kind::Directory);
        is_directory.then_some((target, link.target))
    }
}
