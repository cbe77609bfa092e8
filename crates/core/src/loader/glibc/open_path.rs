//! The walk over the directories of one search source: `open_path` and `open_verify` of glibc's
//! `elf/dl-load.c`.

use std::sync::Arc;

use bstr::{BStr, BString};

use super::dirs::{PathList, Status};
use super::run_path::continues_after;
use super::verify::{self, Verdict};
use super::{Ended, Process};
use crate::fs::{Errno, FileKind, OpenedFile};
use crate::loader::GlibcVersion;
use crate::loader::load::Refusal;
use crate::probe::{Call, Outcome, SearchSource};

/// A file that a search found, and the path it was opened by.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) file: Arc<OpenedFile>,
    pub(super) path: BString,
    pub(super) source: SearchSource,
}

/// The result of one step of a search.
pub(super) enum Step {
    Found(Found),
    /// `fd` is -1: the next search source is tried.
    NotHere,
    /// The loader raises an error.
    Refused(Refusal),
}

impl Step {
    pub(super) fn is_not_here(&self) -> bool {
        matches!(self, Step::NotHere)
    }
}

/// One lookup on its way through the search sources.
pub(super) struct Search<'n> {
    /// Index of the resolution.
    pub(super) resolution: usize,
    /// The name to search for, its DSTs expanded.
    pub(super) name: &'n BStr,
    /// `__RTLD_SECURE`: a preload or an audit module. In secure-execution mode only set-uid
    /// files are accepted.
    pub(super) secure: bool,
}

/// One subdirectory of one search directory, from [`super::dirs::Dirs::subdirectory`].
#[derive(Clone, Copy)]
struct Subdirectory {
    /// Index of the search directory.
    dir: usize,
    /// Index of the hwcaps subdirectory.
    cap: usize,
    /// Its position among the subdirectories that are still tried.
    at: usize,
    status: Status,
}

impl Process<'_> {
    /// `open_path`: tries each directory with its hwcaps subdirectories.
    pub(super) fn open_path(
        &mut self,
        search: &Search<'_>,
        dirs: &PathList,
        source: SearchSource,
    ) -> Result<Step, Ended> {
        let mut from = 0;
        while let Some((position, dir)) = dirs.next(from) {
            let mut at = 0;
            while let Some((cap, status)) = self.dirs.subdirectory(dir, at) {
                match self.try_candidate(search, Subdirectory { dir, cap, at, status }, source)? {
                    (Step::NotHere, true) => at += 1,
                    // An absent subdirectory is removed, and the next one moves to its position.
                    (Step::NotHere, false) => self.dirs.remove_absent(dir, at),
                    (end, _) => return Ok(end),
                }
            }
            // `here_any` is false: neither the directory nor a subdirectory of it exists.
            if at == 0 {
                dirs.leave_out_next(from);
                continue;
            }
            // In a directory that exists, an errno other than ENOENT and EACCES ends the
            // source, because the file is there and something is wrong with it.
            if !continues_after(self.errno, Some(self.version.minor)) {
                return Ok(Step::NotHere);
            }
            from = position + 1;
        }
        Ok(Step::NotHere)
    }

    /// Opens one name in one subdirectory of one directory, and makes the `stat` after the first
    /// miss in it. The flag is false if the `stat` shows that the subdirectory does not exist.
    fn try_candidate(
        &mut self,
        search: &Search<'_>,
        subdirectory: Subdirectory,
        source: SearchSource,
    ) -> Result<(Step, bool), Ended> {
        let Subdirectory { dir, cap, at, status } = subdirectory;
        let dir_len = self.dirs.list[dir].name.len();
        // The buffer is moved out, because `open_verify` borrows the whole process.
        let buffer = std::mem::take(&mut self.candidate);
        let mut path = self.subdirectory_path(buffer, dir, cap);
        path.extend_from_slice(search.name);
        let step = self.open_verify(search, path.as_ref(), dir_len, source);
        self.candidate = path;
        let step = step?;
        match step {
            // `_dl_signal_error` leaves `open_path` at once, before the status of the directory is
            // set.
            Step::Refused(_) => {}
            Step::Found(ref found) => {
                // A file that opened proves that the directory exists: glibc makes no `stat` there
                // later.
                self.dirs.mark_existing(dir, at);
                // A set-id program takes a preload only if that file is set-uid as well. The
                // loader ignores any other file as if its open had failed.
                // glibc makes this `fstat` on the open file, so that the file cannot be replaced in
                // between.
                if search.secure && self.environment.secure && found.file.mode & 0o4000 == 0 {
                    self.errno = Errno::NOENT;
                    return Ok((Step::NotHere, true));
                }
            }
            Step::NotHere if status == Status::Existing => {}
            // `this_dir->status[cnt] == unknown`: the first miss here costs a `stat`.
            Step::NotHere => {
                // The exception of `open_path` for audit modules (`l_auditing`) has no effect at a
                // start: `load_audit_module` sets the flag after the module and its dependencies
                // are loaded.
                let exists = self.stat_directory(search, subdirectory, source)?;
                if exists {
                    self.dirs.mark_existing(dir, at);
                }
                return Ok((step, exists));
            }
        }
        Ok((step, true))
    }

    /// Writes the path of a subdirectory, with the slash at its end, into `path`.
    fn subdirectory_path(&self, mut path: BString, dir: usize, cap: usize) -> BString {
        path.clear();
        path.extend_from_slice(&self.dirs.list[dir].name);
        path.extend_from_slice(&self.dirs.subdirectories[cap]);
        path
    }

    /// Makes the `stat` of `open_path` that finds out whether a directory exists. Up to glibc
    /// 2.37 its path has no trailing slash, so that the root directory becomes the empty string.
    fn stat_directory(
        &mut self,
        search: &Search<'_>,
        Subdirectory { dir, cap, .. }: Subdirectory,
        source: SearchSource,
    ) -> Result<bool, Ended> {
        let dir_len = self.dirs.list[dir].name.len();
        let mut path = self.subdirectory_path(BString::default(), dir, cap);
        if self.version < STAT_WITH_SLASH {
            path.pop();
        }
        let (exists, outcome) = match self.fs.stat(path.as_ref()) {
            Ok(FileKind::Directory) => (true, Outcome::Hit),
            // `S_ISDIR` is false: errno keeps the value of the failed open.
            Ok(_) => (false, Outcome::NoDirectory),
            // `open_path` reads errno after this `stat`, which replaces the errno of the failed
            // open.
            Err(errno) => {
                self.errno = errno;
                (false, errno.into())
            }
        };
        self.probe(search.resolution, (source, Call::Stat, outcome), &path, dir_len)?;
        Ok(exists)
    }

    /// `open_verify`: opens one path and checks the file.
    pub(super) fn open_verify(
        &mut self,
        search: &Search<'_>,
        path: &BStr,
        dir_len: usize,
        source: SearchSource,
    ) -> Result<Step, Ended> {
        let (outcome, step) = match self.fs.open(path) {
            // `open_path` reads this errno after the last hwcaps subdirectory of a directory.
            Err(errno) => {
                self.errno = errno;
                (Outcome::from(errno), Step::NotHere)
            }
            Ok(file) => self.verify(file, path, source),
        };
        // The probe is added before a `stat` that may follow, so that the log has the order of the
        // calls.
        self.probe(search.resolution, (source, Call::Open, outcome), path, dir_len)?;
        Ok(step)
    }

    /// Checks a file that opened.
    fn verify(
        &mut self,
        file: Arc<OpenedFile>,
        path: &BStr,
        source: SearchSource,
    ) -> (Outcome, Step) {
        // `open_verify` clears errno before it reads the header.
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

/// The first release whose directory `stat` keeps the trailing slash (bug 30435).
const STAT_WITH_SLASH: GlibcVersion = GlibcVersion { major: 2, minor: 38 };
