//! Compares the applied answers in an object with those of the plain search.
//!
//! Every object is checked on its own against its own run path, without hwcaps subdirectories: a
//! directory that has them is a hint in every note. The note may be one of becalm, of patchelf 0.19.3
//! or of the hook of nixpkgs.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::farm::{self, FARMS, is_farm};
use super::ldcache;
use super::names::Strategy;
use super::note;
use super::own::{self, Look, OwnDir, OwnPath, Standing};
use super::settings::Settings;
use crate::closure::Subject;
use crate::elf::resolution_note::{self, NoteError};
use crate::fs::{FileId, FileSystem};
use crate::loader::glibc;
use crate::path;
use crate::search::loader_cache::LoaderCache;
use crate::search::loader_cache::write::entry_flags;

/// The result of the comparison of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The plain search finds the same file.
    True,
    /// The plain search finds the same file today, but the answer skips this directory, which may
    /// change.
    Skips(BString),
    /// The answer and the plain search lead to different files.
    Stale {
        /// The file of the answer, if it exists.
        says: Option<BString>,
        /// The file that the plain search finds, if it finds one.
        is: Option<BString>,
    },
    /// The strategy could have an answer and has none. The plain search finds this file.
    Missing(BString),
    /// The answer is for a name that the object does not need.
    Superfluous,
    /// The note is malformed, and the loader ignores it.
    Malformed(NoteError),
}

impl Verdict {
    /// Returns true if the answer changes the load set or has no effect.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        matches!(self, Verdict::Stale { .. } | Verdict::Missing(_) | Verdict::Malformed(_))
    }
}

/// One answer and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The strategy.
    pub strategy: Strategy,
    /// The needed string. It is empty if the verdict is about the whole note.
    pub needed: BString,
    /// The verdict.
    pub verdict: Verdict,
}

/// A farm or a cache of an object that is outside the named stores. [`object`] does not check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchecked {
    /// The strategy.
    pub strategy: Strategy,
    /// The store that has to be named: the directory of the package.
    pub store: BString,
}

/// Returns the farm and the cache of an object that [`object`] does not check, because
/// `settings` lacks their store.
#[must_use]
pub fn unchecked(fs: &dyn FileSystem, subject: &Subject, settings: &Settings) -> Vec<Unchecked> {
    let path = super::real_path(fs, subject.path.as_ref());
    let own = OwnPath::new(fs, path.as_ref(), subject, settings);
    let farms = own.dirs.iter().filter_map(|dir| dir.name.as_ref());
    let farms = farms.filter(|name| !settings.stores.contain(name));
    let farms = farms.filter_map(|name| {
        let package = &name[..name.find(["/", FARMS, "/"].concat())?];
        Some((Strategy::Farm, package))
    });
    // One farm is enough to name the store.
    let mut found: Vec<(Strategy, &[u8])> = farms.take(1).collect();
    if own::has_run_path_entry(&subject.view) && !settings.stores.contain(&path) {
        // The root of the package is not known without its store, so every parent directory is
        // tried.
        let ends = path.rfind_iter("/").filter(|&end| end > 0);
        let is_cached = |package: &&[u8]| {
            let cache = fs.read(ldcache::path_in(package.as_bstr()).as_ref());
            cache.is_ok_and(ldcache::is_ours)
        };
        let package = ends.map(|end| &path[..end]).find(is_cached);
        found.extend(package.map(|package| (Strategy::Ldcache, package)));
    }
    let store = |(strategy, package): (Strategy, &[u8])| {
        let end = package.rfind_byte(b'/').filter(|&end| end > 0)?;
        Some(Unchecked { strategy, store: package[..end].into() })
    };
    found.into_iter().filter_map(store).collect()
}

/// Checks every applied answer of an object.
#[must_use]
pub fn object(fs: &dyn FileSystem, subject: &Subject, settings: &Settings) -> Vec<Checked> {
    let path = super::real_path(fs, subject.path.as_ref());
    let mut own = OwnPath::new(fs, path.as_ref(), subject, settings);
    let farms: Vec<OwnDir> =
        own.dirs.iter().filter(|dir| is_farm(dir, settings)).cloned().collect();
    // The plain search is the one along the original run path, without farms.
    own.dirs.retain(|dir| !is_farm(dir, settings));
    let names = own::names(&subject.view, &settings.dlopen);
    let object = Object { fs, path, own, names };
    let mut checked = object.absolute(subject);
    if let Some(note) = &subject.view.notes.resolution {
        checked.extend(object.note(subject, note));
    }
    if !farms.is_empty() {
        checked.extend(object.farms(&farms));
    }
    if let Some(cache) = object.package_cache(subject, settings) {
        checked.extend(object.cache(&cache, entry_flags(&subject.view.ident)));
    }
    checked
}

struct Object<'a> {
    fs: &'a dyn FileSystem,
    path: BString,
    own: OwnPath<'a>,
    names: Vec<BString>,
}

/// The result of the plain search along the run path.
struct Plain {
    path: BString,
    id: Option<FileId>,
    dir: usize,
}

impl Object<'_> {
    fn plain(&self, needed: &BStr) -> Option<Plain> {
        let (dir, path) = self.own.answer(needed)?;
        let id = self.id(path.as_ref());
        Some(Plain { path, id, dir })
    }

    fn id(&self, path: &BStr) -> Option<FileId> {
        self.fs.open(path).ok().map(|file| file.id)
    }

    /// Compares an answer that leads to `says`, or to no file, with the plain search.
    fn compare(&self, needed: &BStr, says: Option<BString>) -> Verdict {
        match (says, self.plain(needed)) {
            // Two paths to one file are the same answer.
            (Some(says), Some(is)) if self.id(says.as_ref()) == is.id => Verdict::True,
            (says, is) => Verdict::Stale { says, is: is.map(|is| is.path) },
        }
    }

    /// Returns a directory before the answer that may change and that `is_searched` does not select.
    fn skipped(&self, needed: &BStr, is_searched: impl Fn(&OwnDir) -> bool) -> Option<BString> {
        let end = self.plain(needed)?.dir;
        let mut before = self.own.dirs[..end].iter();
        let dir = before.find(|dir| dir.standing != Standing::Fixed && !is_searched(dir))?;
        Some(dir.written.clone())
    }

    fn note(&self, subject: &Subject, descriptor: &[u8]) -> Vec<Checked> {
        let mut checked = Vec::new();
        let mut add = |needed: &BStr, verdict| {
            let needed = needed.to_owned();
            checked.push(Checked { strategy: Strategy::Note, needed, verdict });
        };
        let mut recorded: Vec<&BStr> = Vec::new();
        for record in resolution_note::records(descriptor) {
            match record {
                // A loader ignores the whole note, so earlier verdicts do not count.
                Err(error) => {
                    let verdict = Verdict::Malformed(error);
                    let needed = BString::default();
                    return vec![Checked { strategy: Strategy::Note, needed, verdict }];
                }
                Ok(record) => {
                    recorded.push(record.needed);
                    add(record.needed, self.record(&record));
                }
            }
        }
        for name in &self.names {
            let name = name.as_bstr();
            if recorded.contains(&name) {
                continue;
            }
            if let Some(path) = note::exact(&self.own, name, subject) {
                add(name, Verdict::Missing(path));
            }
        }
        checked
    }

    /// Follows one list as the loader does.
    fn record(&self, record: &resolution_note::Record<'_>) -> Verdict {
        if !self.names.iter().any(|name| name == record.needed) {
            return Verdict::Superfluous;
        }
        let mut hints: Vec<&BStr> = Vec::new();
        let mut gone = false;
        for answer in &record.answers {
            match *answer {
                resolution_note::Answer::Exact(path) => {
                    let Some(found) = self.exact(path) else {
                        gone = true;
                        continue;
                    };
                    return self.found(record.needed, found, &hints);
                }
                resolution_note::Answer::Hint(dir) => {
                    hints.push(dir);
                    let dir = self.own.dir(dir);
                    if self.own.look(&dir, record.needed) == Look::Hit {
                        let name = dir.name.unwrap_or_default();
                        let path = [name.as_slice(), record.needed].concat();
                        return self.found(record.needed, path.into(), &hints);
                    }
                }
            }
        }
        // The plain search replaces a missing answer. An answer whose file is gone is stale.
        if gone {
            let is = self.plain(record.needed).map(|is| is.path);
            return Verdict::Stale { says: None, is };
        }
        Verdict::True
    }

    fn found(&self, needed: &BStr, path: BString, hints: &[&BStr]) -> Verdict {
        let verdict = self.compare(needed, Some(path));
        if verdict != Verdict::True {
            return verdict;
        }
        let is_hint = |dir: &OwnDir| {
            hints.iter().any(|hint| self.own.dir(hint) == *dir || *hint == dir.written)
        };
        self.skipped(needed, is_hint).map_or(Verdict::True, Verdict::Skips)
    }

    /// Returns the file of an exact answer if the loader would load it.
    fn exact(&self, path: &BStr) -> Option<BString> {
        let path = self.own.expand(path)?;
        self.own.is_fit(path.as_ref()).then_some(path)
    }

    fn absolute(&self, subject: &Subject) -> Vec<Checked> {
        let is_absolute = |needed: &&BStr| needed.starts_with(b"/");
        let check = |needed: &BStr| {
            let name = path::name(needed);
            let fits = self.own.is_fit(needed);
            let verdict = match self.plain(name) {
                // The object may have no run path any more, or one that never had this file.
                None if fits => Verdict::True,
                _ => self.compare(name, fits.then(|| needed.to_owned())),
            };
            Checked { strategy: Strategy::Absolute, needed: needed.to_owned(), verdict }
        };
        subject.view.needed().filter(is_absolute).map(check).collect()
    }

    /// Checks the links of farms. A name without a link is a finding only if the object's own farm
    /// could have a link for it. The farm of a whole closure may lack it, and a library that uses
    /// `$ORIGIN` is never linked.
    fn farms(&self, farms: &[OwnDir]) -> Vec<Checked> {
        let is_of_closure = farms.iter().any(|farm| farm::has_list(self.fs, farm));
        let check = |name: &BString| {
            let name = name.as_bstr();
            let linked = farms.iter().find(|farm| self.own.look(farm, name) == Look::Hit);
            let says = linked.and_then(|farm| farm.name.as_ref());
            let says = says.map(|dir| BString::from([dir.as_slice(), name].concat()));
            let verdict = match (&says, self.plain(name)) {
                // In the farm of a whole closure, the object's own run path may lack the file.
                (Some(_), None) => Verdict::True,
                (Some(_), Some(_)) => self.compare(name, says),
                (None, Some(is)) if is.dir > 0 && !is_of_closure => {
                    farm::link(self.fs, &self.own, name).ok()?;
                    Verdict::Missing(is.path)
                }
                (None, _) => return None,
            };
            Some(Checked { strategy: Strategy::Farm, needed: name.to_owned(), verdict })
        };
        self.names.iter().filter_map(check).collect()
    }

    fn package_cache(&self, subject: &Subject, settings: &Settings) -> Option<LoaderCache> {
        if !own::has_run_path_entry(&subject.view) {
            return None;
        }
        let root = settings.stores.package_of(self.path.as_ref())?;
        let bytes: Arc<[u8]> = self.fs.read(ldcache::path_in(root).as_ref()).ok()?;
        LoaderCache::parse_for(bytes, &subject.view.ident)
    }

    fn cache(&self, cache: &LoaderCache, flags: i32) -> Vec<Checked> {
        let check = |name: &BString| {
            let mut entries = cache.entries();
            let entry = entries.find(|e| e.soname == name.as_bstr() && e.flags == flags)?;
            let says = self.own.is_fit(entry.path).then(|| entry.path.to_owned());
            let verdict = match self.compare(name.as_ref(), says) {
                Verdict::True => {
                    self.skipped(name.as_ref(), |_| false).map_or(Verdict::True, Verdict::Skips)
                }
                other => other,
            };
            Some(Checked { strategy: Strategy::Ldcache, needed: name.clone(), verdict })
        };
        self.names.iter().filter_map(check).collect()
    }
}

impl OwnPath<'_> {
    /// Returns true if the loader would load a file as a library.
    fn is_fit(&self, path: &BStr) -> bool {
        let file = self.fs.open(path);
        file.is_ok_and(|file| glibc::fitness(&file, &self.view.ident) == glibc::Fitness::Good)
    }
}
