//! The choice of the pages of an object, from two starts in which it lay at the same address.
//!
//! Between the starts, everything that the kernel places has moved. Pages are chosen if every word that
//! differs from the object's file is named by a relocation, and has the same value in both starts, or the
//! same distance from an object that has moved. Otherwise the object has none, and is relocated as before.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use becalm_core::elf::Image;
use becalm_core::symbols::ObjectSymbols;
use becalm_host::pages::steered::{Place, RELA, Steered};
use becalm_host::pages::{PAGE, open};
use object::ReadCache;
use rustc_hash::FxHashSet;

/// An object with fewer pages gains nothing: a mapping costs more than copies of three pages.
const LEAST: usize = 4;
/// Words that the module can keep for one object (`MOST_KEPT` of `audit/pages.c`).
const MOST_KEPT: usize = 4096;
/// The address space below the highest library in which the others are.
const REACH: u64 = 1 << 40;
const TLSDESC: u32 = 36;
const IRELATIVE: u32 = 37;
/// `R_X86_64_64`, `GLOB_DAT`, `JUMP_SLOT`, `DTPMOD64`, `DTPOFF64`, `TPOFF64` and this one: they write one word.
const ONE_WORD: [u32; 7] = [1, 6, 7, 16, 17, 18, IRELATIVE];

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
    let resolvers: Vec<u64> = one.places.iter().flat_map(resolvers).collect();
    let chosen = pairs().map(|(a, b)| {
        let address = if is_below(a) { a.address } else { 0 };
        let object = is_below(a).then(|| Object::new([one, other], a, b)).flatten();
        let object = object.filter(|it| !resolvers.iter().any(|at| it.range.contains(at)));
        let found = object.and_then(|it| it.choose(&moved));
        found.unwrap_or_else(|| Chosen { address, ..Chosen::default() })
    });
    Some(chosen.collect())
}

/// A member that the kernel places, with its addresses in both starts.
type Moved = (u32, u64, u64);

/// The words of an object that a loader writes, by their offsets.
struct Known {
    /// Words that relocations write.
    relocated: FxHashSet<u64>,
    /// Words that are written in each start: those of relocations that are left to the loader, or whose result is
    /// compared, the dynamic section, and the words for lazy binding.
    kept: FxHashSet<u64>,
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
    file: File,
    writable: Vec<(Range<u64>, u64, u64)>,
}

impl<'a> Object<'a> {
    fn new(starts: [&'a Steered; 2], place: &Place, of_other: &Place) -> Option<Self> {
        // The first two make the loader call the module, at addresses that the kernel has chosen.
        let [relas, others] =
            [place, of_other].map(|it| it.lent.as_deref().and_then(|relas| relas.get(2..)));
        let [path, other] = starts.map(|it| it.file_at(place.address));
        (relas == others && path == other).then_some(())?;
        let file = open(&path?).ok()?;
        let read = ReadCache::new(&file);
        let symbols = ObjectSymbols::read(&read).ok()?;
        let image = Image::new(&read).ok()?;
        let writable = image.writable().collect();
        let ends = image.loaded().map(|(from, length)| from.saturating_add(length));
        let range = place.address..place.address.saturating_add(ends.max()?);
        let (address, relas) = (place.address, relas?.to_vec());
        Some(Self { starts, address, range, relas, symbols, file, writable })
    }

    fn choose(&self, moved: &[Moved]) -> Option<Chosen> {
        let known = self.known()?;
        let (mut runs, mut words, mut end) = (Vec::<(u32, Vec<u8>)>::new(), Vec::new(), 0);
        // Those that relocation writes, in order.
        for page in BTreeSet::from_iter(known.relocated.iter().map(|at| at / PAGE)) {
            let contents = self.contents(page)?;
            // Words that are left to the loader are written either way.
            if add_words(&mut words, page, &contents, &known, moved)? {
                let [one, ..] = contents;
                match runs.last_mut().filter(|_| page == end) {
                    Some((_, run)) => run.extend(one),
                    None => runs.push((u32::try_from(page).ok()?, one)),
                }
                end = page + 1;
            }
        }
        let (dynamic, dynamic_words) = self.symbols.dynamic_words();
        let found = Chosen {
            address: self.address,
            runs,
            words,
            relas: self.relas.clone(),
            lazy_words: u32::try_from(known.lazy_words.unwrap_or(0)).ok()?,
            dynamic: u32::try_from(dynamic).ok()?,
            dynamic_words: u32::try_from(dynamic_words).ok()?,
        };
        let of_resolvers = self.relas.iter().filter(|rela| kind_of(rela) == IRELATIVE).count();
        let kept = known.kept.len().checked_sub(of_resolvers)?;
        (found.pages() >= LEAST && kept <= MOST_KEPT).then_some(found)
    }

    /// Returns the words that a loader writes; `None` if one is not a whole word of a writable segment, or if a
    /// relocation that is left to the loader writes anything else than words.
    fn known(&self) -> Option<Known> {
        let mut relocated: FxHashSet<u64> = self.symbols.relocated().collect();
        if relocated.iter().any(|at| at % 8 != 0 || !self.is_writable(*at)) {
            return None;
        }
        let (dynamic, dynamic_words) = self.symbols.dynamic_words();
        let lazy_words = self.symbols.lazy_words().filter(|at| {
            [at + 8, at + 16].iter().all(|at| !relocated.contains(at) && self.is_writable(*at))
        });
        let mut kept: FxHashSet<u64> = (0..dynamic_words).map(|it| dynamic + 8 * it).collect();
        kept.extend(lazy_words.iter().flat_map(|at| [at + 8, at + 16]));
        for rela in &self.relas {
            let at = u64::from_ne_bytes(*rela.first_chunk()?);
            let words = match kind_of(rela) {
                // A relocation names the first word of a descriptor alone.
                TLSDESC => vec![at, at + 8],
                kind if ONE_WORD.contains(&kind) => vec![at],
                _ => return None,
            };
            relocated.extend(&words);
            kept.extend(words);
        }
        Some(Known { relocated, kept, lazy_words })
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
        // The file may end within the page.
        self.file.read_at(&mut plain, in_file).ok()?;
        let [first, end] = [range.end, range.end.saturating_add(*zeros)]
            .map(|at| at.saturating_sub(from).min(PAGE) as usize);
        plain[first..end].fill(0);
        Some([of_start(self.starts[0])?, of_start(self.starts[1])?, plain])
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
    for (at, offset) in (page * PAGE..(page + 1) * PAGE).step_by(8).enumerate() {
        if known.kept.contains(&offset) {
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

/// Returns the addresses of the resolvers that the loader calls for an object. The first two relocations
/// are the module's.
fn resolvers(place: &Place) -> impl Iterator<Item = u64> {
    let relas = place.lent.iter().flatten().skip(2).filter(|rela| kind_of(rela) == IRELATIVE);
    relas.filter_map(|rela| {
        Some(place.address.wrapping_add(u64::from_ne_bytes(*rela[16..].first_chunk()?)))
    })
}

/// Returns `ELF64_R_TYPE` of a relocation.
fn kind_of(rela: &[u8; RELA]) -> u32 {
    rela[8..].first_chunk().map_or(0, |kind| u32::from_ne_bytes(*kind))
}
