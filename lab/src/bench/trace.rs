//! The cost of watching: the same start in five ways, turn by turn, so that what else the
//! machine does meets all of them. Ratios are taken within a round; their median is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

/// The programs, each with arguments that make it end by itself.
const PROGRAMS: [(&str, &[&str]); 2] = [("inkscape", &["--version"]), ("bash", &["-c", ":"])];

/// The ways, untraced first; what precedes the program on the command line.
fn ways(becalm: &str) -> Vec<(&'static str, Vec<&str>)> {
    vec![
        ("untraced", vec![]),
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

/// Measures and prints one table a program.
pub(super) fn run(store: &Path, becalm: &Path, rounds: usize, raw: Option<&Path>) -> Result<()> {
    let becalm = becalm.canonicalize().with_context(|| becalm.display().to_string())?;
    let becalm = becalm.to_str().context("a path that is no UTF-8")?;
    let mut all = Vec::new();
    for (name, arguments) in PROGRAMS {
        let program = find(store, name)?;
        let program = program.to_str().context("a path that is no UTF-8")?;
        let ways = ways(becalm);
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
            "{name} {}\n  {:<28}{:>10}{:>14}",
            arguments.join(" "),
            "",
            "median ms",
            "× untraced"
        );
        for (way, own) in ways.iter().zip(&times) {
            let ratios = own.iter().zip(&times[0]).map(|(one, untraced)| one / untraced);
            println!(
                "  {:<28}{:>10.1}{:>14.2}",
                way.0,
                1000.0 * median(own.iter().copied()),
                median(ratios)
            );
            all.push(json!({ "program": name, "way": way.0, "seconds": own }));
        }
    }
    if let Some(raw) = raw {
        let machine = fs::read_to_string("/proc/version").unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(0, |cpus| cpus.get());
        let text = json!({ "machine": machine.trim(), "cpus": cpus, "times": all });
        fs::write(raw, text.to_string()).with_context(|| raw.display().to_string())?;
    }
    Ok(())
}

/// The program of this name in a store.
fn find(store: &Path, name: &str) -> Result<PathBuf> {
    for package in fs::read_dir(store).with_context(|| store.display().to_string())? {
        let program = package?.path().join("bin").join(name);
        if program.is_file() {
            return Ok(program.canonicalize()?);
        }
    }
    bail!("{}: no {name} in this store", store.display())
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

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn a_median_is_no_mean() {
        assert!((median([1.0, 100.0, 2.0].into_iter()) - 2.0).abs() < f64::EPSILON);
    }
}
