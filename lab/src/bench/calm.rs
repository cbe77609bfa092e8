//! Measures the effect of an index: the same program is started without it, with it, and with all
//! libraries in one ordinary directory, in turn, so that disturbances affect all variants alike.
//! Ratios are computed within a round, and each round begins with another variant; the median and
//! the quartiles of the ratios are printed. The first variant runs twice as a control.
//!
//! The ordinary directory has copies of the program's libraries without run paths, and
//! `LD_LIBRARY_PATH` names it: one candidate per library, as in `/usr/lib`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result};
use becalm_core::index::tls::SESSION;
use becalm_host::bench::stats::Spread;
use becalm_host::bench::{self, Options, Rounds, Variant};
use becalm_host::trace::Command;
use serde_json::{Value, json};

use super::Common;
use crate::child;
use crate::loader;
use crate::patchelf::Patchelf;
use crate::stored;

/// The programs, with arguments that make them exit ([`starts`]).
const PROGRAMS: &str = "\
    inkscape --version; convert-im6.q16 --version; emacs-nox --version; nix --version; \
    guile -c #t; bash -c :";

/// Measures each program and prints a table.
///
/// # Errors
/// Returns an error if becalm, patchelf or a program cannot be run, or the raw data cannot be
/// written.
pub(super) fn run(args: &Common) -> Result<()> {
    let Common { store, becalm, rounds, .. } = args;
    let scratch = tempfile::tempdir()?;
    let index = scratch.path().join("index.so");
    let mut make = process::Command::new(becalm);
    child::succeed(make.args(["index", "-o"]).args([&index, store]))?;
    let mut all = Vec::new();
    for (name, arguments) in starts(PROGRAMS).filter(|(name, _)| args.is_wanted(name)) {
        let Some(program) = stored::find(store, name)? else {
            println!("{name}: not in this store");
            continue;
        };
        let (copy, libraries) = place(&program, scratch.path())?;
        let start = (&*program, &*arguments);
        let variants = [
            variant("storm", &[], start, &[]),
            variant("calmed", &[], start, &calm(&index)),
            variant(
                "one ordinary directory",
                &[],
                (&copy, &arguments),
                &[("LD_LIBRARY_PATH", libraries)],
            ),
        ];
        all.extend(measure(name, &variants, *rounds)?);
    }
    if args.is_wanted("true") {
        let start: (_, &[&str]) = (Path::new("/bin/true"), &[]);
        let variants =
            [variant("plain", &[], start, &[]), variant("calmed", &[], start, &calm(&index))];
        // This program exits so soon that many rounds take little time.
        all.extend(measure("true", &variants, 20 * rounds)?);
    }
    args.write(json!({ "times": all }))
}

/// Returns a variant of a start: its name, the words before the program and its arguments, and variables.
pub(super) fn variant(
    name: &str,
    before: &[&str],
    (program, arguments): (&Path, &[&str]),
    variables: &[(&str, String)],
) -> Variant {
    let arguments = arguments.iter().map(OsString::from);
    let before = before.iter().map(OsString::from);
    let mut line = before.chain([program.into()]).chain(arguments);
    let mut command = Command::new(line.next().unwrap_or_default(), line);
    let is_own = |name: &OsString| variables.iter().all(|(other, _)| name != other);
    let own = std::env::vars_os().filter(|(name, _)| is_own(name));
    let set = variables.iter().map(|(name, value)| (name.into(), value.into()));
    command.env = Some(own.chain(set).collect());
    Variant { name: name.to_owned(), command, enter: None }
}

/// Returns the variables of a start with an audit module.
pub(crate) fn calm(index: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("LD_AUDIT", index.display().to_string()),
        ("GLIBC_TUNABLES", format!("glibc.rtld.optional_static_tls={SESSION}")),
    ]
}

/// Copies the program and its libraries without run paths. Returns the program's copy and the
/// directory.
fn place(program: &Path, scratch: &Path) -> Result<(PathBuf, String)> {
    let patchelf = Patchelf::find()?;
    let name = program.file_name().context("a program without a name")?;
    let dir = scratch.join(name).with_extension("place");
    fs::create_dir(&dir)?;
    let listed = loader::trace(program)?.into_iter().filter(|(needed, _)| !needed.contains('/'));
    let libraries = listed.filter_map(|(needed, path)| Some((needed, path?)));
    let copies = libraries.chain([(name.to_string_lossy().into_owned(), program.to_owned())]);
    for (name, file) in copies {
        let copy = dir.join(&name);
        fs::copy(&file, &copy).with_context(|| file.display().to_string())?;
        child::succeed(process::Command::new(&patchelf.program).arg("--remove-rpath").arg(&copy))?;
    }
    Ok((dir.join(name), dir.display().to_string()))
}

/// Returns the programs of a list with their arguments: words, with a semicolon between two programs.
pub(super) fn starts(
    list: &'static str,
) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    list.split(';').map(|line| {
        let mut words = line.split_whitespace();
        (words.next().unwrap_or_default(), words.collect())
    })
}

/// Measures the programs of /usr/bin, and of the store if it has them, and writes the times. `of` measures
/// one: its label, its file, its store, and its arguments.
pub(super) fn each_place(
    args: &Common,
    programs: impl Iterator<Item = (&'static str, Vec<&'static str>)>,
    mut of: impl FnMut(&str, &Path, Option<&Path>, &[&str]) -> Result<Vec<Value>>,
) -> Result<()> {
    let store = if args.store.is_dir() { Some(args.store.canonicalize()?) } else { None };
    let mut all = Vec::new();
    for (name, arguments) in programs.filter(|(name, _)| args.is_wanted(name)) {
        let installed = Path::new("/usr/bin").join(name);
        let named = store.as_deref().filter(|_| !name.starts_with('/'));
        let in_store = named.map(|store| stored::find(store, name)).transpose()?.flatten();
        let places =
            [("", installed.exists().then_some(installed), None), (", store", in_store, named)];
        for (what, program, store) in places {
            let label = format!("{name}{what}");
            match program {
                Some(program) => all.extend(of(&label, &program, store, &arguments)?),
                None => println!("{label}: not installed"),
            }
        }
    }
    args.write(json!({ "times": all }))
}

/// Makes the index of one program, with further options.
pub(super) fn index_of(
    args: &Common,
    options: &[&str],
    (program, store): (&Path, Option<&Path>),
    index: &Path,
) -> Result<()> {
    let _ = fs::remove_file(index);
    let mut make = process::Command::new(&args.becalm);
    make.arg("index").args(options).arg("--program").arg(program);
    if let Some(store) = store {
        make.arg("--store").arg(store);
    }
    child::succeed(make.arg("-o").arg(index)).map(drop)
}

/// Prints the times of each variant, and of the first one as the control; gives the raw data.
pub(super) fn measure(name: &str, variants: &[Variant], rounds: usize) -> Result<Vec<Value>> {
    let options = Options { rounds: Rounds::Exactly(rounds), ..Options::default() };
    // A program that finds its data relative to itself may not start elsewhere.
    let mut able = Vec::new();
    for variant in variants {
        match bench::once(&variant.command, &options) {
            Ok(_) => able.push(variant.clone()),
            Err(error) => println!("{name}, {}: left out: {error}", variant.name),
        }
    }
    if able.is_empty() {
        return Ok(Vec::new());
    }
    let measured = bench::measure(&able, &options, &mut |_, _| ())?.variants;
    println!(
        "{name}\n  {:<32}{:>10}{:>44}",
        "", "median ms", "× the first (quartiles), 95 % interval"
    );
    let mut raw = Vec::new();
    for timed in &measured {
        let way = format!("{}{}", timed.name, if timed.control { " again" } else { "" });
        let pairs = timed.runs.iter().zip(&measured[0].runs);
        let ratios: Vec<f64> =
            pairs.map(|(one, first)| one.wall_ns as f64 / first.wall_ns as f64).collect();
        let Spread { low, median, high, .. } = Spread::of(&ratios);
        let ms = timed.spread.median / 1e6;
        let interval = timed.ratio.and_then(|ratio| ratio.interval());
        let interval = interval.map(|(from, to)| format!(", {from:.3} to {to:.3}"));
        let interval = interval.unwrap_or_default();
        println!("  {way:<32}{ms:>10.1}{median:>12.3} ({low:.3} to {high:.3}){interval}");
        let seconds: Vec<f64> = timed.runs.iter().map(|run| run.wall_ns as f64 / 1e9).collect();
        raw.push(json!({ "program": name, "way": way, "seconds": seconds }));
    }
    Ok(raw)
}
