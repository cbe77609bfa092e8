//! Time that `becalm run` adds to a start that finds its index: the same start unchanged, with the
//! variables that `becalm env` prints, by `becalm run` with options, and without them, which earlier
//! starts have made known. Measured as in
//! [`super::calm`].

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use becalm_host::bench::stats::Spread;
use serde_json::Value;

use super::Common;
use super::calm::{each_place, index_of, measure, starts, variant};
use crate::child;

/// A program that is not known after this number of starts is not measured.
const STARTS: usize = 30;
/// Programs of /usr/bin and of the store, with arguments that make them end by themselves ([`starts`]).
const PROGRAMS: &str = "\
    bash -c :; git --version; gimp --version; octave-cli --version; vlc --version; \
    inkscape --version; convert-im6.q16 --version; emacs-nox --version; nix --version; \
    guile -c #t; python3 -c 0";

/// Measures and prints one table a program, and the time that `run` takes beyond `env`.
///
/// # Errors
/// Returns an error if becalm or a program cannot be run, or the raw data cannot be written.
pub(super) fn run(args: &Common) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (index, home) = (scratch.path().join("index.so"), scratch.path().join("home"));
    each_place(args, starts(PROGRAMS), |label, program, store, arguments| {
        index_of(args, &[], (program, store), &index)?;
        make_known(&args.becalm, program, arguments, &home)?;
        let becalm = args.becalm.to_str().context("becalm's path is not UTF-8")?;
        let index_text = index.to_str().context("the temporary folder is not UTF-8")?;
        let way = |name: &str, before: &[&str], variables: &[(&str, String)]| {
            variant(name, before, (program, arguments), variables)
        };
        let at_home = [("HOME", home.display().to_string())];
        let variants = [
            way("plain", &[], &[]),
            way("env", &[], &environment(&args.becalm, &index)?),
            way("run --index", &[becalm, "run", "--index", index_text, "--"], &at_home),
            way("run", &[becalm, "run", "--"], &at_home),
        ];
        let times = measure(label, &variants, args.rounds)?;
        for way in ["run --index", "run"] {
            print_added(&times, way);
        }
        Ok(times)
    })
}

/// Starts a program until `becalm run` keeps what its next start needs.
fn make_known(becalm: &Path, program: &Path, arguments: &[&str], home: &Path) -> Result<()> {
    let name = program.file_name().context("a program has a name")?;
    let known = home.join(".cache/becalm/programs").join(name).with_added_extension("quick");
    for _ in 0..STARTS {
        let mut run = Command::new(becalm);
        child::succeed(run.args(["run", "--"]).arg(program).args(arguments).env("HOME", home))?;
        if known.exists() {
            return Ok(());
        }
        // The index and the record of pages are made by processes of low priority.
        std::thread::sleep(Duration::from_secs(1));
    }
    bail!("{}: not known after {STARTS} starts", program.display());
}

/// Returns the variables that `becalm env` prints for an index.
fn environment(becalm: &Path, index: &Path) -> Result<Vec<(&'static str, String)>> {
    let exports = child::succeed(Command::new(becalm).args(["env", "--index"]).arg(index))?;
    let mut sh = child::command("sh");
    sh.args(["-c", r#"eval "$1"; printf '%s\n%s' "$LD_AUDIT" "$GLIBC_TUNABLES""#, "sh", &exports]);
    let printed = child::succeed(&mut sh)?;
    let (audit, tunables) = printed.split_once('\n').context("env printed no variables")?;
    Ok(vec![("LD_AUDIT", audit.to_owned()), ("GLIBC_TUNABLES", tunables.to_owned())])
}

/// Prints the median and quartiles of a way's time minus that of `env` in the same round, in
/// milliseconds.
fn print_added(times: &[Value], way: &str) {
    let of = |way: &str| -> Vec<f64> {
        let found = times.iter().find(|one| one["way"] == way);
        let seconds = found.and_then(|one| one["seconds"].as_array());
        seconds.into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let (env, other) = (of("env"), of(way));
    let added = other.iter().zip(&env).map(|(other, env)| 1000.0 * (other - env));
    let Spread { low, median, high, .. } = Spread::of(&added.collect::<Vec<_>>());
    let label = format!("{way} minus env, ms");
    println!("  {label:<31}{median:>21.2} ({low:.2} to {high:.2})");
}
