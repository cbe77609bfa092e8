//! Stores of real files in which the closures are deep: package N has a library that needs those of
//! earlier packages, and a program that needs its library.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use object::elf;

/// The packages that a package needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Shape {
    /// Ten programs a package, and one library for all
    Flat,
    /// Six of the previous 300 packages: a closure has most of those before it
    Deep,
    /// Six packages of the layer below: there are ten layers
    Layered,
}

/// Number of packages that a package needs.
const NEEDED: usize = 6;
/// Number of earlier packages among which they are chosen ([`Shape::Deep`]).
const BEFORE: usize = 300;
const LAYERS: usize = 10;

impl Shape {
    /// Returns the number of objects with a run path: each program, and each library that needs one.
    pub(super) fn objects(self, packages: usize) -> usize {
        let needs = |number: &usize| !self.needed(*number, packages).is_empty();
        packages + (0..packages).filter(needs).count()
    }

    fn needed(self, number: usize, packages: usize) -> Vec<usize> {
        let layer = number * LAYERS / packages;
        let among = match self {
            Shape::Flat => 0..0,
            Shape::Deep => number.saturating_sub(BEFORE)..number,
            Shape::Layered => {
                let first = |layer: usize| (layer * packages).div_ceil(LAYERS);
                first(layer.saturating_sub(1))..first(layer)
            }
        };
        let count = among.len();
        let drawn = (0..NEEDED.min(count)).map(|at| among.start + mixed(number, at) % count);
        let mut needed: Vec<usize> = drawn.collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }
}

/// Makes a store of so many packages and returns its path.
pub(super) fn make(folder: &Path, shape: Shape, packages: usize) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let store = folder.canonicalize()?.join("store");
    let lib = |number: usize| format!("{}/p{number}/lib", store.display());
    for number in 0..packages {
        let needed = shape.needed(number, packages);
        let run_path: Vec<String> = needed.iter().map(|&needed| lib(needed)).collect();
        let names: Vec<String> = needed.iter().map(|&needed| soname(needed)).collect();
        let (own, bin) = (soname(number), store.join(format!("p{number}/bin")));
        fs::create_dir_all(lib(number))?;
        fs::create_dir_all(&bin)?;
        let library = object(Some(&own), &names, &run_path.join(":"));
        fs::write(Path::new(&lib(number)).join(&own), library)?;
        let program = bin.join("prog");
        fs::write(&program, object(None, &[own], &lib(number)))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    Ok(store)
}

fn soname(number: usize) -> String {
    format!("lib{number}.so")
}

/// Returns an x86-64 object without code: a library with its name, or else a program.
fn object(soname: Option<&str>, needed: &[String], run_path: &str) -> Vec<u8> {
    const INTERPRETER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
    const HEADERS: u64 = 64 + 4 * 56;
    let mut strings = vec![0];
    let mut add = |string: &str| {
        let at = strings.len() as u64;
        strings.extend_from_slice(string.as_bytes());
        strings.push(0);
        at
    };
    let mut entries: Vec<(i64, u64)> =
        needed.iter().map(|name| (elf::DT_NEEDED.0, add(name))).collect();
    entries.extend(soname.map(|name| (elf::DT_SONAME.0, add(name))));
    entries.push((elf::DT_RUNPATH.0, add(run_path)));
    if soname.is_none() {
        entries.extend([(elf::DT_DEBUG.0, 0), (elf::DT_FLAGS_1.0, elf::DF_1_PIE.0)]);
    }
    strings.resize(strings.len().next_multiple_of(8), 0);
    let strings_at = HEADERS + INTERPRETER.len().next_multiple_of(8) as u64;
    // A symbol table of the null symbol, and its hash table.
    let symbols_at = strings_at + strings.len() as u64;
    let (hash_at, dynamic_at) = (symbols_at + 24, symbols_at + 40);
    entries.extend([(elf::DT_STRTAB.0, strings_at), (elf::DT_STRSZ.0, strings.len() as u64)]);
    entries.extend([(elf::DT_SYMTAB.0, symbols_at), (elf::DT_SYMENT.0, 24)]);
    entries.extend([(elf::DT_HASH.0, hash_at), (elf::DT_NULL.0, 0)]);
    let dynamic_size = 16 * entries.len() as u64;
    let size = dynamic_at + dynamic_size;
    let interpreter = if soname.is_none() { elf::PT_INTERP.0 } else { elf::PT_NULL.0 };
    let segments = [
        (interpreter, 4, HEADERS, INTERPRETER.len() as u64),
        (elf::PT_LOAD.0, 6, 0, size),
        (elf::PT_DYNAMIC.0, 6, dynamic_at, dynamic_size),
        (elf::PT_GNU_STACK.0, 6, 0, 0),
    ];
    let mut file = header();
    file[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
    for (kind, flags, at, size) in segments {
        let align = if kind == elf::PT_LOAD.0 { 4096 } else { 8 };
        file.extend([kind, flags].map(u32::to_le_bytes).concat());
        file.extend([at, at, at, size, size, align].map(u64::to_le_bytes).concat());
    }
    file.extend(INTERPRETER);
    file.resize(strings_at as usize, 0);
    file.extend(strings);
    file.resize(hash_at as usize, 0);
    file.extend([1_u32, 1, 0, 0].map(u32::to_le_bytes).concat());
    for (tag, value) in entries {
        file.extend(tag.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file
}

/// Returns the header of a shared object for x86_64 with an empty program header table (gABI, "ELF
/// Header").
pub(super) fn header() -> Vec<u8> {
    const ET_DYN: u8 = object::elf::ET_DYN.0 as u8;
    const EM_X86_64: u8 = object::elf::EM_X86_64.0 as u8;
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // e_type, e_machine, e_version, e_phoff, e_ehsize, e_phentsize
    for (at, value) in [(16, ET_DYN), (18, EM_X86_64), (20, 1), (32, 64), (52, 64), (54, 56)] {
        header[at] = value;
    }
    header
}

/// Returns a pseudorandom number that depends on both arguments, the same in every run
/// (splitmix64).
pub(super) fn mixed(number: usize, salt: usize) -> usize {
    let mut hash =
        (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((salt as u64) << 32 | 0x5bd1);
    hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((hash ^ hash >> 31) >> 1) as usize
}

#[cfg(test)]
mod tests {
    use becalm_core::closure;
    use becalm_core::facts::Environment;
    use becalm_host::{FactChoice, OsFs, loader_facts};

    use super::*;

    #[test]
    fn the_last_program_of_a_deep_store_loads_most_packages_before_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = make(folder.path(), Shape::Deep, 60).expect("a store");
        let (os, path) = (OsFs::new(), store.join("p59/bin/prog"));
        let session = os.session();
        let path = path.to_str().expect("a plain name");
        let subject = closure::Subject::open(&session, path.into()).expect("a program");
        let interpreter = subject.interpreter().expect("a program").to_owned();
        let Ok(facts) = loader_facts(&os, interpreter.as_ref(), &FactChoice::default()) else {
            return becalm_testing::skip("no loader for x86-64 here");
        };
        let environment = Environment::default();
        let closure =
            closure::resolve(&session, subject, interpreter.as_ref(), facts, &environment);
        let closure = closure.expect("a start");
        assert!(closure.unresolved().is_empty());
        assert!(closure.load.objects.len() > 40, "{}", closure.load.objects.len());
    }

    #[test]
    fn a_layer_needs_the_layer_below() {
        assert!(Shape::Layered.needed(5, 1000).is_empty());
        let needed = Shape::Layered.needed(550, 1000);
        assert!(needed.iter().all(|needed| (400..500).contains(needed)), "{needed:?}");
    }
}
