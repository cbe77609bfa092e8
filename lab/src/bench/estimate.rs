//! The first line of `becalm check`, which starts nothing, beside what `becalm bench --until entry` measures: the
//! loader's time, and the factor by which an index changes it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Common;
use crate::child;

/// Programs of /usr/bin: from a few objects to two hundred.
const PROGRAMS: &str = "inkscape gimp git bash python3 emacs-nox convert-im6.q16 octave-cli gdb ffmpeg \
                        nix guile clang curl ssh perl vim qemu-system-x86_64 node ruby Rscript apt \
                        dot xmllint";
/// The difference of two factors that counts as agreement.
const NEAR: f64 = 0.1;

/// Prints a line a program, and how many factors agree.
///
/// # Errors
/// Returns an error if becalm fails, or the raw data cannot be written.
pub(super) fn run(args: &Common) -> Result<()> {
    println!("{:<20}{:>12}{:>12}{:>10}{:>10}", "", "check, ms", "bench, ms", "factor", "factor");
    let names = PROGRAMS.split(' ').filter(|name| args.is_wanted(name));
    let paths = names.map(|name| Path::new("/usr/bin").join(name));
    let mut all = Vec::new();
    for program in paths.filter(|path| path.exists()) {
        let checked = json_of(args, &["check", "--json"], &program)?;
        let estimate = &checked["programs"][0]["estimate"];
        let rounds = args.rounds.to_string();
        let flags = ["bench", "--until", "entry", "--rounds", &rounds, "--export", "json"];
        let measured = json_of(args, &flags, &program)?;
        let variants = measured["variants"].as_array().context("no variants")?;
        let indexed = variants.iter().find(|it| it["control"] == false && !it["ratio"].is_null());
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let predicted_ns = number(&estimate["loader_ns"]);
        let factors = [
            number(&estimate["indexed_ns"]) / predicted_ns,
            indexed.map_or(f64::NAN, |it| number(&it["ratio"]["ratio"])),
        ];
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let [predicted_ms, measured_ms] =
            [predicted_ns, number(&variants[0]["median_ns"])].map(|ns| ns / 1e6);
        println!(
            "{name:<20}{predicted_ms:>12.2}{measured_ms:>12.2}{:>10.2}{:>10.2}",
            factors[0], factors[1]
        );
        all.push(json!({ "program": name, "estimate": estimate, "measured_ms": measured_ms, "factors": factors }));
    }
    let near = |one: &&Value| {
        let factor = |at: usize| one["factors"][at].as_f64().unwrap_or(f64::NAN);
        (factor(0) - factor(1)).abs() <= NEAR
    };
    println!("factors within {NEAR}: {} of {}", all.iter().filter(near).count(), all.len());
    args.write(json!({ "programs": all }))
}

fn json_of(args: &Common, flags: &[&str], program: &Path) -> Result<Value> {
    let text = child::succeed(Command::new(&args.becalm).args(flags).arg(program))?;
    Ok(serde_json::from_str(&text)?)
}
