//! Measures the cost of tracing: the same start in several variants, in turn, so that disturbances
//! affect all of them alike. The untraced variant runs twice as a control. Ratios are computed
//! within a round; their median and quartiles are printed. This also measures the tracer's memory
//! for growing numbers of lookups.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::calm::{Variant, raw, taken, variant};
use super::{Common, Spread};
use crate::stored;

/// The programs, with arguments that make them exit.
const PROGRAMS: [(&str, &[&str]); 3] =
    [("inkscape", &["--version"]), ("convert-im6.q16", &["--version"]), ("bash", &["-c", ":"])];

/// A command prefix that pins a command and its children to the first processor.
const ONE_CPU: [&str; 3] = ["taskset", "-c", "0"];

/// Returns the variants, the untraced one first.
fn variants(becalm: &str, program: &str) -> Vec<Variant> {
    let trace = [becalm, "trace", "-o", "/dev/null", "--"];
    let bpf = ["strace", "-f", "--seccomp-bpf", "-e", "trace=%file", "-o", "/dev/null"];
    // Each with the words before the program on the command line.
    let ways: [(_, &[&str]); 10] = [
        ("untraced", &[]),
        ("untraced again", &[]),
        ("becalm trace", &trace),
        ("becalm trace --syscalls", &[becalm, "trace", "--syscalls", "-o", "/dev/null", "--"]),
        (
            "becalm trace --until entry",
            &[becalm, "trace", "--until", "entry", "-o", "/dev/null", "--"],
        ),
        ("strace -f -e trace=%file", &["strace", "-f", "-e", "trace=%file", "-o", "/dev/null"]),
        ("strace -f --seccomp-bpf", &bpf),
        // Tracer and program on one processor, where a stop costs least.
        ("strace -f --seccomp-bpf, 1 CPU", &[&ONE_CPU[..], &bpf].concat()),
        ("becalm trace, 1 CPU", &[&ONE_CPU[..], &trace].concat()),
        ("strace -c -f", &["strace", "-c", "-f", "-o", "/dev/null"]),
    ];
    let of = |(name, before): (_, &[&str])| {
        let line = [before, &[program]].concat();
        variant(name, Path::new(line[0]), &[]).with_prefix(&line[1..])
    };
    ways.map(of).into()
}

/// Measures each program and prints a table, then a table of memory.
pub(super) fn run(args: &Common) -> Result<()> {
    let Common { store, becalm, rounds, .. } = args;
    let becalm = becalm.canonicalize().with_context(|| becalm.display().to_string())?;
    let becalm = becalm.to_str().context("a path that is no UTF-8")?;
    let mut all = Vec::new();
    for (name, arguments) in PROGRAMS.into_iter().filter(|(name, _)| args.is_wanted(name)) {
        let program = stored::program(store, name)?;
        let program = program.to_str().context("a path that is no UTF-8")?;
        all.extend(starts(&variants(becalm, program), name, arguments, *rounds)?);
    }
    let shell = stored::program(store, "bash")?;
    let shell = shell.to_str().context("a path that is no UTF-8")?;
    let memory = memory(becalm, shell)?;
    args.write(json!({ "times": all, "memory": memory }))
}

/// Measures the starts of one program and prints its table.
fn starts(
    variants: &[Variant],
    name: &str,
    arguments: &[&str],
    rounds: usize,
) -> Result<Vec<Value>> {
    let (able, times) = taken(name, variants, arguments, rounds)?;
    println!(
        "{name} {}\n  {:<32}{:>10}{:>12}  {:<16}{:>10}",
        arguments.join(" "),
        "",
        "median ms",
        "× untraced",
        "quartiles",
        "added ms"
    );
    for (variant, own) in able.iter().zip(&times) {
        let pairs = own.iter().zip(&times[0]);
        let ratios = Spread::of(pairs.clone().map(|(one, untraced)| one / untraced));
        let added = Spread::of(pairs.map(|(one, untraced)| one - untraced));
        println!(
            "  {:<32}{:>10.1}{:>12.2}  {:<16}{:>10.1}",
            variant.name,
            1000.0 * Spread::of(own.iter().copied()).median,
            ratios.median,
            format!("{:.2} to {:.2}", ratios.low, ratios.high),
            1000.0 * added.median
        );
    }
    Ok(raw(name, &able, &times))
}

/// Measures the tracer's maximum memory while a shell looks up missing files, each in a directory
/// of its own. The shell's parent is the tracer.
fn memory(becalm: &str, shell: &str) -> Result<Vec<Value>> {
    let script = "i=0; while [ $i -lt $N ]; do [ -e /nonexistent-becalm/$i/x ]; i=$((i+1)); done
        while read name size unit; do [ $name = VmHWM: ] && echo $size; done </proc/$PPID/status";
    println!("peak memory of becalm trace\n  {:>10}{:>12}", "lookups", "kB");
    let mut rows = Vec::new();
    for lookups in [10_000, 100_000, 1_000_000] {
        let output = Command::new(becalm)
            .args(["trace", "-o", "/dev/null", "--", shell, "-c", script])
            .env("N", lookups.to_string())
            .stdin(Stdio::null())
            .output()
            .with_context(|| becalm.to_owned())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let peak: u64 = text.trim().parse().with_context(|| format!("no number: {text:?}"))?;
        println!("  {lookups:>10}{peak:>12}");
        rows.push(json!({ "lookups": lookups, "peak_kb": peak }));
    }
    Ok(rows)
}
