//! The record of glibc's `LD_DEBUG=libs` and `LD_DEBUG=libs,files` → searches.
//!
//! Each line of the loader starts with the process id, right-justified in ten
//! columns, a colon and a tab (glibc `elf/dl-printf.c` `_dl_debug_vdprintf`, the
//! same from 2.31 to 2.44). Only line ends of the message itself are followed by a
//! new tag, so a line without one continues a name that holds a newline.
//!
//! What the record tells: every candidate path tried in a search, in order; with
//! `files`, who asked, and which searches led to a new object. What it does not:
//!
//! - which errno a failed try met. Until 2.42 a failed open, a wrong class and a
//!   wrong machine look alike; 2.43 writes a line under most of the failed tries;
//! - whether the last try of a search answered, where no new object came of it: the
//!   search may have failed, or met a file that is loaded already. The list the
//!   loader prints under `LD_TRACE_LOADED_OBJECTS` decides, see
//!   [`ProcessRecord::probes`];
//! - for a needed string with a slash, the path it expanded to;
//! - the `stat` that follows the first miss in a directory, and any open of the
//!   loader cache itself;
//! - whether the answer of the loader cache was opened: it is named before
//!   `DF_1_NODEFLIB` is looked at;
//! - reliably, the rule that supplied a directory. Directories are shared by name in
//!   the whole process, and one that two rules list is printed under the rule that
//!   came first (`fillin_rpath` in `elf/dl-load.c`).

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::probe::{Call, Outcome, Probe, SearchSource};

/// What one process wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRecord {
    /// Process id, as the process saw it.
    pub pid: u32,
    /// Its searches in order.
    pub searches: Vec<Search>,
}

/// One search for one needed string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Link-map namespace: 0 is the program's, audit modules have others.
    pub namespace: u64,
    /// The object that asks; `None` where `files` was not asked for.
    pub needed_by: Option<BString>,
    /// The needed string, unexpanded.
    pub needed: BString,
    /// True for a `dlopen`, and for all that follows the first initialiser.
    pub at_run_time: bool,
    /// The candidates tried. Empty for a needed string with a slash.
    pub tries: Vec<Try>,
    /// True where a new object came of it (needs `files`).
    pub mapped: bool,
}

/// One candidate path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The rule the loader names; see the module's text on how far to trust it.
    pub source: SearchSource,
    /// The candidate.
    pub path: BString,
    /// What the loader said came of it, where it said so.
    pub said: Option<Outcome>,
}

/// Reads a record; one element a process, in order of first appearance.
#[must_use]
pub fn parse(record: &[u8]) -> Vec<ProcessRecord> {
    let mut readers: Vec<Reader> = Vec::new();
    let mut of_pid: FxHashMap<u32, usize> = FxHashMap::default();
    for (pid, message) in messages(record) {
        let index = *of_pid.entry(pid).or_insert(readers.len());
        if index == readers.len() {
            readers.push(Reader { pid, ..Reader::default() });
        }
        readers[index].message(&message);
    }
    readers
        .into_iter()
        .map(|reader| ProcessRecord { pid: reader.pid, searches: reader.searches })
        .collect()
}

impl ProcessRecord {
    /// The opens of program start, one a try. `missing` names the needed strings
    /// the loader listed as "not found": where the record leaves the last try of a
    /// search open, it is a miss for those and a hit for all others.
    ///
    /// A needed string with a slash gives one probe of source
    /// [`SearchSource::Direct`], its path the unexpanded string.
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
        let last = if missing && !self.mapped { Outcome::Miss } else { Outcome::Hit };
        if self.is_direct() {
            return vec![probe(SearchSource::Direct, &self.needed, last)];
        }
        let count = self.tries.len();
        let outcome = |index: usize, tried: &Try| match tried.said {
            Some(said) => said,
            None if index + 1 == count => last,
            None => Outcome::Miss,
        };
        let with_outcome =
            |(index, tried): (usize, &Try)| probe(tried.source, &tried.path, outcome(index, tried));
        self.tries.iter().enumerate().map(with_outcome).collect()
    }

    /// True where the needed string is a path: nothing is searched.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.needed.contains(&b'/')
    }
}

/// The messages of a record with their process ids, names with newlines put
/// together again. Lines before the first tag are dropped.
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
    pid: u32,
    searches: Vec<Search>,
    /// Who asked, from a `needed by` line, for the search that follows it.
    asked_by: Option<Asked>,
    source: Option<SearchSource>,
    initialised: bool,
}

/// The asker of a search to come.
struct Asked {
    by: BString,
    at_run_time: bool,
}

impl Reader {
    fn message(&mut self, message: &[u8]) {
        if let Some(path) = message.strip_prefix(b"  trying file=") {
            self.tried(path.as_bstr());
        } else if let Some(rest) = message.strip_prefix(b"find library=") {
            self.search_starts(rest);
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
        } else if let Some(rest) = message.strip_prefix(b"  refusing to load file=") {
            self.refused(rest);
        } else if message.starts_with(b"calling init: ")
            || message.starts_with(b"initialize program: ")
            || message.starts_with(b"transferring control: ")
        {
            self.initialised = true;
        }
    }

    fn search_starts(&mut self, rest: &[u8]) {
        let Some((needed, namespace)) = rest.strip_suffix(b"; searching").and_then(numbered) else {
            return;
        };
        self.source = None;
        self.push(needed, namespace);
    }

    fn push(&mut self, needed: &[u8], namespace: u64) {
        let asked = self.asked_by.take();
        let at_run_time = self.initialised || asked.as_ref().is_some_and(|a| a.at_run_time);
        self.searches.push(Search {
            namespace,
            needed_by: asked.map(|asked| asked.by),
            needed: needed.into(),
            at_run_time,
            tries: Vec::new(),
            mapped: false,
        });
    }

    fn tried(&mut self, path: &BStr) {
        let source = self.source.unwrap_or(SearchSource::System);
        if let Some(search) = self.searches.last_mut() {
            search.tries.push(Try { source, path: path.to_owned(), said: None });
        }
    }

    /// A line of glibc 2.43 under the try it speaks of.
    fn annotated(&mut self, text: &[u8]) {
        let said = match text {
            b"no such file)" => Outcome::Miss,
            b"incompatible ELF class)" => Outcome::WrongClass,
            b"incompatible ELF machine)" => Outcome::WrongMachine,
            b"incompatible ELF headers with the host)" => Outcome::Refused,
            _ => return,
        };
        self.last_try(|tried| tried.said = Some(said));
    }

    /// A preload in secure-execution mode that has no set-user-id bit.
    fn refused(&mut self, rest: &[u8]) {
        self.last_try(|tried| {
            if rest.starts_with(&tried.path) {
                tried.said = Some(Outcome::Refused);
            }
        });
    }

    fn last_try(&mut self, change: impl FnOnce(&mut Try)) {
        let last = self.searches.last_mut().and_then(|search| search.tries.last_mut());
        if let Some(tried) = last {
            change(tried);
        }
    }

    /// A line of `files`.
    fn file(&mut self, rest: &[u8]) {
        if let Some((needed, namespace)) =
            rest.strip_suffix(b";  generating link map").and_then(numbered)
        {
            let last = self.searches.last_mut();
            if let Some(search) = last.filter(|s| s.needed == needed && s.namespace == namespace) {
                search.mapped = true;
            }
            return;
        }
        for (text, at_run_time) in
            [(&b";  needed by "[..], false), (&b";  dynamically loaded by "[..], true)]
        {
            let Some(at) = rest.rfind(text) else { continue };
            let asked = numbered(&rest[..at]).zip(numbered(&rest[at + text.len()..]));
            let Some(((needed, namespace), (by, _))) = asked else { return };
            self.asked_by = Some(Asked { by: by.into(), at_run_time });
            if needed.contains(&b'/') {
                self.push(needed, namespace);
            }
            return;
        }
    }
}

/// `NAME [N]` → the name and the namespace.
fn numbered(text: &[u8]) -> Option<(&[u8], u64)> {
    let inner = text.strip_suffix(b"]")?;
    let at = inner.rfind(b" [")?;
    Some((&inner[..at], inner[at + 2..].to_str().ok()?.parse().ok()?))
}

/// The rule a `search path=` line names at its end.
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
