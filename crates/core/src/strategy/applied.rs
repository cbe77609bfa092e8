//! The applied answers of an object, and their comparison with the plain search.
//!
//! Every object is checked on its own against its own run path, without hwcaps subdirectories: a
//! directory that has them is a hint in every note.

use bstr::{BStr, BString};
use serde::Serialize;

use super::own::{self, OwnDir, OwnPath, Standing};
use super::settings::Settings;
use crate::closure::Subject;
use crate::fs::{FileId, FileSystem};
use crate::loader::glibc;
use crate::lossy::{lossy, lossy_option};

/// The result of comparing an answer with the plain search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The plain search gives the same.
    True,
    /// The plain search gives the same today. The answer skips a directory that may change.
    Skips {
        /// The directory.
        #[serde(serialize_with = "lossy")]
        says: BString,
    },
    /// The answer and the plain search lead to different files.
    Stale {
        /// The file of the answer, if it exists.
        #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
        says: Option<BString>,
        /// The file of the plain search, if it finds one.
        #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
        is: Option<BString>,
    },
    /// There is no answer, and the plain search finds a file.
    Missing {
        /// The file.
        #[serde(serialize_with = "lossy")]
        is: BString,
    },
    /// The object does not need it.
    Superfluous,
    /// The note cannot be read. A loader continues as if there were no note.
    Malformed {
        /// A description of the fault.
        says: String,
    },
}

impl Verdict {
    /// Returns true if the answer is wrong, is missing or cannot be read.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        matches!(self, Self::Stale { .. } | Self::Missing { .. } | Self::Malformed { .. })
    }
}

/// An object whose applied answers are compared.
pub struct Applied<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) path: BString,
    pub(super) subject: &'a Subject,
    pub(super) settings: &'a Settings,
    /// The run path of the plain search: without the farms of named stores.
    pub(super) own: OwnPath<'a>,
    /// The farms of named stores in the run path.
    pub(super) farms: Vec<OwnDir>,
    /// The names that the object searches for.
    pub(super) names: Vec<BString>,
}

impl<'a> Applied<'a> {
    pub(super) fn new(
        fs: &'a dyn FileSystem,
        subject: &'a Subject,
        settings: &'a Settings,
    ) -> Self {
        let path = super::real_path(fs, subject.path.as_ref());
        let mut own = OwnPath::new(fs, subject, settings);
        let farms = own.dirs.extract_if(.., |dir| dir.is_farm(settings)).collect();
        let names = own::names(&subject.view, &settings.dlopen);
        Self { fs, path, subject, settings, own, farms, names }
    }

    fn id(&self, path: &BString) -> Option<FileId> {
        self.fs.open(path.as_ref()).ok().map(|file| file.id)
    }

    /// Compares an answer that leads to `says`, or to no file, with the plain search.
    pub(super) fn compare(&self, needed: &BStr, says: Option<BString>) -> Verdict {
        match (says, self.own.answer(needed)) {
            // Two paths to one file are the same answer.
            (Some(says), Some((_, is))) if self.id(&says) == self.id(&is) => Verdict::True,
            (says, is) => Verdict::Stale { says, is: is.map(|(_, is)| is) },
        }
    }

    /// Compares an answer before which the loader searches only the selected directories.
    pub(super) fn compare_skipping(
        &self,
        needed: &BStr,
        says: Option<BString>,
        is_searched: impl Fn(&OwnDir) -> bool,
    ) -> Verdict {
        let verdict = self.compare(needed, says);
        let skipped = || {
            let (end, _) = self.own.answer(needed)?;
            let mut before = self.own.dirs[..end].iter();
            before.find(|dir| dir.standing != Standing::Fixed && !is_searched(dir))
        };
        match skipped() {
            Some(dir) if verdict == Verdict::True => Verdict::Skips { says: dir.written.clone() },
            _ => verdict,
        }
    }

    /// Returns true if the loader would load a file as a library.
    pub(super) fn is_fit(&self, path: &BStr) -> bool {
        let file = self.fs.open(path);
        file.is_ok_and(|file| glibc::fitness(&file, &self.own.view.ident) == glibc::Verdict::Good)
    }
}
