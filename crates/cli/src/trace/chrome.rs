//! A run in time, as Trace Event JSON for Perfetto, speedscope and similar viewers.
//!
//! Each span is a complete event (`"ph": "X"`), in microseconds from the first `execve`. The spans of
//! a thread nest: process, phase, search for a library, lookup.

use becalm_core::observe::{Class, Kind};
use becalm_core::path;
use becalm_core::record::phases::Phases;
use becalm_host::trace::TimedLookup;
use becalm_lib::json;
use becalm_lib::trace::report::{Report, Seen};
use bstr::{BStr, ByteSlice};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// Returns the document.
pub(crate) fn document(report: &Report) -> Vec<u8> {
    let mut spans = Spans::default();
    report.images.iter().for_each(|seen| spans.add_image(seen));
    let about = json!({"command": report.command, "notes": report.notes, "opens_alone": report.opens_alone});
    let document =
        json!({"displayTimeUnit": "ms", "otherData": about, "traceEvents": spans.events});
    let mut text = document.to_string().into_bytes();
    text.push(b'\n');
    text
}

/// The process and the thread of a span.
type Thread = (u32, u32);

/// The begin and the end of a span, in nanoseconds.
type Range = (u64, u64);

#[derive(Default)]
struct Spans {
    events: Vec<Value>,
    /// The end of the last lookup of each thread.
    ends: FxHashMap<Thread, u64>,
}

impl Spans {
    fn add(&mut self, thread: Thread, names: (&str, &str), (from, to): Range, args: Value) {
        // Eighths are exact as floating-point numbers: the sum of begin and length is the next begin.
        let us = |ns: u64| (ns / 125) as f64 / 8.0;
        let ((name, cat), (pid, tid)) = (names, thread);
        self.events.push(json!({
            "ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid,
            "ts": us(from), "dur": us(to) - us(from), "args": args,
        }));
    }

    fn add_image(&mut self, seen: &Seen) {
        let name = last_name(seen.path.as_ref());
        let main = (seen.pid, seen.pid);
        self.events.push(json!({
            "ph": "M", "name": "process_name", "pid": seen.pid, "tid": seen.pid, "args": {"name": name},
        }));
        let entry = seen.began_ns + seen.loader.net_ns;
        let end = entry + seen.program.net_ns;
        let path = json!({"path": seen.path.to_str_lossy(), "forked": seen.forked});
        self.add(main, (&name, "process"), (seen.began_ns, end), path);
        if seen.loader.net_ns > 0 {
            self.add(main, ("loader", "phase"), (seen.began_ns, entry), Value::Null);
        }
        self.add(main, ("program", "phase"), (entry, end), Value::Null);
        if let Some(phases) = seen.relocations.as_ref().and_then(|it| it.phases.as_ref()) {
            self.add_phases(seen, phases);
        }
        let mut rest = seen.timeline.as_slice();
        while let Some(first) = rest.first() {
            let group = rest.chunk_by(is_one_search).next().unwrap_or(rest);
            rest = &rest[group.len()..];
            let limit = if first.class.is_none() { entry } else { end };
            // The loader maps a library between its search and the next one.
            let next = rest.first().filter(|next| is_search(next) && next.class == first.class);
            let until = next.map_or(0, |next| seen.began_ns + next.at_ns).min(limit);
            self.add_group(seen, group, (until, limit));
        }
    }

    /// Adds the phases of the loader in other starts, in proportion, on a row of their own.
    fn add_phases(&mut self, seen: &Seen, phases: &Phases) {
        let row = (seen.pid, 0);
        self.events.push(json!({
            "ph": "M", "name": "thread_name", "pid": row.0, "tid": row.1,
            "args": {"name": "loader, as timed in other starts"},
        }));
        let scale = seen.loader.net_ns as f64 / phases.loader_ns.max(1) as f64;
        let mut at = seen.began_ns;
        for (name, ns) in [
            ("start", phases.start_ns),
            ("search", phases.search_ns),
            ("relocation", phases.relocation_ns),
            ("constructors", phases.constructors_ns),
        ] {
            let end = at + (ns as f64 * scale) as u64;
            self.add(row, (name, "part"), (at, end), Value::Null);
            at = end;
        }
    }

    /// Adds lookups, and the span around those of the loader for one library.
    fn add_group(&mut self, seen: &Seen, group: &[TimedLookup], (until, limit): Range) {
        let thread = (seen.pid, group[0].task);
        let mut lookups = Vec::new();
        for one in group {
            // The tracer's cost is an average, so lookups could overlap by a little.
            let end = self.ends.entry(thread).or_insert(seen.began_ns);
            let from = (seen.began_ns + one.at_ns).max(*end).min(limit);
            let to = (from + one.lookup.ns).min(limit).max(from);
            *end = to;
            lookups.push((one, (from, to)));
        }
        if is_search(&group[0])
            && let (Some((_, first)), Some((_, last))) = (lookups.first(), lookups.last())
        {
            let range = (first.0, last.1.max(until));
            self.ends.insert(thread, range.1);
            let needed = group.iter().find(|one| one.lookup.kind == Kind::Open);
            let needed = last_name(needed.unwrap_or(&group[0]).lookup.path.as_ref());
            let misses = group.iter().filter(|one| one.lookup.is_miss()).count();
            self.add(thread, (&needed, "search"), range, json!({"misses": misses}));
        }
        for (one, range) in lookups {
            let class = match one.class {
                Some(class) => json::name(&class),
                None if one.lookup.by_loader => "loader".to_owned(),
                None => "initialiser".to_owned(),
            };
            let call = format!("{:?}", one.lookup.kind).to_lowercase();
            let name = format!("{call} {}", last_name(one.lookup.path.as_ref()));
            let errno = one.lookup.errno.map(|errno| errno.0);
            let args = json!({"path": one.lookup.path.to_str_lossy(), "errno": errno});
            self.add(thread, (&name, &class), range, args);
        }
    }
}

/// True for a lookup of the loader's search, at the start or in a `dlopen`.
fn is_search(one: &TimedLookup) -> bool {
    let is_try = matches!(one.lookup.kind, Kind::Open | Kind::Stat);
    is_try && one.lookup.by_loader && matches!(one.class, None | Some(Class::Dlopen))
}

/// True if two lookups that follow each other look for the same library. A `stat` is of a directory, after a
/// miss in it.
fn is_one_search(one: &TimedLookup, next: &TimedLookup) -> bool {
    let is_open = |one: &TimedLookup| one.lookup.kind == Kind::Open;
    let is_same = !(is_open(one) && is_open(next))
        || path::name(&one.lookup.path) == path::name(&next.lookup.path);
    is_search(one) && is_search(next) && is_same && (one.task, one.class) == (next.task, next.class)
}

fn last_name(path: &BStr) -> String {
    path::name(path.trim_end_with(|c| c == '/')).to_str_lossy().into()
}
