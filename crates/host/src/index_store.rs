//! Indexing stores: walk, ask, gather. What `becalm index` does but for the command line
//! and the file it writes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use becalm_core::closure::{self, Subject, SubjectKind};
use becalm_core::elf::Ident;
use becalm_core::facts::{Environment, LoaderFacts};
use becalm_core::fs::{Errno, FileSystem};
use becalm_core::index::build::{Asked, Asker, Gatherer, Left, Sources, Stamps, name_in};
use becalm_core::index::hash::NameHash;
use becalm_core::index::tls::{self, StaticTls};
use becalm_core::index::{Index, Stamp, Target, Time};
use bstr::{BStr, BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use rustix::fs::{AtFlags, CWD, StatxFlags};

use crate::{FactChoice, Format, HostError, OsFs, WalkOptions, find_objects, loader_facts};

/// Objects a session looks at before it looks at each directory again.
const CHUNK: usize = 256;

/// `statx`, and the clock when it was made.
#[derive(Clone, Copy, Debug)]
pub struct OsStamps {
    now: Time,
}

impl Default for OsStamps {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Self { now: Time { sec, nsec: since.subsec_nanos() } }
    }
}

impl Stamps for OsStamps {
    fn stamp(&self, path: &BStr) -> Result<Stamp, Errno> {
        let found =
            rustix::fs::statx(CWD, path.as_bytes(), AtFlags::empty(), StatxFlags::BASIC_STATS)
                .map_err(|errno| Errno(errno.raw_os_error()))?;
        let time = |time: rustix::fs::StatxTimestamp| Time { sec: time.tv_sec, nsec: time.tv_nsec };
        Ok(Stamp {
            dev: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
            ino: found.stx_ino,
            size: found.stx_size,
            mtime: time(found.stx_mtime),
            ctime: time(found.stx_ctime),
        })
    }

    fn now(&self) -> Time {
        self.now
    }
}

/// What to index.
#[derive(Clone, Copy, Default)]
pub struct IndexOptions<'a> {
    /// The stores: walked, and immutable.
    pub stores: &'a [PathBuf],
    /// Further immutable prefixes, which are not walked; those that are not there do not count.
    pub prefixes: &'a [PathBuf],
    /// Directories that `LD_LIBRARY_PATH` names.
    pub dirs: &'a [PathBuf],
    /// What the user says of the loader.
    pub facts: Option<&'a FactChoice>,
    /// As in [`WalkOptions::progress`].
    pub progress: Option<&'a (dyn Fn(usize) + Sync)>,
}

/// The index of one machine's objects.
#[derive(Debug)]
pub struct MachineIndex {
    /// The machine.
    pub target: Target,
    /// The index.
    pub index: Index,
    /// Questions left to the loader.
    pub left: usize,
    /// The same by reason; none twice.
    pub left_by: Vec<(Left, usize)>,
    /// Programs that may need more static TLS than there is by default, with their need.
    pub static_tls: Vec<(BString, StaticTls)>,
}

/// What indexing gave.
#[derive(Debug, Default)]
pub struct Indexed {
    /// An index for each machine met, the one with most objects first.
    pub machines: Vec<MachineIndex>,
    /// What could not be read.
    pub errors: Vec<HostError>,
}

/// Indexes stores: every object below them that asks for anything.
#[must_use]
pub fn index_stores(os: &OsFs, options: IndexOptions<'_>) -> Indexed {
    let walked_roots: Vec<PathBuf> = options.stores.iter().map(|path| real(path)).collect();
    // An object is asked for by its path: of a file with several names each counts.
    let walk = WalkOptions { progress: options.progress, every_name: true };
    let walked = find_objects(&walked_roots, walk);
    let elf = walked.objects.into_iter().filter(|found| found.format == Format::Elf);
    let paths: Vec<BString> = elf.map(|found| bytes_of(&found.path)).collect();
    let mut indexed = index_paths(os, &paths, options);
    indexed.errors.splice(0..0, walked.errors);
    indexed
}

/// Indexes the objects given, by their real paths, and those that their answers name. What
/// lies below a store or prefix of the options is immutable.
#[must_use]
pub fn index_files(os: &OsFs, files: &[PathBuf], options: IndexOptions<'_>) -> Indexed {
    let mut paths: Vec<BString> = files.iter().map(|path| bytes_of(&real(path))).collect();
    paths.sort_unstable();
    paths.dedup();
    index_paths(os, &paths, options)
}

fn index_paths(os: &OsFs, paths: &[BString], options: IndexOptions<'_>) -> Indexed {
    let stamps = OsStamps::default();
    let mut errors = Vec::new();
    let prefixes = options.prefixes.iter().filter(|prefix| prefix.is_dir());
    let mut stores: Vec<BString> = options
        .stores
        .iter()
        .chain(prefixes)
        .flat_map(|path| [bytes_of(path), bytes_of(&real(path))])
        .map(without_slashes)
        .collect();
    stores.sort_unstable();
    stores.dedup();
    let mut machines: Vec<MachineIndex> = by_machine(os, paths)
        .into_values()
        .filter_map(|group| {
            let loaders = BString::default();
            let mut work = Work { os, stamps, options, stores: &stores, group: &group, loaders };
            work.index().map_err(|error| errors.push(error)).ok()
        })
        .collect();
    machines.sort_by_key(|machine| std::cmp::Reverse(machine.index.objects.len()));
    Indexed { machines, errors }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The objects of one machine.
struct Group {
    ident: Ident,
    /// The loader most programs name.
    interpreter: BString,
    /// Every loader that is named, or usual.
    interpreters: Vec<BString>,
    paths: Vec<BString>,
}

/// `e_machine`, class and byte order, as numbers that can be ordered.
type MachineKey = (u16, u8, u8);

fn by_machine(os: &OsFs, paths: &[BString]) -> BTreeMap<MachineKey, Group> {
    let looked: Vec<Option<(Ident, Interpreter)>> = paths
        .par_chunks(CHUNK)
        .flat_map_iter(|chunk| {
            let session = os.session();
            chunk.iter().map(|path| kind_of(&session, path.as_ref())).collect::<Vec<_>>()
        })
        .collect();
    type Votes = BTreeMap<BString, usize>;
    let mut groups: BTreeMap<MachineKey, (Group, Votes)> = BTreeMap::new();
    for (path, looked) in paths.iter().zip(looked) {
        let Some((ident, interpreter)) = looked else { continue };
        let key = (ident.machine, ident.class as u8, ident.endian as u8);
        let (group, votes) = groups.entry(key).or_insert_with(|| {
            let interpreter = BString::default();
            let group = Group { ident, interpreter, interpreters: Vec::new(), paths: Vec::new() };
            (group, BTreeMap::new())
        });
        group.paths.push(path.clone());
        // A program names its loader; a library only has a usual one.
        let vote = if interpreter.is_named { 1 << 20 } else { 1 };
        *votes.entry(interpreter.path.unwrap_or_default()).or_default() += vote;
    }
    groups
        .into_iter()
        .filter_map(|(key, (mut group, mut votes))| {
            votes.remove(BStr::new(""));
            group.interpreters = votes.keys().cloned().collect();
            group.interpreter = votes.into_iter().max_by_key(|&(_, count)| count)?.0;
            Some((key, group))
        })
        .collect()
}

/// Header and interpreter of what a loader loads or the kernel starts with one.
fn kind_of(fs: &dyn FileSystem, path: &BStr) -> Option<(Ident, Interpreter)> {
    let subject = Subject::open(fs, path).ok()?;
    let is_named = match &subject.kind {
        SubjectKind::Static => return None,
        SubjectKind::Program { .. } => true,
        SubjectKind::Library { .. } => false,
    };
    let path = subject.interpreter().map(ToOwned::to_owned);
    Some((subject.view.ident, Interpreter { path, is_named }))
}

/// The loader of an object: the one it names, or the usual one of its machine.
struct Interpreter {
    path: Option<BString>,
    is_named: bool,
}

/// The indexing of one machine's objects.
struct Work<'a> {
    os: &'a OsFs,
    stamps: OsStamps,
    options: IndexOptions<'a>,
    stores: &'a [BString],
    group: &'a Group,
    /// The loaders that search as the chosen one does, `:` between them.
    loaders: BString,
}

impl Work<'_> {
    fn index(&mut self) -> Result<MachineIndex, HostError> {
        let choice = FactChoice::default();
        let choice = self.options.facts.unwrap_or(&choice);
        let facts = loader_facts(self.os, self.group.interpreter.as_ref(), choice)?;
        self.loaders = self.alike(&facts, choice);
        let mut known: FxHashSet<BString> = self.group.paths.iter().cloned().collect();
        let mut dirs = FxHashSet::default();
        let mut asked = self.ask(&facts, &self.group.paths, true, &mut dirs);
        let mut from = 0;
        loop {
            let answers = asked[from..].iter().flat_map(|asked| &asked.object.edges);
            let new: Vec<BString> = answers
                .filter(|edge| known.insert(edge.path.clone()))
                .map(|edge| edge.path.clone())
                .collect();
            if new.is_empty() {
                break;
            }
            from = asked.len();
            asked.extend(self.ask(&facts, &new, false, &mut dirs));
        }
        let static_tls = self.static_tls(&facts, &mut asked);
        let left = asked.iter().map(|asked| asked.left.len()).sum();
        let left_by = by_reason(&asked);
        let mut gatherer = Gatherer::default();
        self.directories(&mut gatherer, &asked);
        gatherer.object(self.common(&facts, &dirs));
        asked.into_iter().for_each(|asked| gatherer.object(asked));
        let target = Target::of(&self.group.ident);
        Ok(MachineIndex { target, index: gatherer.finish(), left, left_by, static_tls })
    }

    /// The loaders with the same cache and system directories, and of the same release, as
    /// the one of those facts.
    fn alike(&self, facts: &LoaderFacts, choice: &FactChoice) -> BString {
        let same = |path: &&BString| {
            !path.contains(&b':')
                && loader_facts(self.os, path.as_bstr(), choice).is_ok_and(|other| {
                    other.libc == facts.libc
                        && other.cache_path == facts.cache_path
                        && other.system_dirs == facts.system_dirs
                })
        };
        let alike: Vec<&BString> = self.group.interpreters.iter().filter(same).collect();
        bstr::join(":", alike).into()
    }

    fn sources<'s>(&'s self, fs: &'s dyn FileSystem, facts: &'s LoaderFacts) -> Sources<'s> {
        Sources {
            fs,
            stamps: &self.stamps,
            facts,
            loader: self.loaders.as_ref(),
            ident: &self.group.ident,
            stores: self.stores,
        }
    }

    /// The common object, given every directory of a run path.
    fn common(&self, facts: &LoaderFacts, dirs: &FxHashSet<BString>) -> Asked {
        let session = self.os.session();
        let asker = Asker::new(self.sources(&session, facts));
        let dirs: Vec<&BString> = dirs.iter().collect();
        let names: Vec<Option<Vec<BString>>> = dirs.par_iter().map(|dir| names_in(dir)).collect();
        // A directory that cannot be listed may have any name.
        let all_listed = names.iter().all(Option::is_some);
        let names: FxHashSet<BString> = names.into_iter().flatten().flatten().collect();
        asker.common(|name| all_listed && !names.contains(name))
    }

    /// The objects with their answers; the directories of their run paths go to `dirs`.
    fn ask(
        &self,
        facts: &LoaderFacts,
        paths: &[BString],
        canonical: bool,
        dirs: &mut FxHashSet<BString>,
    ) -> Vec<Asked> {
        let chunks: Vec<(Vec<Asked>, Vec<BString>)> = paths
            .par_chunks(CHUNK)
            .map(|chunk| {
                let session = self.os.session();
                let asker = Asker::new(self.sources(&session, facts));
                let ask = |path: &BString| {
                    let file = session.open(path.as_ref()).ok()?;
                    let view = file.object.as_ref().ok()?;
                    asker.object(path.as_ref(), view, canonical)
                };
                let asked = chunk.iter().filter_map(ask).collect();
                (asked, asker.directories_met())
            })
            .collect();
        let mut all = Vec::new();
        for (asked, met) in chunks {
            all.extend(asked);
            dirs.extend(met.into_iter().filter(|dir| self.is_in_store(dir)));
        }
        all
    }

    /// Sets each program's need, and lists those that have one.
    fn static_tls(
        &self,
        facts: &Arc<LoaderFacts>,
        asked: &mut [Asked],
    ) -> Vec<(BString, StaticTls)> {
        asked
            .par_chunks_mut(CHUNK)
            .flat_map_iter(|chunk| {
                let session = self.os.session();
                let mut found = Vec::new();
                for asked in chunk.iter_mut().filter(|asked| asked.object.canonical) {
                    let path = &asked.object.path;
                    let Some(need) = self.need(&session, facts, path.as_ref()) else { continue };
                    asked.object.static_tls =
                        need.tunable().map_or(0, |value| u32::try_from(value).unwrap_or(u32::MAX));
                    if need.impossible || need.tunable().is_some() {
                        found.push((path.clone(), need));
                    }
                }
                found
            })
            .collect()
    }

    fn need(
        &self,
        fs: &dyn FileSystem,
        facts: &Arc<LoaderFacts>,
        path: &BStr,
    ) -> Option<StaticTls> {
        let subject = Subject::open(fs, path).ok()?;
        let SubjectKind::Program { interpreter } = &subject.kind else { return None };
        let interpreter = interpreter.clone();
        let environment = Environment::default();
        let closure =
            closure::resolve(fs, subject, interpreter.as_ref(), Arc::clone(facts), &environment);
        closure.ok().map(|closure| tls::of_closure(&closure))
    }

    /// The stores' own directories, in stores that are not flat those that hold objects and
    /// those above them as well, and those of `LD_LIBRARY_PATH`.
    fn directories(&self, gatherer: &mut Gatherer, asked: &[Asked]) {
        let answers = asked.iter().flat_map(|asked| &asked.object.edges).map(|edge| &edge.path);
        let paths: Vec<&BString> = self.group.paths.iter().chain(answers).collect();
        let mut flat: Vec<&BString> = Vec::new();
        for store in self.stores {
            let mut inside = paths.iter().filter_map(|path| below(path, store)).peekable();
            let is_used = inside.peek().is_some();
            let is_named = self.options.stores.iter().any(|named| bytes_of(&real(named)) == *store);
            if !is_used && !is_named {
                continue;
            }
            // A stamp that may be shared by a later state matches nothing; neither does that of
            // a store whose packages come and go deeper down.
            let is_flat = is_used && inside.all(is_in_package);
            let stamp = self.settled(store.as_ref()).filter(|_| is_flat);
            if is_flat {
                flat.push(store);
            }
            gatherer.root(store.clone(), stamp.unwrap_or_default());
        }
        // Where packages come and go in the store's own directory, that one says it all.
        let says_all = |dir: &[u8]| flat.iter().any(|store| below(dir, store).is_some());
        let mut seen: FxHashSet<BString> = FxHashSet::default();
        for dir in self.options.dirs {
            let path = without_slashes(bytes_of(dir));
            if !seen.insert(path.clone()) {
                continue;
            }
            if let Some((stamp, names)) = self.names(&path) {
                gatherer.directory(path, stamp, Some(names));
            }
        }
        for path in &self.group.paths {
            let mut above = path.rfind_byte(b'/').map(|slash| &path[..slash]);
            while let Some(dir) = above.filter(|dir| self.is_in_store(dir)) {
                if says_all(dir) {
                    above = dir.rfind_byte(b'/').map(|slash| &dir[..slash]);
                    continue;
                }
                if !seen.insert(dir.into()) {
                    break;
                }
                if let Some(stamp) = self.settled(dir.as_bstr()) {
                    gatherer.directory(dir.into(), stamp, None);
                }
                above = dir.rfind_byte(b'/').map(|slash| &dir[..slash]);
            }
        }
    }

    fn is_in_store(&self, path: &[u8]) -> bool {
        self.stores.iter().any(|store| path == store.as_slice() || below(path, store).is_some())
    }

    fn settled(&self, path: &BStr) -> Option<Stamp> {
        self.stamps.stamp(path).ok().filter(|stamp| stamp.is_settled(self.stamps.now()))
    }

    /// The names in a directory between two equal stamps; `None` where it has hwcaps
    /// subdirectories, or changes.
    fn names(&self, path: &BString) -> Option<(Stamp, Vec<NameHash>)> {
        let before = self.settled(path.as_ref())?;
        let session = self.os.session();
        let mut names = Vec::new();
        let ident = &self.group.ident;
        for entry in Path::new(OsStr::from_bytes(path)).read_dir().ok()? {
            let name = bytes_of(Path::new(&entry.ok()?.file_name()));
            names.push(name_in(&session, path.as_ref(), name.as_ref(), ident)?);
        }
        names.sort_unstable();
        (self.stamps.stamp(path.as_ref()) == Ok(before)).then_some((before, names))
    }
}

/// What follows a store's path and a slash.
fn below<'p>(path: &'p [u8], store: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(store)?.strip_prefix(b"/")
}

/// True where a path inside a store begins with `<hash>-<name>/`, the hash being 32 letters
/// and digits (nixpkgs and Guix both take base 32 of 160 bits): what comes and goes in such a
/// store is an entry of the store itself.
fn is_in_package(path: &[u8]) -> bool {
    const HASH: usize = 32;
    let Some((package, _)) = path.split_once_str("/") else { return false };
    package.len() > HASH + 1
        && package[HASH] == b'-'
        && package[..HASH].iter().all(u8::is_ascii_alphanumeric)
}

fn by_reason(asked: &[Asked]) -> Vec<(Left, usize)> {
    let mut counts: Vec<(Left, usize)> = Vec::new();
    for (_, why) in asked.iter().flat_map(|asked| &asked.left) {
        match counts.iter_mut().find(|(known, _)| known == why) {
            Some((_, count)) => *count += 1,
            None => counts.push((*why, 1)),
        }
    }
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}

/// The names in a directory, none where there is no directory; `None` where it cannot be
/// listed.
fn names_in(dir: &BString) -> Option<Vec<BString>> {
    match Path::new(OsStr::from_bytes(dir)).read_dir() {
        Ok(entries) => {
            let names = entries.map(|entry| Some(bytes_of(Path::new(&entry.ok()?.file_name()))));
            names.collect()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    }
}

fn bytes_of(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}

fn without_slashes(mut path: BString) -> BString {
    while path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_by_a_hash() {
        let named = b"0123456789abcdfghijklmnpqrsvwxyz-bash-5/bin/bash";
        assert!(is_in_package(named));
        let others: [&[u8]; 4] = [
            b"gcc/12.1/lib/libstdc++.so.6",
            b"0123456789abcdfghijklmnpqrsvwxyz-bash",
            b"0123456789abcdfghijklmnpqrsvwxy-bash/bin/bash",
            b"linux-debian12-x86_64_v3-gcc/a-1/lib/liba.so",
        ];
        assert!(others.iter().all(|path| !is_in_package(path)));
    }
}
