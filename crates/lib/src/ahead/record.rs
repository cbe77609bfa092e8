//! The record of the pages that starts of a program used.
//!
//! A record is lines of JSON: first a [`Header`], then a [`RecordedFile`] for each file, in the order
//! of their use. It is kept in the cache directory, under the path of the command. A file that has
//! changed since is left out, the others are still used.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;
use becalm_host::pages::ahead::Wanted;
use becalm_host::pages::resident::{self, Residency};
use becalm_host::pages::{FileState, MOST_PAGES, PAGE, Touched};
use becalm_host::trust;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::index::places::{self, cache_writer, files_ending};
use crate::records::{self, Lock, Place};
use crate::trees::{self, is_slow};

/// The form of a record.
pub const SCHEMA: &str = "becalm/record/1";
/// The ending of the name of a record.
const ENDING: &str = "pages";
/// Maximum length of a record in bytes.
const MOST_BYTES: u64 = 8 << 20;
/// Maximum length of its first line.
const MOST_HEADER: usize = 4096;
/// Maximum number of ranges in a record.
const MOST_RANGES: usize = 200_000;
/// Maximum number of files that a traced start adds, and of pages of a file that is read.
const MOST_OPENED: usize = 20_000;
pub(super) const MOST_OF_OPENED: u64 = 256;
/// Number of pages that are looked at before a start.
const SAMPLES: usize = 3;
/// A file is complete after this number of starts since the first that used it.
const ENOUGH: u32 = 3;
/// After this number of starts that were learned, no more are, until the record is old.
const MOST_STARTS: u32 = MANY - 1;
/// Later starts count as much as earlier ones: at this number, the counts are halved.
const MANY: u32 = 8;
/// A record is learned again after this time.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);
/// Ranges are joined over gaps of at most this number of pages, as long as the pages in the gaps are
/// less than a [`GAP_SHARE`]th of the others.
const MOST_GAP: u64 = 16;
const GAP_SHARE: u64 = 6;
/// Number of records that are kept.
const KEPT: u64 = 500;

/// The first line of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// The path of the command.
    pub command: String,
    /// The time of the last start that was learned, in seconds since 1970.
    pub learned: u64,
    /// The number of starts that were learned.
    pub starts: u32,
    /// The number of starts before the first that used the newest file.
    #[serde(default)]
    pub since: u32,
    /// True if these are the touched pages alone. Otherwise they include up to 16 neighbours that were
    /// in memory.
    pub exact: bool,
    /// The bytes that are read ahead.
    pub bytes: u64,
    /// Pages to be looked at before a start: if one of them is not in memory, the start is cold.
    pub samples: Vec<(String, u64)>,
}

/// The pages of a file that starts used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// The path.
    pub path: String,
    /// Its inode, length, and time of the last change.
    #[serde(flatten)]
    pub state: FileState,
    /// First page, number of pages, and number of starts that used them. A page has 4,096 bytes.
    pub ranges: Vec<(u64, u64, u32)>,
    /// The number of starts before the first that used the file. Of a file that is read and closed,
    /// earlier starts may have been learned without its directory.
    #[serde(default)]
    pub since: u32,
    /// True for a file that a traced start opened: up to its first MiB is read ahead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opened: bool,
    /// True for a directory: it is listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub directory: bool,
}

/// A record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The first line.
    pub header: Header,
    /// The files.
    pub files: Vec<RecordedFile>,
}

/// The reason why there is no place for a record.
pub(super) const NO_HOME: &str = "no HOME, so there is no cache directory";

/// Returns the place of a command's record; `None` if the environment has no home directory.
pub(crate) fn place(command: &Path) -> Option<Place> {
    Some(Place::of(&places::cache()?, command, ENDING))
}

/// Takes the lock of learning; `None` if another process has it.
///
/// # Errors
/// Returns an error if the cache cannot be written.
pub(super) fn lock(place: &Place) -> Result<Option<Lock>> {
    trust::make_dirs(place.folder())?;
    Ok(place.lock()?)
}

impl Header {
    /// Reads the header from the beginning of a record; `None` if it has none of this version.
    pub(crate) fn read(file: &mut File) -> Option<Self> {
        records::first(file, MOST_HEADER as u64).filter(Self::is_ours)
    }

    fn is_ours(&self) -> bool {
        self.schema == SCHEMA && self.samples.len() <= SAMPLES
    }

    /// Returns true if more starts should be learned.
    pub(crate) fn is_wanting(&self) -> bool {
        let learned = UNIX_EPOCH + Duration::from_secs(self.learned);
        let is_new = self.starts < ENOUGH.saturating_add(self.since) || !self.exact;
        // A time in the future is wrong.
        is_new && self.starts < MOST_STARTS || learned.elapsed().map_or(true, |age| age > OLD)
    }
}

impl Record {
    /// Reads a record whose header was read, or not; `None` if it is damaged or of another version.
    pub(crate) fn read(file: File) -> Option<Self> {
        Self::parse(&records::whole(file, MOST_BYTES)?)
    }

    /// Returns the record at a place for a start of a command to be added: a new one if it has none that can be read.
    pub(super) fn to_learn(place: &Place, command: &Path) -> Self {
        let mut record = place.open().ok().flatten().and_then(Self::read).unwrap_or_default();
        record.header.schema = SCHEMA.to_owned();
        record.header.command = command.to_string_lossy().into_owned();
        record
    }

    /// Writes the record, and removes the oldest ones if there are many.
    pub(super) fn write(&self, place: &Place) -> Result<()> {
        place.write(&self.text(), 0o644)?;
        let records = files_ending(place.folder(), ENDING);
        places::keep_newest(records, |_| 1, KEPT, |path| drop(cache_writer().remove(path)));
        Ok(())
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = serde_json::Deserializer::from_slice(bytes);
        let header = Header::deserialize(&mut lines).ok().filter(Header::is_ours)?;
        let files: Vec<RecordedFile> = lines.into_iter().collect::<Result<_, _>>().ok()?;
        let mut ranges = files.iter().flat_map(|file| &file.ranges);
        let fits = |&(first, count, _): &(u64, u64, u32)| {
            first.checked_add(count).is_some_and(|end| end <= MOST_PAGES)
        };
        let is_ours = ranges.clone().count() <= MOST_RANGES
            && ranges.all(fits)
            && files.iter().all(|file| Path::new(&file.path).is_absolute());
        is_ours.then_some(Self { header, files })
    }

    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        records::add_line(&mut text, &self.header);
        self.files.iter().for_each(|file| records::add_line(&mut text, file));
        text
    }

    /// Returns the pages to be read ahead: those that at least half of the starts used.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let starts = self.header.starts;
        let wanted = self.files.iter().map(|file| Wanted {
            path: PathBuf::from(&file.path),
            state: file.state,
            ranges: file.wanted(starts),
            is_directory: file.directory,
        });
        wanted.filter(|wanted| !wanted.ranges.is_empty()).collect()
    }

    /// Leaves out what is looked up in trees that change. Libraries of the start there are not.
    pub(super) fn leave_out(&mut self, others: &trees::record::Record) {
        let paths: FxHashSet<&str> = others.paths.iter().map(|it| it.path.as_str()).collect();
        let is_in_tree =
            |path: &str| others.header.trees.iter().any(|tree| Path::new(path).starts_with(tree));
        self.files.retain(|file| {
            let is_looked_up = (file.opened || file.directory) && is_in_tree(&file.path);
            !is_looked_up && !paths.contains(file.path.as_str())
        });
    }

    /// Adds the pages of another start. `exact` ones replace those that are not.
    pub fn add(&mut self, touched: &Touched, exact: bool) {
        if exact && !self.header.exact {
            self.files.retain(|file| file.opened);
            for file in &mut self.files {
                (file.since, file.ranges) = (0, Vec::new());
            }
            self.header.starts = 0;
        } else if self.header.exact && !exact {
            return;
        }
        self.header.exact = exact;
        self.header.starts += 1;
        let mut known: BTreeMap<String, RecordedFile> =
            std::mem::take(&mut self.files).into_iter().map(|it| (it.path.clone(), it)).collect();
        let mut ranges = 0;
        for (path, pages) in touched.files().filter(|(path, _)| touched.has(path)) {
            let Some(mut now) = RecordedFile::of(path) else { continue };
            let before = known.remove(&now.path).filter(|file| file.state == now.state);
            now.opened = before.as_ref().is_some_and(|file| file.opened);
            now.since = before.as_ref().map_or(self.header.starts - 1, |file| file.since);
            now.ranges = merged(&before.map(|file| file.ranges).unwrap_or_default(), pages);
            ranges += now.ranges.len();
            if ranges > MOST_RANGES {
                break;
            }
            self.files.push(now);
        }
        // Other starts used these.
        self.files.extend(known.into_values());
        if self.header.starts >= MANY {
            self.age();
        }
        self.finish();
    }

    /// Halves the counts.
    fn age(&mut self) {
        self.header.starts /= 2;
        for file in &mut self.files {
            file.since /= 2;
            file.ranges.iter_mut().for_each(|range| range.2 /= 2);
            file.ranges.retain(|range| range.2 > 0);
        }
        self.files.retain(|file| file.opened || !file.ranges.is_empty());
    }

    /// Adds files that a traced start has opened. Returns the number of regular files.
    pub(super) fn add_opened(&mut self, paths: impl Iterator<Item = PathBuf>) -> usize {
        let places = self.files.iter().enumerate();
        let mut places: FxHashMap<String, usize> =
            places.map(|(at, file)| (file.path.clone(), at)).collect();
        let mut count = 0;
        let files = paths.filter_map(|path| RecordedFile::of(&path)).filter(|it| !it.directory);
        for mut now in files.take(MOST_OPENED) {
            count += 1;
            now.opened = true;
            match places.get(&now.path) {
                Some(&at) if self.files[at].state == now.state => self.files[at].opened = true,
                Some(&at) => self.files[at] = now,
                None => {
                    places.insert(now.path.clone(), self.files.len());
                    self.files.push(now);
                }
            }
        }
        self.finish();
        count
    }

    /// Sets the samples: a page of the program, whose directories the start needs first, and of each of
    /// the files with the most pages, of this machine's if there are any: each start opens them.
    fn finish(&mut self) {
        let wanted = self.wanted();
        let pages = |wanted: &Wanted| wanted.ranges.iter().map(|range| range.1).sum::<u64>();
        let program = Path::new(&self.header.command).canonicalize().ok();
        let is_other = |wanted: &Wanted| program.as_ref() != Some(&wanted.path);
        let is_far = |wanted: &Wanted| is_other(wanted) && is_slow(&wanted.path);
        let mut largest: Vec<&Wanted> = wanted.iter().collect();
        largest.sort_by_cached_key(|it| (is_far(it), is_other(it), Reverse(pages(it))));
        let sample = |wanted: &&Wanted| {
            let longest = wanted.ranges.iter().max_by_key(|range| range.1)?;
            Some((wanted.path.to_str()?.to_owned(), longest.0 + longest.1 - 1))
        };
        // A header that is too long would not be read.
        let is_short = |sample: &(String, u64)| sample.0.len() < MOST_HEADER / (2 * SAMPLES);
        let samples = largest.iter().filter_map(sample).filter(is_short);
        self.header.samples = samples.take(SAMPLES).collect();
        self.header.since = self.files.iter().map(|file| file.since).max().unwrap_or(0);
        self.header.bytes = wanted.iter().map(pages).sum::<u64>() * PAGE;
        self.header.learned = records::now();
    }
}

impl RecordedFile {
    /// Returns a file without pages; `None` if it is neither a regular file nor a directory, or if its
    /// path is no text.
    fn of(path: &Path) -> Option<Self> {
        let facts = path.symlink_metadata().ok().filter(|it| it.is_file() || it.is_dir())?;
        let directory = facts.is_dir();
        // Entries may come and go.
        let listed = FileState { inode: facts.ino(), ..FileState::default() };
        let state = if directory { listed } else { FileState::of(&facts) };
        let path = path.to_str()?.to_owned();
        Some(Self { path, state, directory, ..Self::default() })
    }

    pub(super) fn directory(&self) -> Option<&Path> {
        if self.directory { Some(Path::new(&self.path)) } else { Path::new(&self.path).parent() }
    }

    /// Returns the ranges that at least half of the starts since the file's first use used, joined over
    /// small gaps. What one later start alone used may be of another process.
    fn wanted(&self, starts: u32) -> Vec<(u64, u64)> {
        let half = starts.saturating_sub(self.since).div_ceil(2);
        let least = if self.since == 0 { half } else { half.max(2) };
        let used = self.ranges.iter().filter(|range| range.2 >= least);
        let begin =
            if self.opened { self.state.size.div_ceil(PAGE).min(MOST_OF_OPENED) } else { 0 };
        let used = used.map(|range| (range.0, range.1)).filter(|range| range.0 + range.1 > begin);
        let begin = (begin > 0).then_some((0, begin));
        let used: Vec<(u64, u64)> = begin.into_iter().chain(used).collect();
        let pages: u64 = used.iter().map(|range| range.1).sum();
        let gaps: u64 =
            used.windows(2).map(|pair| gap(pair[0], pair[1])).filter(|&it| it <= MOST_GAP).sum();
        let most = if gaps * GAP_SHARE <= pages { MOST_GAP } else { 1 };
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for range in used {
            match joined.last_mut() {
                Some(last) if gap(*last, range) <= most => {
                    last.1 = (range.0 + range.1).saturating_sub(last.0);
                }
                _ => joined.push(range),
            }
        }
        joined
    }
}

/// Returns the number of pages between two ranges.
fn gap(first: (u64, u64), second: (u64, u64)) -> u64 {
    second.0.saturating_sub(first.0.saturating_add(first.1))
}

/// Adds one start's pages to ranges with counts.
pub(super) fn merged(
    before: &[(u64, u64, u32)],
    pages: impl Iterator<Item = u64>,
) -> Vec<(u64, u64, u32)> {
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    for &(first, length, count) in before {
        (first..first + length).for_each(|page| {
            counts.insert(page, count);
        });
    }
    pages.for_each(|page| *counts.entry(page).or_default() += 1);
    let mut ranges: Vec<(u64, u64, u32)> = Vec::new();
    for (page, count) in counts {
        match ranges.last_mut() {
            Some(last) if last.0 + last.1 == page && last.2 == count => last.1 += 1,
            _ => ranges.push((page, 1, count)),
        }
    }
    ranges
}

/// A record of starts, from which pages are read ahead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordState {
    /// The path of the command.
    pub command: String,
    /// The number of starts that were learned.
    pub starts: u32,
    /// True if no more starts have to be learned.
    pub complete: bool,
    /// True if the pages are those that the starts touched, without neighbours.
    pub exact: bool,
    /// The time of the last start that was learned, in seconds since 1970.
    pub learned: u64,
    /// The bytes that are read ahead of a cold start.
    pub bytes: u64,
    /// True if the file system of the largest files says which pages are in memory. Otherwise nothing
    /// is read ahead.
    pub usable: bool,
}

impl RecordState {
    fn of(header: Header) -> Self {
        let mut samples = header.samples.iter();
        Self {
            usable: samples.any(|(path, page)| resident::at(path, *page) != Residency::Unknown),
            complete: !header.is_wanting(),
            command: header.command,
            starts: header.starts,
            exact: header.exact,
            learned: header.learned,
            bytes: header.bytes,
        }
    }
}

/// Returns the records of this user, those that were learned last first.
#[must_use]
pub fn records() -> Vec<RecordState> {
    let folder = places::cache();
    let places = folder.iter().flat_map(|folder| Place::all(folder, ENDING));
    let headers = places.filter_map(|place| Header::read(&mut place.open().ok()??));
    let mut states: Vec<RecordState> = headers.map(RecordState::of).collect();
    states.sort_by(|a, b| (b.learned, &a.command).cmp(&(a.learned, &b.command)));
    states
}
