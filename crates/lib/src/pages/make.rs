//! Makes the ready pages of a program, from two starts that end before any code of it runs.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use becalm_host::pages::PAGE;
use becalm_host::pages::steered::Steered;

use crate::index::file;
use crate::index::places::{self, cache_writer};
use crate::pages;
use crate::pages::choose::{Chosen, choose};
use crate::pages::file::{Start, encode, is_usable};
use crate::path::path_bytes;
use crate::run::{Indexed, Launch, Options, prepare, program};
use crate::trees::folder;

/// The longest wait for a start.
const LIMIT: Duration = Duration::from_secs(20);
/// Pages of a program that repay the work of steering its loader.
const LEAST: usize = 48;
/// Maximum number of bytes of a file, and of the folder.
const MOST: usize = 128 << 20;
const MOST_OF_ALL: u64 = 512 << 20;
/// Addresses from which the highest library of a program is drawn: as many as the kernel has for a
/// mapping, below those.
const LOWEST: u64 = 0x7000_0000_0000;
const BITS: u32 = 28;

/// Makes the file at a path while its lock is held.
pub(super) fn locked(path: &Path, indexed: &Indexed, lock: OwnedFd) {
    write(path, indexed);
    let _ = fs::remove_file(path.with_extension("lock"));
    drop(lock);
}

/// Writes the file, if another process has not. If the program cannot have ready pages, an empty one says so
/// until the next boot.
fn write(path: &Path, indexed: &Indexed) {
    let folder = path.parent().unwrap_or(path);
    make_room(folder);
    // If nothing can be written, nothing is started.
    if folder::free(folder) < 2 * MOST as u64 || is_usable(path, true) {
        return;
    }
    let file = made(indexed).and_then(|(start, objects)| encode(&start, &objects));
    let file = file.filter(|file| file.len() <= MOST);
    if let Some(file) = file.or_else(|| encode(&Start::default(), &[])) {
        let _ = cache_writer().replace(path, &file, 0o600);
    }
}

/// Returns the start and its objects; `None` if there are too few pages, or the program is not bound or cannot be
/// started.
fn made(indexed: &Indexed) -> Option<(Start, Vec<Chosen>)> {
    let mut random = [0; 8];
    File::open("/dev/urandom").ok()?.read_exact(&mut random).ok()?;
    let top = LOWEST + (u64::from_ne_bytes(random) & ((1 << BITS) - 1)) * PAGE;
    let index = indexed.index.index.checksum().ok()?;
    let whole = file::read_trusted(&indexed.index.path).ok()?;
    let programs = whole.index.bound.programs.iter();
    let of_program = programs.filter(|it| it.path == path_bytes(&indexed.real));
    let members = of_program.map(|it| it.members.len()).max()?;
    // The loader allocates two pages for some ten libraries, more if their paths are long.
    let holes = members as u32 / 5 + 4;
    let start = |longer| Steered::start(command(indexed, longer), top, holes, LIMIT);
    // The second start has a longer environment, which must not move a library.
    let (one, other) = (start(0)?, start(3000)?);
    let objects = choose(&one, &other, top)?;
    let is_enough = objects.iter().map(Chosen::pages).sum::<usize>() >= LEAST;
    let start = Start { top, holes, members_check: one.members_check, index };
    is_enough.then_some((start, objects))
}

/// Returns the command of a start with the index, with an environment that is longer by so many bytes.
fn command(indexed: &Indexed, longer: usize) -> Command {
    let variables = indexed.variables(false, &[], false).into_iter();
    let mut command = Command::new(&indexed.real);
    command.envs(variables.filter_map(|it| Some((it.name, it.value?))));
    command.env("BECALM_LENGTH", "x".repeat(longer)).current_dir("/");
    command
}

/// Removes the files of earlier boots, and the oldest ones if there are many bytes.
pub(super) fn make_room(folder: &Path) {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|it| it.path());
    // Locks and lists have endings; a temporary file, of another becalm at work, begins with a dot.
    let is_plain = |name: &OsStr| !name.as_bytes().contains(&b'.');
    let files = entries.filter(|path| path.file_name().is_some_and(is_plain));
    let (usable, others): (Vec<_>, Vec<_>) = files.partition(|path| is_usable(path, false));
    let remove = |path: &Path| drop(cache_writer().remove(path));
    others.iter().for_each(|path| remove(path));
    places::keep_newest(usable, Metadata::len, MOST_OF_ALL, remove);
}

/// Makes the ready pages of a program that is switched on, in a folder that its starts look into.
///
/// Nothing is an error: the program runs all the same.
pub fn for_switched_on(folder: &Path, program: &Path) {
    let Some(index) = places::switched_on().map(|on| on.join("index.so")) else { return };
    let options = Options { index: Some(index), only: true, ..Options::default() };
    let Ok(found) = program::find(program.as_os_str()) else { return };
    if let Ok(Launch::Indexed(indexed)) = prepare(&options, found) {
        pages::ensure(folder, &indexed);
    }
}
