//! Walking one search source's directories: `open_path` of glibc's `elf/dl-load.c`.

use std::sync::Arc;

use bstr::{BStr, BString};

use super::dirs::{PathList, Status};
use super::verify::{self, Verdict};
use super::{Ended, Process};
use crate::fs::{Errno, FileKind, OpenedFile};
use crate::loader::GlibcVersion;
use crate::loader::load::Refusal;
use crate::probe::{Call, Outcome, SearchSource};

/// A file that a search found, under the path the loader will know it by.
pub(super) struct Found {
    pub(super) file: Arc<OpenedFile>,
    pub(super) path: BString,
    pub(super) source: SearchSource,
}

/// What a step of a search came to.
pub(super) enum Step {
    Found(Found),
    /// Not here; the next search source is tried.
    NotHere,
    /// The loader raises an error.
    Refused(Refusal),
}

/// One question on its way through the search sources.
pub(super) struct Search<'n> {
    /// Index of the resolution.
    pub(super) question: usize,
    /// The string looked for, tokens replaced.
    pub(super) name: &'n BStr,
    /// `__RTLD_SECURE`: preloads and audit modules, which in secure-execution mode
    /// must be set-uid files.
    pub(super) secure: bool,
}

impl Process<'_> {
    /// `open_path`: each directory with its hwcaps subdirectories.
    pub(super) fn open_path(
        &mut self,
        search: &Search<'_>,
        dirs: &PathList,
        source: SearchSource,
    ) -> Result<Step, Ended> {
        for &dir in dirs.iter() {
            let mut here_any = false;
            for cap in 0..self.dirs.subdirectories.len() {
                if self.dirs.list[dir].status[cap] == Status::Nonexisting {
                    continue;
                }
                match self.try_candidate(search, dir, cap, source)? {
                    Step::NotHere => {}
                    end => return Ok(end),
                }
                here_any |= self.dirs.list[dir].status[cap] != Status::Nonexisting;
            }
            if here_any && !self.search_goes_on() {
                return Ok(Step::NotHere);
            }
        }
        Ok(Step::NotHere)
    }

    /// Whether the errno that the last directory left lets the search of this source go
    /// on. `ENOTDIR` does so from glibc 2.39 on.
    fn search_goes_on(&self) -> bool {
        match self.errno {
            Errno::NOENT | Errno::ACCES => true,
            Errno::NOTDIR => self.version >= NOTDIR_GOES_ON,
            _ => false,
        }
    }

    /// One file name in one subdirectory of one directory, and the `stat` that its first
    /// miss costs.
    fn try_candidate(
        &mut self,
        search: &Search<'_>,
        dir: usize,
        cap: usize,
        source: SearchSource,
    ) -> Result<Step, Ended> {
        let entry = &self.dirs.list[dir];
        let dir_len = entry.name.len();
        let mut path = std::mem::take(&mut self.candidate);
        path.clear();
        path.extend_from_slice(&entry.name);
        path.extend_from_slice(&self.dirs.subdirectories[cap]);
        let folder_len = path.len();
        path.extend_from_slice(search.name);
        let step = self.open_verify(search, path.as_ref(), dir_len, source);
        self.candidate = path;
        let step = step?;
        match step {
            Step::Refused(_) => return Ok(step),
            Step::Found(ref found) => {
                let status = &mut self.dirs.list[dir].status[cap];
                if *status == Status::Unknown {
                    *status = Status::Existing;
                }
                if search.secure && self.environment.secure && found.file.mode & 0o4000 == 0 {
                    self.errno = Errno::NOENT;
                    return Ok(Step::NotHere);
                }
            }
            Step::NotHere => {
                if self.dirs.list[dir].status[cap] == Status::Unknown {
                    self.stat_directory(search, dir, cap, folder_len, source)?;
                }
            }
        }
        Ok(step)
    }

    /// The `stat` that tells whether a directory is there at all. Up to glibc 2.37 its
    /// path has no trailing slash, which makes the root directory an empty string.
    fn stat_directory(
        &mut self,
        search: &Search<'_>,
        dir: usize,
        cap: usize,
        folder_len: usize,
        source: SearchSource,
    ) -> Result<(), Ended> {
        let entry = &self.dirs.list[dir];
        let dir_len = entry.name.len();
        let mut folder = entry.name.clone();
        folder.extend_from_slice(&self.dirs.subdirectories[cap]);
        folder.truncate(folder_len);
        if self.version < STAT_WITH_SLASH {
            folder.pop();
        }
        let (status, outcome) = match self.fs.stat(folder.as_ref()) {
            Ok(FileKind::Directory) => (Status::Existing, Outcome::Hit),
            Ok(_) => (Status::Nonexisting, Outcome::NoDirectory),
            Err(errno) => {
                self.errno = errno;
                (Status::Nonexisting, errno.into())
            }
        };
        self.dirs.list[dir].status[cap] = status;
        self.probe(search.question, (source, Call::Stat, outcome), &folder, dir_len)
    }

    /// `open_verify`: opens one path and judges what is there.
    pub(super) fn open_verify(
        &mut self,
        search: &Search<'_>,
        path: &BStr,
        dir_len: usize,
        source: SearchSource,
    ) -> Result<Step, Ended> {
        let (outcome, step) = match self.fs.open(path) {
            Err(errno) => {
                self.errno = errno;
                (Outcome::from(errno), Step::NotHere)
            }
            Ok(file) => self.judge(file, path, source),
        };
        self.probe(search.question, (source, Call::Open, outcome), path, dir_len)?;
        Ok(step)
    }

    fn judge(
        &mut self,
        file: Arc<OpenedFile>,
        path: &BStr,
        source: SearchSource,
    ) -> (Outcome, Step) {
        self.errno = Errno(0);
        match verify::open_verify(&file, &self.start.view.ident) {
            Verdict::Good => {
                let path = path.to_owned();
                (Outcome::Hit, Step::Found(Found { file, path, source }))
            }
            Verdict::PassedOver(outcome) => {
                self.errno = verify::PASSED_OVER;
                (outcome, Step::NotHere)
            }
            Verdict::Refused(refusal) => {
                let outcome = match refusal {
                    Refusal::NotElf | Refusal::TooShort => Outcome::NotElf,
                    _ => Outcome::Refused,
                };
                (outcome, Step::Refused(refusal))
            }
        }
    }
}

/// The release from which `ENOTDIR` no longer ends the search of a path.
const NOTDIR_GOES_ON: GlibcVersion = GlibcVersion { major: 2, minor: 39 };
/// The release from which the directory `stat` keeps its trailing slash (bug 30435).
const STAT_WITH_SLASH: GlibcVersion = GlibcVersion { major: 2, minor: 38 };
