//! Tests of lookups in built caches: every format, both byte orders, and each rule that differs
//! between releases.

mod rows;

use self::rows::{Row, compat_format, named, new_format, old_format, row, with_hwcap};
use super::*;
use crate::elf::Endian;
use crate::facts::GlibcVersion;

const X86_64: i32 = 0x303;

fn ident(machine: u16, class: Class, endian: Endian, flags: u32) -> Ident {
    Ident { class, endian, os_abi: 0, abi_version: 0, e_type: 3, machine, flags }
}

fn x86_64() -> Ident {
    ident(elf::EM_X86_64.0, Class::Elf64, Endian::Little, 0)
}

fn facts(minor: u16, hwcaps: &[&str]) -> LoaderFacts {
    LoaderFacts {
        libc: Libc::Glibc(GlibcVersion { major: 2, minor }),
        system_dirs: Vec::new(),
        cache_path: None,
        lib: BString::default(),
        platform: None,
        hwcaps: hwcaps.iter().map(|name| BString::from(*name)).collect(),
        legacy_hwcaps: Vec::new(),
        hwcap_mask: 0b110,
        platform_bit: Some(50),
        reads: Default::default(),
        no_exec_stack: false,
    }
}

fn query(minor: u16, hwcaps: &[&str]) -> CacheQuery {
    CacheQuery::new(&x86_64(), &facts(minor, hwcaps))
}

fn lookup(bytes: Vec<u8>, needed: &str, query: &CacheQuery) -> Option<String> {
    let cache = LoaderCache::parse(bytes, Endian::Little).expect("a cache");
    cache.lookup(BStr::new(needed), query).map(|path| path.to_string())
}

/// Makes three entries in descending order, as `ldconfig` writes them.
fn three() -> Vec<Row> {
    vec![
        row("libz.so.1", "/lib/libz.so.1", X86_64),
        row("libc.so.10", "/lib/libc.so.10", X86_64),
        row("libc.so.6", "/lib/libc.so.6", X86_64),
    ]
}

#[test]
fn every_format_in_both_byte_orders_gives_the_same_answers() {
    for endian in [Endian::Little, Endian::Big] {
        let files = [
            new_format(endian, &three(), &[]),
            old_format(endian, &three()),
            compat_format(endian, 1, &three(), &["x86-64-v2"], 8),
        ];
        for bytes in files {
            let cache = LoaderCache::parse(bytes, endian).expect("a cache");
            let query = query(36, &[]);
            let find = |name: &str| cache.lookup(BStr::new(name), &query).map(ToString::to_string);
            assert_eq!(find("libc.so.6").as_deref(), Some("/lib/libc.so.6"));
            assert_eq!(find("libc.so.10").as_deref(), Some("/lib/libc.so.10"));
            assert_eq!(find("libz.so.1").as_deref(), Some("/lib/libz.so.1"));
            assert_eq!(find("libc.so.7"), None);
            assert_eq!(find(""), None);
            assert_eq!(cache.entries().count(), 3);
        }
    }
}

#[test]
fn a_cache_of_the_other_byte_order_is_rejected() {
    for (file, reader) in [(Endian::Little, Endian::Big), (Endian::Big, Endian::Little)] {
        assert!(LoaderCache::parse(new_format(file, &three(), &[]), reader).is_none());
    }
}

#[test]
fn a_cache_without_a_byte_order_flag_is_accepted() {
    let mut bytes = new_format(Endian::Big, &three(), &[]);
    bytes[28] = 0;
    assert!(LoaderCache::parse(bytes.clone(), Endian::Big).is_some());
    bytes[28] = 1;
    assert!(LoaderCache::parse(bytes, Endian::Big).is_none());
}

#[test]
fn a_table_that_does_not_fit_in_the_file_is_rejected() {
    let mut bytes = new_format(Endian::Little, &three(), &[]);
    bytes.truncate(48 + 3 * 24 - 1);
    assert!(LoaderCache::parse(bytes, Endian::Little).is_none());
    assert!(LoaderCache::parse(Vec::new(), Endian::Little).is_none());
    assert!(LoaderCache::parse(b"ld.so-1.7.0".to_vec(), Endian::Little).is_none());
}

/// The new header of the compat format has the alignment of a 64-bit number, which is 4 bytes on
/// 32-bit x86. Here 16 + 12 bytes precede it.
#[test]
fn a_compat_cache_of_i386_is_aligned_to_four_bytes() {
    let i386 = ident(elf::EM_386.0, Class::Elf32, Endian::Little, 0);
    let rows = [row("liba.so", "/lib/liba.so", FLAG_ELF_LIBC6)];
    let bytes = compat_format(Endian::Little, 1, &rows, &[], 4);
    let cache = LoaderCache::parse_for(bytes.clone(), &i386).expect("a cache");
    let query = CacheQuery::new(&i386, &facts(36, &[]));
    assert_eq!(cache.lookup(BStr::new("liba.so"), &query).unwrap(), "/lib/liba.so");
    let misread = LoaderCache::parse(bytes, Endian::Little).expect("the old table");
    assert_eq!(misread.lookup(BStr::new("liba.so"), &query), None);
}

#[test]
fn a_key_outside_the_file_ends_the_search() {
    let mut bytes = new_format(Endian::Little, &three(), &[]);
    // The binary search begins with the middle entry.
    bytes[48 + 24 + 4..48 + 24 + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(lookup(bytes, "libz.so.1", &query(36, &[])), None);
}

#[test]
fn an_entry_with_a_path_outside_the_file_is_skipped() {
    let rows = [row("liba.so", "/first", X86_64), row("liba.so", "/second", X86_64)];
    let mut bytes = new_format(Endian::Little, &rows, &[]);
    bytes[48 + 8..48 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(lookup(bytes, "liba.so", &query(36, &[])).unwrap(), "/second");
}

#[test]
fn entries_of_another_abi_are_skipped() {
    let rows = [row("liba.so", "/i386", FLAG_ELF_LIBC6), row("liba.so", "/x86_64", X86_64)];
    let bytes = new_format(Endian::Little, &rows, &[]);
    assert_eq!(lookup(bytes.clone(), "liba.so", &query(36, &[])).unwrap(), "/x86_64");
    let i386 = ident(elf::EM_386.0, Class::Elf32, Endian::Little, 0);
    let query = CacheQuery::new(&i386, &facts(36, &[]));
    assert_eq!(lookup(bytes, "liba.so", &query).unwrap(), "/i386");
}

fn levels() -> Vec<Row> {
    vec![
        with_hwcap("liba.so", "/v2", X86_64, named(0, 1)),
        with_hwcap("liba.so", "/v3", X86_64, named(1, 2)),
        with_hwcap("liba.so", "/v4", X86_64, named(2, 3)),
        row("liba.so", "/plain", X86_64),
    ]
}
const LEVEL_NAMES: &[&str] = &["x86-64-v2", "x86-64-v3", "x86-64-v4"];

#[test]
fn the_best_active_level_wins_in_any_order_of_entries() {
    let bytes = new_format(Endian::Little, &levels(), LEVEL_NAMES);
    let find = |hwcaps: &[&str]| lookup(bytes.clone(), "liba.so", &query(36, hwcaps)).unwrap();
    assert_eq!(find(&["x86-64-v3", "x86-64-v2"]), "/v3");
    assert_eq!(find(&["x86-64-v4", "x86-64-v3", "x86-64-v2"]), "/v4");
    assert_eq!(find(&[]), "/plain");
}

#[test]
fn an_entry_whose_isa_bits_the_cpu_lacks_is_skipped() {
    // The name is v2, but the ISA bits require v4.
    let rows =
        [with_hwcap("liba.so", "/marked", X86_64, named(0, 3)), row("liba.so", "/plain", X86_64)];
    let bytes = new_format(Endian::Little, &rows, &["x86-64-v2"]);
    assert_eq!(lookup(bytes.clone(), "liba.so", &query(36, &["x86-64-v2"])).unwrap(), "/plain");
    let best = query(36, &["x86-64-v4", "x86-64-v2"]);
    assert_eq!(lookup(bytes, "liba.so", &best).unwrap(), "/marked");
}

#[test]
fn releases_before_2_33_read_a_named_entry_as_a_foreign_hwcap() {
    let bytes = new_format(Endian::Little, &levels(), LEVEL_NAMES);
    assert_eq!(lookup(bytes, "liba.so", &query(32, LEVEL_NAMES)).unwrap(), "/plain");
}

#[test]
fn names_outside_the_file_or_section_are_not_used() {
    let rows =
        [with_hwcap("liba.so", "/far", X86_64, named(7, 0)), row("liba.so", "/plain", X86_64)];
    let bytes = new_format(Endian::Little, &rows, &["x86-64-v2"]);
    assert_eq!(lookup(bytes.clone(), "liba.so", &query(36, LEVEL_NAMES)).unwrap(), "/plain");
    // A cache without an extension directory has no names.
    let mut without = new_format(Endian::Little, &levels(), LEVEL_NAMES);
    without[32..36].fill(0);
    assert_eq!(lookup(without, "liba.so", &query(36, LEVEL_NAMES)).unwrap(), "/plain");
}

/// `ldconfig` writes the names of a compat cache relative to the inner header, but the loader reads
/// them relative to the file. A loader therefore finds no named entry in such a cache.
#[test]
fn names_of_a_compat_cache_are_relative_to_the_file() {
    let inner = new_format(Endian::Little, &levels(), LEVEL_NAMES);
    let as_built = compat_format(Endian::Little, 2, &levels(), LEVEL_NAMES, 8);
    let query = query(36, LEVEL_NAMES);
    assert_ne!(lookup(as_built.clone(), "liba.so", &query).unwrap(), "/plain");
    // The three indices at the end of the file, relative to the inner header as `ldconfig` writes
    // them.
    let mut as_written = as_built;
    let (from, to) = (inner.len() - 12, as_written.len() - 12);
    as_written[to..].copy_from_slice(&inner[from..]);
    assert_eq!(lookup(as_written, "liba.so", &query).unwrap(), "/plain");
}

/// Since 2.37 `ldconfig` writes no old-style entries, and since 2.40 the loader reads none.
#[test]
fn legacy_hwcaps_count_up_to_2_39() {
    let rows =
        [with_hwcap("liba.so", "/avx512_1", X86_64, 0b100), row("liba.so", "/plain", X86_64)];
    let bytes = new_format(Endian::Little, &rows, &[]);
    for (minor, expected) in
        [(31, "/avx512_1"), (36, "/avx512_1"), (39, "/avx512_1"), (40, "/plain"), (43, "/plain")]
    {
        assert_eq!(
            lookup(bytes.clone(), "liba.so", &query(minor, &[])).unwrap(),
            expected,
            "{minor}"
        );
    }
}

#[test]
fn a_platform_entry_needs_exactly_that_platform() {
    let rows = [
        with_hwcap("liba.so", "/xeon_phi", X86_64, 1 << 51),
        with_hwcap("liba.so", "/haswell", X86_64, 1 << 50),
        row("liba.so", "/plain", X86_64),
    ];
    let bytes = new_format(Endian::Little, &rows, &[]);
    assert_eq!(lookup(bytes.clone(), "liba.so", &query(36, &[])).unwrap(), "/haswell");
    let without = CacheQuery::new(&x86_64(), &LoaderFacts { platform_bit: None, ..facts(36, &[]) });
    assert_eq!(lookup(bytes, "liba.so", &without).unwrap(), "/plain");
}

#[test]
fn an_unknown_legacy_bit_is_excluded_and_tls_is_not() {
    let rows = [
        with_hwcap("liba.so", "/bit40", X86_64, 1 << 40),
        with_hwcap("liba.so", "/tls", X86_64, 1 << 63),
        row("liba.so", "/plain", X86_64),
    ];
    let bytes = new_format(Endian::Little, &rows, &[]);
    assert_eq!(lookup(bytes, "liba.so", &query(36, &[])).unwrap(), "/tls");
}

/// Bug 27046: on 32-bit Arm the flags of a library with a float ABI never equal the default flags.
/// In 2.33 this stopped the search at the first named entry.
#[test]
fn on_arm_2_33_stops_at_the_first_named_entry() {
    let arm = ident(elf::EM_ARM.0, Class::Elf32, Endian::Little, elf::EF_ARM_ABI_FLOAT_HARD);
    let rows = [
        with_hwcap("liba.so", "/worse", 0x903, named(0, 0)),
        with_hwcap("liba.so", "/better", 0x903, named(1, 0)),
        row("liba.so", "/plain", 0x903),
    ];
    let bytes = new_format(Endian::Little, &rows, &["a", "b"]);
    let find = |minor| {
        let query = CacheQuery::new(&arm, &facts(minor, &["b", "a"]));
        lookup(bytes.clone(), "liba.so", &query).unwrap()
    };
    assert_eq!(find(33), "/worse");
    assert_eq!(find(34), "/better");
}

#[test]
fn the_flags_of_each_abi_are_those_of_its_ldconfig() {
    use Class::{Elf32, Elf64};
    use Endian::{Big, Little};
    let cases = [
        (ident(elf::EM_X86_64.0, Elf64, Little, 0), (0x303, None)),
        (ident(elf::EM_X86_64.0, Elf32, Little, 0), (0x803, None)),
        (ident(elf::EM_386.0, Elf32, Little, 0), (3, Some(1))),
        (ident(elf::EM_AARCH64.0, Elf64, Little, 0), (0xa03, None)),
        (ident(elf::EM_ARM.0, Elf32, Little, 0x400), (3, Some(0x903))),
        (ident(elf::EM_ARM.0, Elf32, Little, 0x200), (3, Some(0xb03))),
        (ident(elf::EM_S390.0, Elf64, Big, 0), (0x403, None)),
        (ident(elf::EM_S390.0, Elf32, Big, 0), (3, Some(1))),
        (ident(elf::EM_PPC64.0, Elf64, Little, 2), (0x503, None)),
        (ident(elf::EM_PPC.0, Elf32, Big, 0), (3, Some(1))),
        (ident(elf::EM_RISCV.0, Elf64, Little, 5), (0x1003, None)),
        (ident(elf::EM_RISCV.0, Elf64, Little, 1), (0xf03, None)),
        (ident(elf::EM_LOONGARCH.0, Elf64, Little, 0x43), (0x1203, None)),
        (ident(elf::EM_MIPS.0, Elf64, Big, 0), (0x703, None)),
        (ident(elf::EM_MIPS.0, Elf32, Big, 0x400), (0xc03, None)),
        (ident(elf::EM_MIPS.0, Elf32, Big, 0x20), (0x603, None)),
    ];
    for (ident, expected) in cases {
        assert_eq!(cache_flags(&ident), expected, "{ident:?}");
    }
}

#[test]
fn digits_compare_as_numbers_that_wrap() {
    let compare = |left: &str, right: &str| libcmp(left.as_bytes(), right.as_bytes(), true);
    assert_eq!(compare("libc.so.6", "libc.so.10"), Ordering::Less);
    assert_eq!(compare("lib6", "lib06"), Ordering::Equal);
    assert_eq!(compare("lib6", "liba"), Ordering::Greater);
    assert_eq!(compare("liba", "lib6"), Ordering::Less);
    assert_eq!(compare("lib", "lib6"), Ordering::Less);
    // 2^32 becomes 0, 2^31 becomes negative, and the difference of the two extremes wraps as well.
    assert_eq!(compare("lib4294967296", "lib0"), Ordering::Equal);
    assert_eq!(compare("lib2147483648", "lib0"), Ordering::Less);
    assert_eq!(compare("lib2147483648", "lib1"), Ordering::Greater);
}

/// `char` is unsigned on Arm, POWER and s390, so that their `ldconfig` sorts bytes above 127 after
/// ASCII. That of x86 sorts them before ASCII.
#[test]
fn bytes_above_ascii_sort_by_the_signedness_of_char() {
    assert_eq!(libcmp(b"lib\xc3", b"liba", true), Ordering::Less);
    assert_eq!(libcmp(b"lib\xc3", b"liba", false), Ordering::Greater);
    assert_eq!(libcmp(b"lib", b"lib\xc3", true), Ordering::Greater);
}

proptest::proptest! {
    /// Checks that no bytes make the parser or a lookup panic or loop.
    #[test]
    fn arbitrary_bytes_never_panic(
        mut tail in proptest::collection::vec(proptest::num::u8::ANY, 0..400),
        kind in 0..3,
        count in 0_u32..8,
        needed in "[a-c0-9.]{0,6}",
    ) {
        let mut bytes = match kind {
            0 => b"glibc-ld.so.cache1.1".to_vec(),
            _ => b"ld.so-1.7.0\0".to_vec(),
        };
        bytes.extend(count.to_le_bytes());
        if kind == 2 {
            bytes.resize((16 + count as usize * 12).next_multiple_of(8), 0);
            bytes.extend(b"glibc-ld.so.cache1.1");
            bytes.extend(count.to_le_bytes());
        }
        bytes.append(&mut tail);
        if let Some(cache) = LoaderCache::parse(bytes, Endian::Little) {
            for minor in [31, 33, 36, 43] {
                let _ = cache.lookup(BStr::new(&needed), &query(minor, LEVEL_NAMES));
            }
            let _ = cache.entries().count();
        }
    }
}

#[test]
fn a_lookup_reads_a_limited_number_of_entries_of_one_name() {
    const FOREIGN: i32 = 0x803;
    let with_own_at = |index: usize| {
        let mut rows = vec![row("libz.so.1", "/x32/libz.so.1", FOREIGN); 2_001];
        rows[index] = row("libz.so.1", "/lib/libz.so.1", X86_64);
        lookup(new_format(Endian::Little, &rows, &[]), "libz.so.1", &query(36, &[]))
    };
    for near in [1_000 - 64, 1_000, 1_000 + 64] {
        assert_eq!(with_own_at(near).as_deref(), Some("/lib/libz.so.1"));
    }
    for far in [0, 1_000 - 65, 1_000 + 65, 2_000] {
        assert_eq!(with_own_at(far), None);
    }
}
