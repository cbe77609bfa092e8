//! The walk over the directories of one search source: `open_path` and `open_verify` of glibc's
//! `elf/dl-load.c`.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::Process;
use super::dirs::PathList;
use super::run_path::continues_after;
use super::verify::{self, Verdict};
use crate::fs::{Errno, FileKind, OpenedFile};
use crate::loader::GlibcVersion;
use crate::loader::load::{Answer, Ended, Found, Refusal, Role};
use crate::probe::{Call, Outcome, SearchSource};

/// One lookup: the parameters of `_dl_map_object`.
#[derive(Clone, Copy)]
pub(super) struct Request<'n> {
    /// The name to search for, its DSTs expanded.
    pub(super) name: &'n BStr,
    /// Index of the resolution.
    pub(super) resolution: usize,
    /// `loader`: the requester, whose run path is searched.
    pub(super) needed_by: usize,
    /// The role of the new object.
    pub(super) role: Role,
    /// `nsid`: the list of link maps for the new object.
    pub(super) namespace: usize,
}

impl Request<'_> {
    /// `__RTLD_SECURE`: a preload or an audit module. In secure-execution mode only set-uid files
    /// are accepted.
    pub(super) fn is_secure(self) -> bool {
        matches!(self.role, Role::Preload | Role::Audit)
    }
}

impl Process<'_> {
    /// `open_path`: tries each directory with its hwcaps subdirectories.
    pub(super) fn open_path(
        &mut self,
        request: Request<'_>,
        dirs: &PathList,
        source: SearchSource,
    ) -> Result<Option<Found>, Ended> {
        let mut from = 0;
        loop {
            let Some(position) = dirs.tried.borrow().range(from..).next().copied() else { break };
            let dir = dirs.dirs[position];
            let mut at = 0;
            while let Some((cap, exists)) = self.dirs.subdirectory(dir, at) {
                // `_dl_signal_error` leaves `open_path` at once, before the status of the directory
                // is set.
                let (found, exists) = self.try_candidate(request, (dir, cap, exists), source)?;
                // An absent subdirectory is removed, and the next one moves to its position.
                self.dirs.set_status(dir, at, exists);
                if found.is_some() {
                    return Ok(found);
                }
                at += usize::from(exists);
            }
            if at == 0 {
                // `here_any` is false: neither the directory nor a subdirectory of it exists.
                dirs.tried.borrow_mut().remove(&position);
            } else if !continues_after(self.errno, Some(self.version.minor)) {
                // In a directory that exists, an errno other than ENOENT and EACCES ends the
                // source, because the file is there and something is wrong with it.
                return Ok(None);
            }
            from = position + 1;
        }
        Ok(None)
    }

    /// Opens one name in one subdirectory of one directory, and makes the `stat` after the first
    /// miss in it. `exists` is true if the subdirectory is known to exist, and in the result, if it
    /// does.
    fn try_candidate(
        &mut self,
        request: Request<'_>,
        (dir, cap, exists): (usize, usize, bool),
        source: SearchSource,
    ) -> Result<(Option<Found>, bool), Ended> {
        let dir_len = self.dirs.list[dir].name.len();
        // The buffer is moved out, because `open_verify` borrows the whole process.
        let mut path = std::mem::take(&mut self.candidate);
        path.clear();
        path.extend_from_slice(&self.dirs.list[dir].name);
        path.extend_from_slice(&self.dirs.subdirectories[cap]);
        path.extend_from_slice(request.name);
        let found = self.open_verify(request, path.as_ref(), dir_len, source)?;
        let end = path.len() - request.name.len();
        path.truncate(end);
        // A file that opened proves that the directory exists: glibc makes no `stat` there later.
        // `this_dir->status[cnt] == unknown`: the first miss here costs a `stat`.
        // The exception of `open_path` for audit modules (`l_auditing`) has no effect at a start:
        // `load_audit_module` sets the flag after the module and its dependencies are loaded.
        let exists = exists
            || found.is_some()
            || self.stat_directory(request.resolution, &mut path, dir_len, source)?;
        self.candidate = path;
        // A set-id program takes a preload only if that file is set-uid as well. The loader ignores
        // any other file as if its open had failed.
        // glibc makes this `fstat` on the open file, so that the file cannot be replaced in between.
        let must_be_set_uid = request.is_secure() && self.environment.secure;
        if must_be_set_uid && found.as_ref().is_some_and(|found| found.file.mode & 0o4000 == 0) {
            self.errno = Errno::NOENT;
            return Ok((None, exists));
        }
        Ok((found, exists))
    }

    /// Makes the `stat` of `open_path` that finds out whether a directory exists. Up to glibc
    /// 2.37 its path has no trailing slash, so that the root directory becomes the empty string.
    fn stat_directory(
        &mut self,
        resolution: usize,
        path: &mut BString,
        dir_len: usize,
        source: SearchSource,
    ) -> Result<bool, Ended> {
        if self.version < STAT_WITH_SLASH {
            path.pop();
        }
        let outcome = match self.fs.stat(path.as_bstr()) {
            Ok(FileKind::Directory) => Outcome::Hit,
            // `S_ISDIR` is false: errno keeps the value of the failed open.
            Ok(_) => Outcome::NoDirectory,
            // `open_path` reads errno after this `stat`, which replaces the errno of the failed
            // open.
            Err(errno) => {
                self.errno = errno;
                errno.into()
            }
        };
        self.probe(resolution, (source, Call::Stat, outcome), path, dir_len)?;
        Ok(outcome == Outcome::Hit)
    }

    /// `open_verify`: opens one path and checks the file. Returns `None` if `fd` is -1.
    pub(super) fn open_verify(
        &mut self,
        request: Request<'_>,
        path: &BStr,
        dir_len: usize,
        source: SearchSource,
    ) -> Result<Option<Found>, Ended> {
        let (outcome, found) = match self.fs.open(path) {
            // `open_path` reads this errno after the last hwcaps subdirectory of a directory.
            Err(errno) => {
                self.errno = errno;
                (Outcome::from(errno), Ok(None))
            }
            Ok(file) => self.verify(file, path, source),
        };
        // The probe is added before a `stat` that may follow, so that the log has the order of the
        // calls.
        self.probe(request.resolution, (source, Call::Open, outcome), path, dir_len)?;
        found
    }

    /// Checks a file that opened.
    fn verify(
        &mut self,
        file: Arc<OpenedFile>,
        path: &BStr,
        source: SearchSource,
    ) -> (Outcome, Result<Option<Found>, Ended>) {
        // `open_verify` clears errno before it reads the header.
        self.errno = Errno(0);
        match verify::open_verify(&file, &self.start.subject.view.ident) {
            Verdict::Good => {
                let path = path.to_owned();
                (Outcome::Hit, Ok(Some(Found { file, path, source })))
            }
            Verdict::PassedOver(outcome) => {
                self.errno = Errno::NOENT;
                (outcome, Ok(None))
            }
            Verdict::Refused(refusal) => {
                let outcome = match refusal {
                    Refusal::NOT_ELF | Refusal::TOO_SHORT => Outcome::NotElf,
                    _ => Outcome::Refused,
                };
                (outcome, Err(Ended::Lookup(Answer::Refused(refusal))))
            }
        }
    }
}

/// The first release whose directory `stat` keeps the trailing slash (bug 30435).
const STAT_WITH_SLASH: GlibcVersion = GlibcVersion { major: 2, minor: 38 };
