//! The cost of watching: the same start in several ways, turn by turn, so that what else
//! the machine does meets all of them; untraced takes part twice, as a control. Ratios are
//! taken within a round; their median and quartiles are told. And the tracer's memory on
//! ever more lookups.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::stored;

/// The programs, each with arguments that make it end by itself.
const PROGRAMS: [(&str, &[&str]); 2] = [("inkscape", &["--version"]), ("bash", &["-c", ":"])];

/// The ways, untraced first; what precedes the program on the command line.
fn ways(becalm: &str) -> Vec<(&'static str, Vec<&str>)> {
    vec![
        ("untraced", vec![]),
        ("untraced again", vec![]),
        ("becalm trace", vec![becalm, "trace", "-o", "/dev/null", "--"]),
        ("becalm trace --syscalls", vec![becalm, "trace", "--syscalls", "-o", "/dev/null", "--"]),
        (
            "becalm trace --until entry",
            vec![becalm, "trace", "--until", "entry", "-o", "/dev/null", "--"],
        ),
        ("strace -f -e trace=%file", vec!["strace", "-f", "-e", "trace=%file", "-o", "/dev/null"]),
        ("strace -c -f", vec!["strace", "-c", "-f", "-o", "/dev/null"]),
    ]
}

/// Measures and prints one table a program, and one of memory.
pub(super) fn run(store: &Path, becalm: &Path, rounds: usize, raw: Option<&Path>) -> Result<()> {
    let becalm = becalm.canonicalize().with_context(|| becalm.display().to_string())?;
    let becalm = becalm.to_str().context("a path that is no UTF-8")?;
    let mut all = Vec::new();
    for (name, arguments) in PROGRAMS {
        let program = stored::program(store, name)?;
        let program = program.to_str().context("a path that is no UTF-8")?;
        all.extend(starts(&ways(becalm), (name, program, arguments), rounds)?);
    }
    let shell = stored::program(store, "bash")?;
    let shell = shell.to_str().context("a path that is no UTF-8")?;
    let memory = memory(becalm, shell)?;
    if let Some(raw) = raw {
        let machine = fs::read_to_string("/proc/version").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(0, |cpus| cpus.get());
        let text = json!({
            "machine": machine.trim(),
            "cpus": cpus,
            "load_afterwards": load.trim(),
            "times": all,
            "memory": memory,
        });
        fs::write(raw, text.to_string()).with_context(|| raw.display().to_string())?;
    }
    Ok(())
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
        "{name} {}\n  {:<28}{:>10}{:>12}  {:<16}{:>10}",
        arguments.join(" "),
        "",
        "median ms",
        "× untraced",
        "quartiles",
        "added ms"
    );
    for (way, own) in ways.iter().zip(&times) {
        let pairs = own.iter().zip(&times[0]);
        let ratios: Vec<f64> = pairs.clone().map(|(one, untraced)| one / untraced).collect();
        let added: Vec<f64> = pairs.map(|(one, untraced)| one - untraced).collect();
        println!(
            "  {:<28}{:>10.1}{:>12.2}  {:<16}{:>10.1}",
            way.0,
            1000.0 * quantile(own, 0.5),
            quantile(&ratios, 0.5),
            format!("{:.2} to {:.2}", quantile(&ratios, 0.25), quantile(&ratios, 0.75)),
            1000.0 * quantile(&added, 0.5)
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
    let began = Instant::now();
    let status = Command::new(line[0])
        .args(&line[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| line[0].to_owned())?;
    let seconds = began.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{line:?}: {status}");
    }
    Ok(seconds)
}

/// The value that this share of the values lies below.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn a_median_is_no_mean_and_the_last_value_is_the_highest() {
        let values = [1.0, 100.0, 2.0];
        assert!((quantile(&values, 0.5) - 2.0).abs() < f64::EPSILON);
        assert!((quantile(&values, 1.0) - 100.0).abs() < f64::EPSILON);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
