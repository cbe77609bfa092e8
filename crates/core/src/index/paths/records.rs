//! Writes and reads the sections of paths.

use super::{BLOCK, Link, MOST_ROOTS, Package, PackageTable, Paths, Root, root_state, step};
use crate::index::encoder::{Encoder, Section};
use crate::index::layout::{self, Writer, kind};
use crate::index::records::Table;
use crate::index::{EncodeError, Fingerprint, TableError, hash};

/// Flag of a package that changed shortly before it was read.
const YOUNG: u32 = 1;
/// Flag of a root: an update adds no package.
const CHOSEN: u32 = 1;

/// Encodes the paths. An index without roots has none of these sections.
pub(in crate::index) fn encode(
    paths: &Paths,
    encoder: &mut Encoder,
) -> Result<Vec<Section>, EncodeError> {
    let writer = || Writer::new(encoder.target.endian);
    let (mut links, mut slots, mut blocks) = (writer(), writer(), 0);
    if paths.roots.len() > MOST_ROOTS {
        return Err(EncodeError::TooLarge("too many stores with paths"));
    }
    let roots = encoder.records(&paths.roots, |encoder, record, root| {
        let Fingerprint { volume, ino, mtime, ctime, .. } = root.fingerprint;
        record.words([encoder.string(&root.path)?, u32::from(root.is_chosen) * CHOSEN]);
        record.long(volume);
        record.long(ino);
        record.times(mtime, ctime);
        record.words([0; 3]);
        Ok(root_state(root.path.as_ref()))
    })?;
    let packages = encoder.records(&paths.packages, |encoder, record, package| {
        let narrow = |number: usize| layout::narrow(number, "too many paths");
        let name = encoder.string(&package.name)?;
        let first_slot = narrow(slots.bytes.len() / 4)?;
        let first_link = narrow(links.bytes.len() / kind::PATH_LINKS.size)?;
        for (number, block) in package.table.blocks.iter().enumerate() {
            let start = slots.bytes.len();
            slots.word(0);
            slots.words(block.iter().copied());
            let seed = block_seed(package.state, number);
            let check = hash::low(seed, &slots.bytes[start + 4..]);
            slots.set_word(start, check);
        }
        for Link { state, target, package } in &package.table.links {
            let start = links.bytes.len();
            [state, target, package].into_iter().for_each(|&number| links.long(number));
            links.word(0);
            layout::seal(&mut links, start, 0);
        }
        let words = narrow(slots.bytes.len() / 4)? - first_slot;
        let Fingerprint { ino, mtime, ctime, .. } = package.fingerprint;
        record.long(package.state);
        record.long(ino);
        record.times(mtime, ctime);
        record.words([first_slot, words, blocks, first_link, package.table.links.len() as u32]);
        record.words([package.root, name, u32::from(package.young) * YOUNG, 0]);
        blocks += package.table.blocks.len() as u32;
        Ok(0)
    })?;
    if paths.roots.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![
        (kind::PATH_ROOTS, roots),
        (kind::PATH_PACKAGES, packages),
        (kind::PATH_LINKS, links),
        (kind::PATH_SLOTS, slots),
    ])
}

/// Returns the seed of a block's check: a block that was exchanged for another is detected as
/// damage.
fn block_seed(package: u64, block: usize) -> u64 {
    package.wrapping_add(block as u64)
}

/// Reads the paths of a table; `None` if it has none.
pub(in crate::index) fn read(table: &Table<'_>) -> Result<Option<Paths>, TableError> {
    let roots = table.all(kind::PATH_ROOTS, root)?;
    if roots.is_empty() {
        return Ok(None);
    }
    let read = |table: &Table<'_>, at| package(table, at, &roots);
    let packages = table.all(kind::PATH_PACKAGES, read)?;
    Ok(Some(Paths { packages, roots }))
}

fn root(table: &Table<'_>, at: usize) -> Result<Root, TableError> {
    let path = table.path(at, 0, kind::PATH_ROOTS)?.to_owned();
    let (mtime, ctime) = table.times(at + 24)?;
    let (volume, ino) = (table.long(at + 8)?, table.long(at + 16)?);
    let is_chosen = match table.word(at + 4)? {
        0 => false,
        CHOSEN => true,
        _ => return Err(TableError::Damaged("a store of an unknown kind")),
    };
    Ok(Root { path, is_chosen, fingerprint: Fingerprint { volume, ino, size: 0, mtime, ctime } })
}

fn package(table: &Table<'_>, at: usize, roots: &[Root]) -> Result<Package, TableError> {
    table.check(at, kind::PATH_PACKAGES.size, 0)?;
    let (state, ino) = (table.long(at)?, table.long(at + 8)?);
    let (mtime, ctime) = table.times(at + 16)?;
    let root = table.word(at + 60)?;
    let name = table.string(table.word(at + 64)?)?.to_owned();
    let is_of = |root: &Root| step(root_state(root.path.as_ref()), &name) == state;
    let is_name = !name.is_empty() && !name.contains(&b'/');
    if !is_name || !roots.get(root as usize).is_some_and(is_of) {
        return Err(TableError::Damaged("a package is of another store"));
    }
    let paths = PackageTable { blocks: blocks(table, state, at)?, links: links(table, at)? };
    Ok(Package {
        root,
        name,
        state,
        fingerprint: Fingerprint { volume: 0, ino, size: 0, mtime, ctime },
        young: table.word(at + 68)? & YOUNG != 0,
        table: paths,
    })
}

/// Reads the blocks of the package at `at`.
fn blocks(table: &Table<'_>, package: u64, at: usize) -> Result<Vec<Vec<u32>>, TableError> {
    // It was left out.
    if table.word(at + 44)? == 0 {
        return Ok(Vec::new());
    }
    let outside = "a package's paths leave it";
    let slots = table.part(kind::PATH_SLOTS, at + 40, outside)?;
    let words = slots.count;
    if words < 3 || words > BLOCK && !words.is_multiple_of(BLOCK) {
        return Err(TableError::Damaged(outside));
    }
    let size = words.min(BLOCK);
    let block = |number: usize| {
        let start = slots.at + 4 * number * size;
        let of_slots = table.reader.bytes.get(start + 4..start + 4 * size).unwrap_or_default();
        if table.word(start)? != hash::low(block_seed(package, number), of_slots) {
            return Err(TableError::Damaged("the check of a package's paths does not fit"));
        }
        let block: Vec<u32> =
            (1..size).map(|at| table.word(start + 4 * at)).collect::<Result<_, _>>()?;
        // A search ends at a slot without a path.
        if block.contains(&0) { Ok(block) } else { Err(TableError::Damaged("a full block")) }
    };
    (0..words / size).map(block).collect()
}

/// Reads the links of the package at `at`.
fn links(table: &Table<'_>, at: usize) -> Result<Vec<Link>, TableError> {
    let links = table.part(kind::PATH_LINKS, at + 52, "a package's links leave it")?;
    let link = |at: usize| {
        table.check(at, kind::PATH_LINKS.size, 0)?;
        let (state, target) = (table.long(at)?, table.long(at + 8)?);
        Ok(Link { state, target, package: table.long(at + 16)? })
    };
    links.records().map(link).collect()
}
