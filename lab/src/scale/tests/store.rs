//! A store of any size whose files are computed from their paths.
//!
//! Package P is `/nix/store/HASH-pP`, with [`OBJECTS`] objects: libraries in `lib`, and one program
//! in `bin`. Each object needs libraries of packages with lower numbers. Low numbers are more
//! frequent, because in real stores a few packages serve most others.

use std::sync::Arc;

use becalm_core::elf::ObjectView;
use becalm_core::fs::{Errno, FileId, FileKind, FileSystem, OpenedFile};
use becalm_testing::mem::ObjectBuilder;
use bstr::{BStr, BString, ByteSlice};

/// Path of the store.
pub(super) const STORE: &str = "/nix/store";
/// Number of objects in a package.
pub(super) const OBJECTS: usize = 10;
/// Number of libraries that are drawn as needed by an object.
const NEEDED: usize = 5;
/// Number of packages that are drawn for an object's run path, besides those of the libraries.
const OTHERS: usize = 3;

/// The file system of a computed store.
#[derive(Debug)]
pub(super) struct ScaleFs {
    packages: usize,
}

impl ScaleFs {
    /// Makes a store of that many packages.
    pub(super) fn new(packages: usize) -> Self {
        Self { packages }
    }

    /// Returns the number of objects.
    pub(super) fn objects(&self) -> usize {
        self.packages * OBJECTS
    }

    /// Returns the path of an object.
    pub(super) fn path(&self, number: usize) -> BString {
        let (package, within) = (package(number / OBJECTS), number % OBJECTS);
        if is_program(number) {
            format!("{package}/bin/prog{within}").into()
        } else {
            format!("{package}/lib/{}", soname(number)).into()
        }
    }

    /// Returns the parsed form of an object.
    pub(super) fn view(&self, number: usize) -> ObjectView {
        let needed: Vec<usize> = self.needed(number);
        let own = number / OBJECTS;
        let mut dirs: Vec<usize> = needed.iter().map(|needed| needed / OBJECTS).collect();
        dirs.extend((0..OTHERS).map(|at| skewed(number, NEEDED + at, own.max(1))));
        dirs.sort_by_key(|&dir| mixed(number, dir));
        dirs.dedup();
        let run_path: Vec<String> =
            dirs.iter().map(|&dir| format!("{}/lib", package(dir))).collect();
        let builder = if is_program(number) {
            ObjectBuilder::program()
        } else {
            ObjectBuilder::library(soname(number))
        };
        let builder =
            needed.iter().fold(builder, |builder, &needed| builder.needed(soname(needed)));
        builder.runpath(run_path.join(":")).build()
    }

    /// Returns the libraries that an object needs. Libraries of the first package need each other.
    fn needed(&self, number: usize) -> Vec<usize> {
        let own = number / OBJECTS;
        let mut needed: Vec<usize> = (0..NEEDED)
            .map(|at| {
                let package = skewed(number, at, own.max(1));
                // The first object of each package is its program.
                package * OBJECTS + 1 + mixed(number, 100 + at) % (OBJECTS - 1)
            })
            .filter(|&needed| needed != number)
            .collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// Returns the number of the object at a path.
    fn number(&self, path: &[u8]) -> Option<usize> {
        let path = path.to_str().ok()?.strip_prefix(STORE)?.strip_prefix('/')?;
        let (name, rest) = path.split_once('/')?;
        let package_number = self.package_number(name)?;
        let (folder, file) = rest.split_once('/')?;
        let number = match folder {
            "bin" => package_number * OBJECTS + file.strip_prefix("prog")?.parse::<usize>().ok()?,
            "lib" => file.strip_prefix("lib")?.strip_suffix(".so")?.parse().ok()?,
            _ => return None,
        };
        let is_here = number / OBJECTS == package_number && is_program(number) == (folder == "bin");
        is_here.then_some(number)
    }

    /// Returns the number of the package with this name.
    fn package_number(&self, name: &str) -> Option<usize> {
        let number = name.get(32..)?.strip_prefix("-p")?.parse().ok()?;
        (number < self.packages && package(number).ends_with(name)).then_some(number)
    }
}

/// Returns the path of a package.
fn package(number: usize) -> String {
    let [a, b, c, d] = [1, 2, 3, 4].map(|part| mixed(number, part) as u32);
    format!("{STORE}/{a:08x}{b:08x}{c:08x}{d:08x}-p{number}")
}

fn soname(number: usize) -> String {
    format!("lib{number}.so")
}

fn is_program(number: usize) -> bool {
    number.is_multiple_of(OBJECTS)
}

/// Returns a number below `end`, small numbers more often: the cube of a uniform draw.
fn skewed(number: usize, salt: usize, end: usize) -> usize {
    let drawn = mixed(number, salt) as f64 / (u64::MAX >> 1) as f64;
    ((drawn * drawn * drawn * end as f64) as usize).min(end - 1)
}

impl FileSystem for ScaleFs {
    fn open(&self, path: &BStr) -> Result<Arc<OpenedFile>, Errno> {
        let number = self.number(path).ok_or(Errno::NOENT)?;
        Ok(Arc::new(OpenedFile {
            id: FileId { dev: 1, ino: number as u64 + 1 },
            mode: 0o755,
            len: 4096,
            head: Ok(header()),
            object: Ok(Arc::new(self.view(number))),
        }))
    }

    fn stat(&self, path: &BStr) -> Result<FileKind, Errno> {
        if self.number(path).is_some() {
            return Ok(FileKind::File);
        }
        let path = path.trim_end_with(|c| c == '/');
        let below = match path.strip_prefix(STORE.as_bytes()) {
            Some(b"") => return Ok(FileKind::Directory),
            Some(below) => below.strip_prefix(b"/").ok_or(Errno::NOENT)?,
            None if matches!(path, b"" | b"/nix") => return Ok(FileKind::Directory),
            None => return Err(Errno::NOENT),
        };
        let (name, rest) = below.split_once_str("/").unwrap_or((below, b""));
        let known = name.to_str().ok().and_then(|name| self.package_number(name));
        match (known, rest) {
            (Some(_), b"" | b"lib" | b"bin" | b"." | b"lib/." | b"bin/.") => {
                Ok(FileKind::Directory)
            }
            _ => Err(Errno::NOENT),
        }
    }

    fn read(&self, _: &BStr) -> Result<Arc<[u8]>, Errno> {
        Err(Errno::NOENT)
    }

    fn canonicalize(&self, path: &BStr) -> Result<BString, Errno> {
        self.stat(path).map(|_| path.to_owned())
    }

    fn read_link(&self, path: &BStr) -> Result<BString, Errno> {
        self.stat(path).and(Err(Errno::INVAL))
    }

    fn current_dir(&self) -> BString {
        "/".into()
    }
}

/// Returns the header of a shared object for x86_64 with an empty program header table (gABI, "ELF
/// Header").
fn header() -> Vec<u8> {
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
fn mixed(number: usize, salt: usize) -> usize {
    let mut hash =
        (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((salt as u64) << 32 | 0x5bd1);
    hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((hash ^ hash >> 31) >> 1) as usize
}
