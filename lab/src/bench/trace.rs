//! Measures the cost of tracing: the same start in several variants. Measured as in [`super::calm`].

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::Common;
use super::calm::{measure, starts, variant};
use crate::stored;

/// The programs, with arguments that make them exit ([`starts`]).
const PROGRAMS: &str = "inkscape --version; convert-im6.q16 --version; bash -c :";

/// A command prefix that pins a command and its children to the first processor.
const ONE_CPU: [&str; 3] = ["taskset", "-c", "0"];

/// Measures each program and prints a table.
pub(super) fn run(args: &Common) -> Result<()> {
    let becalm = args.becalm.canonicalize().with_context(|| args.becalm.display().to_string())?;
    let becalm = becalm.to_str().context("a path that is no UTF-8")?;
    let trace = [becalm, "trace", "-o", "/dev/null", "--"];
    let bpf = ["strace", "-f", "--seccomp-bpf", "-e", "trace=%file", "-o", "/dev/null"];
    // Each with the words before the program on the command line.
    let ways: [(_, &[&str]); 5] = [
        ("untraced", &[]),
        ("becalm trace", &trace),
        ("strace -f --seccomp-bpf", &bpf),
        // Tracer and program on one processor, where a stop costs least.
        ("strace -f --seccomp-bpf, 1 CPU", &[&ONE_CPU[..], &bpf].concat()),
        ("becalm trace, 1 CPU", &[&ONE_CPU[..], &trace].concat()),
    ];
    let mut all = Vec::new();
    for (name, arguments) in starts(PROGRAMS).filter(|(name, _)| args.is_wanted(name)) {
        let program: &Path = &stored::program(&args.store, name)?;
        let variants = ways.map(|(way, before)| variant(way, before, (program, &arguments), &[]));
        all.extend(measure(name, &variants, args.rounds)?);
    }
    args.write(json!({ "times": all }))
}
