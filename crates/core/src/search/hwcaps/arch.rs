//! glibc's tables of hardware capabilities for each architecture, as far as the search uses them:
//! `_dl_hwcaps_subdirs`, `HWCAP_IMPORTANT` with the names of its bits, and the platforms of an
//! old-style entry in the loader cache.

use bstr::{BStr, BString};
use object::elf::{self, Machine};

use super::{FIRST_NAMED, FIRST_WITHOUT_LEGACY};
use crate::elf::{Endian, Ident};

/// The first release that reads no legacy hwcap bit and no platform from the loader cache (glibc
/// 2.40, "elf: Remove loading legacy hwcaps/platform entries in dynamic loader").
pub(crate) const FIRST_WITHOUT_CACHE_HWCAPS: u16 = 40;

/// An architecture with hwcaps tables in glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// x86-64, x32 included.
    X86_64,
    /// 32-bit x86.
    I386,
    /// AArch64.
    Aarch64,
    /// 32-bit Arm.
    Arm,
    /// s390, 31 and 64 bits.
    S390,
    /// PowerPC, big-endian or 32-bit.
    PowerPc,
    /// 64-bit little-endian PowerPC, the only PowerPC with named levels.
    PowerPc64Le,
    /// Any other architecture, which has no bits, no platforms and no named levels.
    Other,
}

/// A `glibc-hwcaps` level and the release 2.*minor* that introduced it.
pub(crate) struct Level {
    pub(crate) name: &'static str,
    pub(crate) since: u16,
}

/// A platform of `_dl_string_platform`, its bit in an old-style entry of the loader cache and the
/// release 2.*minor* that introduced it.
struct Platform {
    name: &'static str,
    bit: u8,
    since: u16,
}

const fn level(name: &'static str, since: u16) -> Level {
    Level { name, since }
}

const fn platform(name: &'static str, bit: u8, since: u16) -> Platform {
    Platform { name, bit, since }
}

/// sysdeps/x86_64/dl-hwcaps-subdirs.c.
const X86_64_LEVELS: &[Level] = &[
    level("x86-64-v4", FIRST_NAMED),
    level("x86-64-v3", FIRST_NAMED),
    level("x86-64-v2", FIRST_NAMED),
];
/// sysdeps/s390/s390-64/dl-hwcaps-subdirs.c.
const S390_LEVELS: &[Level] = &[
    level("z17", 42),
    level("z16", 36),
    level("z15", FIRST_NAMED),
    level("z14", FIRST_NAMED),
    level("z13", FIRST_NAMED),
];
/// sysdeps/powerpc/powerpc64/le/dl-hwcaps-subdirs.c.
const POWERPC_LEVELS: &[Level] = &[level("power10", FIRST_NAMED), level("power9", FIRST_NAMED)];

/// sysdeps/x86/dl-procinfo.c, `_dl_x86_platforms`.
const X86_64_PLATFORMS: &[Platform] = &[platform("haswell", 50, 0), platform("xeon_phi", 51, 0)];
const I386_PLATFORMS: &[Platform] = &[platform("i586", 48, 0), platform("i686", 49, 0)];
/// sysdeps/s390/dl-procinfo.c, `_dl_s390_platforms`.
const S390_PLATFORMS: &[Platform] = &[
    platform("g5", 32, 0),
    platform("z900", 33, 0),
    platform("z990", 34, 0),
    platform("z9-109", 35, 0),
    platform("z10", 36, 0),
    platform("z196", 37, 0),
    platform("zEC12", 38, 0),
    platform("z13", 39, 0),
    platform("z14", 40, 0),
    platform("z15", 41, 0),
    platform("z16", 42, 36),
];
/// sysdeps/powerpc/dl-procinfo.h, `_dl_string_platform`.
const POWERPC_PLATFORMS: &[Platform] = &[
    platform("power4", 32, 0),
    platform("ppc970", 33, 0),
    platform("power5", 34, 0),
    platform("power5+", 35, 0),
    platform("power6", 36, 0),
    platform("ppc-cell-be", 37, 0),
    platform("power6x", 38, 0),
    platform("power7", 39, 0),
    platform("ppca2", 40, 0),
    platform("ppc405", 41, 0),
    platform("ppc440", 42, 0),
    platform("ppc464", 43, 0),
    platform("ppc476", 44, 0),
    platform("power8", 45, 0),
    platform("power9", 46, 0),
    platform("power10", 47, 32),
];

impl Arch {
    /// All architectures.
    pub(crate) const ALL: [Arch; 8] = [
        Arch::X86_64,
        Arch::I386,
        Arch::Aarch64,
        Arch::Arm,
        Arch::S390,
        Arch::PowerPc,
        Arch::PowerPc64Le,
        Arch::Other,
    ];

    /// Returns the architecture of an object.
    #[must_use]
    pub fn of(ident: &Ident) -> Self {
        match Machine(ident.machine) {
            elf::EM_X86_64 => Arch::X86_64,
            elf::EM_386 => Arch::I386,
            elf::EM_AARCH64 => Arch::Aarch64,
            elf::EM_ARM => Arch::Arm,
            elf::EM_S390 => Arch::S390,
            elf::EM_PPC64 if ident.endian == Endian::Little => Arch::PowerPc64Le,
            elf::EM_PPC | elf::EM_PPC64 => Arch::PowerPc,
            _ => Arch::Other,
        }
    }

    /// Returns all named levels, best first.
    pub(crate) fn levels(self) -> &'static [Level] {
        match self {
            Arch::X86_64 => X86_64_LEVELS,
            Arch::S390 => S390_LEVELS,
            Arch::PowerPc64Le => POWERPC_LEVELS,
            Arch::I386 | Arch::Aarch64 | Arch::Arm | Arch::PowerPc | Arch::Other => &[],
        }
    }

    /// `HWCAP_IMPORTANT`: returns the bit and name of each capability with a legacy subdirectory,
    /// least significant first.
    pub(crate) fn important(self) -> &'static [(u8, &'static str)] {
        match self {
            Arch::X86_64 => &[(1, "x86_64"), (2, "avx512_1")],
            Arch::I386 => &[(0, "sse2")],
            Arch::Aarch64 => &[(8, "atomics")],
            Arch::Arm => &[(6, "vfp"), (12, "neon")],
            Arch::S390 => &[
                (1, "zarch"),
                (4, "ldisp"),
                (5, "eimm"),
                (6, "dfp"),
                (11, "vx"),
                (13, "vxe"),
                (15, "vxe2"),
            ],
            Arch::PowerPc | Arch::PowerPc64Le => &[(10, "dfp"), (28, "altivec")],
            Arch::Other => &[],
        }
    }

    /// Returns every name that can be the first component of a legacy subdirectory.
    pub(crate) fn legacy_names(self) -> impl Iterator<Item = &'static str> {
        let bits = self.important().iter().map(|(_, name)| *name);
        let platforms = self.platforms().iter().map(|platform| platform.name);
        // `AT_PLATFORM` of the kernel is a name as well, even if glibc's tables lack it.
        let kernel: &[&str] = match self {
            Arch::Aarch64 => &["aarch64"],
            Arch::Arm => &["v5l", "v6l", "v7l", "v8l"],
            Arch::I386 => &["i386", "i486", "haswell", "xeon_phi"],
            Arch::S390 => &["z17"],
            Arch::PowerPc | Arch::PowerPc64Le => &["power11"],
            _ => &[],
        };
        bits.chain(platforms).chain(kernel.iter().copied()).chain(["tls"])
    }

    fn platforms(self) -> &'static [Platform] {
        match self {
            Arch::X86_64 => X86_64_PLATFORMS,
            Arch::I386 => I386_PLATFORMS,
            Arch::S390 => S390_PLATFORMS,
            Arch::PowerPc | Arch::PowerPc64Le => POWERPC_PLATFORMS,
            Arch::Aarch64 | Arch::Arm | Arch::Other => &[],
        }
    }

    /// `_DL_HWCAP_PLATFORM` of a release: the platform bits of an old-style entry.
    pub(crate) fn platform_mask(self, minor: u16) -> u64 {
        match self {
            // The mask covers four platforms, although the first two are those of i386.
            Arch::X86_64 => 0xf << 48,
            _ => self
                .platforms()
                .iter()
                .filter(|platform| platform.since <= minor)
                .fold(0, |mask, platform| mask | 1 << platform.bit),
        }
    }

    /// `_dl_string_platform` of a release.
    pub(crate) fn platform_bit(self, minor: u16, name: &BStr) -> Option<u8> {
        let known = |platform: &&Platform| platform.since <= minor && name == platform.name;
        self.platforms().iter().find(known).map(|platform| platform.bit)
    }

    /// `HWCAP_IMPORTANT` as a mask.
    pub(crate) fn important_mask(self) -> u64 {
        self.important().iter().fold(0, |mask, (bit, _)| mask | 1 << bit)
    }

    /// Returns the names of the legacy power set for capability bits and a platform: the bits in
    /// ascending order, the platform, then always `tls` (`_dl_important_hwcaps`). Returns an empty
    /// list if the release has no legacy subdirectories.
    pub(crate) fn legacy_names_of(
        self,
        minor: u16,
        hwcap: u64,
        platform: Option<&BStr>,
    ) -> Vec<BString> {
        if minor >= FIRST_WITHOUT_LEGACY {
            return Vec::new();
        }
        // `_dl_important_hwcaps` counts the bits from the lowest, then adds platform and `tls`.
        let bits = self.important().iter().filter(|(bit, _)| hwcap & (1 << bit) != 0);
        bits.map(|(_, name)| BString::from(*name))
            .chain(platform.map(|name| name.to_owned()))
            .chain([BString::from("tls")])
            .collect()
    }
}
