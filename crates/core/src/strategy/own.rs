//! The answers of an object's own run path. They hold in every program that loads the object, because
//! each search starts with this run path.
//!
//! `DT_RUNPATH` is searched for its object only. The objects that an object loads inherit its
//! `DT_RPATH`, but an object's own `DT_RPATH` is searched before every inherited one. A loaded object
//! with the name answers before either.

use std::collections::BTreeMap;
use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::farm_place::FARMS;
use super::plan::FindingKind;
use super::settings::Settings;
use crate::closure::{Subject, SubjectKind};
use crate::elf::ObjectView;
use crate::fs::{Errno, FileSystem};
use crate::loader::glibc::run_path::{Look, RunPath, fixed_dir, fixed_path, look};
use crate::loader::load::{Load, LoadedObject, Reason};
use crate::path;
use crate::search::dst;
use crate::search::hwcaps::arch::Arch;
use crate::search::hwcaps::variants::Variants;

/// The run path of one object, element by element.
pub(super) struct OwnPath<'a> {
    pub(super) fs: &'a dyn FileSystem,
    settings: &'a Settings,
    pub(super) view: Arc<ObjectView>,
    origin: BString,
    is_program: bool,
    pub(super) dirs: Vec<OwnDir>,
}

/// One element of a run path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnDir {
    /// The element as in the run path, without slashes at its end; empty for the current directory.
    pub(super) written: BString,
    /// The directory, ending in a slash. `None` if it depends on more than the object.
    pub(super) name: Option<BString>,
    /// The role of the element in a plan.
    pub(super) standing: Standing,
}

impl OwnDir {
    /// Returns true for a farm made by becalm.
    pub(super) fn is_farm(&self, settings: &Settings) -> bool {
        let Some(name) = &self.name else { return false };
        let Some(root) = settings.stores.package_of(name.as_ref()) else { return false };
        name[root.len()..].contains_str(["/", FARMS, "/"].concat())
    }
}

/// The role of an element of a run path in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Standing {
    /// The directory may change, or has variants of its libraries for some CPUs. The loader must
    /// search it.
    Searched,
    /// The directory cannot change. Its answers are exact, and it is skipped if it has none.
    Fixed,
    /// The directory moves with the object (`$ORIGIN` within the package). Its answers are exact. It
    /// is not skipped, because a library that is found by another path has another directory here.
    Moves,
}

impl<'a> OwnPath<'a> {
    /// Parses the run path of an object. It is empty if there is none.
    pub(super) fn new(fs: &'a dyn FileSystem, subject: &Subject, settings: &'a Settings) -> Self {
        let real = super::real_path(fs, subject.path.as_ref());
        let is_program = subject.kind == SubjectKind::Program;
        let (view, origin) = (Arc::clone(&subject.view), path::dir(&real).to_owned());
        let mut own = Self { fs, settings, view, origin, is_program, dirs: Vec::new() };
        let whole = RunPath::of(&subject.view).into_iter();
        for element in whole.flat_map(|path| path.value.split(|&byte| byte == b':')) {
            let dir = own.dir(element.into());
            let has_token = dst::has_token(&dir.written);
            let is_known = |known: &OwnDir| match &dir.name {
                Some(name) => {
                    known.name.as_ref() == Some(name) && dst::has_token(&known.written) == has_token
                }
                None => known.written == dir.written,
            };
            // `fillin_rpath` lists each directory once. An element with `$ORIGIN` and the same
            // directory without it are two: they differ if a link leads to the object.
            if !own.dirs.iter().any(is_known) {
                own.dirs.push(dir);
            }
        }
        own
    }

    /// Parses an element as if it were in the run path.
    pub(super) fn dir(&self, element: &BStr) -> OwnDir {
        let written = path::without_end_slashes(element).to_owned();
        let name = fixed_dir(written.as_ref(), self.origin.as_ref());
        let standing = name.as_ref().map(|name| self.standing(written.as_ref(), name.as_ref()));
        OwnDir { written, name, standing: standing.unwrap_or(Standing::Searched) }
    }

    fn standing(&self, written: &BStr, name: &BStr) -> Standing {
        let stores = &self.settings.stores;
        let Some(package) = stores.package_of_dir(self.fs, name) else {
            return Standing::Searched;
        };
        // The CPU decides which variant is loaded, so that no answer is exact.
        let variants = || Variants::of(self.fs, name, &self.view.ident, self.settings.glibc_minor);
        if !self.view.is_for_musl() && variants().any() {
            return Standing::Searched;
        }
        if !dst::has_token(written) {
            return Standing::Fixed;
        }
        match stores.package_of(self.origin.as_ref()) {
            // The kernel resolves the links in a program's path, so its `$ORIGIN` is in the package.
            Some(own) if own == package && self.is_program => Standing::Fixed,
            Some(own) if own == package => Standing::Moves,
            _ => Standing::Searched,
        }
    }

    /// Expands the DSTs of an exact answer. Returns `None` if the result is not absolute.
    pub(super) fn expand(&self, path: &BStr) -> Option<BString> {
        fixed_path(path, self.origin.as_ref())
    }

    /// Searches one directory for a needed string, but not its hwcaps subdirectories. Returns the path
    /// of the file, or an error if the loader's search ends here without an answer.
    pub(super) fn look(&self, dir: &OwnDir, needed: &BStr) -> Result<Option<BString>, FindingKind> {
        let Some(name) = &dir.name else { return Ok(None) };
        let path = BString::from([name.as_slice(), needed].concat());
        match look(self.fs, name.as_ref(), needed, &self.view.ident, self.settings.glibc_minor) {
            Look::Found(_) => Ok(Some(path)),
            // musl ends its search at the first file that opens.
            Look::PassedOver if self.view.is_for_musl() => Err(FindingKind::GivesUp(path)),
            Look::Absent | Look::PassedOver => Ok(None),
            // Another user may open this file. A plan must not depend on the user who makes it.
            Look::Denied => Err(FindingKind::Unreadable { path, errno: Errno::ACCES }),
            Look::EndsSource(errno) => Err(FindingKind::Unreadable { path, errno }),
            Look::Refused => Err(FindingKind::GivesUp(path)),
        }
    }

    /// Returns the position of the first directory that has a needed string, and the path of the file.
    pub(super) fn hit(&self, needed: &BStr) -> Result<(usize, BString), FindingKind> {
        self.search(needed, |_| false)
    }

    /// Returns the result of the plain search along the run path, as [`Self::hit`]. Hwcaps
    /// subdirectories are left out.
    pub(super) fn answer(&self, needed: &BStr) -> Option<(usize, BString)> {
        // `open_path` continues after EACCES.
        let is_denied =
            |what: &_| matches!(what, FindingKind::Unreadable { errno: Errno::ACCES, .. });
        self.search(needed, is_denied).ok()
    }

    fn search(
        &self,
        needed: &BStr,
        continues: impl Fn(&FindingKind) -> bool,
    ) -> Result<(usize, BString), FindingKind> {
        for (at, dir) in self.dirs.iter().enumerate() {
            match self.look(dir, needed) {
                Ok(Some(path)) => return Ok((at, path)),
                Err(what) if !continues(&what) => return Err(what),
                _ => {}
            }
        }
        Err(FindingKind::NotByRunPath)
    }
}

/// Returns true if an object has a run path, which may be empty.
pub(super) fn has_run_path_entry(view: &ObjectView) -> bool {
    view.dynamic.as_ref().is_some_and(|d| d.run_path().is_some())
}

/// Returns true if the loader chooses the file by the CPU: it is in a `glibc-hwcaps` subdirectory, or
/// such a subdirectory has a file of the same name. `view` is an object that needs it; musl's loader
/// has no such subdirectories.
pub(super) fn is_variant(fs: &dyn FileSystem, view: &ObjectView, path: &BStr) -> bool {
    if view.is_for_musl() {
        return false;
    }
    if path.contains_str("/glibc-hwcaps/") {
        return true;
    }
    let (dir, name) = path::split(path);
    Arch::of(&view.ident).levels().iter().any(|(level, _)| {
        let parts = [dir, b"glibc-hwcaps/", level.as_bytes(), b"/", name];
        fs.stat(BStr::new(&parts.concat())).is_ok()
    })
}

/// Returns the needed strings that an object of a start searches for, each with the object that answers it.
pub(super) fn searched(
    load: &Load,
    object: usize,
) -> impl Iterator<Item = (&BString, Option<&LoadedObject>)> {
    let own = load.resolutions.iter().filter(move |it| {
        let is_of_object = it.needed_by == object && matches!(it.reason, Reason::Dependency(_));
        is_of_object && !it.needed.is_empty() && !it.needed.contains(&b'/')
    });
    own.map(|it| (&it.needed, it.answer.object().map(|at| &load.objects[at])))
}

/// Adds the answer of one object to those of others. A name that two objects answer differently, or one
/// without an answer, is left out whatever other objects find, so that their order has no effect. Returns
/// the reason if it is left out now. `conflict` returns one if two answers differ.
pub(super) fn agree<K: Ord, A>(
    answers: &mut BTreeMap<K, Result<A, FindingKind>>,
    key: K,
    found: Result<A, FindingKind>,
    conflict: impl Fn(&A, &A) -> Option<FindingKind>,
) -> Option<FindingKind> {
    let what = match (answers.get(&key), found) {
        (None, Ok(answer)) => {
            answers.insert(key, Ok(answer));
            return None;
        }
        (Some(Err(_)), _) => return None,
        (Some(Ok(one)), Ok(other)) => conflict(one, &other)?,
        (None | Some(Ok(_)), Err(what)) => what,
    };
    answers.insert(key, Err(what.clone()));
    Some(what)
}

/// Returns the names that an object searches for along its own run path, sorted, each once: its
/// dependency entries, the sonames of its `.note.dlopen`, and `also`. Empty names are left out, and so
/// are names with a slash or a token, which are paths.
pub(super) fn names(view: &ObjectView, also: &[BString]) -> Vec<BString> {
    let mut names: Vec<BString> = view
        .lookups()
        .chain(also.iter().cloned())
        .filter(|name| !name.is_empty() && !name.contains(&b'/') && !dst::has_token(name))
        .collect();
    names.sort();
    names.dedup();
    names
}
