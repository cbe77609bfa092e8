//! Parses the audit module's log (`BECALM=log:FILE`, `docs/index-format.md`) into probes.
//!
//! Each line is one call of the loader into the module, about a mapped object, a needed string or a
//! candidate path. The log lacks:
//!
//! - The outcome of the last candidate of a lookup without a new object. The search may have failed,
//!   or found a file that is loaded already. The candidate counts as a miss.
//! - The errno of a failed open, and the `stat` after the first miss in a directory.
//! - The difference between `DT_RPATH` and `DT_RUNPATH`: the loader uses `LA_SER_RUNPATH` for both.

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::lossy::lossy;
use crate::probe::{Call, Outcome, Probe, SearchSource};

/// One process of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditedProcess {
    /// Its program; empty if it made no lookup.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// Its process id.
    pub pid: u32,
    /// The number of its lookups.
    #[serde(rename = "questions")]
    pub lookups: usize,
    /// The number of those that the index answered.
    pub answered: usize,
    /// Attempts that found nothing.
    pub missed_opens: usize,
    /// The attempts ([probes](#probe)).
    pub probes: Vec<Probe>,
}

/// The module's decision about the symbol bindings of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bindings {
    /// It applied them.
    Applied {
        /// Relocations with a symbol whose result came from the index.
        bound: u32,
        /// All relocations with a symbol.
        relocations: u32,
    },
    /// It left them to the loader: the reason, and the path of the object if it is about one.
    Declined(String),
}

/// Returns the module's decision in the log of one process; `None` if the log has none. If a program
/// has the module twice (`LD_AUDIT` and a `DT_AUDIT` entry), one of the two declines.
#[must_use]
pub fn bindings(log: &[u8]) -> Option<Bindings> {
    let of_line = |line| Some(<[u8]>::split_once_str(line, "\tbindings\t0\t")?.1);
    let decisions = log.lines().filter_map(of_line).filter_map(|decision| {
        let fields: Vec<&[u8]> = decision.split(|&byte| byte == b'\t').collect();
        match &fields[..] {
            [b"applied", bound, relocations] => {
                Some(Bindings::Applied { bound: number(bound)?, relocations: number(relocations)? })
            }
            [b"declined", why @ ..] => {
                let why = bstr::join(" ", why.iter().map(|field| unescape(field)));
                Some(Bindings::Declined(why.to_str_lossy().trim().to_owned()))
            }
            _ => None,
        }
    });
    let decisions: Vec<Bindings> = decisions.collect();
    let applied = |decision: &&Bindings| matches!(decision, Bindings::Applied { .. });
    decisions.iter().find(applied).or(decisions.first()).cloned()
}

/// Parses a log. The result has one element for each process, in order of their first lines. Foreign
/// lines are skipped.
#[must_use]
pub fn parse(log: &[u8]) -> Vec<AuditedProcess> {
    let mut readers: Vec<Reader> = Vec::new();
    let mut of_pid: FxHashMap<u32, usize> = FxHashMap::default();
    for line in log.lines() {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
        let [pid, what, id, rest @ ..] = &fields[..] else { continue };
        let Some(pid) = number(pid) else { continue };
        let index = *of_pid.entry(pid).or_insert(readers.len());
        if index == readers.len() {
            let process = AuditedProcess { pid, ..AuditedProcess::default() };
            readers.push(Reader { process, ..Reader::default() });
        }
        match (*what, rest) {
            (b"object", [_, path]) => readers[index].object(id, unescape(path)),
            (b"search", [source, name, answer]) => {
                readers[index].search(id, number(source), unescape(name), unescape(answer));
            }
            _ => {}
        }
    }
    let finished = |Reader { process, .. }| {
        let missed = |probe: &&Probe| probe.outcome == Outcome::Miss;
        let missed_opens = process.probes.iter().filter(missed).count();
        AuditedProcess { missed_opens, ..process }
    };
    readers.into_iter().map(finished).collect()
}

/// The state of one process while its lines are read.
#[derive(Default)]
struct Reader {
    process: AuditedProcess,
    /// The paths of objects by their id in the log.
    objects: FxHashMap<BString, BString>,
    /// The requester of the current lookup. It is empty if the log has no line about it.
    needed_by: BString,
    /// The needed string of the current lookup.
    needed: BString,
    /// True if the module answered it.
    is_answered: bool,
    /// True if it mapped an object.
    has_mapped: bool,
    /// The position of its first probe.
    first: usize,
}

impl Reader {
    fn object(&mut self, id: &[u8], path: BString) {
        self.objects.insert(id.into(), path.clone());
        // `la_objopen` follows the last `la_objsearch` of the lookup that mapped the object.
        let own = &mut self.process.probes[self.first..];
        let Some(last) = own.last_mut().filter(|_| !self.has_mapped) else { return };
        let is_path = last.needed.contains(&b'/');
        if is_path && !self.is_answered {
            last.path.clone_from(&path);
        }
        if last.path == path {
            last.outcome = Outcome::Hit;
        }
        self.has_mapped = is_path || last.path == path;
    }

    fn search(&mut self, id: &[u8], source: Option<u32>, name: BString, answer: BString) {
        let source = match source {
            // `LA_SER_ORIG` of `<link.h>`: the original name, before any search.
            Some(1) => return self.begin(id, name, answer),
            // `LA_SER_LIBPATH`, `LA_SER_RUNPATH`, `LA_SER_CONFIG`, `LA_SER_DEFAULT`.
            Some(2) => SearchSource::LibraryPath,
            Some(4) => SearchSource::Runpath,
            Some(8) => SearchSource::LoaderCache,
            Some(64) => SearchSource::System,
            _ => return,
        };
        let is_searched = !self.is_answered && !self.needed.contains(&b'/');
        if is_searched && self.process.lookups > 0 {
            self.push(source, name);
        }
    }

    /// Begins a lookup. Its attempts are the answer, the needed string if it is a path, or the candidates of the
    /// loader's own search.
    fn begin(&mut self, id: &[u8], needed: BString, answer: BString) {
        self.needed_by = self.objects.get(BStr::new(id)).cloned().unwrap_or_default();
        if self.process.lookups == 0 {
            self.process.path.clone_from(&self.needed_by);
        }
        self.process.lookups += 1;
        self.is_answered = !answer.is_empty();
        self.process.answered += usize::from(self.is_answered);
        self.has_mapped = false;
        self.first = self.process.probes.len();
        self.needed = needed;
        let direct = if self.is_answered { answer } else { self.needed.clone() };
        if self.is_answered || direct.contains(&b'/') {
            self.push(SearchSource::Direct, direct);
        }
    }

    /// Adds an attempt, which is a miss until it maps an object.
    fn push(&mut self, source: SearchSource, path: BString) {
        let (needed_by, needed) = (self.needed_by.clone(), self.needed.clone());
        let (call, outcome) = (Call::Open, Outcome::Miss);
        self.process.probes.push(Probe { needed_by, needed, source, path, call, outcome });
    }
}

fn number(field: &[u8]) -> Option<u32> {
    field.to_str().ok()?.parse().ok()
}

/// Decodes `\t`, `\n` and `\\`. Any other escape stays.
fn unescape(mut field: &[u8]) -> BString {
    let mut text = BString::default();
    while let [first, rest @ ..] = field {
        let (byte, rest) = match field {
            [b'\\', b't', rest @ ..] => (b'\t', rest),
            [b'\\', b'n', rest @ ..] => (b'\n', rest),
            [b'\\', b'\\', rest @ ..] => (b'\\', rest),
            _ => (*first, rest),
        };
        text.push(byte);
        field = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] = b"7\tobject\ta0\t0\t/bin/p\n\
        7\tsearch\ta0\t1\tliba.so\t/s/a/liba.so\n\
        7\tobject\tb0\t0\t/s/a/liba.so\n\
        8\tobject\ta0\t0\t/bin/q\n\
        7\tsearch\tb0\t1\tlibb.so\t\n\
        7\tsearch\tb0\t4\t/s/x\\ty/libb.so\t\n\
        7\tsearch\tb0\t8\t/lib/libb.so\t\n\
        7\tobject\tc0\t0\t/lib/libb.so\n\
        7\tsearch\tb0\t1\tlibc.so\t\n\
        7\tsearch\tb0\t64\t/lib/libc.so\t\n\
        nonsense\n7\tsearch\n";

    #[test]
    fn an_answer_is_one_hit_and_a_search_gives_its_candidates() {
        let processes = parse(LOG);
        assert_eq!(processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [7, 8]);
        let seen: Vec<String> = processes[0]
            .probes
            .iter()
            .map(|p| {
                format!("{} {} {:?} {} {:?}", p.needed_by, p.needed, p.source, p.path, p.outcome)
            })
            .collect();
        assert_eq!(
            seen,
            [
                "/bin/p liba.so Direct /s/a/liba.so Hit",
                "/s/a/liba.so libb.so Runpath /s/x\ty/libb.so Miss",
                "/s/a/liba.so libb.so LoaderCache /lib/libb.so Hit",
                "/s/a/liba.so libc.so System /lib/libc.so Miss",
            ]
        );
    }

    #[test]
    fn the_bindings_are_applied_if_one_of_two_modules_applied_them() {
        assert_eq!(bindings(LOG), None);
        let declined = b"7\tbindings\t0\tdeclined\tother-file\t/lib/x.so\n";
        let why = "other-file /lib/x.so".to_owned();
        assert_eq!(bindings(declined), Some(Bindings::Declined(why)));
        let both = [&declined[..], b"7\tbindings\t0\tapplied\t3\t4\n"].concat();
        assert_eq!(bindings(&both), Some(Bindings::Applied { bound: 3, relocations: 4 }));
        let off = b"7\tbindings\t0\tdeclined\tnobind\t\n";
        assert_eq!(bindings(off), Some(Bindings::Declined("nobind".to_owned())));
    }

    #[test]
    fn a_log_truncated_anywhere_is_parsed() {
        for end in 0..LOG.len() {
            assert!(parse(&LOG[..end]).len() <= 2);
        }
        assert_eq!(unescape(b"a\\\\n\\x\\"), "a\\n\\x\\");
    }
}
