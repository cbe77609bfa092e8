//! Measures the cost of tracing: the same start in several variants, in turn, so that disturbances
//! affect all of them alike. The untraced variant runs twice as a control. Ratios are computed
//! within a round; their median and quartiles are printed.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::Common;
use super::calm::{Variant, measure, variant};
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
    let ways: [(_, &[&str]); 6] = [
        ("untraced", &[]),
        ("untraced again", &[]),
        ("becalm trace", &trace),
        ("strace -f --seccomp-bpf", &bpf),
        // Tracer and program on one processor, where a stop costs least.
        ("strace -f --seccomp-bpf, 1 CPU", &[&ONE_CPU[..], &bpf].concat()),
        ("becalm trace, 1 CPU", &[&ONE_CPU[..], &trace].concat()),
    ];
    let of = |(name, before): (_, &[&str])| {
        let line = [before, &[program]].concat();
        variant(name, Path::new(line[0]), &[]).with_prefix(&line[1..])
    };
    ways.map(of).into()
}

/// Measures each program and prints a table.
pub(super) fn run(args: &Common) -> Result<()> {
    let Common { store, becalm, rounds, .. } = args;
    let becalm = becalm.canonicalize().with_context(|| becalm.display().to_string())?;
    let becalm = becalm.to_str().context("a path that is no UTF-8")?;
    let mut all = Vec::new();
    for (name, arguments) in PROGRAMS.into_iter().filter(|(name, _)| args.is_wanted(name)) {
        let program = stored::program(store, name)?;
        let program = program.to_str().context("a path that is no UTF-8")?;
        all.extend(measure(name, &variants(becalm, program), arguments, *rounds)?);
    }
    args.write(json!({ "times": all }))
}
