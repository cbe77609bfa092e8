//! Records and copies of this machine in one file, and back on another machine: what starts of a command look
//! up and read, so that a first start there is one that has been learned.
//!
//! A pack is a tar file or a squashfs image. It has the files under their own paths, with their times, so that
//! other tools can unpack or mount it, and in `.becalm` a mark and the records. Nothing in a pack counts
//! without the tree: each start compares the files with it, as it does with copies that were made here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Error, Result, anyhow, bail};
use becalm_host::write::{WriteOptions, Writer};
use rustc_hash::FxHashSet;
use serde::Serialize;
use tar::{Builder, EntryType, Header as Entry};

use crate::index::trust::Rule;
use crate::json::{Report, lossy_os};
use crate::records::Place;
use crate::run::program;
use crate::trees::record::{ENDING, Kind, Record, RecordedPath, place};
use crate::trees::source::{MANIFEST, MARK, is_pack, of_file};
use crate::trees::state::TreeRecordState;
use crate::trees::{complete, copies, folder, packed, packed_index};

/// The folder of the records.
pub(super) const RECORDS: &str = ".becalm/records";
/// The folder of the tables of indexes.
pub(super) const INDEXES: &str = ".becalm/indexes";

/// Returns the error of a machine without a folder of records and copies.
pub(super) fn no_folder() -> Error {
    anyhow!(
        "no folder of this user alone (mode 700) on a local disk with room for copies; BECALM_CACHE names one"
    )
}

/// The form of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// A tar file
    Tar,
    /// A squashfs image, which sqfstar makes (squashfs-tools)
    Squashfs,
}

/// The JSON document of `becalm pack` and `becalm unpack`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PackReport {
    /// The pack.
    #[serde(serialize_with = "lossy_os")]
    pub file: PathBuf,
    /// The number of files that were packed, or unpacked; those that were there before are not counted.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The number of indexes that were packed, or unpacked: those of this version and for the libraries of this
    /// machine.
    pub indexes: u64,
    /// The records that were packed, or unpacked.
    pub records: Vec<TreeRecordState>,
    /// Files that starts look up and that are not in the pack: they are open or set-id, their tree's times do
    /// not count, or there is no room.
    pub left_out: Vec<String>,
}

impl Report for PackReport {
    const SCHEMA: &'static str = "becalm/pack/1";
}

/// Writes a pack with what starts of these commands look up and read, and of the programs that they start; of
/// all commands if none is named. Directories among them are packed whole, for the commands that are named, or all
/// that use them. With `run`, a report of `becalm trace --files --json`, the commands are those of the run, and of
/// directories only the files are packed that it used. `generation` is a file that changes whenever the tree does.
///
/// # Errors
/// Returns an error if no start of a command was learned, or the file cannot be written.
pub fn write(
    to: &Path,
    format: Format,
    commands: &[PathBuf],
    run: Option<&Path>,
    generation: Option<&Path>,
) -> Result<PackReport> {
    if let Some(path) = commands.iter().find(|path| path.to_str().is_none()) {
        bail!("{}: not UTF-8, as paths in packs are", path.display());
    }
    let (trees, commands): (Vec<PathBuf>, Vec<PathBuf>) =
        commands.iter().cloned().partition(|path| path.is_dir());
    let is_learned = trees.is_empty() && run.is_none();
    let folder = match is_learned {
        true => folder::existing().ok_or_else(nothing_learned)?,
        false => folder::made().ok_or_else(no_folder)?,
    };
    let (output, old) = place_to_write(to, &folder)?;
    let mut records = match run {
        Some(run) => of_run(run, &trees, &folder)?,
        None => chosen(&folder, &commands, &trees)?,
    };
    let generation = generation.map(|path| -> Result<_> {
        let of = packed::generation(path).map_err(of_file(path))?;
        let path = std::path::absolute(path).map_err(of_file(path))?;
        Ok((path.to_string_lossy().into_owned(), of))
    });
    let generation = generation.transpose()?;
    let mut left_out = BTreeSet::new();
    for tree in trees.iter().filter(|_| run.is_none()) {
        let tree = std::path::absolute(tree).map_err(of_file(tree))?;
        let tree: PathBuf = tree.components().collect();
        if tree.is_symlink() {
            bail!("{}: a link; name the directory that it leads to", tree.display());
        }
        let used =
            records.values_mut().filter(|it| !commands.is_empty() || complete::is_of(it, &tree));
        let added: Vec<Vec<String>> =
            used.map(|record| complete::add_whole(record, &tree)).collect();
        if added.is_empty() {
            let tree = tree.display();
            bail!("{tree}: no start of a program of it was learned here: name a program as well");
        }
        left_out.extend(added.into_iter().flatten());
    }
    complete::complete(records.values_mut(), &folder);
    records.values_mut().for_each(|it| it.header.generation.clone_from(&generation));
    let is_file =
        |path: &RecordedPath| path.state.as_ref().is_some_and(|it| it.identity().is_some());
    let paths = records.values().flat_map(|record| &record.paths);
    let is_for_state = |path: &RecordedPath| path.added && path.kept;
    let without = paths.filter(|path| is_file(path) && path.copy.is_none() && !is_for_state(path));
    left_out.extend(without.map(|path| path.path.clone()));
    let above = output.parent().unwrap_or(&output);
    // The umask applies, as if a new pack were written in place.
    let mode = old.clone().unwrap_or(Permissions::from_mode(0o666));
    let part = tempfile::Builder::new().permissions(mode).tempfile_in(above);
    let part = part.map_err(of_file(to))?;
    let libraries = packed_index::libraries(records.values());
    let indexes = records.values().filter_map(|record| {
        let place = place(&folder, Path::new(&record.header.command));
        Some((packed_index::name(&place), packed_index::table(record, &libraries)?))
    });
    let content = Content { folder: &folder, records: &records, indexes: indexes.collect() };
    let packed = match format {
        Format::Tar => content.archive(part.as_file()),
        Format::Squashfs => content.image(part.as_file(), above),
    };
    let (files, bytes) = packed.map_err(of_file(to))?;
    let (file, part) = part.keep().map_err(|error| of_file(to)(error.error))?;
    let finish = || -> io::Result<()> {
        old.map_or(Ok(()), |mode| file.set_permissions(mode))?;
        file.sync_all()?;
        Writer::new(WriteOptions::default()).rename(&part, &output).map_err(io::Error::other)
    };
    finish().map_err(of_file(to))?;
    let indexes = content.indexes.len() as u64;
    let records = records.values().map(TreeRecordState::of).collect();
    let left_out = left_out.into_iter().collect();
    Ok(PackReport { file: to.to_owned(), files, bytes, indexes, records, left_out })
}

/// Returns the path without links of the file to write, and the mode of a pack that is there.
fn place_to_write(to: &Path, folder: &Path) -> Result<(PathBuf, Option<Permissions>)> {
    let place = Rule::Named.real(to)?;
    match place.symlink_metadata() {
        Ok(old) if old.is_file() && is_pack(&place, folder) => Ok((place, Some(old.permissions()))),
        Ok(_) => bail!("{}: not a pack; not overwritten", to.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((place, None)),
        Err(error) => Err(of_file(to)(error)),
    }
}

fn nothing_learned() -> Error {
    anyhow!("nothing was learned here: start programs on network file systems by becalm run first")
}

/// Returns the records of a run, by name.
fn of_run(run: &Path, trees: &[PathBuf], folder: &Path) -> Result<BTreeMap<String, Record>> {
    let records = complete::of_run(run, trees).map_err(of_file(run))?;
    let shown = run.display();
    let Some(records) = records else {
        bail!("{shown}: no run with its files (becalm trace --files --json)");
    };
    if records.iter().all(|it| it.paths.is_empty()) {
        bail!("{shown}: the run used no file on a network file system: name a directory as well");
    }
    let place = |it: &Record| place(folder, Path::new(&it.header.command));
    Ok(records.into_iter().map(|it| (place(&it).name().to_owned(), it)).collect())
}

/// Returns the records of commands and of the programs that they start, by name. With trees, nothing need be learned
/// of a command.
fn chosen(
    folder: &Path,
    commands: &[PathBuf],
    trees: &[PathBuf],
) -> Result<BTreeMap<String, Record>> {
    let mut records = BTreeMap::new();
    if commands.is_empty() {
        let read = |it: Place| Some((it.name().to_owned(), Record::at(&it)?));
        records.extend(Place::all(folder, ENDING).filter_map(read));
    }
    let mut left: Vec<(PathBuf, bool)> = commands.iter().map(|it| (it.clone(), true)).collect();
    while let Some((command, is_named)) = left.pop() {
        // A name is looked up in PATH, as becalm run does.
        let found = program::find(command.as_os_str()).map(|found| found.path);
        let path = std::path::absolute(found.unwrap_or_else(|_| command.clone()));
        let path = path.map_err(of_file(&command))?;
        let place = place(folder, &path);
        let unlearned = || (is_named && !trees.is_empty()).then(|| complete::unlearned(&path));
        match Record::at(&place).or_else(unlearned) {
            Some(_) if records.contains_key(place.name()) => {}
            Some(record) => {
                let started = record.header.programs.iter();
                left.extend(started.map(|it| (PathBuf::from(it), false)));
                records.insert(place.name().to_owned(), record);
            }
            None if is_named => bail!(
                "{}: no start of it was learned here on a network file system (becalm cache lists \
                 commands)",
                path.display()
            ),
            None => {}
        }
    }
    if !trees.is_empty() && !commands.is_empty() {
        complete::start_each_other(records.values_mut());
    }
    match !trees.is_empty() || records.values().any(|record| !record.paths.is_empty()) {
        true => Ok(records),
        false => Err(nothing_learned()),
    }
}

/// Returns the header of a file of root.
fn entry(size: u64, time: u64, mode: u32) -> Entry {
    let mut entry = Entry::new_gnu();
    entry.set_size(size);
    entry.set_mtime(time);
    entry.set_mode(mode);
    entry
}

/// Returns the links of a record that lead to files which the record does not have.
pub(super) fn links_alone(record: &Record) -> impl Iterator<Item = &str> {
    let of = |kind| {
        let paths = record.paths.iter().filter(move |it| it.kind == kind);
        paths.filter_map(|it| Some((it.path.as_str(), it.copy.as_ref()?.of)))
    };
    let files: FxHashSet<_> = of(Kind::File).map(|(_, identity)| identity).collect();
    of(Kind::Link).filter(move |(_, identity)| !files.contains(identity)).map(|(path, _)| path)
}

/// The content of a pack.
struct Content<'a> {
    folder: &'a Path,
    records: &'a BTreeMap<String, Record>,
    /// The tables of indexes.
    indexes: Vec<(String, Vec<u8>)>,
}

impl Content<'_> {
    /// Writes records, indexes and files. The same ones make the same bytes.
    fn archive(&self, to: impl Write) -> io::Result<(u64, u64)> {
        let mut archive = Builder::new(to);
        let mut add = |path: &str, mut entry: Entry, bytes: &mut dyn Read| {
            archive.append_data(&mut entry, path, bytes)
        };
        let plain = |size: usize| entry(size as u64, 0, 0o644);
        add(MANIFEST, plain(MARK.len()), &mut &MARK[..])?;
        let mut files = BTreeMap::new();
        for (name, record) in self.records {
            let text = record.text();
            add(&format!("{RECORDS}/{name}"), plain(text.len()), &mut text.as_slice())?;
            for path in &record.paths {
                // Another program may only have looked at it.
                let known = files.entry(&path.path).or_insert(path);
                *known = if known.copy.is_some() { known } else { path };
            }
        }
        for (name, table) in &self.indexes {
            add(&format!("{INDEXES}/{name}"), plain(table.len()), &mut table.as_slice())?;
        }
        let (mut count, mut bytes) = (0, 0);
        let alone: FxHashSet<&str> = self.records.values().flat_map(links_alone).collect();
        let mut files = files.into_iter().peekable();
        while let Some((path, recorded)) = files.next() {
            let name = path.trim_start_matches('/');
            // The content of a link to a file of the pack is there once.
            let is_whole = recorded.kind != Kind::Link || alone.contains(path.as_str());
            let Some(copy) = recorded.copy.as_ref().filter(|_| is_whole) else {
                // Not one on the way to other files, which have its name in their paths.
                let is_above = |(next, _): &(&String, _)| Path::new(next).starts_with(path);
                if let (Kind::Link, Some(target)) = (recorded.kind, &recorded.target)
                    && !files.peek().is_some_and(is_above)
                {
                    let mut link = entry(0, 0, 0o777);
                    link.set_entry_type(EntryType::Symlink);
                    archive.append_link(&mut link, name, target)?;
                }
                continue;
            };
            let identity = copy.of;
            let Ok(mut file) = File::open(copies::path(self.folder, &copy.name)) else { continue };
            if file.metadata()?.len() != identity.size {
                continue;
            }
            let time = u64::try_from(identity.modified.0).unwrap_or(0);
            let mode = if recorded.is_executable() { 0o755 } else { 0o644 };
            archive.append_data(&mut entry(identity.size, time, mode), name, &mut file)?;
            (count, bytes) = (count + 1, bytes + identity.size);
        }
        archive.into_inner()?.flush()?;
        Ok((count, bytes))
    }

    /// Writes a squashfs image of the same content.
    fn image(&self, mut to: &File, above: &Path) -> io::Result<(u64, u64)> {
        let scratch = tempfile::tempdir_in(above)?;
        let image = scratch.path().join("image");
        let mut tool = Command::new("sqfstar");
        tool.args(["-quiet", "-no-progress", "-comp", "zstd", "-reproducible"]);
        tool.args(["-root-mode", "755"]).arg(&image);
        // No time in the image is later than that of the newest file: it makes the directories on the way to files.
        let paths = self.records.values().flat_map(|record| &record.paths);
        let times = paths.filter_map(|it| Some(it.copy.as_ref()?.of.modified.0.max(0)));
        tool.env("SOURCE_DATE_EPOCH", times.max().unwrap_or(0).to_string());
        tool.stdin(Stdio::piped()).stdout(Stdio::null());
        let missing = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other("sqfstar (squashfs-tools) is not installed")
            }
            _ => error,
        };
        let mut made = tool.spawn().map_err(missing)?;
        let packed = made.stdin.take().map_or(Ok((0, 0)), |stdin| self.archive(stdin));
        if !made.wait()?.success() {
            return Err(io::Error::other("sqfstar has failed"));
        }
        io::copy(&mut File::open(image)?, &mut to)?;
        packed
    }
}
