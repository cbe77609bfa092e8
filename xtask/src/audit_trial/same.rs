//! Starts one program without and with the index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::trace_differential::choose::Trial;
use crate::trace_differential::run::{Ran, open_folder};
use crate::trace_differential::tried::{self, NO_END, Tried};

/// Files and settings of the starts.
pub(super) struct Files {
    /// The index under trial.
    pub(super) index: PathBuf,
    /// The same module without a table.
    pub(super) bare: PathBuf,
    /// The emulator for programs of another machine.
    pub(super) emulator: Option<PathBuf>,
}

/// Starts the program in all variants and compares the starts. Returns also the number of answered
/// lookups.
pub(super) fn compare(files: &Files, trial: &Trial) -> Result<(Tried, usize)> {
    let plain = run(files, trial, &[])?;
    let audit = format!("LD_AUDIT={}", files.index.display());
    let calmed = run(files, trial, &[audit])?;
    let (Some(plain), Some(calmed)) = (plain, calmed) else { return Ok((NO_END, 0)) };
    let (before, after) = (loaded(files, trial, &files.bare)?, loaded(files, trial, &files.index)?);
    let (Some((before, _)), Some((after, answered))) = (before, after) else {
        return Ok((NO_END, 0));
    };
    if before != after {
        let pairs = before.iter().zip(&after);
        let first = pairs.take_while(|(a, b)| a == b).count();
        let (a, b) = (before.get(first), after.get(first));
        let what = format!("object {first}: {a:?}, calmed {b:?}");
        return Ok((("differs", Some(what)), 0));
    }
    if plain == calmed {
        let word = if answered == 0 { "same, no answer" } else { "same, answered" };
        return Ok(((word, None), answered));
    }
    let what = || {
        let (before, after) = (plain.code, calmed.code);
        format!("exit code {before} and {after}; {}", first_line(&plain, &calmed))
    };
    Ok((tried::differs(&plain, 3, || run(files, trial, &[]), what)?, 0))
}

fn first_line(plain: &Ran, calmed: &Ran) -> String {
    let texts = |ran: &Ran| {
        let text = [ran.stdout.as_slice(), ran.stderr.as_slice()].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    let (plain, calmed) = (texts(plain), texts(calmed));
    let mut pairs = plain.lines().zip(calmed.lines());
    let differs = pairs.find(|(a, b)| a != b);
    differs.map_or("one is longer".to_owned(), |(a, b)| format!("{a:?}, calmed {b:?}"))
}

fn run(files: &Files, trial: &Trial, environment: &[String]) -> Result<Option<Ran>> {
    trial.start(&[], environment, files.emulator.as_deref().map(Path::as_os_str).as_slice())
}

/// The objects of each process in their order, and the number of answered lookups.
type Loaded = (Vec<String>, usize);

/// Reads the loaded objects from the module's log.
fn loaded(files: &Files, trial: &Trial, module: &Path) -> Result<Option<Loaded>> {
    let folder = open_folder()?;
    let log = folder.path().join("log");
    let environment =
        [format!("LD_AUDIT={}", module.display()), format!("BECALM=log:{}", log.display())];
    if run(files, trial, &environment)?.is_none() {
        return Ok(None);
    }
    let text = std::fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut processes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut answered = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            [pid, "object", _, namespace, path] => {
                processes.entry(pid).or_default().push(format!("{namespace} {path}"));
            }
            [_, "search", _, "1", _, answer] if !answer.is_empty() => answered += 1,
            _ => {}
        }
    }
    // The processes of a pipeline start in any order.
    let mut objects: Vec<Vec<String>> = processes.into_values().collect();
    objects.sort();
    Ok(Some((objects.concat(), answered)))
}
