//! The folder of what is switched on: links, starter, the file of starts, the index and a record.
//!
//! `bin/NAME -> ../becalm-starter`, `becalm-starter`, `starts`, `index.so` with its folder, and
//! `on.json`. A start meanwhile finds a whole old state, a whole new one, or starts plainly: the
//! starter compares the index with the file of starts, which is written last.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::index::tls;
use becalm_host::index_store::BindThreshold;
use becalm_host::write::{WriteError, WriteOptions, Writer};
use rayon::prelude::*;
use rustix::fs::Access;
use serde::{Deserialize, Serialize};

use crate::index::make;
use crate::index::trust::{self, Rule};
use crate::index::variables::text_of_switch;
use crate::index::{file, places, platforms};
use crate::on::fit::file_that_can_start;
use crate::on::shells::{self, PathFile};
use crate::on::table::{self, Identity, Start};
use crate::on::{Program, counts};
use crate::pages;
use crate::path::{at, path_bytes};
use crate::progress::Progress;
use crate::trees;

/// The folder for all users.
const SYSTEM: &str = "var/lib/becalm/on";
/// The target of the links, by which a starter recognises those of other folders (`starter.c`).
const TARGET: &str = "../becalm-starter";
/// The longest wait for another process that changes the folder.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes that an index of one program takes, with the module in it.
const ROOM: u64 = 1 << 20;
const PAUSE: Duration = Duration::from_millis(20);

/// The user who starts the programs of a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    One,
    All,
    /// Nobody: the starts are trials.
    None,
}

/// A folder and the files that put it into `PATH`.
pub(super) struct Folder {
    pub root: PathBuf,
    pub files: Vec<PathFile>,
    /// The user whose programs it has.
    owner: Owner,
    pub writer: Writer,
}

/// The content of `on.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    pub programs: Vec<Program>,
    /// Directories that did not exist before, each before what is in it.
    pub made: Vec<PathBuf>,
    /// The folder with the numbers of starts.
    #[serde(default)]
    pub counts: Option<PathBuf>,
}

impl Folder {
    pub(super) fn of_user() -> Result<Self> {
        let no_home = "no home directory for the folder of links";
        let root = places::switched_on().context(no_home)?;
        let files = shells::of_user().context(no_home)?;
        Ok(Self { owner: Owner::One, ..Self::new(root, files) })
    }

    /// Returns the folder for all users below a root directory.
    pub(super) fn of_system(below: &Path) -> Self {
        Self { owner: Owner::All, ..Self::new(below.join(SYSTEM), shells::of_system(below)) }
    }

    pub(super) fn new(root: PathBuf, files: Vec<PathFile>) -> Self {
        Self {
            root,
            files,
            owner: Owner::None,
            writer: Writer::under(Rule::Chosen, WriteOptions::default()),
        }
    }

    /// Returns the directory of links.
    pub(super) fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    pub(super) fn index(&self) -> PathBuf {
        self.root.join("index.so")
    }

    /// Returns the file that the starter reads.
    pub(super) fn starts(&self) -> PathBuf {
        self.root.join("starts")
    }

    fn record_file(&self) -> PathBuf {
        self.root.join("on.json")
    }

    /// Returns an error if the path cannot be in the variables, or nothing can start here.
    pub(super) fn check(&self) -> Result<()> {
        if !shells::can_have(&self.root) {
            let root = self.root.display();
            bail!(
                "{root}: the path of the folder has a character that PATH or a shell would interpret"
            );
        }
        places::check_exec(&self.root)?;
        starter().map(drop)
    }

    /// Returns the record; an empty one if nothing is switched on.
    pub(super) fn record(&self) -> Result<Record> {
        let path = self.record_file();
        match trust::open(&path) {
            Err(error) if error.is_missing() => Ok(Record::default()),
            found => serde_json::from_reader(found?.file).map_err(|_| damaged(&path)),
        }
    }

    /// Makes the folder and locks it against other becalm processes. Returns the directories that were
    /// made.
    pub(super) fn lock(&self) -> Result<(OwnedFd, Vec<PathBuf>)> {
        let path = self.root.join("lock");
        let began = Instant::now();
        // An attempt that gets no lock may have made directories too.
        let mut made = Vec::new();
        loop {
            made.extend(missing_dirs(&self.bin()));
            trust::make_dirs(&self.bin())?;
            match self.writer.lock(&path) {
                Ok(Some(lock)) => return Ok((lock, made)),
                Ok(None) => {}
                // Another process has removed the folder.
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error.into()),
            }
            if began.elapsed() > PATIENCE {
                bail!("{}: another becalm has been at work on it for minutes", self.root.display());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Writes index, starter, links and the file of starts for these programs. Returns them, with what the
    /// index knows about them. A program that it cannot start, such as one that was removed, is not
    /// fresh, and has no link until a later call.
    pub(super) fn fill(
        &self,
        mut programs: Vec<Program>,
        progress: &dyn Progress,
    ) -> Result<Vec<Program>> {
        programs.par_iter_mut().for_each(|it| {
            it.real = it.real.take().or_else(|| file_that_can_start(&it.path));
            it.fresh = Some(it.real.is_some());
        });
        if programs.iter().any(is_on) {
            self.make_index(&programs, progress)?;
            let table = self.table(&mut programs)?;
            self.put(&self.root.join("becalm-starter"), starter()?, 0o755)?;
            for program in programs.iter().filter(|program| is_on(program)) {
                let link = self.bin().join(&program.name);
                if !is_own(&link) {
                    self.writer.replace_link(&link, Path::new(TARGET))?;
                }
            }
            self.put(&self.starts(), &table, 0o644)?;
        }
        self.keep_links(|name| programs.iter().any(|it| is_on(it) && it.name == name))?;
        Ok(programs)
    }

    fn make_index(&self, programs: &[Program], progress: &dyn Progress) -> Result<()> {
        let of_index = programs.iter().filter(|program| is_on(program));
        let mut wanted: Vec<PathBuf> = of_index.filter_map(|it| it.real.clone()).collect();
        wanted.sort();
        wanted.dedup();
        let options = make::Options {
            programs: wanted,
            output: Some(self.index()),
            bind_threshold: Some(BindThreshold::ALL),
            ..make::Options::default()
        };
        make::index(&options, progress)?;
        Ok(())
    }

    /// Returns the file of starts, and adds to the programs what the index knows about them.
    fn table(&self, programs: &mut [Program]) -> Result<Vec<u8>> {
        let index = self.index();
        let whole = file::read_trusted(&index)?.index;
        let (mut starts, counts) = (Vec::new(), self.counts());
        for program in programs.iter_mut().filter(|program| is_on(program)) {
            program.fresh = Some(false);
            let real = path_bytes(program.real.as_deref().unwrap_or(&program.path));
            let known = whole.programs.iter().find(|known| known.path == real);
            let needs = known.map_or_else(Default::default, |known| known.needs);
            let Some(identity) = Identity::at(&program.path).filter(|_| !needs.no_start) else {
                continue;
            };
            program.fresh = Some(true);
            if let Some(folder) = &counts {
                counts::begin(&self.writer, folder, &program.name);
            }
            let need = tls::PROGRAM.max(needs.static_tls.into());
            let of_program = whole.bound.programs.iter().filter(|bound| bound.path == real);
            program.bindings = of_program.map(|bound| bound.bindings).max().unwrap_or(0);
            starts.push(Start {
                name: program.name.clone().into_bytes(),
                path: path_bytes(&program.path).into(),
                program: identity,
                static_tls: u32::try_from(need).unwrap_or(u32::MAX),
                shares_pages: program.shares_pages,
            });
        }
        let of_pages = starts.iter().any(|it| it.shares_pages).then(pages::folder).flatten();
        let pages = of_pages.as_deref().and_then(text_of_switch).unwrap_or_default();
        let counts = counts.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let helpers = [&*self.helper(), pages, &counts];
        let facts = index.metadata().with_context(at(&index))?;
        Ok(table::encode(Identity::of(&facts), helpers, &starts))
    }

    /// Returns the folder with the numbers of starts; makes it. Those of all users are not counted.
    pub(super) fn counts(&self) -> Option<PathBuf> {
        (self.owner == Owner::One).then(|| counts::folder(&self.root)).flatten()
    }

    /// Returns an error if the folder cannot be written now.
    pub(super) fn check_room(&self) -> Result<()> {
        let there = self.root.ancestors().find(|path| path.exists()).unwrap_or(&self.root);
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::access(there, access).map_err(io::Error::from).with_context(at(there))?;
        match trees::folder::free(there) {
            free if free < ROOM => bail!("{}: {free} bytes are free", there.display()),
            _ => Ok(()),
        }
    }

    /// Returns the path of this becalm, which reads ahead; empty if others than those who start programs
    /// by the folder could replace it.
    fn helper(&self) -> String {
        let is_trusted = |path: &PathBuf| match self.owner {
            Owner::All => trust::check_for_all(path).is_ok(),
            Owner::One | Owner::None => trust::open(path).is_ok(),
        };
        let path = std::env::current_exe().ok().filter(is_trusted);
        path.and_then(|path| text_of_switch(&path).map(ToOwned::to_owned)).unwrap_or_default()
    }

    /// Writes a file unless it has these bytes.
    fn put(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
        match becalm_host::read_regular(path) {
            Ok(old) if old == bytes => Ok(()),
            _ => self.writer.replace(path, bytes, mode),
        }
    }

    /// Removes the links whose names are not kept.
    fn keep_links(&self, is_kept: impl Fn(&str) -> bool) -> Result<()> {
        for entry in self.bin().read_dir().into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_kept = name.to_str().is_some_and(&is_kept);
            if !is_kept && is_own(&entry.path()) {
                self.writer.remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes the record.
    pub(super) fn set_record(&self, record: &Record) -> Result<()> {
        let path = self.record_file();
        let text = serde_json::to_vec_pretty(record).map_err(|_| damaged(&path))?;
        Ok(self.writer.replace(&path, &text, 0o644)?)
    }

    /// Adds the directory of links to a file of `PATH`.
    pub(super) fn add_to(&self, file: &mut PathFile) -> Result<()> {
        trust::make_dirs(file.dir())?;
        file.add(&self.writer, &self.bin().to_string_lossy())
    }

    /// Returns the directories that may have been made for the folder and these files, each before what is
    /// in it: for all users, only its own.
    pub(super) fn possible_dirs(&self, files: &[PathFile]) -> Vec<PathBuf> {
        let top = match self.owner {
            Owner::One => places::home_dir(),
            Owner::All | Owner::None => self.root.ancestors().nth(2).map(Path::to_owned),
        };
        let dirs = files.iter().map(PathFile::dir).chain([&*self.root]).flat_map(Path::ancestors);
        let is_below =
            |dir: &&Path| top.as_ref().is_some_and(|it| dir != it && dir.starts_with(it));
        let mut possible: Vec<PathBuf> = dirs.filter(is_below).map(Path::to_owned).collect();
        possible.sort();
        possible
    }

    /// Removes the folder's own files and every directory that was made for it and is empty.
    pub(super) fn clear(&self, made: &[PathBuf]) -> Result<()> {
        let remove_made = || {
            for dir in made.iter().rev() {
                // A directory that cannot be removed does no harm.
                let _ = self.writer.remove_empty_dir(dir);
            }
        };
        // Those outside of the folder, while the record says what was made.
        remove_made();
        self.keep_links(|_| false)?;
        let index_dir = platforms::dir_of(&self.index());
        if index_dir.is_dir() {
            self.writer.remove_with_files(&index_dir)?;
        }
        for name in ["starts", "index.so", "becalm-starter", "on.json", "lock"] {
            self.writer.remove(&self.root.join(name))?;
        }
        for dir in [self.bin(), self.root.clone()] {
            self.writer.remove_empty_dir(&dir)?;
        }
        remove_made();
        Ok(())
    }
}

/// Returns the directories that are missing on the way to one and itself, each before what is in it.
pub(super) fn missing_dirs(dir: &Path) -> Vec<PathBuf> {
    let is_missing = |dir: &&Path| dir.symlink_metadata().is_err();
    let mut missing: Vec<PathBuf> =
        dir.ancestors().take_while(is_missing).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Returns the starter for this machine.
fn starter() -> Result<&'static [u8]> {
    let machine = std::env::consts::ARCH;
    let found = becalm_audit::STARTERS.iter().find(|(known, _)| *known == machine);
    let (_, starter) = found.with_context(|| format!("no starter for {machine} is built in"))?;
    Ok(starter)
}

/// Returns the error for a record of what is switched on that cannot be read.
fn damaged(record: &Path) -> anyhow::Error {
    anyhow!("{}: damaged; becalm off removes all", record.display())
}

/// True if a program of a folder that is being filled starts by the index.
fn is_on(program: &Program) -> bool {
    program.fresh == Some(true)
}

/// True for a link that becalm made.
fn is_own(link: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target == Path::new(TARGET))
}
