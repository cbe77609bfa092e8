//! Parses the output of glibc's `LD_DEBUG=libs` and `LD_DEBUG=libs,files` into searches.
//!
//! Each line of the loader starts with the process id, right-justified in ten columns, a colon and a
//! tab (glibc `elf/dl-printf.c` `_dl_debug_vdprintf`, the same from 2.31 to 2.44). A newline in a
//! printed name has no such tag after it. A line without a tag therefore continues a name.
//!
//! The record has every candidate path of a search, in order. With `files` it also has the requester,
//! and shows which searches led to a new object. The record lacks:
//!
//! - The errno of a failed try. Up to 2.42 a failed open, a wrong class and a wrong machine look the
//!   same. Since 2.43 there is a line under most failed tries.
//! - The outcome of the last try of a search without a new object. The search may have failed, or
//!   found a file that is loaded already. The list that the loader prints under
//!   `LD_TRACE_LOADED_OBJECTS` decides, see [`ProcessRecord::probes`].
//! - The expanded path of a needed string with a slash.
//! - The `stat` after the first miss in a directory, and any open of the loader cache itself.
//! - The open of the loader cache's answer. The answer is printed before `DF_1_NODEFLIB` is checked.
//! - The rule that supplied a directory. A directory is shared by name in the whole process, and is
//!   printed under the first rule that lists it (`fillin_rpath` in `elf/dl-load.c`).

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::probe::{Call, Outcome, Probe, SearchSource};

/// The record of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessRecord {
    /// The process id in the process's own PID namespace.
    pub pid: u32,
    /// The searches in order.
    pub searches: Vec<Search>,
}

/// One search for one needed string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The link-map namespace: 0 for the program, another one for each audit module.
    pub namespace: u64,
    /// The requester. `None` without `files`.
    pub needed_by: Option<BString>,
    /// The needed string, its DSTs not expanded.
    pub needed: BString,
    /// True for a `dlopen`, and for every search after the first initialiser.
    pub at_run_time: bool,
    /// The candidates. Empty for a needed string with a slash.
    pub tries: Vec<Try>,
    /// True if the search led to a new object. Only known with `files`.
    pub mapped: bool,
}

/// One candidate path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The rule that the loader printed, which is not reliable (see the module).
    pub source: SearchSource,
    /// The candidate.
    pub path: BString,
    /// The outcome, if the loader printed it.
    pub said: Option<Outcome>,
}

/// Parses a record. The result has one element for each process, in order of their first lines.
#[must_use]
pub fn parse(record: &[u8]) -> Vec<ProcessRecord> {
    let mut readers: Vec<Reader> = Vec::new();
    let mut of_pid: FxHashMap<u32, usize> = FxHashMap::default();
    for (pid, message) in messages(record) {
        let index = *of_pid.entry(pid).or_insert(readers.len());
        if index == readers.len() {
            let process = ProcessRecord { pid, searches: Vec::new() };
            readers.push(Reader { process, ..Reader::default() });
        }
        readers[index].message(&message);
    }
    readers.into_iter().map(|reader| reader.process).collect()
}

impl ProcessRecord {
    /// Returns the opens of program start, one for each try. `missing` has the needed strings that
    /// the loader listed as "not found". If the record does not show the outcome of a search's last
    /// try, it is a miss for these needed strings and a hit for all others.
    ///
    /// A needed string with a slash gives one probe with [`SearchSource::Direct`]. The path of the
    /// probe is the string itself, not expanded.
    #[must_use]
    pub fn probes(&self, missing: &[BString]) -> Vec<Probe> {
        let missing: FxHashSet<&BString> = missing.iter().collect();
        self.searches
            .iter()
            .filter(|search| !search.at_run_time)
            .flat_map(|search| search.probes(missing.contains(&search.needed)))
            .collect()
    }
}

impl Search {
    fn probes(&self, missing: bool) -> Vec<Probe> {
        let probe = |source, path: &BString, outcome| Probe {
            needed_by: self.needed_by.clone().unwrap_or_default(),
            needed: self.needed.clone(),
            source,
            path: path.clone(),
            call: Call::Open,
            outcome,
        };
        // The last try of a search without a new object may be a file that is loaded already.
        let last = if missing && !self.mapped { Outcome::Miss } else { Outcome::Hit };
        // A path is not searched for.
        if self.needed.contains(&b'/') {
            return vec![probe(SearchSource::Direct, &self.needed, last)];
        }
        let count = self.tries.len();
        let outcome = |index: usize, tried: &Try| match tried.said {
            Some(said) => said,
            None if index + 1 == count => last,
            None => Outcome::Miss,
        };
        let tries = self.tries.iter().enumerate();
        tries.map(|(at, tried)| probe(tried.source, &tried.path, outcome(at, tried))).collect()
    }
}

/// Splits a record into messages with their process ids, and joins names with newlines. Lines before
/// the first tag are dropped.
fn messages(record: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut messages: Vec<(u32, Vec<u8>)> = Vec::new();
    for line in record.strip_suffix(b"\n").unwrap_or(record).split(|&byte| byte == b'\n') {
        if let Some((pid, message)) = tagged(line) {
            messages.push((pid, message.to_vec()));
        } else if let Some((_, message)) = messages.last_mut() {
            message.push(b'\n');
            message.extend_from_slice(line);
        }
    }
    messages
}

/// Splits the tag off a line.
fn tagged(line: &[u8]) -> Option<(u32, &[u8])> {
    let (tag, message) = line.split_once_str(b":\t")?;
    let digits = tag.trim_start_with(|c| c == ' ');
    if tag.len() > 10 || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some((digits.to_str().ok()?.parse().ok()?, message))
}

/// The state of one process while its messages are read.
#[derive(Default)]
struct Reader {
    process: ProcessRecord,
    /// The requester of the next search, from a `needed by` line; true for a `dlopen`.
    requester: Option<(BString, bool)>,
    source: Option<SearchSource>,
    initialised: bool,
}

impl Reader {
    fn message(&mut self, message: &[u8]) {
        if let Some(path) = message.strip_prefix(b"  trying file=") {
            self.tried(path.as_bstr());
        } else if let Some(rest) = message.strip_prefix(b"find library=") {
            if let Some((needed, namespace)) = rest.strip_suffix(b"; searching").and_then(numbered)
            {
                self.source = None;
                self.push(needed, namespace);
            }
        } else if let Some(rest) = message.strip_prefix(b" search path=") {
            self.source = source_of_path(rest).or(self.source);
        } else if message.starts_with(b" search note=") {
            self.source = Some(SearchSource::Note);
        } else if message.starts_with(b" search cache=") {
            self.source = Some(SearchSource::LoaderCache);
        } else if let Some(rest) = message.strip_prefix(b"    (") {
            self.annotated(rest);
        } else if let Some(rest) = message.strip_prefix(b"file=") {
            self.file(rest);
        } else if message.starts_with(b"calling init: ")
            || message.starts_with(b"initialize program: ")
            || message.starts_with(b"transferring control: ")
        {
            self.initialised = true;
        }
    }

    fn push(&mut self, needed: &[u8], namespace: u64) {
        let (needed_by, of_dlopen) = self.requester.take().unzip();
        let at_run_time = self.initialised || of_dlopen == Some(true);
        self.process.searches.push(Search {
            namespace,
            needed_by,
            needed: needed.into(),
            at_run_time,
            tries: Vec::new(),
            mapped: false,
        });
    }

    fn tried(&mut self, path: &BStr) {
        let source = self.source.unwrap_or(SearchSource::System);
        if let Some(search) = self.process.searches.last_mut() {
            search.tries.push(Try { source, path: path.to_owned(), said: None });
        }
    }

    /// Reads a line of glibc 2.43 about the try above it.
    fn annotated(&mut self, text: &[u8]) {
        let said = match text {
            b"no such file)" => Outcome::Miss,
            b"incompatible ELF class)" => Outcome::WrongClass,
            b"incompatible ELF machine)" => Outcome::WrongMachine,
            b"incompatible ELF headers with the host)" => Outcome::Refused,
            _ => return,
        };
        let last = self.process.searches.last_mut().and_then(|search| search.tries.last_mut());
        if let Some(tried) = last {
            tried.said = Some(said);
        }
    }

    /// Reads a line of `files`.
    fn file(&mut self, rest: &[u8]) {
        if let Some((needed, namespace)) =
            rest.strip_suffix(b";  generating link map").and_then(numbered)
        {
            let last = self.process.searches.last_mut();
            if let Some(search) = last.filter(|s| s.needed == needed && s.namespace == namespace) {
                search.mapped = true;
            }
            return;
        }
        for (text, at_run_time) in
            [(&b";  needed by "[..], false), (&b";  dynamically loaded by "[..], true)]
        {
            let Some(at) = rest.rfind(text) else { continue };
            let both = numbered(&rest[..at]).zip(numbered(&rest[at + text.len()..]));
            let Some(((needed, namespace), (path, _))) = both else { return };
            self.requester = Some((path.into(), at_run_time));
            // The loader prints no `find library=` line for a path.
            if needed.contains(&b'/') {
                self.push(needed, namespace);
            }
            return;
        }
    }
}

/// Parses `NAME [N]` into the name and the namespace.
fn numbered(text: &[u8]) -> Option<(&[u8], u64)> {
    let inner = text.strip_suffix(b"]")?;
    let at = inner.rfind(b" [")?;
    Some((&inner[..at], inner[at + 2..].to_str().ok()?.parse().ok()?))
}

/// Parses the rule at the end of a `search path=` line.
fn source_of_path(rest: &[u8]) -> Option<SearchSource> {
    let at = rest.rfind(b"\t\t(")?;
    let what = &rest[at + 3..];
    let rules = [
        (&b"RPATH from file "[..], SearchSource::Rpath),
        (b"RUNPATH from file ", SearchSource::Runpath),
        (b"LD_LIBRARY_PATH)", SearchSource::LibraryPath),
        (b"system search path)", SearchSource::System),
    ];
    rules.into_iter().find(|(text, _)| what.starts_with(text)).map(|(_, source)| source)
}

#[cfg(test)]
mod tests;
