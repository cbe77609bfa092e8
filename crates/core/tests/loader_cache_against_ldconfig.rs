//! Tests with loader caches that `ldconfig` wrote. The parsed entries equal those of `ldconfig -p`, and
//! the answers equal those of the real loader.

mod real;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use becalm_core::elf::{Class, Endian, Ident};
use becalm_core::search::loader_cache::write::entry_flags;
use becalm_core::search::loader_cache::{CacheEntry, CacheQuery, LoaderCache, NewEntry, write};
use becalm_testing::skip;
use bstr::{BStr, ByteSlice};
use real::{debug_lines, facts_of_this_machine};

const SONAME: &str = "libbecalm-cache.so.1";
/// Libraries in [`cache_of_many_libraries`].
const MANY: usize = 1040;
const FORMATS: [&str; 3] = ["new", "old", "compat"];

/// Returns the identification of the objects that the loader accepts.
fn ident() -> Ident {
    let (class, endian) = (Class::Elf64, Endian::Little);
    Ident { class, endian, os_abi: 0, abi_version: 0, e_type: 3, machine: 62, flags: 0 }
}

/// Runs a tool, also from the directories of system tools. Returns false if it is absent or fails.
fn run(tool: &str, args: &[&str]) -> bool {
    let dirs = ["", "/usr/sbin/", "/sbin/"];
    let mut tries = dirs.iter().map(|dir| Command::new(format!("{dir}{tool}")).args(args).status());
    tries.find_map(Result::ok).is_some_and(|status| status.success())
}

/// Writes a cache of the directories in `conf`. `root` is `ldconfig`'s root, so that the cache has
/// no library of this machine. Only root can change the root; any other user needs a user
/// namespace. Returns false if that fails.
fn ldconfig(root: &Path, format: &str, to: &str) -> bool {
    let root = root.to_str().expect("UTF-8");
    let to = format!("/{to}");
    let args = ["-r", root, "-X", "-i", "-c", format, "-C", &to, "-f", "/conf"];
    if run("ldconfig", &args) {
        return true;
    }
    let path = "PATH=/usr/sbin:/sbin:/usr/bin:/bin";
    run("unshare", &[&["--map-root-user", "env", path, "ldconfig"], &args[..]].concat())
}

/// Makes a directory with a shared object in it and in two of its hwcaps subdirectories, and a cache of
/// each format. Prints the reason and returns `None` if the tools are missing.
fn caches() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let libraries = dir.path().join("lib");
    fs::create_dir(&libraries).expect("a directory");
    fs::write(at("a.c"), "int f(void) { return 1; }\n").expect("a source");
    let library = at(&format!("lib/{SONAME}"));
    let soname = format!("-Wl,-soname,{SONAME}");
    if !run("cc", &["-shared", "-fPIC", &soname, "-o", &library, &at("a.c")]) {
        skip("no C compiler");
        return None;
    }
    for level in ["x86-64-v2", "x86-64-v3"] {
        let sub = libraries.join("glibc-hwcaps").join(level);
        fs::create_dir_all(&sub).expect("a directory");
        fs::copy(&library, sub.join(SONAME)).expect("a copy");
    }
    fs::write(at("conf"), "/lib").expect("a configuration");
    for format in FORMATS {
        if !ldconfig(dir.path(), format, format) {
            skip("no ldconfig that writes every format");
            return None;
        }
    }
    Some(dir)
}

/// Makes a cache of directories with libraries of three ABIs, of the same sonames, and of sonames that
/// are equal for a loader (`.so.1` and `.so.01`). The directories are listed in the reverse order of
/// their names. Prints the reason and returns `None` if the tools are missing.
fn cache_of_many_abis() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(at("a.c"), "int f(void) { return 1; }\n").expect("a source");
    let mut conf = String::new();
    for (folder, abi) in [("z", "64"), ("lib64", "64"), ("y32", "32"), ("lib32", "32")]
        .into_iter()
        .chain([("libx32", "x32"), ("a", "64"), ("ax32", "x32")])
    {
        fs::create_dir(at(folder)).expect("a directory");
        for soname in [SONAME, "libsame.so.01", "libsame.so.1", "libsame.so.001"] {
            let (abi, name) = (format!("-m{abi}"), format!("-Wl,-soname,{soname}"));
            let (to, from) = (at(&format!("{folder}/{soname}")), at("a.c"));
            let args = [&abi, &name, "-shared", "-fPIC", "-nostdlib", "-o", &to, &from];
            if !run("cc", &args) {
                skip("no C compiler for all ABIs of x86-64");
                return None;
            }
        }
        conf += &format!("/{folder}\n");
    }
    fs::write(at("conf"), conf).expect("a configuration");
    if !ldconfig(dir.path(), "new", "new") {
        skip("no ldconfig that writes the new format");
        return None;
    }
    Some(dir)
}

/// A cache of many libraries whose sonames differ in letters, signs and numbers, which `ldconfig`
/// sorts by their values. Returns `None` and prints the reason if the tools are missing.
fn cache_of_many_libraries() -> Option<tempfile::TempDir> {
    const SPACE: &str = "libbecalm-space-for-a-soname.so.1";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::create_dir(at("lib")).expect("a directory");
    fs::write(at("a.c"), "int f(void) { return 1; }\n").expect("a source");
    let soname = format!("-Wl,-soname,{SPACE}");
    if !run("cc", &["-shared", "-fPIC", "-nostdlib", &soname, "-o", &at("a.so"), &at("a.c")]) {
        skip("no C compiler");
        return None;
    }
    let library = fs::read(at("a.so")).expect("a library");
    let place = library.find(SPACE).expect("its soname");
    for number in 0..MANY {
        let stem = ["a", "a-", "a_", "A", "a+", "a.b", "ab", "a0"][number % 8];
        let name = format!("lib{stem}{}.so.{}", number / 8 % 13, number / 104);
        let mut copy = library.clone();
        copy[place..place + name.len()].copy_from_slice(name.as_bytes());
        copy[place + name.len()] = 0;
        fs::write(at(&format!("lib/{name}")), copy).expect("a copy");
    }
    fs::write(at("conf"), "/lib").expect("a configuration");
    if !ldconfig(dir.path(), "new", "new") {
        skip("no ldconfig that writes the new format");
        return None;
    }
    Some(dir)
}

/// Parses the soname and path of each line of `ldconfig -p`.
fn printed(cache: &Path) -> Vec<(String, String)> {
    let output = ["ldconfig", "/usr/sbin/ldconfig", "/sbin/ldconfig"]
        .iter()
        .find_map(|tool| Command::new(tool).arg("-p").arg("-C").arg(cache).output().ok())
        .expect("the ldconfig that wrote it");
    let text = output.stdout.to_str_lossy().into_owned();
    let pair = |line: &str| {
        let (left, path) = line.strip_prefix('\t')?.split_once(" => ")?;
        Some((left.split(" (").next()?.to_owned(), path.to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

fn read(path: &Path) -> LoaderCache {
    let bytes = fs::read(path).expect("the cache");
    LoaderCache::parse(bytes, Endian::Little).expect("a loader cache")
}

#[test]
fn every_format_reads_as_ldconfig_prints_it() {
    let Some(dir) = caches() else { return };
    for format in FORMATS {
        let path = dir.path().join(format);
        let cache = read(&path);
        let entries: Vec<_> = cache
            .entries()
            .map(|entry| (entry.soname.to_string(), entry.path.to_string()))
            .collect();
        assert!(entries.iter().any(|(soname, _)| soname == SONAME), "{format}");
        assert_eq!(entries, printed(&path), "{format}");
    }
}

/// The answer need not be the best level. In a compat cache glibc 2.36 finds no level, because
/// `ldconfig` writes the names relative to the inner header and the loader reads them relative to the
/// file. In the old format the first entry wins.
#[test]
fn the_loader_loads_the_same_file_from_every_format() {
    let Some(facts) = facts_of_this_machine() else { return };
    let Some(dir) = caches() else { return };
    let query = CacheQuery::new(&ident(), &facts);
    for format in FORMATS {
        let path = dir.path().join(format);
        let Some(lines) = debug_lines(Some(&path), &["--preload", SONAME, "/bin/true"]) else {
            return skip("no mount namespace to put a cache in");
        };
        let answer = answers(&lines).remove(SONAME).expect("a search for the name");
        let predicted = read(&path).lookup(BStr::new(SONAME), &query).map(ToString::to_string);
        assert_eq!(predicted, answer, "{format}");
    }
}

/// Returns the cache's answer to each needed string: the file tried right after the search in the
/// cache.
fn answers(lines: &[String]) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    let mut needed = None;
    for (index, line) in lines.iter().enumerate() {
        if let Some(rest) = line.strip_prefix("find library=") {
            needed = rest.split(" [").next();
        } else if line.starts_with("search cache=") {
            // If the cache has no answer, the next line has the system directories.
            let next = lines.get(index + 1).and_then(|line| line.strip_prefix("trying file="));
            if let Some(needed) = needed {
                found.entry(needed.to_owned()).or_insert(next.map(ToOwned::to_owned));
            }
        }
    }
    found
}

#[test]
fn every_name_of_this_machines_cache_is_answered_as_the_loader_answers() {
    let Some(facts) = facts_of_this_machine() else { return };
    let path = facts.cache_path.clone().expect("a glibc loader");
    let Ok(bytes) = fs::read(path.to_path_lossy()) else { return skip("no loader cache here") };
    // The loader reads a copy, if it can: a package that is installed meanwhile changes the cache.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let copy = dir.path().join("cache");
    fs::write(&copy, &bytes).expect("a copy");
    let cache = LoaderCache::parse_for(bytes, &ident()).expect("a loader cache");
    let names: BTreeSet<String> = cache.entries().map(|entry| entry.soname.to_string()).collect();
    let query = CacheQuery::new(&ident(), &facts);
    let mut checked = BTreeSet::new();
    // A few at a time: a name is not searched for if its soname was loaded under another name.
    let names: Vec<String> = names.into_iter().collect();
    for group in names.chunks(20) {
        let args = ["--preload", &group.join(" "), "/bin/true"];
        let lines = debug_lines(Some(&copy), &args).or_else(|| debug_lines(None, &args));
        let lines = lines.expect("a loader that runs");
        for (needed, answer) in answers(&lines) {
            let predicted = cache.lookup(BStr::new(&needed), &query).map(ToString::to_string);
            assert_eq!(predicted, answer, "{needed}");
            checked.insert(needed);
        }
    }
    println!("{} names answered by the loader, {} in its cache", checked.len(), names.len());
    assert!(checked.len() * 2 >= names.len(), "only {} were searched", checked.len());
}

/// Writes the same entries with becalm.
fn rewritten(path: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    let bytes = fs::read(path).ok()?;
    let cache = LoaderCache::parse(bytes.as_slice(), Endian::Little)?;
    let entry = |entry: CacheEntry<'_>| NewEntry {
        soname: entry.soname.to_owned(),
        path: entry.path.to_owned(),
        flags: entry.flags,
        hwcaps_name: entry.hwcaps_name.map(ToOwned::to_owned),
    };
    let entries = cache.entries().map(entry).collect();
    let written = write(&ident(), entries, &cache.generator().to_str_lossy())?;
    Some((bytes, written))
}

#[test]
fn a_cache_is_written_as_ldconfig_writes_it_byte_for_byte() {
    let Some(dir) = caches() else { return };
    let (theirs, ours) = rewritten(&dir.path().join("new")).expect("a loader cache");
    assert_eq!(ours.as_bstr(), theirs.as_bstr());
}

#[test]
fn a_cache_of_many_abis_is_written_as_ldconfig_writes_it_byte_for_byte() {
    let Some(dir) = cache_of_many_abis() else { return };
    let path = dir.path().join("new");
    let cache = read(&path);
    let flags: BTreeSet<i32> = cache.entries().map(|entry| entry.flags).collect();
    assert_eq!(flags.len(), 3, "three ABIs");
    assert_eq!(cache.entries().count(), 7 * 4);
    let (theirs, written) = rewritten(&path).expect("a loader cache");
    assert_eq!(written.as_bstr(), theirs.as_bstr());
}

#[test]
fn a_cache_of_many_libraries_is_written_as_ldconfig_writes_it_byte_for_byte() {
    let Some(dir) = cache_of_many_libraries() else { return };
    let path = dir.path().join("new");
    assert_eq!(read(&path).entries().count(), MANY);
    let (theirs, ours) = rewritten(&path).expect("a loader cache");
    assert!(ours == theirs, "{} bytes, {} by ldconfig", ours.len(), theirs.len());
}

#[test]
fn ldconfig_reads_what_becalm_writes() {
    let Some(dir) = caches() else { return };
    let ident = Ident { machine: 62, ..ident() };
    let entry = |soname: &str, hwcaps: Option<&str>| NewEntry {
        soname: soname.into(),
        path: format!("/x/{}{soname}", hwcaps.unwrap_or_default()).into(),
        flags: entry_flags(&ident),
        hwcaps_name: hwcaps.map(Into::into),
    };
    let entries =
        vec![entry("liba.so.9", None), entry("liba.so.10", Some("x86-64-v3")), entry("b.so", None)];
    let path = dir.path().join("ours");
    fs::write(&path, write(&ident, entries, "becalm").expect("a small cache")).expect("a file");
    let pair = |soname: &str, path: &str| (soname.to_owned(), path.to_owned());
    assert_eq!(
        printed(&path),
        [
            pair("liba.so.10", "/x/x86-64-v3liba.so.10"),
            pair("liba.so.9", "/x/liba.so.9"),
            pair("b.so", "/x/b.so")
        ]
    );
    assert_eq!(read(&path).generator(), "becalm");
}
