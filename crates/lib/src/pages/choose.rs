//! The choice of the pages of an object, from two starts in which it lay at the same address.
//!
//! Between the starts, everything that the kernel places has moved. Pages are chosen if every word that
//! differs from the object's file is named by a relocation, and has the same value in both starts, or the
//! same distance from an object that has moved. Otherwise the object has none, and is relocated as before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;

use becalm_core::elf::Image;
use becalm_core::symbols::ObjectSymbols;
use becalm_host::pages::steered::{Place, RELA, Steered};
use becalm_host::pages::{PAGE, open};
use object::ReadCache;
use rustc_hash::FxHashSet;

/// An object with fewer pages gains nothing: a mapping costs more than copies of three pages.
const LEAST: usize = 4;
/// So many pages between two others are mapped with them.
const GAP: u64 = 2;
/// Words that the module can keep for one object (`MOST_KEPT` of `audit/pages.c`).
const MOST_KEPT: usize = 4096;
/// The address space below the highest library in which the others are.
const REACH: u64 = 1 << 40;
const TLSDESC: u32 = 36;
const IRELATIVE: u32 = 37;
/// `R_X86_64_64`, `GLOB_DAT`, `JUMP_SLOT`, `DTPMOD64`, `DTPOFF64`, `TPOFF64`: they write one word.
const ONE_WORD: [u32; 6] = [1, 6, 7, 16, 17, 18];

/// A member of the program's record, with its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The load address; 0 for an object that the kernel places.
    pub(super) address: u64,
    /// The number of the first page, and the pages.
    pub(super) runs: Vec<(u32, Vec<u8>)>,
    pub(super) words: Vec<Word>,
    /// Relocations that are left to the loader, or whose result is compared.
    pub(super) relas: Vec<[u8; RELA]>,
    /// Offset of the words for lazy binding, 0 if there are none.
    pub(super) lazy_words: u32,
    /// Offset of the dynamic section, and its number of words.
    pub(super) dynamic: u32,
    pub(super) dynamic_words: u32,
}

/// A word with the address of a member that the kernel places, and a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) at: u32,
    pub(super) member: u32,
    pub(super) distance: u64,
}

impl Chosen {
    pub(super) fn pages(&self) -> usize {
        self.runs.iter().map(|(_, content)| content.len() / PAGE as usize).sum()
    }
}

/// Returns the members of two starts below the same address with their pages; `None` if an object lies
/// elsewhere, or nothing has moved that should.
pub(super) fn choose(one: &Steered, other: &Steered, top: u64) -> Option<Vec<Chosen>> {
    if one.members_check != other.members_check || one.places.len() != other.places.len() {
        return None;
    }
    let pairs = || one.places.iter().zip(&other.places);
    let is_below = |place: &Place| (top.saturating_sub(REACH)..top).contains(&place.address);
    // The loader and a program that is position-independent. Without ASLR they are where they were, and
    // a word that leads to them would look like a constant.
    let moved: Vec<Moved> = (0..)
        .zip(pairs())
        .filter(|(_, (a, _))| !is_below(a) && a.address != 0)
        .map(|(member, (a, b))| (member, a.address, b.address))
        .collect();
    if moved.is_empty() || moved.iter().any(|(_, a, b)| a == b) {
        return None;
    }
    if pairs().any(|(a, b)| is_below(a) && a.address != b.address) {
        return None;
    }
    // A resolver may write into its own object.
    let all = one.places.iter().filter_map(|it| Some((it.address, it.lent.as_ref()?)));
    let resolvers: Vec<u64> = all.flat_map(|(address, lent)| resolvers(address, lent)).collect();
    let chosen = pairs().map(|(a, b)| {
        let none = Chosen { address: if is_below(a) { a.address } else { 0 }, ..Chosen::default() };
        let lent = a.lent.as_ref().zip(b.lent.as_ref()).filter(|_| is_below(a));
        let found = lent.and_then(|(lent, of_other)| {
            let object = Object::new(one, other, a.address, lent, of_other)?;
            if resolvers.iter().any(|at| object.range.contains(at)) {
                return None;
            }
            object.choose(&moved)
        });
        found.unwrap_or(none)
    });
    Some(chosen.collect())
}

/// A member that the kernel places, with its addresses in both starts.
type Moved = (u32, u64, u64);

/// The words of an object that a loader writes, by their offsets.
struct Known {
    /// Words that relocations write.
    relocated: FxHashSet<u64>,
    /// Those of them that are left to the loader, or whose result is compared.
    left: FxHashSet<u64>,
    /// The dynamic section, and the words for lazy binding.
    others: FxHashSet<u64>,
    /// Offset of the words for lazy binding.
    lazy_words: Option<u64>,
}

/// An object that lies at one address in two starts.
struct Object<'a> {
    starts: [&'a Steered; 2],
    address: u64,
    /// Addresses of its segments.
    range: Range<u64>,
    relas: Vec<[u8; RELA]>,
    symbols: ObjectSymbols,
    /// The file, and its writable segments: addresses, offset in the file, number of zeros after it.
    file: ReadCache<File>,
    writable: Vec<(Range<u64>, u64, u64)>,
}

impl<'a> Object<'a> {
    fn new(
        one: &'a Steered,
        other: &'a Steered,
        address: u64,
        lent: &[u8],
        of_other: &[u8],
    ) -> Option<Self> {
        let path = one.file_at(address)?;
        if other.file_at(address).as_ref() != Some(&path) {
            return None;
        }
        let file = ReadCache::new(open(&path).ok()?);
        let symbols = ObjectSymbols::read(&file).ok()?;
        let image = Image::new(&file).ok()?;
        let writable = image.writable().collect();
        let ends = image.loaded().map(|(from, length)| from.saturating_add(length));
        let range = address..address.saturating_add(ends.max()?);
        // The first two make the loader call the module, at addresses that the kernel has chosen.
        let (relas, of_other) = (lent.as_chunks().0.get(2..)?, of_other.as_chunks().0.get(2..)?);
        (relas == of_other).then_some(())?;
        let (starts, relas) = ([one, other], relas.to_vec());
        Some(Self { starts, address, range, relas, symbols, file, writable })
    }

    fn choose(&self, moved: &[Moved]) -> Option<Chosen> {
        let known = self.known()?;
        let mut pages = BTreeMap::new();
        let mut words = Vec::new();
        // Those that relocation writes, in order.
        for page in BTreeSet::from_iter(known.relocated.iter().map(|at| at / PAGE)) {
            let contents = self.contents(page)?;
            // Words that are left to the loader are written either way.
            if add_words(&mut words, page, &contents, &known, moved)? {
                let [one, ..] = contents;
                pages.insert(page, one);
            }
        }
        let (dynamic, dynamic_words) = self.symbols.dynamic_words();
        let found = Chosen {
            address: self.address,
            runs: self.runs(pages, &known)?,
            words,
            relas: self.relas.clone(),
            lazy_words: u32::try_from(known.lazy_words.unwrap_or(0)).ok()?,
            dynamic: u32::try_from(dynamic).ok()?,
            dynamic_words: u32::try_from(dynamic_words).ok()?,
        };
        let of_resolvers = self.relas.iter().filter(|rela| kind_of(rela) == IRELATIVE).count();
        let kept = known.others.len() + known.left.len() - of_resolvers;
        (found.pages() >= LEAST && kept <= MOST_KEPT).then_some(found)
    }

    /// Returns the words that a loader writes; `None` if one is not a whole word of a writable segment.
    fn known(&self) -> Option<Known> {
        let left = self.left()?;
        let mut relocated: FxHashSet<u64> = self.symbols.relocated().collect();
        if relocated.iter().any(|at| at % 8 != 0 || !self.is_writable(*at)) {
            return None;
        }
        let (dynamic, dynamic_words) = self.symbols.dynamic_words();
        let lazy_words = self.symbols.lazy_words().filter(|at| {
            [at + 8, at + 16].iter().all(|at| !relocated.contains(at) && self.is_writable(*at))
        });
        let mut others: FxHashSet<u64> = (0..dynamic_words).map(|it| dynamic + 8 * it).collect();
        others.extend(lazy_words.iter().flat_map(|at| [at + 8, at + 16]));
        // A relocation names the first word of a descriptor alone.
        relocated.extend(&left);
        Some(Known { relocated, left, others, lazy_words })
    }

    /// Returns the offsets of the words that relocations write which are left to the loader, or whose
    /// result is compared; `None` if one writes anything else than words.
    fn left(&self) -> Option<FxHashSet<u64>> {
        let mut left = FxHashSet::default();
        for rela in &self.relas {
            let at = u64::from_ne_bytes(*rela.first_chunk()?);
            left.insert(at);
            match kind_of(rela) {
                TLSDESC => _ = left.insert(at + 8),
                IRELATIVE => {}
                kind if ONE_WORD.contains(&kind) => {}
                _ => return None,
            }
        }
        Some(left)
    }

    fn is_writable(&self, at: u64) -> bool {
        self.writable.iter().any(|(range, ..)| range.start <= at && at + 8 <= range.end)
    }

    /// Returns a page of both starts, and of the file.
    fn contents(&self, page: u64) -> Option<[Vec<u8>; 3]> {
        let from = page * PAGE;
        let of_start = |start: &Steered| start.memory(self.address + from, PAGE as usize).ok();
        let mut plain = vec![0; PAGE as usize];
        let mut segments = self.writable.iter();
        let (range, offset, zeros) =
            segments.find(|(range, ..)| range.start / PAGE <= page && from < range.end)?;
        // The whole page of the file is mapped.
        let in_file = (offset / PAGE * PAGE) + (from - range.start / PAGE * PAGE);
        let read = object::ReadRef::read_bytes_at(&self.file, in_file, PAGE);
        let read = read.or_else(|()| {
            // The file ends within the page.
            let end = object::ReadRef::len(&self.file)?;
            object::ReadRef::read_bytes_at(&self.file, in_file, end.saturating_sub(in_file))
        });
        let read = read.ok()?;
        plain[..read.len()].copy_from_slice(read);
        let [first, end] = [range.end, range.end.saturating_add(*zeros)]
            .map(|at| at.saturating_sub(from).min(PAGE) as usize);
        plain[first..end].fill(0);
        Some([of_start(self.starts[0])?, of_start(self.starts[1])?, plain])
    }

    /// Joins pages to runs, with what lies between those that are near each other.
    fn runs(&self, pages: BTreeMap<u64, Vec<u8>>, known: &Known) -> Option<Vec<(u32, Vec<u8>)>> {
        let mut runs: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut end = 0;
        for (page, content) in pages {
            let between = end..page;
            let is_near = !runs.is_empty() && between.end - between.start <= GAP;
            let joined = is_near.then(|| self.between(between, known)).flatten();
            match (joined, runs.last_mut()) {
                (Some(joined), Some((_, run))) => {
                    run.extend(joined);
                    run.extend(content);
                }
                _ => runs.push((u32::try_from(page).ok()?, content)),
            }
            end = page + 1;
        }
        Some(runs)
    }

    /// Returns pages that no relocation writes, if they are those of the file.
    fn between(&self, pages: Range<u64>, known: &Known) -> Option<Vec<u8>> {
        let mut joined = Vec::new();
        for page in pages {
            let is_known = |at: u64| known.relocated.contains(&at) || known.others.contains(&at);
            if words_of(page).any(is_known) {
                return None;
            }
            let [one, other, plain] = self.contents(page)?;
            (one == plain && other == plain).then_some(())?;
            joined.extend(plain);
        }
        Some(joined)
    }
}

/// Adds the words of a page that lead into objects that have moved. Returns true if relocation writes others
/// than those that are left to the loader; `None` if a word is not as relocation leaves it.
fn add_words(
    words: &mut Vec<Word>,
    page: u64,
    contents: &[Vec<u8>; 3],
    known: &Known,
    moved: &[Moved],
) -> Option<bool> {
    let mut is_relocated = false;
    for (at, offset) in words_of(page).enumerate() {
        if known.left.contains(&offset) || known.others.contains(&offset) {
            continue;
        }
        let [a, b, plain] =
            contents.each_ref().map(|page| page.as_chunks().0[at]).map(u64::from_ne_bytes);
        if !known.relocated.contains(&offset) {
            (a == plain && b == plain).then_some(())?;
            continue;
        }
        is_relocated = true;
        if a != b {
            let distance = |from: &&Moved| a.wrapping_sub(from.1) == b.wrapping_sub(from.2);
            let (member, address, _) = *moved.iter().find(distance)?;
            let at = u32::try_from(offset).ok()?;
            words.push(Word { at, member, distance: a.wrapping_sub(address) });
        }
    }
    Some(is_relocated)
}

/// Returns the offsets of the words of a page.
fn words_of(page: u64) -> impl Iterator<Item = u64> {
    (page * PAGE..(page + 1) * PAGE).step_by(8)
}

/// Returns the addresses of the resolvers that the loader calls for an object. The first two relocations
/// are the module's.
fn resolvers(address: u64, lent: &[u8]) -> impl Iterator<Item = u64> {
    let relas = lent.as_chunks().0.iter().skip(2).filter(|rela| kind_of(rela) == IRELATIVE);
    relas.filter_map(move |rela| {
        Some(address.wrapping_add(u64::from_ne_bytes(*rela[16..].first_chunk()?)))
    })
}

/// Returns `ELF64_R_TYPE` of a relocation.
fn kind_of(rela: &[u8; RELA]) -> u32 {
    rela[8..].first_chunk().map_or(0, |kind| u32::from_ne_bytes(*kind))
}
