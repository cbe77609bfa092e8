//! glibc's tables of hardware capabilities for each architecture, as far as the search uses them:
//! `_dl_hwcaps_subdirs`, `HWCAP_IMPORTANT` with the names of its bits, and the platforms of an
//! old-style entry in the loader cache.

use bstr::{BStr, BString};
use object::elf::{self, Machine};

use super::FIRST_WITHOUT_LEGACY;
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

    /// Returns all named levels, best first, each with the release 2.*minor* that introduced it, or 0
    /// for [`super::FIRST_NAMED`].
    pub(crate) fn levels(self) -> &'static [(&'static str, u16)] {
        match self {
            // sysdeps/x86_64/dl-hwcaps-subdirs.c.
            Arch::X86_64 => &[("x86-64-v4", 0), ("x86-64-v3", 0), ("x86-64-v2", 0)],
            // sysdeps/s390/s390-64/dl-hwcaps-subdirs.c.
            Arch::S390 => &[("z17", 42), ("z16", 36), ("z15", 0), ("z14", 0), ("z13", 0)],
            // sysdeps/powerpc/powerpc64/le/dl-hwcaps-subdirs.c.
            Arch::PowerPc64Le => &[("power10", 0), ("power9", 0)],
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
        let platforms = self.platforms(u16::MAX).map(|(_, name)| name);
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

    /// `_dl_string_platform` of a release: each platform with its bit in an old-style entry of the
    /// loader cache.
    fn platforms(self, minor: u16) -> impl Iterator<Item = (u8, &'static str)> {
        // The bits are in the order of the names.
        let (first, names) = match self {
            // sysdeps/x86/dl-procinfo.c, `_dl_x86_platforms`.
            Arch::X86_64 => (50, "haswell xeon_phi"),
            Arch::I386 => (48, "i586 i686"),
            // sysdeps/s390/dl-procinfo.c, `_dl_s390_platforms`.
            Arch::S390 => (32, "g5 z900 z990 z9-109 z10 z196 zEC12 z13 z14 z15 z16"),
            // sysdeps/powerpc/dl-procinfo.h, `_dl_string_platform`.
            Arch::PowerPc | Arch::PowerPc64Le => (
                32,
                "power4 ppc970 power5 power5+ power6 ppc-cell-be power6x power7 ppca2 ppc405 \
                 ppc440 ppc464 ppc476 power8 power9 power10",
            ),
            Arch::Aarch64 | Arch::Arm | Arch::Other => (0, ""),
        };
        let is_known = move |name: &str| match name {
            "z16" => minor >= 36,
            "power10" => minor >= 32,
            _ => true,
        };
        (first..).zip(names.split_ascii_whitespace()).filter(move |(_, name)| is_known(name))
    }

    /// `_DL_HWCAP_PLATFORM` of a release: the platform bits of an old-style entry.
    pub(crate) fn platform_mask(self, minor: u16) -> u64 {
        match self {
            // The mask covers four platforms, although the first two are those of i386.
            Arch::X86_64 => 0xf << 48,
            _ => self.platforms(minor).fold(0, |mask, (bit, _)| mask | 1 << bit),
        }
    }

    /// Returns the bit of a platform.
    pub(crate) fn platform_bit(self, minor: u16, name: &BStr) -> Option<u8> {
        self.platforms(minor).find(|(_, known)| name == known).map(|(bit, _)| bit)
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
