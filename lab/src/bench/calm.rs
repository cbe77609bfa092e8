//! Measures the effect of an index: the same program is started without it, with it, and with all
//! libraries in one ordinary directory, in turn, so that disturbances affect all variants alike.
//! Ratios are computed within a round, and each round begins with another variant; the median and
//! the quartiles of the ratios are printed. The first variant runs twice as a control.
//!
//! The ordinary directory has copies of the program's libraries without run paths, and
//! `LD_LIBRARY_PATH` names it: one candidate per library, as in `/usr/lib`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use becalm_core::index::tls::SESSION;
use serde_json::{Value, json};

use super::run::seconds;
use super::{Common, Spread};
use crate::child;
use crate::loader;
use crate::patchelf::Patchelf;
use crate::stored;

/// The programs, with arguments that make them exit.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("inkscape", &["--version"]),
    ("convert-im6.q16", &["--version"]),
    ("emacs-nox", &["--version"]),
    ("nix", &["--version"]),
    ("guile", &["-c", "#t"]),
    ("bash", &["-c", ":"]),
];

/// A variant of the start.
pub(super) struct Variant {
    name: &'static str,
    program: PathBuf,
    /// Arguments before those that all variants share.
    prefix: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

/// Measures each program and prints a table.
///
/// # Errors
/// Returns an error if becalm, patchelf or a program cannot be run, or the raw data cannot be
/// written.
pub(super) fn run(args: &Common) -> Result<()> {
    let Common { store, becalm, rounds, .. } = args;
    let scratch = tempfile::tempdir()?;
    let index = scratch.path().join("index.so");
    let mut make = Command::new(becalm);
    child::succeed(make.args(["index", "-o"]).args([&index, store]))?;
    let mut all = Vec::new();
    for (name, arguments) in PROGRAMS.into_iter().filter(|(name, _)| args.is_wanted(name)) {
        let Some(program) = stored::find(store, name)? else {
            println!("{name}: not in this store");
            continue;
        };
        let (copy, libraries) = place(&program, scratch.path())?;
        let variants = [
            variant("storm", &program, &[]),
            variant("storm again", &program, &[]),
            variant("calmed", &program, &calm(&index)),
            variant("one ordinary directory", &copy, &[("LD_LIBRARY_PATH", libraries)]),
        ];
        all.extend(measure(name, &variants, arguments, *rounds)?);
    }
    if args.is_wanted("true") {
        let nothing = PathBuf::from("/bin/true");
        let plain = |name| variant(name, &nothing, &[]);
        let variants =
            [plain("plain"), plain("plain again"), variant("calmed", &nothing, &calm(&index))];
        // This program exits so soon that many rounds take little time.
        all.extend(measure("true", &variants, &[], 20 * rounds)?);
    }
    args.write(json!({ "times": all }))
}

pub(super) fn variant(
    name: &'static str,
    program: &Path,
    environment: &[(&'static str, String)],
) -> Variant {
    let (program, environment) = (program.to_owned(), environment.to_vec());
    Variant { name, program, prefix: Vec::new(), environment }
}

impl Variant {
    /// Inserts arguments before those that all variants share.
    pub(super) fn with_prefix(mut self, prefix: &[&str]) -> Self {
        self.prefix = prefix.iter().map(|&argument| argument.to_owned()).collect();
        self
    }
}

/// Returns the variables of a start with an audit module.
pub(super) fn calm(index: &Path) -> Vec<(&'static str, String)> {
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
    let listed = loader::trace(program)?.into_iter().filter(|it| !it.needed.contains('/'));
    let libraries = listed.filter_map(|it| Some((it.needed, it.path?)));
    let copies = libraries.chain([(name.to_string_lossy().into_owned(), program.to_owned())]);
    for (name, file) in copies {
        let copy = dir.join(&name);
        fs::copy(&file, &copy).with_context(|| file.display().to_string())?;
        child::succeed(Command::new(patchelf.program()).arg("--remove-rpath").arg(&copy))?;
    }
    Ok((dir.join(name), dir.display().to_string()))
}

/// Measures the programs of /usr/bin, and of the store if it has them, and writes the times. `of` measures
/// one: its label, its file, its store, and its arguments.
pub(super) fn each_place(
    args: &Common,
    programs: &[(&str, &[&str])],
    mut of: impl FnMut(&str, &Path, Option<&Path>, &[&str]) -> Result<Vec<Value>>,
) -> Result<()> {
    let store = if args.store.is_dir() { Some(args.store.canonicalize()?) } else { None };
    let mut all = Vec::new();
    for (name, arguments) in programs.iter().filter(|(name, _)| args.is_wanted(name)) {
        let installed = Path::new("/usr/bin").join(name);
        let named = store.as_deref().filter(|_| !name.starts_with('/'));
        let in_store = named.map(|store| stored::find(store, name)).transpose()?.flatten();
        let places =
            [("", installed.exists().then_some(installed), None), (", store", in_store, named)];
        for (what, program, store) in places {
            let label = format!("{name}{what}");
            match program {
                Some(program) => all.extend(of(&label, &program, store, arguments)?),
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
    let mut make = Command::new(&args.becalm);
    make.arg("index").args(options).arg("--program").arg(program);
    if let Some(store) = store {
        make.arg("--store").arg(store);
    }
    child::succeed(make.arg("-o").arg(index)).map(drop)
}

/// Prints the times of each way; gives the raw data.
pub(super) fn measure(
    name: &str,
    variants: &[Variant],
    arguments: &[&str],
    rounds: usize,
) -> Result<Vec<Value>> {
    // The first round fills the caches and is not counted. A program that finds its data relative
    // to itself may not start elsewhere.
    let mut able = Vec::new();
    for variant in variants {
        match once(variant, arguments) {
            Ok(_) => able.push(variant),
            Err(error) => println!("{name}, {}: left out: {error}", variant.name),
        }
    }
    let times = super::rounds(rounds, able.len(), |_, at| once(able[at], arguments))?;
    println!("{name}\n  {:<32}{:>10}{:>30}", "", "median ms", "× the first, quartiles");
    let mut raw = Vec::new();
    for (variant, own) in able.iter().zip(&times) {
        let milliseconds = 1000.0 * Spread::of(own.iter().copied()).median;
        let ratios = own.iter().zip(&times[0]).map(|(one, first)| one / first);
        let Spread { low, median, high, .. } = Spread::of(ratios);
        let way = variant.name;
        println!("  {way:<32}{milliseconds:>10.1}{median:>12.3} ({low:.3} to {high:.3})");
        raw.push(json!({ "program": name, "way": way, "seconds": own }));
    }
    Ok(raw)
}

fn once(variant: &Variant, arguments: &[&str]) -> Result<f64> {
    let mut command = Command::new(&variant.program);
    command.args(&variant.prefix).args(arguments);
    command.envs(variant.environment.iter().map(|(name, value)| (name, value)));
    seconds(command).with_context(|| variant.name)
}
