//! What an index is worth: the same start as it is, calmed, and with all libraries in one
//! ordinary directory, turn by turn, so that what else the machine does meets all of them.
//! Ratios are taken within a round, each of which begins with another way; their median and
//! quartiles are told. The first way takes part twice, as a control.
//!
//! The ordinary place is a copy of the program's libraries without run paths in one directory,
//! which `LD_LIBRARY_PATH` names: one candidate a library, as in `/usr/lib`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::run::seconds;
use super::{Common, Spread};
use crate::child;
use crate::patchelf::Patchelf;
use crate::stored;

/// The programs, each with arguments that make it end by itself.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("inkscape", &["--version"]),
    ("convert-im6.q16", &["--version"]),
    ("emacs-nox", &["--version"]),
    ("nix", &["--version"]),
    ("guile", &["-c", "#t"]),
    ("bash", &["-c", ":"]),
];

/// Directories on the long `LD_LIBRARY_PATH`.
const LONG: usize = 30;

/// One way to start a program.
struct Way {
    name: &'static str,
    program: PathBuf,
    environment: Vec<(&'static str, String)>,
}

/// Measures and prints one table a program.
///
/// # Errors
/// becalm, patchelf or a program cannot be run, or the raw data cannot be written.
pub(super) fn run(args: &Common, only: &[String]) -> Result<()> {
    let Common { store, becalm, rounds, .. } = args;
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let scratch = tempfile::tempdir()?;
    let long = long_path(scratch.path())?;
    // Past the grain of the clock, so that the directories can be snapshotted.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let index = scratch.path().join("index.so");
    let mut make = Command::new(becalm);
    make.args(["index", "--dirs", &long, "-o"]).arg(&index).arg(store);
    child::succeed(make)?;
    let mut all = Vec::new();
    for (name, arguments) in PROGRAMS.into_iter().filter(|(name, _)| is_wanted(name)) {
        let Some(program) = stored::find(store, name)? else {
            println!("{name}: not in this store");
            continue;
        };
        let ways = ways(&program, &index, &long, &place(&program, scratch.path())?);
        all.extend(measure(name, &ways, arguments, *rounds)?);
    }
    if is_wanted("true") {
        let nothing = PathBuf::from("/bin/true");
        let plain = |name| way(name, &nothing, &[]);
        let ways = [plain("plain"), plain("plain again"), way("calmed", &nothing, &calm(&index))];
        // It ends so soon that more rounds cost nothing.
        all.extend(measure("true", &ways, &[], 20 * rounds)?);
    }
    args.write(json!({ "times": all }))
}

fn ways(program: &Path, index: &Path, long: &str, place: &(PathBuf, String)) -> Vec<Way> {
    let with_long = |mut environment: Vec<(&'static str, String)>| {
        environment.push(("LD_LIBRARY_PATH", long.to_owned()));
        environment
    };
    vec![
        way("storm", program, &[]),
        way("storm again", program, &[]),
        way("calmed", program, &calm(index)),
        way("one ordinary directory", &place.0, &[("LD_LIBRARY_PATH", place.1.clone())]),
        way("storm, long LD_LIBRARY_PATH", program, &with_long(Vec::new())),
        way("calmed, long LD_LIBRARY_PATH", program, &with_long(calm(index))),
    ]
}

fn way(name: &'static str, program: &Path, environment: &[(&'static str, String)]) -> Way {
    Way { name, program: program.to_owned(), environment: environment.to_vec() }
}

fn calm(index: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("LD_AUDIT", index.display().to_string()),
        ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=8192".to_owned()),
    ]
}

/// Directories that hold nothing.
fn long_path(scratch: &Path) -> Result<String> {
    let mut dirs = Vec::new();
    for number in 0..LONG {
        let dir = scratch.join(format!("long-{number}"));
        fs::create_dir(&dir)?;
        dirs.push(dir.display().to_string());
    }
    Ok(dirs.join(":"))
}

/// The program and its libraries without run paths: the program's copy, and the directory.
fn place(program: &Path, scratch: &Path) -> Result<(PathBuf, String)> {
    let patchelf = Patchelf::find()?;
    let name = program.file_name().context("a program without a name")?;
    let dir = scratch.join(name).with_extension("place");
    fs::create_dir(&dir)?;
    let mut list = child::command(program);
    list.env("LD_TRACE_LOADED_OBJECTS", "1");
    let listed = child::succeed(list)?;
    let libraries = listed.lines().filter_map(|line| {
        let (needed, rest) = line.trim().split_once(" => ")?;
        Some((needed.to_owned(), PathBuf::from(rest.split(" (").next()?)))
    });
    let copies = libraries.chain([(name.to_string_lossy().into_owned(), program.to_owned())]);
    for (name, file) in copies {
        let copy = dir.join(&name);
        fs::copy(&file, &copy).with_context(|| file.display().to_string())?;
        let mut strip = Command::new(patchelf.program());
        strip.arg("--remove-rpath").arg(&copy);
        child::succeed(strip)?;
    }
    Ok((dir.join(name), dir.display().to_string()))
}

fn measure(
    name: &str,
    ways: &[Way],
    arguments: &[&str],
    rounds: usize,
) -> Result<Vec<serde_json::Value>> {
    // The first round warms the caches and is not counted. A program that finds its own data by
    // its place may not start elsewhere.
    let mut able = Vec::new();
    for way in ways {
        match once(way, arguments) {
            Ok(_) => able.push(way),
            Err(error) => println!("{name}, {}: left out: {error}", way.name),
        }
    }
    let mut times = vec![Vec::new(); able.len()];
    for round in 0..rounds {
        for step in 0..able.len() {
            let at = (round + step) % able.len();
            times[at].push(once(able[at], arguments)?);
        }
    }
    println!("{name}\n  {:<32}{:>10}{:>30}", "", "median ms", "× the first, quartiles");
    let mut all = Vec::new();
    for (way, own) in able.iter().zip(&times) {
        let milliseconds = 1000.0 * Spread::of(own.iter().copied()).median;
        let ratios = own.iter().zip(&times[0]).map(|(one, first)| one / first);
        let Spread { low, median, high, .. } = Spread::of(ratios);
        println!("  {:<32}{milliseconds:>10.1}{median:>12.3} ({low:.3} to {high:.3})", way.name);
        all.push(json!({ "program": name, "way": way.name, "seconds": own }));
    }
    Ok(all)
}

fn once(way: &Way, arguments: &[&str]) -> Result<f64> {
    let mut command = Command::new(&way.program);
    command.args(arguments).envs(way.environment.iter().map(|(name, value)| (name, value)));
    seconds(command).with_context(|| way.name)
}
