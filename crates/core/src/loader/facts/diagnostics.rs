//! `ld.so --list-diagnostics`: one `key=value` a line, a value being a number in hex or
//! a quoted string (glibc manual, "Dynamic Linker Diagnostics"; elf/dl-diagnostics.c).

use bstr::{BStr, BString, ByteSlice, ByteVec};

use super::{MAX_SYSTEM_DIRS, dst_lib, release};
use crate::facts::Readers;
use crate::loader::{Libc, LoaderFacts};
use crate::search::hwcaps::arch::{Arch, FIRST_WITHOUT_CACHE_HWCAPS};

/// The facts in what a loader prints for `--list-diagnostics` (glibc 2.34 on).
///
/// They hold for the CPU it ran on; which carriers it reads it does not print. `None` where the
/// text lacks the release or the system directories. A 32-bit loader up to 2.36 without a
/// platform of its own (Arm) gives such a text: it fails half-way through its answer (bug 29427).
#[must_use]
pub fn from_diagnostics(text: &str) -> Option<LoaderFacts> {
    let answer = Answer::read(text);
    let version = release(answer.version.as_deref()?)?;
    if answer.system_dirs.is_empty() {
        return None;
    }
    let arch = arch(&answer);
    let cache_hwcaps = version.minor < FIRST_WITHOUT_CACHE_HWCAPS;
    let hwcap_mask = if cache_hwcaps { answer.hwcap & answer.important } else { 0 };
    let platform = answer.platform.as_ref().map(|name| name.as_bstr());
    let bit = answer.string_platform.and_then(|bit| u8::try_from(bit).ok());
    Some(LoaderFacts {
        libc: Libc::Glibc(version),
        lib: answer.dst_lib.clone().unwrap_or_else(|| dst_lib(&answer.system_dirs)),
        hwcaps: answer.active_levels(),
        legacy_hwcaps: arch.legacy_words(version.minor, hwcap_mask, platform),
        hwcap_mask,
        platform_bit: bit.filter(|bit| cache_hwcaps && *bit < 64),
        reads: Readers::default(),
        platform: answer.platform,
        cache_path: answer.sysconfdir.map(|mut path| {
            path.push_str("/ld.so.cache");
            path
        }),
        system_dirs: answer.system_dirs,
    })
}

/// The values that matter, as printed.
#[derive(Default)]
struct Answer {
    version: Option<BString>,
    system_dirs: Vec<BString>,
    sysconfdir: Option<BString>,
    dst_lib: Option<BString>,
    platform: Option<BString>,
    loader: Option<BString>,
    levels: Option<BString>,
    active: u64,
    hwcap: u64,
    important: u64,
    string_platform: Option<u64>,
}

impl Answer {
    fn read(text: &str) -> Self {
        let mut answer = Answer::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let number =
                || value.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            match key {
                "version.version" => answer.version = string(value),
                "path.sysconfdir" => answer.sysconfdir = string(value),
                "dl_dst_lib" => answer.dst_lib = string(value),
                // A number, 0, where there is none.
                "dl_platform" => answer.platform = string(value),
                "dso.ld" => answer.loader = string(value),
                "dl_hwcaps_subdirs" => answer.levels = string(value),
                "dl_hwcaps_subdirs_active" => answer.active = number().unwrap_or(0),
                "dl_hwcap" => answer.hwcap = number().unwrap_or(0),
                "dl_hwcap_important" => answer.important = number().unwrap_or(0),
                "dl_string_platform" => answer.string_platform = number(),
                _ if key.starts_with("path.system_dirs[")
                    && answer.system_dirs.len() < MAX_SYSTEM_DIRS =>
                {
                    answer.system_dirs.extend(string(value));
                }
                _ => {}
            }
        }
        answer
    }

    /// The bits of `_dl_hwcaps_subdirs_active` count the names of
    /// `_dl_hwcaps_subdirs` from the first.
    fn active_levels(&self) -> Vec<BString> {
        let names = self.levels.as_ref().map_or(BStr::new(""), |levels| levels.as_bstr());
        let names = names.split_str(":").filter(|name| !name.is_empty()).zip(0..64);
        names.filter(|(_, bit)| self.active >> bit & 1 != 0).map(|(name, _)| name.into()).collect()
    }
}

/// Whose table of capability names holds: told by the loader's own file name, and
/// where several share it (`ld64.so.1`, `ld-linux.so.2`) by `HWCAP_IMPORTANT`.
fn arch(answer: &Answer) -> Arch {
    let name = answer.loader.as_ref().map_or(BStr::new(""), |name| name.as_bstr());
    let by_name = if name.starts_with_str("ld-linux-x86-64") || name.starts_with_str("ld-linux-x32")
    {
        Arch::X86_64
    } else if name.starts_with_str("ld-linux-aarch64") {
        Arch::Aarch64
    } else if name.starts_with_str("ld-linux-armhf") || name == "ld-linux.so.3" {
        Arch::Arm
    } else if name == "ld64.so.2" {
        Arch::PowerPc64Le
    } else {
        let shared = [Arch::S390, Arch::PowerPc, Arch::I386];
        let is_its = |arch: &Arch| arch.important_mask() == answer.important;
        shared.into_iter().find(is_its).unwrap_or(Arch::Other)
    };
    if by_name.important_mask() == answer.important { by_name } else { Arch::Other }
}

/// A quoted string with `\"`, `\\` and octal escapes; `None` for anything else.
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
    fn an_answer_of_2_36_gives_every_fact() {
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
    fn an_answer_of_2_43_has_neither_legacy_words_nor_platform_bit() {
        let facts = from_diagnostics(S390X_2_43).unwrap();
        assert_eq!(facts.hwcaps, ["z13"]);
        assert!(facts.legacy_hwcaps.is_empty());
        assert_eq!((facts.hwcap_mask, facts.platform_bit, facts.platform), (0, None, None));
    }

    #[test]
    fn a_platform_printed_as_a_number_is_none() {
        let text = S390X_2_43.replace("2.43", "2.36").replace("z17:", "").replace(
            "dl_platform=0x0",
            "dl_hwcap_important=0xa872\ndl_platform=0x0\ndl_string_platform=0xffffffffffffffff",
        );
        let facts = from_diagnostics(&text).unwrap();
        assert_eq!(facts.legacy_hwcaps, ["zarch", "ldisp", "eimm", "vx", "vxe", "tls"]);
        assert_eq!(facts.platform_bit, None);
    }

    #[test]
    fn a_list_of_directories_longer_than_any_loader_has_is_cut() {
        let text = [X86_64_2_36, &"path.system_dirs[0x2]=\"/lib/\"\n".repeat(1_000)].concat();
        assert_eq!(from_diagnostics(&text).unwrap().system_dirs.len(), MAX_SYSTEM_DIRS);
    }

    /// That of 32-bit Arm in 2.36 dies of an assertion after `dl_platform` (bug 29427).
    #[test]
    fn an_answer_cut_short_is_no_answer() {
        let cut = X86_64_2_36.split("dl_string_platform").next().unwrap();
        assert_eq!(from_diagnostics(cut), None);
        assert_eq!(from_diagnostics(""), None);
    }

    #[test]
    fn escapes_of_a_string_are_undone() {
        assert_eq!(string(r#""a\"b\\c\303\251""#).unwrap(), "a\"b\\c\u{e9}");
        assert_eq!(string("0x1"), None);
        assert_eq!(string("\""), None);
    }
}
