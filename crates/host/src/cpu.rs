//! Identifies this machine's processor among those of [`becalm_core::search::hwcaps::for_cpu`], and
//! decides if a loader can run on this machine.

use becalm_core::elf::{Class, Endian, Ident, machine_name};

/// Name of the baseline processor for [`becalm_core::search::hwcaps::for_cpu`].
pub(crate) const BASELINE: &str = "baseline";

/// Returns the name of this machine's processor for a native object. Only x86-64 processors are
/// distinguished; any other machine counts as the baseline.
#[must_use]
pub fn running() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    return x86_64();
    #[cfg(not(target_arch = "x86_64"))]
    BASELINE
}

/// Returns the level of the x86-64 psABI ("Micro-architecture levels"). Intel's processors have
/// names of their own, as in glibc 2.36 `sysdeps/x86/cpu-features.c` `init_cpu_features`.
#[cfg(target_arch = "x86_64")]
fn x86_64() -> &'static str {
    macro_rules! has {
        ($($feature:tt)+) => { $(std::is_x86_feature_detected!($feature))&&+ };
    }
    // The second level also requires LAHF, which the same processors introduced.
    let v2 = has!("cmpxchg16b" "popcnt" "sse3" "ssse3" "sse4.1" "sse4.2");
    let v3 = v2 && has!("avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe");
    let v4 = v3 && has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
    let intel = || {
        std::fs::read("/proc/cpuinfo")
            .is_ok_and(|text| bstr::ByteSlice::contains_str(&*text, "GenuineIntel"))
    };
    match (v2, v3, v4) {
        (_, _, true) if intel() => "skylake-avx512",
        (_, _, true) => "x86-64-v4",
        (_, true, _) if intel() => "haswell",
        (_, true, _) => "x86-64-v3",
        (true, _, _) => "x86-64-v2",
        _ => BASELINE,
    }
}

/// Returns true if this machine runs such objects with becalm's own instruction set, so that a
/// loader among them describes this very processor.
#[must_use]
pub(crate) fn is_native(ident: &Ident) -> bool {
    let own = match std::env::consts::ARCH {
        "x86" => "i386",
        "powerpc64" => "ppc64",
        other => other,
    };
    let class = if cfg!(target_pointer_width = "64") { Class::Elf64 } else { Class::Elf32 };
    let endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };
    (machine_name(ident.machine), ident.class, ident.endian) == (own, class, endian)
}
