//! The audit module's log (`BECALM=log:FILE`, `docs/index-format.md`) → probes.
//!
//! Each line is one call of the loader into the module: an object it mapped, or a question
//! and every candidate path it is about to open. What the log does not tell:
//!
//! - whether a question's last candidate answered, where no new object came of it: the
//!   search may have failed, or met a file that is loaded already. It counts as a miss;
//! - which errno a failed open met, and the `stat` that follows a directory's first miss;
//! - `DT_RPATH` from `DT_RUNPATH`: the loader calls both `LA_SER_RUNPATH`.

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use crate::probe::{Call, Outcome, Probe, SearchSource};

/// What one process wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedProcess {
    /// Process id, as the process saw it.
    pub pid: u32,
    /// Its questions in order.
    pub lookups: Vec<Lookup>,
}

/// One question of an object, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The object that asks; empty where the log has no line of it.
    pub needed_by: BString,
    /// The string asked for.
    pub needed: BString,
    /// What the module answered, if it did.
    pub answer: Option<BString>,
    /// The candidates the loader went on to open itself.
    pub tries: Vec<(SearchSource, BString)>,
    /// Path of the object that was mapped for it.
    pub mapped: Option<BString>,
}

impl Lookup {
    /// The attempts: the answer, or a path asked for as such, or the candidates.
    fn attempts(&self) -> Vec<(SearchSource, &BString)> {
        match &self.answer {
            Some(answer) => vec![(SearchSource::Direct, answer)],
            None if self.needed.contains(&b'/') => {
                vec![(SearchSource::Direct, self.mapped.as_ref().unwrap_or(&self.needed))]
            }
            None => self.tries.iter().map(|(source, path)| (*source, path)).collect(),
        }
    }
}

impl AuditedProcess {
    /// The attempts in order, as probes of `open`.
    #[must_use]
    pub fn probes(&self) -> Vec<Probe> {
        let mut probes = Vec::new();
        for lookup in &self.lookups {
            for (source, path) in lookup.attempts() {
                let hit = lookup.mapped.as_ref() == Some(path);
                probes.push(Probe {
                    needed_by: lookup.needed_by.clone(),
                    needed: lookup.needed.clone(),
                    source,
                    path: path.clone(),
                    call: Call::Open,
                    outcome: if hit { Outcome::Hit } else { Outcome::Miss },
                });
            }
        }
        probes
    }
}

/// Reads a log; one element a process, in order of first appearance. Lines that are none of
/// the module's are passed over.
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
            readers.push(Reader { process, objects: FxHashMap::default() });
        }
        match (*what, rest) {
            (b"object", [_, path]) => readers[index].object(id, unescape(path)),
            (b"search", [source, name, answer]) => {
                readers[index].search(id, number(source), unescape(name), unescape(answer));
            }
            _ => {}
        }
    }
    readers.into_iter().map(|reader| reader.process).collect()
}

/// One process's lines on their way.
struct Reader {
    process: AuditedProcess,
    /// By the id of the lines.
    objects: FxHashMap<BString, BString>,
}

impl Reader {
    fn object(&mut self, id: &[u8], path: BString) {
        self.objects.insert(id.into(), path.clone());
        if let Some(lookup) = self.process.lookups.last_mut()
            && lookup.mapped.is_none()
        {
            let fits = lookup.attempts().last().is_some_and(|(_, tried)| **tried == path)
                || lookup.needed.contains(&b'/');
            if fits {
                lookup.mapped = Some(path);
            }
        }
    }

    fn search(&mut self, id: &[u8], source: Option<u32>, name: BString, answer: BString) {
        let source = match source {
            Some(LA_SER_ORIG) => {
                let needed_by = self.objects.get(BStr::new(id)).cloned().unwrap_or_default();
                self.process.lookups.push(Lookup {
                    needed_by,
                    needed: name,
                    answer: (!answer.is_empty()).then_some(answer),
                    tries: Vec::new(),
                    mapped: None,
                });
                return;
            }
            Some(2) => SearchSource::LibraryPath,
            Some(4) => SearchSource::Runpath,
            Some(8) => SearchSource::LoaderCache,
            Some(64) => SearchSource::System,
            _ => return,
        };
        if let Some(lookup) = self.process.lookups.last_mut() {
            lookup.tries.push((source, name));
        }
    }
}

/// `<link.h>`: the original name, before any search.
const LA_SER_ORIG: u32 = 1;

fn number(field: &[u8]) -> Option<u32> {
    field.to_str().ok()?.parse().ok()
}

/// `\t`, `\n` and `\\` back to what they stand for; any other escape stays.
fn unescape(field: &[u8]) -> BString {
    let mut text = BString::default();
    let mut bytes = field.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = match (byte, bytes.peek()) {
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            (b'\\', Some(b'\\')) => Some(b'\\'),
            _ => None,
        };
        if escaped.is_some() {
            bytes.next();
        }
        text.push(escaped.unwrap_or(byte));
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
    fn an_answer_is_one_hit_and_a_search_its_candidates() {
        let processes = parse(LOG);
        assert_eq!(processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [7, 8]);
        let seen: Vec<String> = processes[0]
            .probes()
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
    fn any_bytes_are_read() {
        for end in 0..LOG.len() {
            assert!(parse(&LOG[..end]).len() <= 2);
        }
        assert_eq!(unescape(b"a\\\\n\\x\\"), "a\\n\\x\\");
    }
}
