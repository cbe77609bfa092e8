//! The file by which `becalm run PROGRAM` makes the same start again at once (`starter/quick.c`): what is
//! executed and added to the environment, and what must still hold. It counts for an hour.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use becalm_core::index::hash;
use becalm_host::index_store::{package_dirs, trees_beside};
use rustix::fs::{major, minor};

use crate::ahead::begin::complete_record;
use crate::index::file::trusted_bytes;
use crate::index::places::{self, cache_writer};
use crate::index::platforms;
use crate::index::variables::{AUDIT, SWITCHES, TUNABLES};
use crate::on::table::{Identity, Strings};
use crate::run::Indexed;
use crate::run::kept::{self, FRESH};
use crate::trees::begin::VARIABLES;

/// The first bytes.
const MAGIC: &[u8; 8] = b"becalm\x01\x01";
/// The seed of the check.
const SEED: u64 = 4;
/// A decision for the default index counts from a multiple of this time, in seconds.
const STEP: u64 = 600;
/// The largest file.
const LARGEST: usize = 0x8000;
/// Bytes before the conditions, and of each of them.
const HEADER: usize = 232;
const CONDITION: usize = 16;
/// Kinds of conditions.
const UNSET: u32 = 0;
const SET: u32 = 1;
const NEAR: u32 = 2;
const ABSENT: u32 = 3;
const OLDER: u32 = 4;
const IN_MEMORY: u32 = 5;
/// Variables that must not be set, and those that must have the same value.
const ADDED: [&str; 3] = [AUDIT, TUNABLES, SWITCHES];
const SAME: [&str; 2] = ["LD_PRELOAD", "LD_LIBRARY_PATH"];

/// Keeps the decision to start a command by its index, if that rested on nothing else than what can be
/// compared in a few system calls. Call this for a start without options that learns nothing and is told
/// nothing. A failure costs the next start a millisecond.
pub fn remember(command: &Path, indexed: &Indexed) {
    let name = command.file_name().filter(|_| command.is_absolute());
    let Some((name, folder)) = name.zip(places::cache()) else { return };
    let mut path = folder.join(name).into_os_string();
    path.push(".");
    path.push(kept::QUICK);
    if let Some(file) = file(command, indexed)
        && file.len() <= LARGEST
        && !trusted_bytes(path.as_ref()).is_ok_and(|known| known == file)
    {
        let _ = cache_writer().replace(path.as_ref(), &file, 0o644);
    }
}

fn file(command: &Path, indexed: &Indexed) -> Option<Vec<u8>> {
    let compared = indexed.compared?.duration_since(UNIX_EPOCH).ok()?;
    let is_default = places::of_sessions().any(|path| path == indexed.index.path);
    // Not another file in each second.
    let whole = |time: Duration| Duration::from_secs(time.as_secs() / STEP * STEP);
    let compared = if is_default { whole(compared) } else { compared };
    let since = compared.as_secs();
    let (record, samples) = complete_record(command)?;
    let program = command.metadata().ok()?;
    // Not a script, whose interpreter has the index.
    let real = indexed.real.metadata().ok()?;
    ((program.dev(), program.ino()) == (real.dev(), real.ino())).then_some(())?;
    let index = indexed.index.path.clone();
    let platforms = platforms::dir_of(&index);
    let variables = indexed.variables(false, &[], false);
    let [audit, tunables] = variables.as_slice() else { return None };
    let is_by_platform = Path::new(audit.value.as_ref()?).starts_with(&platforms);
    let becalm = Path::new("/proc/self/exe");
    let mut rest = Vec::new();
    for file in [becalm, command, &index, &platforms, &record] {
        Identity::at(file)?.encode(&mut rest);
    }
    rest.extend(since.to_ne_bytes());
    rest.extend((since + FRESH.as_secs()).to_ne_bytes());
    rest.extend(major(program.dev()).to_ne_bytes());
    rest.extend(minor(program.dev()).to_ne_bytes());
    let conditions = conditions(command, indexed, compared, samples);
    let mut strings = Strings::at(HEADER + CONDITION * conditions.len());
    let mut texts = Vec::new();
    for path in [command, &index, &platforms, &record] {
        texts.extend(strings.add(path.as_os_str().as_bytes()));
    }
    for variable in [audit, tunables] {
        let value = variable.value.as_ref()?.as_bytes();
        texts.extend(strings.add(&[variable.name.as_bytes(), b"=", value].concat()));
    }
    let mut list = Vec::new();
    for (kind, text, number) in &conditions {
        list.extend(kind.to_ne_bytes());
        list.extend(strings.add(text.as_bytes()));
        list.extend(number.to_ne_bytes());
    }
    rest.extend(strings.end());
    rest.extend((conditions.len() as u32).to_ne_bytes());
    let rest = [rest, texts, list, strings.bytes].concat();
    let check = hash::bytes(SEED, &rest);
    is_by_platform.then(|| [&MAGIC[..], &check.to_ne_bytes(), &rest].concat())
}

/// Returns what the decision rested on: kind, name or path, and number (`struct condition`).
fn conditions(
    command: &Path,
    indexed: &Indexed,
    compared: Duration,
    samples: Vec<(String, u64)>,
) -> Vec<(u32, OsString, u64)> {
    let trees = trees_beside(command, &indexed.real);
    // A directory of another version of Python would be a new entry.
    let above = trees.iter().filter_map(|tree| tree.parent().map(Path::to_owned));
    let dirs: Vec<PathBuf> = package_dirs(&trees).chain(above).collect();
    let unset = ADDED.iter().map(|name| (UNSET, name.into(), 0));
    let same = SAME.iter().map(|name| match env::var_os(name) {
        Some(value) => (SET, [OsStr::new(name), &value].join(OsStr::new("=")), 0),
        None => (UNSET, name.into(), 0),
    });
    let near = VARIABLES.iter().map(|name| (NEAR, name.into(), 0));
    // Default indexes that are before this one, and do not have the program.
    let before = places::of_sessions().take_while(|path| *path != indexed.index.path);
    let (present, absent): (Vec<_>, Vec<_>) = before.partition(|path| path.exists());
    let absent = absent.into_iter().map(|path| (ABSENT, path.into(), 0));
    let older = dirs.into_iter().chain(present);
    let older = older.map(|path| (OLDER, path.into(), compared.subsec_nanos().into()));
    let samples = samples
        .into_iter()
        .map(|(path, page)| (IN_MEMORY, path.into(), page * becalm_host::pages::PAGE));
    unset.chain(same).chain(near).chain(absent).chain(older).chain(samples).collect()
}
