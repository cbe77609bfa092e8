//! Words that the module writes into one object.

use crate::elf::Endian;
use crate::index::layout::{Reader, Writer};

/// The word at an offset gets the load address plus a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Relative {
    /// Multiple of the word size.
    pub offset: u32,
    /// Addend of the load address.
    pub value: u32,
}

/// The word at an offset gets the address of a target, or what the resolver at the target returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotBinding {
    /// Multiple of the word size.
    pub offset: u32,
    /// The base of the value.
    pub definer: Definer,
    /// The addend.
    pub value: i32,
}

/// The base that the value of a target is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Definer {
    /// The load address of a bound object.
    Object(u32),
    /// Nothing.
    Absolute,
}

impl Definer {
    pub(super) fn word(self) -> u32 {
        match self {
            Definer::Object(object) => object,
            Definer::Absolute => u32::MAX,
        }
    }
}

/// A relocation with explicit addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Residual {
    /// `r_offset`.
    pub offset: u32,
    /// Index of its symbol.
    pub symbol: u32,
    /// The machine's number of its type.
    pub kind: u32,
    /// `r_addend`.
    pub addend: i32,
}

/// The words that are written into one object. Definers are indices of
/// [`crate::loader::load::Load::objects`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Relative relocations.
    pub relatives: Vec<Relative>,
    /// Words that get an address.
    pub slots: Vec<SlotBinding>,
    /// Words that a resolver decides, those of [`Self::lazies`] only with `LD_BIND_NOW`.
    pub indirects: Vec<SlotBinding>,
    /// Relocations that the loader does itself.
    pub residuals: Vec<Residual>,
    /// PLT slots that stay lazy.
    pub lazies: Vec<u32>,
}

impl Written {
    /// Returns true if the loader calls the resolver at the first call of the function.
    pub(super) fn is_lazy(&self, indirect: &SlotBinding) -> bool {
        self.lazies.binary_search(&indirect.offset).is_ok()
    }
}

/// Bytes of a word of the machines that are bound.
pub(super) const WORD: u32 = 8;
/// Words that an odd number of [`put_offsets`] has bits for.
const FOLLOWING: u32 = 31;
/// Indexes of targets have 32 bits.
const WIDE: u32 = 1;

/// Returns the block of relative relocations, in a byte order.
#[must_use]
pub(super) fn encode_relatives(relatives: &[Relative], endian: Endian) -> Vec<u8> {
    let mut words = Writer::new(endian);
    words.word(relatives.len() as u32);
    words.words(relatives.iter().map(|relative| relative.value));
    put_offsets(&mut words, relatives.iter().map(|relative| relative.offset));
    words.bytes
}

/// Returns the block of everything but the relative relocations, in a byte order.
#[must_use]
pub(super) fn encode_bindings(written: &Written, endian: Endian) -> Vec<u8> {
    let Written { slots, indirects, residuals, lazies, .. } = written;
    let mut words = Writer::new(endian);
    // Each target once, by definer and value.
    let targets = slots.iter().chain(indirects).map(|slot| (slot.definer, slot.value));
    let mut targets: Vec<(Definer, i32)> = targets.collect();
    targets.sort_unstable();
    targets.dedup();
    let number_of = |definer: Definer, value: i32| {
        targets.partition_point(|target| *target < (definer, value)) as u32
    };
    let definers: Vec<&[(Definer, i32)]> = targets.chunk_by(|one, next| one.0 == next.0).collect();
    let wide = targets.len() > usize::from(u16::MAX) + 1;
    let counts = [definers.len(), targets.len(), slots.len(), residuals.len(), indirects.len()];
    words.words(counts.map(|count| count as u32));
    words.words([lazies.len() as u32, u32::from(wide) * WIDE]);
    for of_definer in definers {
        words.words([of_definer[0].0.word(), of_definer.len() as u32]);
    }
    words.words(targets.iter().map(|(_, value)| value.cast_unsigned()));
    for Residual { offset, symbol, kind, addend } in residuals {
        words.words([*offset, *symbol, *kind, addend.cast_unsigned()]);
    }
    for SlotBinding { offset, definer, value } in indirects {
        words.words([*offset, number_of(*definer, *value)]);
    }
    words.words(lazies.iter().copied());
    for SlotBinding { definer, value, .. } in slots {
        let target = number_of(*definer, *value);
        if wide { words.word(target) } else { words.half(target as u16) }
    }
    words.bytes.resize(words.bytes.len().next_multiple_of(4), 0);
    put_offsets(&mut words, slots.iter().map(|slot| slot.offset));
    words.bytes
}

/// The words of an encoded block; `None` beyond its end.
struct Words<'a> {
    reader: Reader<'a>,
    at: usize,
}

impl Words<'_> {
    fn word(&mut self) -> Option<u32> {
        self.at += 4;
        self.reader.word(self.at - 4)
    }

    fn half(&mut self) -> Option<u32> {
        self.at += 2;
        self.reader.half(self.at - 2).map(u32::from)
    }

    /// Reads `count` items with `read`, but no more than the remaining bytes can hold.
    fn many<T>(&mut self, count: u32, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..count).map(|_| read(self)).collect()
    }

    /// Reads what [`put_offsets`] writes.
    fn offsets(&mut self, count: u32) -> Option<Vec<u32>> {
        let (mut offsets, mut next) = (Vec::new(), 0_u64);
        while offsets.len() < count as usize {
            let word = self.word()?;
            if word & 1 == 0 {
                offsets.push(word);
                next = u64::from(word) + u64::from(WORD);
                continue;
            }
            let is_set = |bit: &u32| word >> (bit + 1) & 1 == 1;
            for bit in (0..FOLLOWING).filter(is_set) {
                offsets.push(u32::try_from(next + u64::from(bit * WORD)).ok()?);
            }
            next += u64::from(FOLLOWING * WORD);
        }
        let fits = offsets.len() == count as usize && offsets.iter().all(|at| at % WORD == 0);
        fits.then_some(offsets)
    }
}

/// Reads a block of relatives; `None` if it is damaged.
#[must_use]
pub(super) fn decode_relatives(bytes: &[u8], endian: Endian) -> Option<Vec<Relative>> {
    let mut words = Words { reader: Reader { endian, bytes }, at: 0 };
    let count = words.word()?;
    let values = words.many(count, Words::word)?;
    let offsets = words.offsets(count)?;
    let relative = |(offset, value)| Relative { offset, value };
    Some(offsets.into_iter().zip(values).map(relative).collect())
}

/// Reads a block of bindings; `None` if it is damaged.
#[must_use]
pub(super) fn decode_bindings(bytes: &[u8], endian: Endian) -> Option<Written> {
    let mut words = Words { reader: Reader { endian, bytes }, at: 0 };
    let counts = words.many(7, Words::word)?;
    let [definers, targets, slots, residuals, indirects, lazies, flags] = counts[..] else {
        return None;
    };
    let definers = words.many(definers, |words| Some((words.word()?, words.word()?)))?;
    let values = words.many(targets, |words| words.word().map(u32::cast_signed))?;
    let definer = |word| if word == u32::MAX { Definer::Absolute } else { Definer::Object(word) };
    let by_target = definers.iter().flat_map(|&(word, count)| {
        std::iter::repeat_n(definer(word), (count as usize).min(values.len()))
    });
    let targets: Vec<(Definer, i32)> = by_target.zip(values.iter().copied()).collect();
    let residuals = words.many(residuals, |words| {
        let (offset, symbol, kind) = (words.word()?, words.word()?, words.word()?);
        Some(Residual { offset, symbol, kind, addend: words.word()?.cast_signed() })
    })?;
    let slot = |(offset, target): (u32, u32)| {
        let &(definer, value) = targets.get(target as usize)?;
        Some(SlotBinding { offset, definer, value })
    };
    let indirects = words.many(indirects, |words| slot((words.word()?, words.word()?)))?;
    let lazies = words.many(lazies, Words::word)?;
    let width = if flags & WIDE == 0 { Words::half } else { Words::word };
    let indexes = words.many(slots, width)?;
    words.at = words.at.next_multiple_of(4);
    let slots = words.offsets(slots)?.into_iter().zip(indexes).map(slot).collect::<Option<_>>()?;
    Some(Written { relatives: Vec::new(), slots, indirects, residuals, lazies })
}

/// Writes ascending offsets in the format of `DT_RELR` with numbers of 32 bits: the offset of a word,
/// which is even, and odd numbers with a bit for each of the words that follow.
fn put_offsets(words: &mut Writer, offsets: impl Iterator<Item = u32>) {
    let mut offsets = offsets.peekable();
    while let Some(first) = offsets.next() {
        words.word(first);
        let mut start = u64::from(first) + u64::from(WORD);
        loop {
            let end = start + u64::from(FOLLOWING * WORD);
            let mut bits = 1;
            while let Some(offset) = offsets.next_if(|&offset| u64::from(offset) < end) {
                bits |= 2 << ((u64::from(offset) - start) / u64::from(WORD));
            }
            if bits == 1 {
                break;
            }
            words.word(bits);
            start = end;
        }
    }
}
