//! What a loader would find out about the processor: of this machine where it runs
//! here, of a named one where the user says so, the least of its kind otherwise.

use becalm_core::elf::{Class, Endian, Ident};

use crate::HostError;

/// `EM_X86_64`, `EM_PPC64`, `EM_S390` of the gABI, and others native programs have.
const EM_386: u16 = 3;
const EM_ARM: u16 = 40;
const EM_PPC64: u16 = 21;
const EM_S390: u16 = 22;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const EM_RISCV: u16 = 243;
const EM_LOONGARCH: u16 = 258;

/// The `glibc-hwcaps` subdirectory names of each machine, least first (glibc
/// `sysdeps/<machine>/dl-hwcaps-subdirs.c`). A processor that has one has all before it.
const LEVELS: [(u16, &[&str]); 3] = [
    (EM_X86_64, &["x86-64-v2", "x86-64-v3", "x86-64-v4"]),
    (EM_PPC64, &["power9", "power10"]),
    (EM_S390, &["z13", "z14", "z15", "z16", "z17"]),
];

/// What decides about hwcaps subdirectories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Names of `glibc-hwcaps` subdirectories, best first; a release that does not
    /// know one of them passes it over.
    pub hwcaps: Vec<&'static str>,
    /// `AT_PLATFORM` or what glibc before 2.37 puts in its place (`haswell`).
    pub platform: Option<&'static str>,
    /// `HWCAP_X86_AVX512_1` of glibc before 2.37.
    pub avx512_1: bool,
}

impl Cpu {
    /// The processor a user names by its best hwcaps subdirectory (`x86-64-v3`,
    /// `power10`, `z15`), or `baseline` for the least. For a machine without the
    /// name, the least as well: one option serves a folder of several machines.
    ///
    /// # Errors
    /// [`HostError::UnknownCpu`] where no machine has the name.
    pub fn named(name: &str, machine: u16) -> Result<Self, HostError> {
        if name == "baseline" {
            return Ok(Self::default());
        }
        let owner = LEVELS.iter().find_map(|(machine, levels)| {
            let place = levels.iter().position(|level| *level == name)?;
            Some((*machine, &levels[..=place]))
        });
        match owner {
            None => Err(HostError::UnknownCpu { name: name.to_owned() }),
            Some((owner, _)) if owner != machine => Ok(Self::default()),
            Some((_, levels)) => {
                Ok(Self { hwcaps: levels.iter().rev().copied().collect(), ..Self::default() })
            }
        }
    }

    /// The processor of this machine, as far as a program may ask it. Only x86-64 is
    /// asked; on any other machine this is the least of its kind.
    #[must_use]
    pub fn running() -> Self {
        #[cfg(target_arch = "x86_64")]
        return x86_64();
        #[cfg(not(target_arch = "x86_64"))]
        Self::default()
    }
}

/// Levels as in the x86-64 psABI ("Micro-architecture levels"); the legacy words as in
/// glibc 2.36 `sysdeps/x86/cpu-features.c` `init_cpu_features`, for Intel's alone.
#[cfg(target_arch = "x86_64")]
fn x86_64() -> Cpu {
    macro_rules! has {
        ($($feature:tt)+) => { $(std::is_x86_feature_detected!($feature))&&+ };
    }
    // LAHF, which the second level asks for too, came with the same processors.
    let v2 = has!("cmpxchg16b" "popcnt" "sse3" "ssse3" "sse4.1" "sse4.2");
    let v3 = v2 && has!("avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe");
    let v4 = v3 && has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
    let count = [v2, v3, v4].iter().filter(|has| **has).count();
    let hwcaps = LEVELS[0].1[..count].iter().rev().copied().collect();
    let intel = std::fs::read("/proc/cpuinfo")
        .is_ok_and(|text| bstr::ByteSlice::contains_str(&*text, "GenuineIntel"));
    let haswell = intel && has!("avx2" "fma" "bmi1" "bmi2" "lzcnt" "movbe" "popcnt");
    let avx512_1 = intel && has!("avx512cd" "avx512bw" "avx512dq" "avx512vl");
    Cpu { hwcaps, platform: haswell.then_some("haswell"), avx512_1 }
}

/// True where the kernel of this machine runs such objects with becalm's own
/// instruction set, so that a loader among them tells of this very processor.
#[must_use]
pub(crate) fn is_native(ident: &Ident) -> bool {
    let machine = match std::env::consts::ARCH {
        "x86" => EM_386,
        "arm" => EM_ARM,
        "powerpc64" => EM_PPC64,
        "s390x" => EM_S390,
        "x86_64" => EM_X86_64,
        "aarch64" => EM_AARCH64,
        "riscv64" => EM_RISCV,
        "loongarch64" => EM_LOONGARCH,
        _ => return false,
    };
    let class = if cfg!(target_pointer_width = "64") { Class::Elf64 } else { Class::Elf32 };
    let endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };
    (ident.machine, ident.class, ident.endian) == (machine, class, endian)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_cpu_has_every_level_below_it() {
        let cpu = Cpu::named("x86-64-v3", EM_X86_64).unwrap();
        assert_eq!(cpu.hwcaps, ["x86-64-v3", "x86-64-v2"]);
        assert_eq!(Cpu::named("baseline", EM_X86_64).unwrap().hwcaps, [""; 0]);
    }

    #[test]
    fn a_cpu_of_another_machine_leaves_the_baseline_and_an_unknown_one_is_an_error() {
        assert_eq!(Cpu::named("power10", EM_X86_64).unwrap(), Cpu::default());
        let error = Cpu::named("pentium", EM_X86_64).unwrap_err();
        assert!(matches!(error, HostError::UnknownCpu { .. }));
    }
}
