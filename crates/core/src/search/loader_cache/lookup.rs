//! The lookup of a needed string in a loader cache (glibc elf/dl-cache.c `search_cache`).
//!
//! The rules depend on the release. 2.33 added the named hwcaps. Since 2.34 the ABI flags no longer
//! stop the search for a better named entry (bug 27046). Since 2.40 legacy hwcap bits and platforms
//! are not read.

use std::cmp::Ordering;

use bstr::{BStr, BString, ByteSlice};
use object::elf::{self, Machine};

use super::read::{LoaderCache, RawEntry, is_named, isa_level};
use crate::elf::{Class, Ident};
use crate::facts::{Libc, LoaderFacts};
use crate::search::hwcaps::FIRST_NAMED;
use crate::search::hwcaps::arch::{Arch, FIRST_WITHOUT_CACHE_HWCAPS};

/// The first release that searches for a better named entry whatever the flags of the best entry so
/// far are (glibc 2.34, bug 27046).
const FIRST_IGNORING_FLAGS: u16 = 34;
/// `FLAG_ELF`, `FLAG_ELF_LIBC6`.
const FLAG_ELF: i32 = 1;
const FLAG_ELF_LIBC6: i32 = 3;
/// `_DL_HWCAP_TLS_MASK`.
const HWCAP_TLS: u64 = 1 << 63;

/// The limit on the entries of one name that are read on each side of the entry that the binary
/// search finds. A real cache has one for each ABI and hwcaps subdirectory. Without the limit,
/// each lookup in a hostile cache of one name would read the whole cache.
const MAX_ALIKE: i64 = 64;

/// The properties of a loader that select entries of a cache. They are the same for all needed
/// strings.
#[derive(Clone, Debug)]
pub struct CacheQuery {
    /// The release 2.*minor*.
    minor: u16,
    /// `_DL_CACHE_DEFAULT_ID`.
    default_id: i32,
    /// The second value that `_dl_cache_check_flags` accepts, if there is one.
    also: Option<i32>,
    /// `hwcap_exclude`: the bits that an old-style entry must not have.
    exclude: u64,
    /// `_DL_HWCAP_PLATFORM`.
    platform_mask: u64,
    /// `1 << platform`, or all bits if the platform has no bit.
    platform: u64,
    /// `cpu_features->isa_1`: the x86 ISA levels as bits; `None` on other architectures.
    isa: Option<u32>,
    /// True if `char` is signed. `_dl_cache_libcmp` subtracts values of this type.
    signed_char: bool,
    /// `_dl_hwcaps_priorities`: the names in byte order, each with its priority.
    priorities: Vec<(BString, u32)>,
}

impl CacheQuery {
    /// Makes the query of a loader with these facts and this ABI. musl reads no loader cache; its
    /// query is that of the newest glibc.
    #[must_use]
    pub fn new(ident: &Ident, facts: &LoaderFacts) -> Self {
        let arch = Arch::of(ident);
        let minor = match facts.libc {
            Libc::Glibc(release) => release.minor,
            Libc::Musl => u16::MAX,
        };
        let platform_mask = arch.platform_mask(minor);
        let (default_id, also) = cache_flags(ident);
        let mut priorities: Vec<_> = facts.hwcaps.iter().cloned().zip(1..).collect();
        // Stable, like the insertion sort of `compute_priorities`: if a name occurs twice, the
        // better priority comes first.
        priorities.sort_by(|left, right| left.0.cmp(&right.0));
        CacheQuery {
            minor,
            default_id,
            also,
            exclude: !(facts.hwcap_mask | platform_mask | HWCAP_TLS),
            platform_mask,
            platform: facts
                .platform_bit
                .and_then(|bit| 1_u64.checked_shl(bit.into()))
                .unwrap_or(u64::MAX),
            isa: (arch == Arch::X86_64).then(|| isa_bits(&facts.hwcaps)),
            signed_char: has_signed_char(ident.machine),
            priorities,
        }
    }

    /// `_dl_cache_check_flags`.
    fn accepts(&self, flags: i32) -> bool {
        flags == self.default_id || self.also == Some(flags)
    }

    /// Returns true if an entry without a `glibc-hwcaps` name may be used.
    fn accepts_legacy(&self, hwcap: u64) -> bool {
        if self.minor >= FIRST_WITHOUT_CACHE_HWCAPS {
            return hwcap == 0;
        }
        let platform = hwcap & self.platform_mask;
        hwcap & self.exclude == 0 && (platform == 0 || platform == self.platform)
    }

    /// Returns the priority of a named entry, or `None` if it must not be used.
    fn priority(&self, cache: &LoaderCache, hwcap: u64) -> Option<u32> {
        // `dl_cache_hwcap_isa_level_compatible`: an x86 CPU shifts a 32-bit number modulo 32.
        let level = 1_u32.wrapping_shl(isa_level(hwcap));
        if self.isa.is_some_and(|isa| isa & level != level) {
            return None;
        }
        // `glibc_hwcaps_priority`: merges the sorted names of the cache and of the loader, up to the
        // name at the index in the lower half of the field.
        let index = hwcap as u32;
        let mut known = self.priorities.iter().peekable();
        for (position, name) in (0..=index).zip(cache.hwcaps_names()) {
            while known.next_if(|(known, _)| known.as_bstr() < name).is_some() {}
            let priority = known.next_if(|(known, _)| known.as_bstr() == name);
            if position == index {
                return priority.map(|(_, priority)| *priority);
            }
        }
        None
    }
}

/// Returns `_DL_CACHE_DEFAULT_ID` of an ABI and the second value that `_dl_cache_check_flags`
/// accepts (the `dl-cache.h` of each architecture under sysdeps).
pub(super) fn cache_flags(ident: &Ident) -> (i32, Option<i32>) {
    let exactly = |abi: i32| (abi | FLAG_ELF_LIBC6, None);
    let is_64 = ident.class == Class::Elf64;
    let is_n32 = ident.flags & elf::EF_MIPS_ABI2.0 != 0;
    let is_nan2008 = ident.flags & elf::EF_MIPS_NAN2008.0 != 0;
    let riscv_float = ident.flags & elf::EF_RISCV_FLOAT_ABI;
    let larch_float = ident.flags & elf::EF_LARCH_ABI_MODIFIER_MASK;
    let is_hard_arm = ident.flags & elf::EF_ARM_ABI_FLOAT_HARD != 0;
    match Machine(ident.machine) {
        elf::EM_X86_64 => exactly(if is_64 { 0x300 } else { 0x800 }),
        elf::EM_AARCH64 if is_64 => exactly(0xa00),
        elf::EM_S390 if is_64 => exactly(0x400),
        elf::EM_PPC64 => exactly(0x500),
        elf::EM_SPARCV9 => exactly(0x100),
        elf::EM_IA_64 => exactly(0x200),
        elf::EM_RISCV if riscv_float == elf::EF_RISCV_FLOAT_ABI_DOUBLE.0 => exactly(0x1000),
        elf::EM_RISCV => exactly(0xf00),
        elf::EM_LOONGARCH if larch_float == elf::EF_LARCH_ABI_DOUBLE_FLOAT.0 => exactly(0x1200),
        elf::EM_LOONGARCH => exactly(0x1100),
        // A library without a float ABI mark works with both, so the default has no mark either.
        elf::EM_ARM => (FLAG_ELF_LIBC6, Some(if is_hard_arm { 0x903 } else { 0xb03 })),
        // MIPS has three ABIs, each in two NaN encodings. o32 with the legacy encoding has the
        // generic flags.
        elf::EM_MIPS if is_64 => exactly(if is_nan2008 { 0xe00 } else { 0x700 }),
        elf::EM_MIPS if is_n32 => exactly(if is_nan2008 { 0xd00 } else { 0x600 }),
        elf::EM_MIPS if is_nan2008 => exactly(0xc00),
        _ => (FLAG_ELF_LIBC6, Some(FLAG_ELF)),
    }
}

/// Returns `cpu_features->isa_1` of a CPU with these levels. Bit 0 is the baseline, bit 3 is v4.
fn isa_bits(hwcaps: &[BString]) -> u32 {
    let levels = [(0b1111, "x86-64-v4"), (0b111, "x86-64-v3"), (0b11, "x86-64-v2")];
    let best = levels.iter().find(|(_, level)| hwcaps.iter().any(|name| name == level));
    best.map_or(0b1, |(bits, _)| *bits)
}

/// Returns true if `char` is signed in the psABI of a machine.
pub(super) fn has_signed_char(machine: u16) -> bool {
    !matches!(
        Machine(machine),
        elf::EM_ARM
            | elf::EM_AARCH64
            | elf::EM_PPC
            | elf::EM_PPC64
            | elf::EM_S390
            | elf::EM_RISCV
            | elf::EM_CSKY
    )
}

impl LoaderCache {
    /// Finds the file for a needed string (glibc `search_cache`). Returns `None` if the loader
    /// continues with the system directories.
    ///
    /// As in glibc, a lookup finds nothing if its binary search reads an entry with a key outside
    /// the file. Two rules are not modelled: some distributions' old releases check for
    /// `/etc/ld.so.nohwcap`, and up to glibc 2.35 an entry may require a kernel release.
    #[must_use]
    pub fn lookup(&self, needed: &BStr, query: &CacheQuery) -> Option<&BStr> {
        // The table is sorted in descending order, so "less" leads to later entries.
        let compare = |index: i64| {
            let entry = self.raw(u32::try_from(index).ok()?)?;
            Some((entry, libcmp(needed, self.tail(entry.key)?, query.signed_char)))
        };
        // `int right = nlibs - 1`: with a count of 0 or above 2^31 the loader finds nothing.
        let mut right = i64::from(self.count.wrapping_sub(1).cast_signed());
        let mut left = 0;
        let found = loop {
            if left > right {
                return None;
            }
            let middle = i64::midpoint(left, right);
            match compare(middle)?.1 {
                Ordering::Less => left = middle + 1,
                Ordering::Greater => right = middle - 1,
                Ordering::Equal => break middle,
            }
        };
        // The entries with this name are adjacent.
        let named = |index| compare(index).filter(|it| it.1.is_eq()).map(|it| it.0);
        let first = (0.max(found - MAX_ALIKE)..=found).rev().take_while(|&at| named(at).is_some());
        let first = first.last().unwrap_or(found);
        self.best_of((first..=right.min(found + MAX_ALIKE)).map_while(named), query)
    }

    /// Returns the path of the best of the entries with a name (the loop of `search_cache`).
    fn best_of(
        &self,
        entries: impl Iterator<Item = RawEntry>,
        query: &CacheQuery,
    ) -> Option<&BStr> {
        // The path of the best entry so far, and the priority of a named one. A lower number is
        // better.
        let mut best = None::<(&BStr, u32)>;
        for entry in entries {
            // A cache has the entries of all ABIs of a machine. Those of another ABI are skipped.
            let Some(path) = self.string(entry.value).filter(|_| query.accepts(entry.flags)) else {
                continue;
            };
            let is_default = entry.flags == query.default_id;
            // Up to 2.33, only an entry with the default flags could replace a better one.
            if query.minor < FIRST_IGNORING_FLAGS && best.is_some() && !is_default {
                continue;
            }
            // An entry of the old format has no hwcap field.
            if self.is_new {
                // An older loader takes the field for capability bits. It skips the entry, because
                // its mask lacks bit 62.
                let knows_names = query.minor >= FIRST_NAMED;
                if knows_names && is_named(entry.hwcap) {
                    // It never ends the search, because a better one may follow.
                    let priority = query.priority(self, entry.hwcap);
                    let is_better = |&it: &u32| best.is_none_or(|(_, priority)| it < priority);
                    best = priority.filter(is_better).map(|it| (path, it)).or(best);
                    continue;
                }
                // The named entries come first: the best of them is the answer.
                if knows_names && best.is_some() {
                    break;
                }
                if !query.accepts_legacy(entry.hwcap) {
                    continue;
                }
            }
            best = Some((path, 0));
            // An entry with the default flags is better than one with the other accepted flags.
            if is_default {
                break;
            }
        }
        best.map(|(path, _)| path)
    }
}

/// `_dl_cache_libcmp`: compares two names byte by byte, but runs of digits as numbers, which wrap
/// like an `int`. A name ends at a NUL or at the end of its slice.
pub(super) fn libcmp(left: &[u8], right: &[u8], signed_char: bool) -> Ordering {
    let at = |bytes: &[u8], index: usize| bytes.get(index).copied().unwrap_or(0);
    let difference = |left: u8, right: u8| {
        if signed_char { left.cast_signed().cmp(&right.cast_signed()) } else { left.cmp(&right) }
    };
    let (mut i, mut j) = (0, 0);
    loop {
        let (a, b) = (at(left, i), at(right, j));
        match (a.is_ascii_digit(), b.is_ascii_digit()) {
            // The loop of `_dl_cache_libcmp` ends at the NUL of the first name, before it looks for
            // digits in the second.
            _ if a == 0 => return difference(a, b),
            (true, true) => {
                let (x, y) = (number(left, &mut i), number(right, &mut j));
                if x != y {
                    // glibc returns the difference of two `int`s.
                    return x.wrapping_sub(y).cmp(&0);
                }
            }
            // A digit sorts after any other byte, so that `libx1` is greater than `libx.so`.
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) if a != b => return difference(a, b),
            (false, false) => {
                i += 1;
                j += 1;
            }
        }
    }
}

/// Parses a run of digits and advances the index past it.
fn number(bytes: &[u8], index: &mut usize) -> i32 {
    let mut value = 0_i32;
    while let Some(digit) = bytes.get(*index).filter(|byte| byte.is_ascii_digit()) {
        value = value.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'));
        *index += 1;
    }
    value
}

#[cfg(test)]
mod tests;
