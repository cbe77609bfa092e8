//! An object's own run path, and the answers it alone gives: the same in whatever program the
//! object is loaded into, because each search starts with it.
//!
//! `DT_RUNPATH` is searched for the object alone. `DT_RPATH` is inherited by what the object
//! loads, but the object's own comes before every inherited one, so that its answers are the
//! object's own as well. What is already loaded answers by name before either.

use bstr::{BStr, BString, ByteSlice};

use super::settings::Settings;
use crate::closure::{Subject, SubjectKind};
use crate::elf::{Ident, ObjectView, dlopen_entries};
use crate::fs::{Errno, FileSystem};
use crate::loader::glibc;
use crate::loader::glibc::run_path::{self, RunPath, fixed_dir, fixed_path};
use crate::search::dst;
use crate::search::hwcaps::arch::Arch;
use crate::search::hwcaps::variants::Variants;

/// The run path of one object, element by element.
pub(super) struct OwnPath<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) host: Ident,
    place: Place<'a>,
    pub(super) dirs: Vec<OwnDir>,
}

/// One element of a run path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnDir {
    /// As the run path has it, without slashes at its end; empty for the current directory.
    pub(super) written: BString,
    /// The directory, ending in a slash; `None` where it depends on more than the object.
    pub(super) name: Option<BString>,
    /// What may be made of it.
    pub(super) standing: Standing,
}

/// What a carrier may make of an element of a run path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Standing {
    /// It may change, or holds variants of its libraries for some CPUs: always searched.
    Searched,
    /// It cannot change: answers are exact, and it is skipped where it has none.
    Fixed,
    /// It moves with the object (`$ORIGIN` within the package): answers are exact, but a
    /// library that is reached by another path has another directory there, so that it is not
    /// skipped.
    Moves,
}

/// What is found for one needed string in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It answers.
    Hit,
    /// The search goes on.
    Nothing,
    /// The loader's search ends here without an answer.
    Ends(Ended),
}

/// Why a search ends without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Refused(BString),
    Errno(BString, Errno),
}

impl<'a> OwnPath<'a> {
    /// The run path of an object that lies at `path`, links resolved; empty where it has none.
    pub(super) fn new(
        fs: &'a dyn FileSystem,
        path: &BStr,
        subject: &Subject,
        settings: &'a Settings,
    ) -> Self {
        let is_program = matches!(subject.kind, SubjectKind::Program { .. });
        let whole = run_path(&subject.view).map(|path| path.value).unwrap_or_default();
        let place = Place { fs, settings, origin: glibc::dirname(path), is_program };
        let host = subject.view.ident;
        let mut dirs: Vec<OwnDir> = Vec::new();
        for element in whole.split(|&byte| byte == b':') {
            let dir = place.dir(element.into(), &host);
            let has_token = dst::has_token(&dir.written);
            let is_known = |known: &OwnDir| match &dir.name {
                Some(name) => {
                    known.name.as_ref() == Some(name) && dst::has_token(&known.written) == has_token
                }
                None => known.written == dir.written,
            };
            // The loader lists each directory once. Where `$ORIGIN` is another directory, by
            // a link, it is another than one that is written out.
            if !whole.is_empty() && !dirs.iter().any(is_known) {
                dirs.push(dir);
            }
        }
        Self { fs, host, place, dirs }
    }

    /// An element as if the run path had it.
    pub(super) fn dir(&self, element: &BStr) -> OwnDir {
        self.place.dir(element, &self.host)
    }

    /// An exact answer with its tokens replaced; `None` where it is not absolute then.
    pub(super) fn expand(&self, path: &BStr) -> Option<BString> {
        fixed_path(path, self.place.origin.as_ref())
    }

    /// Looks for a needed string in one directory, its hwcaps subdirectories left out.
    pub(super) fn look(&self, dir: &OwnDir, needed: &BStr) -> Look {
        let Some(name) = &dir.name else { return Look::Nothing };
        let minor = self.place.settings.glibc_minor;
        let candidate = || BString::from([name.as_slice(), needed].concat());
        match run_path::look(self.fs, name.as_ref(), needed, &self.host, minor) {
            run_path::Look::Found(_) => Look::Hit,
            run_path::Look::Absent | run_path::Look::PassedOver => Look::Nothing,
            run_path::Look::Denied => Look::Ends(Ended::Errno(candidate(), Errno::ACCES)),
            run_path::Look::EndsSource(errno) => Look::Ends(Ended::Errno(candidate(), errno)),
            run_path::Look::Refused => Look::Ends(Ended::Refused(candidate())),
        }
    }

    /// The file that the plain search of the run path finds, its path as the loader would
    /// know it, and the directory's place in the list. hwcaps subdirectories are left out.
    pub(super) fn answer(&self, needed: &BStr) -> Option<(usize, BString)> {
        for (at, dir) in self.dirs.iter().enumerate() {
            match self.look(dir, needed) {
                Look::Hit => {
                    let name = dir.name.as_ref()?;
                    return Some((at, [name.as_slice(), needed].concat().into()));
                }
                // The search of this user goes on past what only others may open.
                Look::Nothing | Look::Ends(Ended::Errno(_, Errno::ACCES)) => {}
                Look::Ends(_) => return None,
            }
        }
        None
    }
}

/// The run path that counts, if there is one.
pub(super) fn run_path(view: &ObjectView) -> Option<RunPath<'_>> {
    RunPath::of(view.dynamic.as_ref()?)
}

/// True where an object has a run path at all, if only an empty one.
pub(super) fn has_run_path_entry(view: &ObjectView) -> bool {
    view.dynamic.as_ref().is_some_and(|d| d.runpath.is_some() || d.rpath.is_some())
}

/// True where a file is one of several that the loader chooses from by the CPU: it lies in a
/// `glibc-hwcaps` subdirectory, or has a counterpart in one.
pub(super) fn is_variant(fs: &dyn FileSystem, host: &Ident, path: &BStr) -> bool {
    if path.contains_str("/glibc-hwcaps/") {
        return true;
    }
    let name = path.rfind_byte(b'/').map_or(0, |at| at + 1);
    Arch::of(host).levels().iter().any(|level| {
        let dir = &path.as_bytes()[..name];
        let parts = [dir, b"glibc-hwcaps/", level.name.as_bytes(), b"/", &path.as_bytes()[name..]];
        fs.stat(BStr::new(&parts.concat())).is_ok()
    })
}

/// Where an object lies.
struct Place<'a> {
    fs: &'a dyn FileSystem,
    settings: &'a Settings,
    origin: BString,
    is_program: bool,
}

impl Place<'_> {
    fn dir(&self, element: &BStr, host: &Ident) -> OwnDir {
        let written = match element.iter().rposition(|&byte| byte != b'/') {
            Some(last) => BString::from(&element[..=last]),
            None => element[..element.len().min(1)].into(),
        };
        let Some(name) = fixed_dir(written.as_ref(), self.origin.as_ref()) else {
            return OwnDir { written, name: None, standing: Standing::Searched };
        };
        let standing = self.standing(written.as_ref(), name.as_ref(), host);
        OwnDir { written, name: Some(name), standing }
    }

    fn standing(&self, written: &BStr, name: &BStr, host: &Ident) -> Standing {
        let stores = &self.settings.stores;
        let Some(package) = stores.package_of_dir(self.fs, name) else {
            return Standing::Searched;
        };
        if Variants::of(self.fs, name, host, self.settings.glibc_minor).any() {
            return Standing::Searched;
        }
        if !dst::has_token(written) {
            return Standing::Fixed;
        }
        match stores.package_of(self.origin.as_ref()) {
            Some(own) if own == package && self.is_program => Standing::Fixed,
            Some(own) if own == package => Standing::Moves,
            _ => Standing::Searched,
        }
    }
}

/// The names that an object looks for along its own run path, sorted, each once: its
/// dependency entries, what its `.note.dlopen` names, and `also`. A name with a slash or a
/// token is a path and left out, as is an empty one.
pub(super) fn names(view: &ObjectView, also: &[BString]) -> Vec<BString> {
    let dependencies = view.dynamic.iter().flat_map(|dynamic| &dynamic.dependencies);
    let opened = dlopen_entries(&view.notes.dlopen).into_iter().flat_map(|entry| entry.soname);
    let mut names: Vec<BString> = dependencies
        .map(|dependency| dependency.name.clone())
        .chain(opened.map(BString::from))
        .chain(also.iter().cloned())
        .filter(|name| !name.is_empty() && !name.contains(&b'/') && !dst::has_token(name))
        .collect();
    names.sort();
    names.dedup();
    names
}
