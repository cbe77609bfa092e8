//! The cost of watching: the same start in several ways, turn by turn, so that what else
//! the machine does meets all of them; untraced takes part twice, as a control. Ratios are
//! taken within a round; their median and quartiles are told. And the tracer's memory on
//! ever more lookups.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::run::seconds;
use super::{Common, Spread};
use crate::stored;

/// The programs, each with arguments that make it end by itself.
const PROGRAMS: [(&str, &[&str]); 3] =
    [("inkscape", &["--version"]), ("convert-im6.q16", &["--version"]), ("bash", &["-c", ":"])];

/// What keeps a command and all it starts on the first processor.
const ONE_CPU: [&str; 3] = ["taskset", "-c", "0"];

/// The ways, untraced first; what precedes the program on the command line.
fn ways(becalm: &str) -> Vec<(&'static str, Vec<&str>)> {
    let trace = [becalm, "trace", "-o", "/dev/null", "--"];
    let bpf = ["strace", "-f", "--seccomp-bpf", "-e", "trace=%file", "-o", "/dev/null"];
    vec![
        ("untraced", vec![]),
        ("untraced again", vec![]),
        ("becalm trace", trace.to_vec()),
        ("becalm trace --syscalls", vec![becalm, "trace", "--syscalls", "-o", "/dev/null", "--"]),
        (
            "becalm trace --until entry",
            vec![becalm, "trace", "--until", "entry", "-o", "/dev/null", "--"],
        ),
        ("strace -f -e trace=%file", vec!["strace", "-f", "-e", "trace=%file", "-o", "/dev/null"]),
        ("strace -f --seccomp-bpf", bpf.to_vec()),
        // Tracer and program on one processor, where a stop costs least.
        ("strace -f --seccomp-bpf, 1 CPU", [&ONE_CPU[..], &bpf].concat()),
        ("becalm trace, 1 CPU", [&ONE_CPU[..], &trace].concat()),
        ("strace -c -f", vec!["strace", "-c", "-f", "-o", "/dev/null"]),
    ]
}

/// Measures and prints one table a program, and one of memory.
pub(super) fn run(args: &Common) -> Result<()> {
    let Common { store, becalm, rounds, .. } = args;
    let becalm = becalm.canonicalize().with_context(|| becalm.display().to_string())?;
    let becalm = becalm.to_str().context("a path that is no UTF-8")?;
    let mut all = Vec::new();
    for (name, arguments) in PROGRAMS {
        let program = stored::program(store, name)?;
        let program = program.to_str().context("a path that is no UTF-8")?;
        all.extend(starts(&ways(becalm), (name, program, arguments), *rounds)?);
    }
    let shell = stored::program(store, "bash")?;
    let shell = shell.to_str().context("a path that is no UTF-8")?;
    let memory = memory(becalm, shell)?;
    args.write(json!({ "times": all, "memory": memory }))
}

/// Measures the starts of one program and prints its table.
fn starts(
    ways: &[(&'static str, Vec<&str>)],
    (name, program, arguments): (&str, &str, &[&str]),
    rounds: usize,
) -> Result<Vec<Value>> {
    let mut times = vec![Vec::new(); ways.len()];
    // The first round warms the caches and is not counted.
    for round in 0..=rounds {
        for (way, times) in ways.iter().zip(&mut times) {
            let seconds = once(&[&way.1[..], &[program], arguments].concat())?;
            if round > 0 {
                times.push(seconds);
            }
        }
    }
    println!(
        "{name} {}\n  {:<32}{:>10}{:>12}  {:<16}{:>10}",
        arguments.join(" "),
        "",
        "median ms",
        "× untraced",
        "quartiles",
        "added ms"
    );
    for (way, own) in ways.iter().zip(&times) {
        let pairs = own.iter().zip(&times[0]);
        let ratios = Spread::of(pairs.clone().map(|(one, untraced)| one / untraced));
        let added = Spread::of(pairs.map(|(one, untraced)| one - untraced));
        println!(
            "  {:<32}{:>10.1}{:>12.2}  {:<16}{:>10.1}",
            way.0,
            1000.0 * Spread::of(own.iter().copied()).median,
            ratios.median,
            format!("{:.2} to {:.2}", ratios.low, ratios.high),
            1000.0 * added.median
        );
    }
    let row = |(way, own): (&(&str, Vec<&str>), Vec<f64>)| json!({ "program": name, "way": way.0, "seconds": own });
    Ok(ways.iter().zip(times).map(row).collect())
}

/// The tracer's peak memory while a shell looks for missing files, each in a directory of
/// its own. The shell's parent is the tracer.
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

fn once(line: &[&str]) -> Result<f64> {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]);
    seconds(command)
}
