//! The capabilities of a CPU that is named with `--cpu`.
//!
//! A loader reads its capabilities from `CPUID` (x86) or from the kernel's `AT_HWCAP` and
//! `AT_PLATFORM`. The tables here have these values for each CPU generation.

use bstr::{BStr, BString};
use thiserror::Error;

use super::FIRST_NAMED;
use super::arch::{Arch, FIRST_WITHOUT_CACHE_HWCAPS};
use crate::elf::{Class, Endian, Ident};
use crate::facts::{Libc, LoaderFacts};

/// Returned if a `--cpu` value names no CPU of the architecture.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown CPU '{name}' (known for this architecture: {known})")]
pub struct UnknownCpu {
    /// The value.
    pub name: String,
    /// The accepted names, separated by commas.
    pub known: String,
}

/// One CPU generation.
struct Cpu {
    /// The names that `--cpu` accepts for it.
    names: &'static [&'static str],
    /// `AT_HWCAP`, or the value that glibc derives from `CPUID`. Only bits of `HWCAP_IMPORTANT`.
    hwcap: u64,
    /// `AT_PLATFORM`, or the value that glibc replaces it with. Empty if there is none: qemu's user
    /// mode passes none on some architectures.
    platform: &'static str,
    /// The best named level of the CPU, in any release.
    level: Option<&'static str>,
}

const fn cpu(
    names: &'static [&'static str],
    hwcap: u64,
    platform: &'static str,
    level: Option<&'static str>,
) -> Cpu {
    Cpu { names, hwcap, platform, level }
}

/// glibc replaces the kernel's platform `x86_64` on Intel CPUs only (sysdeps/x86/cpu-features.c), so
/// a CPU given as a psABI level keeps it.
const X86_64: &[Cpu] = &[
    cpu(&["generic", "baseline", "x86-64-v1"], 0b010, "x86_64", None),
    cpu(&["x86-64-v2"], 0b010, "x86_64", Some("x86-64-v2")),
    cpu(&["x86-64-v3", "qemu"], 0b010, "x86_64", Some("x86-64-v3")),
    cpu(&["x86-64-v4"], 0b010, "x86_64", Some("x86-64-v4")),
    cpu(&["haswell"], 0b010, "haswell", Some("x86-64-v3")),
    cpu(&["skylake-avx512"], 0b110, "haswell", Some("x86-64-v4")),
    cpu(&["xeon_phi"], 0b010, "xeon_phi", Some("x86-64-v3")),
];

/// Every x86 CPU of the last twenty years has SSE2, and its platform is i686.
const I386: &[Cpu] = &[
    cpu(&["generic", "baseline", "qemu", "pentium4"], 0b1, "i686", None),
    cpu(&["i686"], 0, "i686", None),
    cpu(&["i586"], 0, "i586", None),
];

const AARCH64: &[Cpu] = &[
    cpu(&["generic", "baseline", "armv8-a"], 0, "aarch64", None),
    cpu(&["armv8.1-a", "qemu"], 1 << 8, "aarch64", None),
];

const ARM: &[Cpu] = &[
    cpu(&["generic", "baseline", "armv7-a"], 1 << 6, "v7l", None),
    cpu(&["armv7-a+neon"], 1 << 6 | 1 << 12, "v7l", None),
    cpu(&["armv8-a", "qemu"], 1 << 6 | 1 << 12, "v8l", None),
    cpu(&["armv6"], 1 << 6, "v6l", None),
    cpu(&["armv5te"], 0, "v5tel", None),
];

/// zarch, ldisp, eimm and dfp, which z10 and all later CPUs have.
const Z10: u64 = 0x72;
const VX: u64 = 1 << 11;
const VXE: u64 = 1 << 13;
const VXE2: u64 = 1 << 15;
const S390: &[Cpu] = &[
    cpu(&["generic", "baseline", "z196"], Z10, "z196", None),
    cpu(&["z900"], 0x02, "z900", None),
    cpu(&["z990"], 0x12, "z990", None),
    cpu(&["z9"], 0x32, "z9-109", None),
    cpu(&["z10"], Z10, "z10", None),
    cpu(&["zEC12"], Z10, "zEC12", None),
    cpu(&["z13"], Z10 | VX, "z13", Some("z13")),
    cpu(&["z14"], Z10 | VX | VXE, "z14", Some("z14")),
    cpu(&["z15"], Z10 | VX | VXE | VXE2, "z15", Some("z15")),
    cpu(&["z16"], Z10 | VX | VXE | VXE2, "z16", Some("z16")),
    cpu(&["z17"], Z10 | VX | VXE | VXE2, "z17", Some("z17")),
    cpu(&["qemu"], 0x2832, "", Some("z13")),
];

const ALTIVEC: u64 = 1 << 28;
const DFP: u64 = 1 << 10;
const POWERPC: &[Cpu] = &[
    cpu(&["generic", "baseline", "power8"], ALTIVEC | DFP, "power8", None),
    cpu(&["power4"], 0, "power4", None),
    cpu(&["ppc970"], ALTIVEC, "ppc970", None),
    cpu(&["power5"], 0, "power5", None),
    cpu(&["power6"], ALTIVEC | DFP, "power6", None),
    cpu(&["power7"], ALTIVEC | DFP, "power7", None),
    cpu(&["power9"], ALTIVEC | DFP, "power9", Some("power9")),
    cpu(&["power10"], ALTIVEC | DFP, "power10", Some("power10")),
    cpu(&["power11"], ALTIVEC | DFP, "power11", Some("power10")),
    cpu(&["qemu"], ALTIVEC | DFP, "", Some("power9")),
];

const OTHER: &[Cpu] = &[cpu(&["generic", "baseline", "qemu"], 0, "", None)];

fn cpus(arch: Arch, endian: Endian) -> &'static [Cpu] {
    match (arch, endian) {
        (Arch::X86_64, _) => X86_64,
        (Arch::I386, _) => I386,
        (Arch::Aarch64, _) => AARCH64,
        (Arch::Arm, Endian::Little) => ARM,
        // No big-endian CPU is an armv5te.
        (Arch::Arm, Endian::Big) => &ARM[..ARM.len() - 1],
        (Arch::S390, _) => S390,
        (Arch::PowerPc | Arch::PowerPc64Le, _) => POWERPC,
        (Arch::Other, _) => OTHER,
    }
}

/// Returns the capabilities that the loader of `libc` detects on a CPU. The facts that do not depend
/// on the CPU have their default.
///
/// `cpu` is a psABI level (`x86-64-v3`), a generation (`haswell`, `z15`, `power9`, `armv8.1-a`),
/// `generic` or `baseline` for the oldest supported CPU, or `qemu` for the default CPU of qemu's
/// user mode (7.2). Levels and platforms that are newer than the release are left out. musl has no
/// capabilities and accepts every name.
///
/// # Errors
/// Returns [`UnknownCpu`] if the architecture has no CPU with this name.
pub fn for_cpu(ident: &Ident, libc: Libc, cpu: &str) -> Result<LoaderFacts, UnknownCpu> {
    let Libc::Glibc(release) = libc else { return Ok(LoaderFacts::default()) };
    let arch = Arch::of(ident);
    let known = cpus(arch, ident.endian);
    let Some(found) = known.iter().find(|entry| entry.names.contains(&cpu)) else {
        let names: Vec<_> = known.iter().flat_map(|entry| entry.names).copied().collect();
        return Err(UnknownCpu { name: cpu.to_owned(), known: names.join(", ") });
    };
    // The kernel's platform names the byte order.
    let platform = match (arch, ident.endian) {
        (Arch::Aarch64, Endian::Big) => format!("{}_be", found.platform),
        (Arch::Arm, Endian::Big) => found.platform.replace('l', "b"),
        _ => found.platform.to_owned(),
    };
    let platform = Some(BStr::new(&platform)).filter(|name| !name.is_empty());
    // The loader cache kept its legacy bits three releases longer than the directories.
    let cache_hwcaps = release.minor < FIRST_WITHOUT_CACHE_HWCAPS;
    // Only the 64-bit loader of s390 has levels (sysdeps/s390/s390-64/dl-hwcaps-subdirs.c).
    let has_levels = arch != Arch::S390 || ident.class == Class::Elf64;
    Ok(LoaderFacts {
        hwcaps: active_levels(arch, release.minor, found.level.filter(|_| has_levels)),
        legacy_hwcaps: arch.legacy_names_of(release.minor, found.hwcap, platform),
        platform: platform.map(BStr::to_owned),
        hwcap_mask: if cache_hwcaps { found.hwcap & arch.important_mask() } else { 0 },
        platform_bit: platform
            .filter(|_| cache_hwcaps)
            .and_then(|name| arch.platform_bit(release.minor, name)),
        ..LoaderFacts::default()
    })
}

/// Returns the levels of a release, from the best one of the CPU downwards.
fn active_levels(arch: Arch, minor: u16, best: Option<&str>) -> Vec<BString> {
    let Some(best) = best.filter(|_| minor >= FIRST_NAMED) else { return Vec::new() };
    // A CPU has all levels below its best one.
    let levels = arch.levels().iter().skip_while(|(name, _)| *name != best);
    levels.filter(|(_, since)| *since <= minor).map(|(name, _)| BString::from(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::GlibcVersion;
    use object::elf;

    fn ident(machine: u16, class: Class, endian: Endian) -> Ident {
        Ident { class, endian, os_abi: 0, abi_version: 0, e_type: 3, machine, flags: 0 }
    }

    fn x86_64() -> Ident {
        ident(elf::EM_X86_64.0, Class::Elf64, Endian::Little)
    }

    fn s390x() -> Ident {
        ident(elf::EM_S390.0, Class::Elf64, Endian::Big)
    }

    fn glibc(minor: u16) -> Libc {
        Libc::Glibc(GlibcVersion { major: 2, minor })
    }

    /// The values are those of `ld.so --list-diagnostics` of glibc 2.36 on such a CPU.
    #[test]
    fn an_avx512_intel_cpu_has_four_legacy_names_in_2_36() {
        let caps = for_cpu(&x86_64(), glibc(36), "skylake-avx512").unwrap();
        assert_eq!(caps.hwcaps, ["x86-64-v4", "x86-64-v3", "x86-64-v2"]);
        assert_eq!(caps.legacy_hwcaps, ["x86_64", "avx512_1", "haswell", "tls"]);
        assert_eq!(caps.hwcap_mask, 6);
        assert_eq!(caps.platform_bit, Some(0x32));
    }

    #[test]
    fn a_cpu_given_as_a_level_keeps_the_platform_of_the_kernel() {
        let caps = for_cpu(&x86_64(), glibc(36), "x86-64-v3").unwrap();
        assert_eq!(caps.legacy_hwcaps, ["x86_64", "x86_64", "tls"]);
        assert_eq!(caps.platform_bit, None);
    }

    #[test]
    fn each_release_has_only_the_capabilities_it_reads() {
        let old = for_cpu(&x86_64(), glibc(32), "haswell").unwrap();
        assert!(old.hwcaps.is_empty());
        assert_eq!(old.legacy_hwcaps, ["x86_64", "haswell", "tls"]);
        // 2.37 removed the directories, but the bits of the loader cache stayed until 2.39.
        let middle = for_cpu(&x86_64(), glibc(39), "haswell").unwrap();
        assert!(middle.legacy_hwcaps.is_empty());
        assert_eq!((middle.hwcap_mask, middle.platform_bit), (2, Some(50)));
        let new = for_cpu(&x86_64(), glibc(40), "haswell").unwrap();
        assert_eq!((new.hwcap_mask, new.platform_bit), (0, None));
        assert_eq!(new.platform.unwrap(), "haswell");
    }

    #[test]
    fn a_level_newer_than_the_release_is_left_out() {
        let levels = |minor| for_cpu(&s390x(), glibc(minor), "z17").unwrap().hwcaps;
        assert_eq!(levels(35), ["z15", "z14", "z13"]);
        assert_eq!(levels(36), ["z16", "z15", "z14", "z13"]);
        assert_eq!(levels(42), ["z17", "z16", "z15", "z14", "z13"]);
    }

    #[test]
    fn s390_platform_bits_follow_the_release() {
        let bit = |minor| for_cpu(&s390x(), glibc(minor), "z16").unwrap().platform_bit;
        assert_eq!(bit(35), None);
        assert_eq!(bit(36), Some(42));
    }

    /// The values are those of `ld.so --list-diagnostics` of glibc 2.36 under qemu-s390x 7.2.
    #[test]
    fn qemu_passes_no_platform_on_s390x() {
        let caps = for_cpu(&s390x(), glibc(36), "qemu").unwrap();
        assert_eq!(caps.hwcaps, ["z13"]);
        assert_eq!(caps.legacy_hwcaps, ["zarch", "ldisp", "eimm", "vx", "vxe", "tls"]);
        assert_eq!(caps.platform, None);
    }

    #[test]
    fn the_31_bit_loader_of_s390_has_no_levels() {
        let ident = ident(elf::EM_S390.0, Class::Elf32, Endian::Big);
        assert!(for_cpu(&ident, glibc(36), "z14").unwrap().hwcaps.is_empty());
    }

    #[test]
    fn power_levels_are_little_endian_only() {
        let of = |endian| {
            for_cpu(&ident(elf::EM_PPC64.0, Class::Elf64, endian), glibc(36), "power10").unwrap()
        };
        assert_eq!(of(Endian::Little).hwcaps, ["power10", "power9"]);
        assert_eq!(of(Endian::Little).legacy_hwcaps, ["dfp", "altivec", "power10", "tls"]);
        assert!(of(Endian::Big).hwcaps.is_empty());
    }

    #[test]
    fn an_architecture_without_tables_still_has_tls() {
        let ident = ident(elf::EM_RISCV.0, Class::Elf64, Endian::Little);
        let caps = for_cpu(&ident, glibc(36), "generic").unwrap();
        assert_eq!(caps.legacy_hwcaps, ["tls"]);
    }

    #[test]
    fn an_unknown_cpu_is_refused_with_the_known_ones() {
        let error = for_cpu(&x86_64(), glibc(36), "z15").unwrap_err();
        assert!(error.to_string().contains("x86-64-v2"), "{error}");
        assert_eq!(for_cpu(&x86_64(), Libc::Musl, "z15"), Ok(LoaderFacts::default()));
    }
}
