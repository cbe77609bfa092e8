//! `becalm/bench/1`: the measurement as one JSON object.

use std::collections::BTreeMap;
use std::ffi::OsString;

use becalm_host::bench::stats::LEVEL;
use becalm_host::bench::{Timed, Until, Variant};
use becalm_lib::json::as_json;
use serde::Serialize;

use crate::bench::output::warnings;
use crate::bench::report::Report;
use crate::bench::variants::changed_variables;

const SCHEMA: &str = "becalm/bench/1";

#[derive(Serialize)]
struct ReportJson<'a> {
    schema: &'static str,
    until: &'static str,
    cold: bool,
    rounds: usize,
    warmup: usize,
    seed: u64,
    machine: MachineJson<'a>,
    variants: Vec<VariantJson<'a>>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct MachineJson<'a> {
    kernel: &'a str,
    cpus: usize,
    load: Option<f64>,
    began: u64,
}

#[derive(Serialize)]
struct VariantJson<'a> {
    name: &'a str,
    control: bool,
    program: String,
    args: Vec<String>,
    environment: BTreeMap<String, Option<String>>,
    median_ns: u64,
    low_ns: u64,
    high_ns: u64,
    least_ns: u64,
    most_ns: u64,
    outliers: usize,
    cpu_median_ns: Option<u64>,
    ratio: Option<RatioJson>,
    wall_ns: Vec<u64>,
    cpu_ns: Option<Vec<u64>>,
}

#[derive(Serialize)]
struct RatioJson {
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
    level: f64,
}

/// The whole object, and a line end.
pub(crate) fn report(report: &Report) -> String {
    let options = &report.options;
    let machine = &report.machine;
    let json = ReportJson {
        schema: SCHEMA,
        until: match options.until {
            Until::Exit => "exit",
            Until::Entry => "entry",
        },
        cold: options.cold,
        rounds: report.measured.rounds,
        warmup: options.warmup,
        seed: options.seed,
        machine: MachineJson {
            kernel: &machine.kernel,
            cpus: machine.cpus,
            load: machine.load,
            began: machine.began,
        },
        variants: variants(report),
        notes: warnings(report),
    };
    let mut text = String::from_utf8_lossy(&as_json(&json)).into_owned();
    text.push('\n');
    text
}

/// The control is measured by the first variant's command.
fn variants(report: &Report) -> Vec<VariantJson<'_>> {
    let commands = report.variants.iter().chain(report.variants.first());
    report.measured.variants.iter().zip(commands).map(|(timed, of)| variant(timed, of)).collect()
}

fn variant<'a>(timed: &'a Timed, variant: &'a Variant) -> VariantJson<'a> {
    let text = |text: &OsString| text.to_string_lossy().into_owned();
    // Times are far below 2^53 ns, and never negative.
    let ns = |value: f64| value.round() as u64;
    let spread = timed.spread;
    let cpu = timed.cpu_median_ns().map(ns);
    VariantJson {
        name: &timed.name,
        control: timed.control,
        program: text(&variant.command.program),
        args: variant.command.args.iter().map(text).collect(),
        environment: changed_variables(&variant.command)
            .iter()
            .map(|(name, value)| (text(name), value.as_ref().map(text)))
            .collect(),
        median_ns: ns(spread.median),
        low_ns: ns(spread.low),
        high_ns: ns(spread.high),
        least_ns: ns(spread.least),
        most_ns: ns(spread.most),
        outliers: spread.outliers,
        cpu_median_ns: cpu,
        ratio: timed.ratio.map(|ratio| RatioJson {
            ratio: ratio.ratio,
            low: ratio.interval.map(|interval| interval.0),
            high: ratio.interval.map(|interval| interval.1),
            level: LEVEL,
        }),
        wall_ns: timed.runs.iter().map(|run| run.wall_ns).collect(),
        cpu_ns: cpu.map(|_| timed.runs.iter().map(|run| run.cpu_ns).collect()),
    }
}
