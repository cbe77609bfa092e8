//! Parses the output of `ld.so --list-diagnostics`: one `key=value` a line. A value is a
//! hexadecimal number or a quoted string (glibc manual, "Dynamic Linker Diagnostics";
//! elf/dl-diagnostics.c).

use bstr::{BString, ByteSlice, ByteVec};
use rustc_hash::FxHashMap;

use super::{MAX_SYSTEM_DIRS, dst_lib, release};
use crate::facts::Readers;
use crate::loader::{Libc, LoaderFacts};
use crate::search::hwcaps::arch::{Arch, FIRST_WITHOUT_CACHE_HWCAPS};

/// Parses what a loader prints for `--list-diagnostics` (since glibc 2.34), and what it printed for
/// `--list-tunables`, if that follows.
///
/// The facts are those of the CPU that the loader ran on. The output does not list the strategies
/// that the loader supports. Returns `None` if the text lacks the release or the system
/// directories: up to 2.36 a 32-bit loader without a platform (Arm) aborts before it prints
/// them (bug 29427).
#[must_use]
pub fn from_diagnostics(text: &str) -> Option<LoaderFacts> {
    let lines = || text.lines().filter_map(|line| line.split_once('='));
    let values: FxHashMap<&str, &str> = lines().collect();
    let string_of = |key: &str| values.get(key).and_then(|value| string(value));
    let number = |value: &str| u64::from_str_radix(value.strip_prefix("0x")?, 16).ok();
    let number_of = |key: &str| values.get(key).and_then(|value| number(value));
    let version = release(&string_of("version.version")?)?;
    let system_dirs = lines().filter(|(key, _)| key.starts_with("path.system_dirs["));
    let system_dirs = system_dirs.filter_map(|(_, value)| string(value));
    let system_dirs: Vec<BString> = system_dirs.take(MAX_SYSTEM_DIRS).collect();
    if system_dirs.is_empty() {
        return None;
    }
    // `__tunables_print` writes the value in effect, then its range.
    let tunables: FxHashMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(": ")).collect();
    let tunable = |name: &str| tunables.get(name).and_then(|value| value.split(' ').next());
    let cache_hwcaps = version.minor < FIRST_WITHOUT_CACHE_HWCAPS;
    let important = number_of("dl_hwcap_important").unwrap_or(0);
    // `GET_HWCAP_MASK` is `HWCAP_IMPORTANT` unless a tunable changes it.
    // The lookup in the cache uses only bits that are in both (`hwcap_exclude`).
    let mask = tunable("glibc.cpu.hwcap_mask").and_then(number).unwrap_or(important);
    let hwcap = number_of("dl_hwcap").filter(|_| cache_hwcaps);
    let hwcap_mask = hwcap.unwrap_or(0) & mask;
    // Printed as the number 0 if there is no platform.
    let platform = string_of("dl_platform");
    let arch = arch(&string_of("dso.ld").unwrap_or_default(), important);
    let name = platform.as_ref().map(|name| name.as_bstr());
    let bit = number_of("dl_string_platform").and_then(|bit| u8::try_from(bit).ok());
    // The names of `_dl_hwcaps_subdirs` whose bit is set in `_dl_hwcaps_subdirs_active`. Bit 0 is for
    // the first name.
    let levels = string_of("dl_hwcaps_subdirs").unwrap_or_default();
    let active = number_of("dl_hwcaps_subdirs_active").unwrap_or(0);
    let levels = levels.split_str(":").filter(|name| !name.is_empty()).zip(0..64);
    let levels = levels.filter(|(_, bit)| active >> bit & 1 != 0);
    Some(LoaderFacts {
        libc: Libc::Glibc(version),
        lib: string_of("dl_dst_lib").unwrap_or_else(|| dst_lib(&system_dirs)),
        // The list is in the order of preference already: `_dl_hwcaps_subdirs` has the best level
        // first.
        hwcaps: levels.map(|(name, _)| name.into()).collect(),
        legacy_hwcaps: arch.legacy_names_of(version.minor, hwcap_mask, name),
        hwcap_mask,
        platform_bit: bit.filter(|bit| cache_hwcaps && *bit < 64),
        reads: Readers::default(),
        no_exec_stack: tunable("glibc.rtld.execstack") == Some("0"),
        platform,
        cache_path: string_of("path.sysconfdir").map(|mut path| {
            path.push_str("/ld.so.cache");
            path
        }),
        system_dirs,
    })
}

/// Finds the architecture, whose capability names apply, from the loader's file name. If several
/// architectures use the same file name (`ld64.so.1`, `ld-linux.so.2`), `HWCAP_IMPORTANT` decides.
fn arch(loader: &BString, important: u64) -> Arch {
    let by_name =
        if loader.starts_with_str("ld-linux-x86-64") || loader.starts_with_str("ld-linux-x32") {
            Arch::X86_64
        } else if loader.starts_with_str("ld-linux-aarch64") {
            Arch::Aarch64
        } else if loader.starts_with_str("ld-linux-armhf") || loader == "ld-linux.so.3" {
            Arch::Arm
        } else if loader == "ld64.so.2" {
            Arch::PowerPc64Le
        } else {
            // The masks of these three differ, so that at most one matches.
            let shared = [Arch::S390, Arch::PowerPc, Arch::I386];
            let is_its = |arch: &Arch| arch.important_mask() == important;
            shared.into_iter().find(is_its).unwrap_or(Arch::Other)
        };
    // A loader of another port or a later release may have other bits under the same name.
    if by_name.important_mask() == important { by_name } else { Arch::Other }
}

/// Parses a quoted string with `\"`, `\\` and octal escapes. Returns `None` for anything else.
fn string(value: &str) -> Option<BString> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let mut out = BString::default();
    let mut rest = inner;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        // `_dl_diagnostics_print_string` writes every byte that is not printable ASCII with three
        // octal digits.
        let octal = tail.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        if let Some(digits) = octal {
            let value =
                digits.iter().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            out.push(value as u8);
            rest = &tail[3..];
        } else if let [escaped, tail @ ..] = tail {
            out.push(*escaped);
            rest = tail;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::GlibcVersion;

    const X86_64_2_36: &str = "\
dl_dst_lib=\"lib/x86_64-linux-gnu\"
dl_hwcap=0x6
dl_hwcap_important=0x6
dl_hwcap2=0x2
dl_hwcaps_subdirs=\"x86-64-v4:x86-64-v3:x86-64-v2\"
dl_hwcaps_subdirs_active=0x6
dl_platform=\"haswell\"
dl_string_platform=0x32
dso.ld=\"ld-linux-x86-64.so.2\"
env[0x0]=\"path.system_dirs[0x0]=/x/\"
path.prefix=\"/usr\"
path.sysconfdir=\"/etc\"
path.system_dirs[0x0]=\"/lib/x86_64-linux-gnu/\"
path.system_dirs[0x1]=\"/usr/lib/\"
version.release=\"stable\"
version.version=\"2.36\"
";

    const S390X_2_43: &str = "\
dl_dst_lib=\"lib/s390x-linux-gnu\"
dl_hwcap=0x2b3f
dl_hwcaps_subdirs=\"z17:z16:z15:z14:z13\"
dl_hwcaps_subdirs_active=0x10
dl_platform=0x0
dso.ld=\"ld64.so.1\"
path.sysconfdir=\"/etc\"
path.system_dirs[0x0]=\"/lib/s390x-linux-gnu/\"
version.version=\"2.43\"
";

    #[test]
    fn diagnostics_of_2_36_give_every_fact() {
        let facts = from_diagnostics(X86_64_2_36).unwrap();
        assert_eq!(facts.libc, Libc::Glibc(GlibcVersion { major: 2, minor: 36 }));
        assert_eq!(facts.system_dirs, ["/lib/x86_64-linux-gnu/", "/usr/lib/"]);
        assert_eq!(facts.cache_path.unwrap(), "/etc/ld.so.cache");
        assert_eq!(facts.lib, "lib/x86_64-linux-gnu");
        assert_eq!(facts.platform.unwrap(), "haswell");
        assert_eq!(facts.hwcaps, ["x86-64-v3", "x86-64-v2"]);
        assert_eq!(facts.legacy_hwcaps, ["x86_64", "avx512_1", "haswell", "tls"]);
        assert_eq!((facts.hwcap_mask, facts.platform_bit), (6, Some(50)));
    }

    #[test]
    fn diagnostics_of_2_43_have_neither_legacy_hwcaps_nor_platform_bit() {
        let facts = from_diagnostics(S390X_2_43).unwrap();
        assert_eq!(facts.hwcaps, ["z13"]);
        assert!(facts.legacy_hwcaps.is_empty());
        assert_eq!((facts.hwcap_mask, facts.platform_bit, facts.platform), (0, None, None));
    }

    #[test]
    fn a_platform_printed_as_a_number_is_absent() {
        let text = S390X_2_43.replace("2.43", "2.36").replace("z17:", "").replace(
            "dl_platform=0x0",
            "dl_hwcap_important=0xa872\ndl_platform=0x0\ndl_string_platform=0xffffffffffffffff",
        );
        let facts = from_diagnostics(&text).unwrap();
        assert_eq!(facts.legacy_hwcaps, ["zarch", "ldisp", "eimm", "vx", "vxe", "tls"]);
        assert_eq!(facts.platform_bit, None);
    }

    #[test]
    fn a_list_of_directories_longer_than_that_of_any_loader_is_cut() {
        let text = [X86_64_2_36, &"path.system_dirs[0x2]=\"/lib/\"\n".repeat(1_000)].concat();
        assert_eq!(from_diagnostics(&text).unwrap().system_dirs.len(), MAX_SYSTEM_DIRS);
    }

    /// The loader of 32-bit Arm in 2.36 fails an assertion after `dl_platform` (bug 29427).
    #[test]
    fn truncated_diagnostics_are_rejected() {
        let cut = X86_64_2_36.split("dl_string_platform").next().unwrap();
        assert_eq!(from_diagnostics(cut), None);
        assert_eq!(from_diagnostics(""), None);
    }

    #[test]
    fn the_tunables_in_effect_mask_hwcaps_and_forbid_executable_stacks() {
        let with = |tunables: &str| from_diagnostics(&[X86_64_2_36, tunables].concat()).unwrap();
        let masked = with("glibc.cpu.hwcap_mask: 0x4 (min: 0x0, max: 0xffffffffffffffff)\n");
        assert_eq!(masked.legacy_hwcaps, ["avx512_1", "haswell", "tls"]);
        assert_eq!((masked.hwcap_mask, masked.no_exec_stack), (4, false));
        assert!(!with("glibc.rtld.execstack: 2 (min: 0, max: 2)\n").no_exec_stack);
        assert!(with("glibc.rtld.execstack: 0 (min: 0, max: 2)\n").no_exec_stack);
    }

    #[test]
    fn escapes_in_a_string_are_decoded() {
        assert_eq!(string(r#""a\"b\\c\303\251""#).unwrap(), "a\"b\\c\u{e9}");
        assert_eq!(string("0x1"), None);
        assert_eq!(string("\""), None);
    }
}
