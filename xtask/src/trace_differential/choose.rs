//! Chooses the programs to start and their arguments.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becalm_core::closure::{Subject, SubjectKind};
use becalm_host::OsFs;
use bstr::BStr;

use super::run::{Ran, start};
use crate::differential::candidates;

/// A program with an argument.
pub(crate) struct Trial {
    pub(crate) group: String,
    pub(crate) program: PathBuf,
    pub(crate) argument: &'static str,
}

impl Trial {
    /// Returns the command line for a person.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.program.display(), self.argument)
    }

    /// Starts the program: the words `before` run `env`, which sets variables, and that runs the words `by`
    /// with the program.
    pub(crate) fn start(
        &self,
        before: &[&str],
        env: &[String],
        by: &[&OsStr],
    ) -> Result<Option<Ran>> {
        let mut line: Vec<OsString> = before.iter().map(OsString::from).collect();
        line.push("/usr/bin/env".into());
        line.extend(env.iter().map(OsString::from));
        line.extend(by.iter().map(OsString::from));
        line.extend([OsString::from(&self.program), self.argument.into()]);
        start(&line)
    }
}

/// Prefixes of names that are never started, even as nobody and only for their help: programs that
/// turn machines off, change disks, users or packages, or end processes.
const NEVER: &str = "\
    agetty apt at badblocks blk cfdisk chage chfn chroot chsh crontab dd debconf dpkg e2 expiry \
    fdisk fsck fuser gpasswd halt init ip kexec kill login losetup mkfs mkswap mount newgrp \
    nsenter parted passwd pkill poweroff reboot resize rm rtcwake runlevel service setsid sfdisk \
    shred shutdown skill snice ssh-agent su swap systemctl systemd telinit umount wall";

/// Returns the trials: every program of the stores, and a sample of this machine's.
pub(crate) fn trials(stores: &[PathBuf], sample: usize, seed: u64) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for store in stores {
        let store = store.canonicalize().with_context(|| store.display().to_string())?;
        let packages = fs::read_dir(&store)?.collect::<std::io::Result<Vec<_>>>()?;
        let mut bins: Vec<PathBuf> = packages.iter().map(|it| it.path().join("bin")).collect();
        bins.sort();
        trials.extend(bins.iter().flat_map(|bin| all(bin, "store")));
    }
    let programs =
        candidates::sample(programs_in(Path::new("/usr/bin")), sample, seed, PathBuf::as_path);
    trials.extend(programs.into_iter().flat_map(|program| both("system", &program)));
    Ok(trials)
}

/// Returns the trials of all programs of a folder.
pub(crate) fn all(folder: &Path, group: &str) -> impl Iterator<Item = Trial> {
    let mut programs = programs_in(folder);
    programs.sort();
    programs.into_iter().flat_map(move |program| both(group, &program))
}

/// Returns true for a program that is never started.
pub(crate) fn is_never_started(name: &str) -> bool {
    NEVER.split_whitespace().any(|word| name.starts_with(word))
}

/// Returns a program's trials.
pub(crate) fn both(group: &str, program: &Path) -> [Trial; 2] {
    let trial = |argument| Trial { group: group.to_owned(), program: program.to_owned(), argument };
    [trial("--version"), trial("--help")]
}

/// Returns the dynamic programs in a folder that may be started.
fn programs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| may_start(path)).collect()
}

fn may_start(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_default();
    let names = [path, &real].map(|path| path.file_name().unwrap_or_default().to_string_lossy());
    if names.iter().any(|name| is_never_started(name)) {
        return false;
    }
    // Programs that only some users may read or execute, and set-id programs, are excluded.
    let Ok(about) = real.metadata() else { return false };
    if !about.is_file() || about.mode() & 0o6000 != 0 || about.mode() & 0o005 != 0o005 {
        return false;
    }
    let fs = OsFs::new();
    let subject = Subject::open(&fs.session(), BStr::new(path.as_os_str().as_bytes()));
    subject.is_ok_and(|subject| {
        subject.view.ident.machine_name() == std::env::consts::ARCH
            && subject.kind == SubjectKind::Program
    })
}
