//! Walking one search source's directories: `open_path` of glibc's `elf/dl-load.c`.

use std::sync::Arc;

use bstr::{BStr, BString};

use super::dirs::{PathList, Status};
use super::run_path::goes_on;
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
    pub(super) resolution: usize,
    /// The string looked for, tokens replaced.
    pub(super) name: &'n BStr,
    /// `__RTLD_SECURE`: preloads and audit modules, which in secure-execution mode
    /// must be set-uid files.
    pub(super) secure: bool,
}

/// One subdirectory of one search directory, as [`super::dirs::Dirs::folder`] gave it.
#[derive(Clone, Copy)]
struct Folder {
    /// Index of the search directory.
    dir: usize,
    /// Index of the hwcaps subdirectory.
    cap: usize,
    /// Its position among those still tried.
    at: usize,
    status: Status,
}

impl Process<'_> {
    /// `open_path`: each directory with its hwcaps subdirectories.
    pub(super) fn open_path(
        &mut self,
        search: &Search<'_>,
        dirs: &PathList,
        source: SearchSource,
    ) -> Result<Step, Ended> {
        let mut from = 0;
        while let Some((position, dir)) = dirs.next(from) {
            // Where a subdirectory turns out not to exist, the next takes its place.
            let mut at = 0;
            while let Some((cap, status)) = self.dirs.folder(dir, at) {
                match self.try_candidate(search, Folder { dir, cap, at, status }, source)? {
                    (Step::NotHere, true) => at += 1,
                    (Step::NotHere, false) => self.dirs.gone(dir, at),
                    (end, _) => return Ok(end),
                }
            }
            if at == 0 {
                dirs.leave_out_next(from);
                continue;
            }
            if !goes_on(self.errno, Some(self.version.minor)) {
                return Ok(Step::NotHere);
            }
            from = position + 1;
        }
        Ok(Step::NotHere)
    }

    /// One file name in one subdirectory of one directory, and the `stat` that its first
    /// miss costs. False where that says that the subdirectory does not exist.
    fn try_candidate(
        &mut self,
        search: &Search<'_>,
        folder: Folder,
        source: SearchSource,
    ) -> Result<(Step, bool), Ended> {
        let Folder { dir, cap, at, status } = folder;
        let dir_len = self.dirs.list[dir].name.len();
        let room = std::mem::take(&mut self.candidate);
        let mut path = self.folder_path(room, dir, cap);
        path.extend_from_slice(search.name);
        let step = self.open_verify(search, path.as_ref(), dir_len, source);
        self.candidate = path;
        let step = step?;
        match step {
            Step::Refused(_) => {}
            Step::Found(ref found) => {
                self.dirs.found(dir, at);
                if search.secure && self.environment.secure && found.file.mode & 0o4000 == 0 {
                    self.errno = Errno::NOENT;
                    return Ok((Step::NotHere, true));
                }
            }
            Step::NotHere if status == Status::Existing => {}
            Step::NotHere => {
                let exists = self.stat_directory(search, folder, source)?;
                if exists {
                    self.dirs.found(dir, at);
                }
                return Ok((step, exists));
            }
        }
        Ok((step, true))
    }

    /// The path of a subdirectory, up to and with the slash at its end, put where there
    /// is `room` already.
    fn folder_path(&self, room: BString, dir: usize, cap: usize) -> BString {
        let mut path = room;
        path.clear();
        path.extend_from_slice(&self.dirs.list[dir].name);
        path.extend_from_slice(&self.dirs.subdirectories[cap]);
        path
    }

    /// The `stat` that tells whether a directory is there at all. Up to glibc 2.37 its
    /// path has no trailing slash, which makes the root directory an empty string.
    fn stat_directory(
        &mut self,
        search: &Search<'_>,
        Folder { dir, cap, .. }: Folder,
        source: SearchSource,
    ) -> Result<bool, Ended> {
        let dir_len = self.dirs.list[dir].name.len();
        let mut folder = self.folder_path(BString::default(), dir, cap);
        if self.version < STAT_WITH_SLASH {
            folder.pop();
        }
        let (exists, outcome) = match self.fs.stat(folder.as_ref()) {
            Ok(FileKind::Directory) => (true, Outcome::Hit),
            Ok(_) => (false, Outcome::NoDirectory),
            Err(errno) => {
                self.errno = errno;
                (false, errno.into())
            }
        };
        self.probe(search.resolution, (source, Call::Stat, outcome), &folder, dir_len)?;
        Ok(exists)
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
        self.probe(search.resolution, (source, Call::Open, outcome), path, dir_len)?;
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

/// The release from which the directory `stat` keeps its trailing slash (bug 30435).
const STAT_WITH_SLASH: GlibcVersion = GlibcVersion { major: 2, minor: 38 };
