//! Parses what glibc's loader says of its work on each object (`LD_DEBUG=files,reloc`), with the time of
//! each line: `_dl_map_object` of `dl-load.c` before a search, `_dl_relocate_object` of `dl-reloc.c` before
//! a relocation, `call_init` of `dl-init.c` before constructors.

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// One start up to its entry point. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// The kernel's work in the `execve`.
    pub exec_ns: u64,
    /// The loader's time, from the end of the `execve` to the entry point.
    pub loader_ns: u64,
    /// Page faults in that time.
    pub page_faults: u64,
    /// Of `loader_ns`: the loader's own work beside the phases below; without a clock of its own, the time before
    /// the first search.
    pub start_ns: u64,
    /// Of `loader_ns`: searching, opening and mapping the objects.
    pub search_ns: u64,
    /// Relocating the objects, with the symbol lookups.
    pub relocation_ns: u64,
    /// The constructors of the libraries.
    pub constructors_ns: u64,
    /// The same for each object, by its file name, the most time first.
    pub objects: Vec<ObjectPhases>,
}

/// The loader's work for one object, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectPhases {
    /// Its file name.
    pub name: String,
    /// Searching, opening and mapping it.
    pub search_ns: u64,
    /// Relocating it.
    pub relocation_ns: u64,
    /// Its constructors.
    pub constructors_ns: u64,
}

impl ObjectPhases {
    /// Returns its whole time.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.search_ns + self.relocation_ns + self.constructors_ns
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Search,
    Relocation,
    Constructors,
}

/// Parses the texts of a start, each with the time from the `execve` to its writing, up to the entry point.
/// `None` if there is no relocation among them.
#[must_use]
pub fn parse(texts: &[(u64, Vec<u8>)], entry_ns: u64) -> Option<Phases> {
    let mut phases = Phases { loader_ns: entry_ns, ..Phases::default() };
    let mut known: FxHashMap<BString, usize> = FxHashMap::default();
    let mut begun: Option<(Kind, usize, u64)> = None;
    let before = texts.iter().filter(|(at, _)| *at <= entry_ns);
    let begins =
        before.flat_map(|(at, text)| text.lines().filter_map(|line| Some((*at, begin(line)?))));
    for (at, next) in begins.map(|(at, begin)| (at, Some(begin))).chain([(entry_ns, None)]) {
        if let Some((kind, object, since)) = begun {
            phases.add(kind, object, at.saturating_sub(since));
        }
        if begun.is_none() {
            phases.start_ns = at;
        }
        let Some((kind, name)) = next else { break };
        let object = *known.entry(name.to_owned()).or_insert_with(|| {
            let name = name.to_str_lossy().into_owned();
            phases.objects.push(ObjectPhases { name, ..ObjectPhases::default() });
            phases.objects.len() - 1
        });
        begun = Some((kind, object, at));
    }
    phases.objects.sort_by_key(|object| std::cmp::Reverse(object.ns()));
    (phases.relocation_ns > 0).then_some(phases)
}

impl Phases {
    /// Returns the phases with the loader's own times of a start without messages, which delay a search more
    /// than the rest: of that start, of all that the loader timed in it, of search and relocation. The constructors,
    /// which the loader does not time, take at most what is left. The objects keep their shares.
    #[must_use]
    pub fn with_times(
        mut self,
        loader_ns: u64,
        timed_ns: u64,
        [search_ns, relocation_ns]: [u64; 2],
    ) -> Self {
        let scaled =
            |ns: u64, sum: u64, old: u64| (ns as f64 * sum as f64 / old.max(1) as f64) as u64;
        let constructors_ns = self.constructors_ns.min(loader_ns.saturating_sub(timed_ns));
        for object in &mut self.objects {
            object.search_ns = scaled(object.search_ns, search_ns, self.search_ns);
            object.relocation_ns = scaled(object.relocation_ns, relocation_ns, self.relocation_ns);
            object.constructors_ns =
                scaled(object.constructors_ns, constructors_ns, self.constructors_ns);
        }
        self.objects.sort_by_key(|object| std::cmp::Reverse(object.ns()));
        let start_ns = timed_ns.saturating_sub(search_ns + relocation_ns);
        Self { loader_ns, search_ns, relocation_ns, start_ns, constructors_ns, ..self }
    }

    fn add(&mut self, kind: Kind, object: usize, ns: u64) {
        let object = &mut self.objects[object];
        let (sum, part) = match kind {
            Kind::Search => (&mut self.search_ns, &mut object.search_ns),
            Kind::Relocation => (&mut self.relocation_ns, &mut object.relocation_ns),
            Kind::Constructors => (&mut self.constructors_ns, &mut object.constructors_ns),
        };
        *sum += ns;
        *part += ns;
    }
}

/// Parses a line at which the work on an object begins.
fn begin(line: &[u8]) -> Option<(Kind, &BStr)> {
    let text = line.split_once_str(":\t")?.1;
    let (kind, name) = if let Some(rest) = text.strip_prefix(b"file=") {
        let (name, what) = rest.split_once_str(" [")?;
        let is_search =
            what.contains_str("];  needed by ") || what.contains_str("dynamically loaded by");
        (is_search.then_some(Kind::Search)?, name)
    } else if let Some(name) = text.strip_prefix(b"relocation processing: ") {
        (Kind::Relocation, name.strip_suffix(b" (lazy)").unwrap_or(name))
    } else {
        (Kind::Constructors, text.strip_prefix(b"calling init: ")?)
    };
    Some((kind, name.rsplit_str("/").next()?.as_bstr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<(u64, Vec<u8>)> {
        let lines = [
            (100, "\n 7:\tfile=libx.so [0];  needed by app [0]\n"),
            (110, " 7:\tfile=libx.so [0];  generating link map\n"),
            (130, " 7:\tfile=libc.so.6 [0];  needed by app [0]\n"),
            (170, "\n 7:\trelocation processing: /lib/libc.so.6\n"),
            (200, "\n 7:\trelocation processing: /b/libx.so (lazy)\n"),
            (280, "\n 7:\tcalling init: /lib/libc.so.6\n\n"),
            (300, "\n 7:\tcalling init: /b/libx.so\n\n"),
            (900, "\n 7:\tfile=liblate.so [0];  dynamically loaded by app [0]\n"),
        ];
        lines.map(|(at, line)| (at, line.as_bytes().to_vec())).to_vec()
    }

    #[test]
    fn the_time_between_two_lines_is_that_of_the_first_ones_object() {
        let phases = parse(&texts(), 350).expect("a start");
        let sums = [phases.search_ns, phases.relocation_ns, phases.constructors_ns];
        assert_eq!((phases.start_ns, sums), (100, [70, 110, 70]));
        assert_eq!(phases.start_ns + sums.iter().sum::<u64>(), phases.loader_ns);
        let all: u64 = phases.objects.iter().map(ObjectPhases::ns).sum();
        assert_eq!(sums.iter().sum::<u64>(), all);
        let names: Vec<_> = phases.objects.iter().map(|it| (it.name.as_str(), it.ns())).collect();
        assert_eq!(names, [("libx.so", 160), ("libc.so.6", 90)]);
        let timed = phases.with_times(300, 200, [35, 110]);
        assert_eq!((timed.start_ns, timed.search_ns, timed.constructors_ns), (55, 35, 70));
        assert_eq!((timed.objects[0].search_ns, timed.objects[0].relocation_ns), (15, 80));
        let timed = timed.with_times(235, 200, [35, 110]);
        assert_eq!((timed.constructors_ns, timed.objects[0].constructors_ns), (35, 25));
    }

    #[test]
    fn text_truncated_anywhere_is_parsed_and_text_without_relocation_is_no_start() {
        let all = texts();
        for (at, (_, text)) in all.iter().enumerate() {
            for end in 0..text.len() {
                let _ = parse(&[&all[..at], &[(1, text[..end].to_vec())]].concat(), 350);
            }
        }
        assert_eq!(parse(&all[..3], 350), None);
    }
}
