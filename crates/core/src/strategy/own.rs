//! The answers of an object's own run path. They hold in every program that loads the object, because
//! each search starts with this run path.
//!
//! `DT_RUNPATH` is searched for its object only. The objects that an object loads inherit its
//! `DT_RPATH`, but an object's own `DT_RPATH` is searched before every inherited one. A loaded object
//! with the name answers before either.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::farm_place::FARMS;
use super::plan::FindingKind;
use super::settings::Settings;
use crate::closure::{Subject, SubjectKind};
use crate::elf::ObjectView;
use crate::fs::{Errno, FileSystem};
use crate::loader::glibc;
use crate::loader::glibc::run_path::{self, RunPath, fixed_dir, fixed_path};
use crate::path;
use crate::search::dst;
use crate::search::hwcaps::arch::Arch;
use crate::search::hwcaps::variants::Variants;

/// The run path of one object, element by element.
pub(super) struct OwnPath<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) view: Arc<ObjectView>,
    place: Place<'a>,
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

/// The result of the search for one needed string in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The directory has the file.
    Hit,
    /// The search continues.
    Nothing,
    /// The loader's search ends here without an answer.
    Ends(FindingKind),
}

impl<'a> OwnPath<'a> {
    /// Parses the run path of the object at `path`, links resolved. It is empty if there is none.
    pub(super) fn new(
        fs: &'a dyn FileSystem,
        path: &BStr,
        subject: &Subject,
        settings: &'a Settings,
    ) -> Self {
        let is_program = matches!(subject.kind, SubjectKind::Program { .. });
        let whole = RunPath::of(&subject.view).map(|path| path.value).unwrap_or_default();
        let place = Place { fs, settings, origin: glibc::dirname(path), is_program };
        let mut dirs: Vec<OwnDir> = Vec::new();
        for element in whole.split(|&byte| byte == b':') {
            let dir = place.dir(element.into(), &subject.view);
            let has_token = dst::has_token(&dir.written);
            let is_known = |known: &OwnDir| match &dir.name {
                Some(name) => {
                    known.name.as_ref() == Some(name) && dst::has_token(&known.written) == has_token
                }
                None => known.written == dir.written,
            };
            // `fillin_rpath` lists each directory once. An element with `$ORIGIN` and the same
            // directory without it are two: they differ if a link leads to the object.
            if !whole.is_empty() && !dirs.iter().any(is_known) {
                dirs.push(dir);
            }
        }
        Self { fs, view: Arc::clone(&subject.view), place, dirs }
    }

    /// Parses an element as if it were in the run path.
    pub(super) fn dir(&self, element: &BStr) -> OwnDir {
        self.place.dir(element, &self.view)
    }

    /// Expands the DSTs of an exact answer. Returns `None` if the result is not absolute.
    pub(super) fn expand(&self, path: &BStr) -> Option<BString> {
        fixed_path(path, self.place.origin.as_ref())
    }

    /// Searches one directory for a needed string, but not its hwcaps subdirectories.
    pub(super) fn look(&self, dir: &OwnDir, needed: &BStr) -> Look {
        let Some(name) = &dir.name else { return Look::Nothing };
        let minor = self.place.settings.glibc_minor;
        let candidate = || BString::from([name.as_slice(), needed].concat());
        let unreadable = |errno| FindingKind::Unreadable { path: candidate(), errno };
        match run_path::look(self.fs, name.as_ref(), needed, &self.view.ident, minor) {
            run_path::Look::Found(_) => Look::Hit,
            // musl ends its search at the first file that opens.
            run_path::Look::PassedOver if self.view.is_for_musl() => {
                Look::Ends(FindingKind::GivesUp(candidate()))
            }
            run_path::Look::Absent | run_path::Look::PassedOver => Look::Nothing,
            // Another user may open this file. A plan must not depend on the user who makes it.
            run_path::Look::Denied => Look::Ends(unreadable(Errno::ACCES)),
            run_path::Look::EndsSource(errno) => Look::Ends(unreadable(errno)),
            run_path::Look::Refused => Look::Ends(FindingKind::GivesUp(candidate())),
        }
    }

    /// Returns the path of a needed string in the first directory that has it, the directory, and the
    /// directories before it.
    pub(super) fn hit(&self, needed: &BStr) -> Result<(BString, &OwnDir, &[OwnDir]), FindingKind> {
        for (at, dir) in self.dirs.iter().enumerate() {
            match (self.look(dir, needed), &dir.name) {
                (Look::Ends(what), _) => return Err(what),
                (Look::Hit, Some(name)) => {
                    let path = [name.as_slice(), needed].concat();
                    return Ok((path.into(), dir, &self.dirs[..at]));
                }
                _ => {}
            }
        }
        Err(FindingKind::NotByRunPath)
    }

    /// Returns the path of the file that the plain search along the run path finds, and the position
    /// of its directory. Hwcaps subdirectories are left out.
    pub(super) fn answer(&self, needed: &BStr) -> Option<(usize, BString)> {
        for (at, dir) in self.dirs.iter().enumerate() {
            match self.look(dir, needed) {
                Look::Hit => {
                    let name = dir.name.as_ref()?;
                    return Some((at, [name.as_slice(), needed].concat().into()));
                }
                // `open_path` continues after EACCES.
                Look::Nothing | Look::Ends(FindingKind::Unreadable { errno: Errno::ACCES, .. }) => {
                }
                Look::Ends(_) => return None,
            }
        }
        None
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
    Arch::of(&view.ident).levels().iter().any(|level| {
        let parts = [dir, b"glibc-hwcaps/", level.name.as_bytes(), b"/", name];
        fs.stat(BStr::new(&parts.concat())).is_ok()
    })
}

/// The position of an object.
struct Place<'a> {
    fs: &'a dyn FileSystem,
    settings: &'a Settings,
    origin: BString,
    is_program: bool,
}

impl Place<'_> {
    fn dir(&self, element: &BStr, view: &ObjectView) -> OwnDir {
        let written = path::without_end_slashes(element).to_owned();
        let Some(name) = fixed_dir(written.as_ref(), self.origin.as_ref()) else {
            return OwnDir { written, name: None, standing: Standing::Searched };
        };
        let standing = self.standing(written.as_ref(), name.as_ref(), view);
        OwnDir { written, name: Some(name), standing }
    }

    fn standing(&self, written: &BStr, name: &BStr, view: &ObjectView) -> Standing {
        let stores = &self.settings.stores;
        let Some(package) = stores.package_of_dir(self.fs, name) else {
            return Standing::Searched;
        };
        // The CPU decides which variant is loaded, so that no answer is exact.
        let variants = || Variants::of(self.fs, name, &view.ident, self.settings.glibc_minor);
        if !view.is_for_musl() && variants().any() {
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
