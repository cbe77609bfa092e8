//! Reads records of `becalm trace --json`: the run of a program on the page, or the whole snapshot
//! of a program without its file.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_core::cost::SearchCost;
use becalm_core::observe::tally::ClassLookups;
use becalm_core::observe::{Class, DlopenProbe};
use becalm_core::probe::{Call, Outcome, Probe, SearchSource};
use becalm_core::record::phases::Phases;
use becalm_core::search::hwcaps::search_dir;
use becalm_host::open_regular;
use bstr::{BStr, BString, ByteSlice};

use crate::escape::{shown, shown_path};
use crate::json;
use crate::report::modules;
use crate::report::start::{Answered, Child, Node, Observed, Snapshot, Try};
use crate::trace::report::{Report, Seen};

/// True if a file begins like a JSON object.
pub fn is_one(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(64).read_to_end(&mut head));
    read.is_ok() && head.trim_ascii_start().starts_with(b"{")
}

/// Returns the snapshot in a record, without the program's file.
///
/// # Errors
/// Returns an error if the file is not a record of a traced run, or if the record has no program.
pub fn snapshot(path: &Path) -> Result<Snapshot> {
    let record: Report = json::read_file(path, "becalm trace --json")?;
    let no_program = || format!("{}: no program in it", shown_path(path));
    let image = record.images.last().with_context(no_program)?;
    let text = |text: &String| shown(text.as_bytes().as_bstr());
    let interpreter = image.interpreter.as_ref().map(|path| shown(path.as_ref()));
    let tries: Vec<Try> = image.probes.iter().map(a_try).collect();
    // Older records lack this count, so the probes are counted as well.
    let missed = tries.iter().filter(|one| one.of_hwcaps && one.outcome.is_failed_call());
    let of_hwcaps = image.storm.hwcaps_misses.max(missed.count() as u64);
    let [machine, libc] = [&image.machine, &image.libc].map(|it| it.as_ref().map(text));
    Ok(Snapshot {
        path: shown(image.path.as_ref()),
        about: [machine, libc.clone(), interpreter].into_iter().flatten().collect(),
        storm: SearchCost { hwcaps_misses: of_hwcaps, ..image.storm },
        libc,
        newer_glibc: None,
        advice: None,
        first_line: None,
        is_record: true,
        faults: Vec::new(),
        tries,
        nodes: nodes(image.path.as_ref(), &image.probes),
        observed: observed(&record),
    })
}

/// Returns the time of the misses in the search of the start that was not traced. The tracer makes each call longer,
/// so the misses keep their share of the traced search, which is longer as well.
fn misses_of_search(phases: &Phases, seen: &Seen) -> u64 {
    let others_ns = phases.loader_ns.saturating_sub(phases.search_ns);
    let traced_ns = seen.loader.net_ns.saturating_sub(others_ns).max(seen.storm_ns).max(1);
    (phases.search_ns as f64 * seen.storm_ns as f64 / traced_ns as f64) as u64
}

/// Returns the times and classes of a traced run.
///
/// # Errors
/// Returns an error if no times were taken.
pub fn observed(report: &Report) -> Result<Observed, String> {
    let image = report.images.last().ok_or("no program in it")?;
    let note = |note: &String| shown(note.as_bytes().as_bstr());
    if report.opens_alone {
        let why = report.notes.first().map(note);
        let why = why.unwrap_or_else(|| "no times were taken".to_owned());
        return Err(why);
    }
    let phases = image.relocations.as_ref().and_then(|relocations| relocations.phases.clone());
    let watched_ns = image.loader.net_ns.saturating_add(image.program.net_ns);
    let loader_ns = phases.as_ref().map_or(image.loader.net_ns, |phases| phases.loader_ns);
    let storm_ns = image.storm_ns.min(loader_ns);
    let storm_ns = phases.as_ref().map_or(storm_ns, |it| misses_of_search(it, image));
    Ok(Observed {
        first_line: report.line_with(loader_ns, storm_ns),
        command: shown(report.command.join(" ").as_bytes().as_bstr()),
        made: report.made.as_ref().map(note),
        loader_ns,
        watched_ns,
        storm_ns,
        relocations: image.relocations.clone(),
        phases,
        program_ns: image.program.net_ns,
        until_idle: report.is_idle,
        pages: image.pages.clone(),
        has_index: image.calmed_by.is_some(),
        storm: image.storm,
        as_predicted: image.prediction.as_ref().map(|prediction| prediction.equal),
        classes: classes(image),
        modules: modules::by_time(&image.timeline, image.pid, watched_ns),
        dlopen_ns: image.dlopen.missed.ns.min(image.program.net_ns),
        dlopens: image.dlopen.probes.iter().map(dlopen_try).collect(),
        notes: report.notes.iter().map(note).collect(),
    })
}

/// Returns the lookups of each class, without `dlopen`, in descending order.
fn classes(image: &Seen) -> Vec<ClassLookups> {
    let others = image.classes.iter().filter(|class| class.class != Class::Dlopen);
    let mut others: Vec<ClassLookups> = others.cloned().collect();
    others.sort_by_key(|class| std::cmp::Reverse(class.lookups()));
    others
}

fn a_try(probe: &Probe) -> Try {
    let dir = directory(probe);
    Try {
        needed_by: probe.needed_by.clone(),
        needed: probe.needed.clone(),
        of_hwcaps: dir.as_ref().is_some_and(|dir| is_below(dir, &probe.path, probe.call)),
        dir,
        source: probe.source,
        call: probe.call,
        outcome: probe.outcome,
    }
}

fn dlopen_try(probe: &DlopenProbe) -> Try {
    Try {
        needed_by: probe.needed_by.clone(),
        needed: probe.needed.clone(),
        dir: Some(probe.directory.clone()),
        of_hwcaps: is_below(&probe.directory, &probe.path, probe.call),
        source: SearchSource::Direct,
        call: probe.call,
        outcome: probe.outcome,
    }
}

/// True if the opened file is in a subdirectory of the search directory, or if the directory passed
/// to `stat` is a subdirectory.
fn is_below(dir: &BString, path: &BString, call: Call) -> bool {
    let whole = match call {
        Call::Open => path.rfind_byte(b'/').map_or(0, |end| end.max(1)),
        Call::Stat => path.trim_end_with(|c| c == '/').len(),
    };
    dir != "." && dir.len() < whole
}

/// Returns the search directory of a probe: its path without the needed string and without a hwcaps
/// subdirectory, as far as the path alone shows one.
fn directory(probe: &Probe) -> Option<BString> {
    if matches!(probe.source, SearchSource::Direct | SearchSource::LoaderCache) {
        return None;
    }
    let path: &[u8] = match probe.call {
        Call::Open => probe.path.strip_suffix(probe.needed.as_slice()).unwrap_or(&probe.path),
        Call::Stat => &probe.path,
    };
    let dir = search_dir(path.as_bstr());
    Some(if dir.is_empty() { ".".into() } else { dir.to_owned() })
}

/// Returns the objects of the hits. Objects that were already loaded have no probes.
fn nodes(program: &BStr, probes: &[Probe]) -> Vec<Node> {
    let mut nodes = vec![Node { path: program.to_owned(), children: Vec::new() }];
    let mut numbers: HashMap<BString, usize> = HashMap::from([(program.to_owned(), 0)]);
    let mut misses: HashMap<(&BStr, &BStr), u64> = HashMap::new();
    for probe in probes {
        let question = (probe.needed_by.as_bstr(), probe.needed.as_bstr());
        if probe.outcome.is_failed_call() {
            *misses.entry(question).or_default() += 1;
        }
        if probe.call != Call::Open || probe.outcome != Outcome::Hit {
            continue;
        }
        let by = numbers.get(&probe.needed_by).copied().unwrap_or(0);
        let answer = match numbers.get(&probe.path) {
            Some(object) => Answered::Before(*object),
            None => {
                numbers.insert(probe.path.clone(), nodes.len());
                nodes.push(Node { path: probe.path.clone(), children: Vec::new() });
                Answered::Loaded(nodes.len() - 1, probe.source)
            }
        };
        let misses = misses.remove(&question).unwrap_or(0);
        nodes[by].children.push(Child { needed: probe.needed.clone(), answer, misses });
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(path: &str, call: Call, outcome: Outcome) -> Probe {
        Probe {
            needed_by: "/p".into(),
            needed: "libx.so".into(),
            source: SearchSource::Runpath,
            path: path.into(),
            call,
            outcome,
        }
    }

    #[test]
    fn hwcaps_subdirectories_belong_to_their_search_directory() {
        let dir = |path: &str, call| directory(&probe(path, call, Outcome::Miss));
        assert_eq!(dir("/a/glibc-hwcaps/x86-64-v3/libx.so", Call::Open), Some("/a".into()));
        assert_eq!(dir("/a/tls/haswell/x86_64", Call::Stat), Some("/a".into()));
        assert_eq!(dir("/a/libx.so", Call::Open), Some("/a".into()));
        assert_eq!(dir("libx.so", Call::Open), Some(".".into()));
        let inside = |path: &str, call| a_try(&probe(path, call, Outcome::Miss)).of_hwcaps;
        assert!(inside("/a/glibc-hwcaps/x86-64-v3/libx.so", Call::Open));
        assert!(inside("/a/tls/haswell/x86_64", Call::Stat));
        assert!(!inside("/a/libx.so", Call::Open) && !inside("/a", Call::Stat));
        assert!(!inside("/libx.so", Call::Open) && !inside("libx.so", Call::Open));
    }

    #[test]
    fn hits_make_a_tree_and_misses_are_charged_to_them() {
        let probes = [
            probe("/a/libx.so", Call::Open, Outcome::Miss),
            probe("/a", Call::Stat, Outcome::Miss),
            probe("/b/libx.so", Call::Open, Outcome::Hit),
        ];
        let nodes = nodes("/p".into(), &probes);
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes[0].children[0].misses, 2);
        assert_eq!(nodes[0].children[0].answer, Answered::Loaded(1, SearchSource::Runpath));
    }

    #[test]
    fn misses_keep_their_share_of_a_search_that_the_tracer_makes_longer() {
        let seen = |net: u64, storm: u64| {
            let text = format!(r#"{{"loader": {{"net_ns": {net}}}, "storm_ns": {storm}}}"#);
            serde_json::from_str::<Seen>(&text).expect("an image")
        };
        let phases = Phases { loader_ns: 60, search_ns: 10, ..Phases::default() };
        assert_eq!(misses_of_search(&phases, &seen(75, 10)), 4);
        assert_eq!(misses_of_search(&phases, &seen(40, 30)), 10, "never more than the search");
        assert_eq!(misses_of_search(&phases, &seen(0, 0)), 0);
    }

    #[test]
    fn classes_are_counted_without_dlopen() {
        let class = |name: &str, misses: u64, hits: u64| {
            format!(
                r#"{{"class": "{name}", "hits": {hits},
                "missed": {{"opens": {misses}, "stats": 0, "others": 0, "ns": 0}},
                "repeated": {{"count": 2, "ns": 0, "paths": []}}}}"#
            )
        };
        let all = [class("perl", 3, 9), class("python", 0, 5868), class("dlopen", 9, 900)];
        let text = format!(r#"{{"classes": [{}]}}"#, all.join(","));
        let image: Seen = serde_json::from_str(&text).expect("an image");
        let counted = classes(&image);
        let counts = |at: &ClassLookups| (at.lookups(), at.missed.total(), at.repeated.count);
        let names: Vec<String> = counted.iter().map(|class| json::name(&class.class)).collect();
        assert_eq!(names, ["python", "perl"]);
        assert_eq!((counts(&counted[0]), counts(&counted[1])), ((5868, 0, 2), (12, 3, 2)));
    }
}
