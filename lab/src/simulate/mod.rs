//! `lab simulate`: the time until the last rank of a job is through its imports, for each strategy and number of
//! nodes.
//!
//! `simulate.json` beside this file has all parameters, each with its source, and published figures that the model
//! is compared with. [`model`] computes.

mod model;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::model::{Site, Step};
use crate::words::grouped;

/// The parameters of the committed table.
const TABLE: &str = include_str!("simulate.json");
/// Numbers of nodes.
const NODES: [u32; 5] = [1, 10, 100, 1000, 10_000];
/// The number of nodes for which calls are counted.
const COUNTED: f64 = 1000.0;

/// Options of the simulation.
#[derive(Args)]
pub(crate) struct Simulate {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The table of parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    site: BTreeMap<String, Parameter>,
    local_seconds: Parameter,
    strategies: Vec<Strategy>,
    checks: Vec<Check>,
}

/// A value and its source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameter {
    is: f64,
    /// For readers of the table.
    #[serde(rename = "from")]
    _from: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Strategy {
    name: String,
    #[serde(rename = "from")]
    _from: String,
    steps: Vec<Step>,
}

/// A published figure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    name: String,
    #[serde(rename = "from")]
    _from: String,
    nodes: f64,
    published: f64,
    /// True if a parameter was chosen so that this figure is met.
    #[serde(default)]
    fitted: bool,
    /// Parameters of that site in place of the table's.
    #[serde(default)]
    site: BTreeMap<String, f64>,
    local_seconds: f64,
    steps: Vec<Step>,
}

/// The results.
#[derive(Serialize)]
struct Report {
    nodes: Vec<u32>,
    strategies: Vec<Computed>,
    checks: Vec<Compared>,
}

#[derive(Serialize)]
struct Computed {
    name: String,
    /// Calls that reach the metadata server from a job of 1,000 nodes.
    calls: f64,
    /// Bytes that reach a node.
    bytes_per_node: f64,
    /// One for each number of nodes.
    seconds: Vec<f64>,
}

#[derive(Serialize)]
struct Compared {
    name: String,
    published: f64,
    computed: f64,
    fitted: bool,
}

impl Compared {
    /// True if the model is within a factor of two.
    fn agrees(&self) -> bool {
        (0.5..=2.0).contains(&(self.computed / self.published))
    }
}

/// Computes and prints.
pub(crate) fn run(args: &Simulate) -> Result<()> {
    let report = report(TABLE)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}\n{}", times(&report), comparison(&report));
    }
    Ok(())
}

fn report(table: &str) -> Result<Report> {
    let table: Table = serde_json::from_str(table).context("the table of parameters")?;
    let values: BTreeMap<String, f64> =
        table.site.into_iter().map(|(name, parameter)| (name, parameter.is)).collect();
    let site = site(values.clone())?;
    let local = table.local_seconds.is;
    let sum = |steps: &[Step], site: &Site, nodes: f64, local: f64| {
        steps.iter().map(|step| step.seconds(site, nodes, local)).sum()
    };
    let strategies = table.strategies.into_iter().map(|it| {
        let counts = || it.steps.iter().map(|step| step.calls_and_bytes(COUNTED));
        Computed {
            calls: counts().map(|(calls, _)| calls).sum(),
            bytes_per_node: counts().map(|(_, bytes)| bytes).sum(),
            seconds: NODES.map(|nodes| sum(&it.steps, &site, f64::from(nodes), local)).to_vec(),
            name: it.name,
        }
    });
    let strategies = strategies.collect();
    let compared =
        |Check { name, nodes, published, fitted, site: own, local_seconds, steps, .. }| {
            let there = self::site(values.clone().into_iter().chain(own).collect())?;
            let computed = sum(&steps, &there, nodes, local_seconds);
            Ok(Compared { name, published, computed, fitted })
        };
    let checks = table.checks.into_iter().map(compared).collect::<Result<_>>()?;
    Ok(Report { nodes: NODES.to_vec(), strategies, checks })
}

fn site(values: BTreeMap<String, f64>) -> Result<Site> {
    let values = values.into_iter().map(|(name, value)| (name, Value::from(value)));
    Ok(serde_json::from_value(Value::Object(values.collect()))?)
}

/// Formats seconds with two digits.
fn short(seconds: f64) -> String {
    match seconds {
        ..0.995 => format!("{seconds:.2}"),
        ..9.95 => format!("{seconds:.1}"),
        _ => {
            let unit = 10_f64.powf((seconds.log10().floor() - 1.0).max(0.0));
            grouped(((seconds / unit).round() * unit) as usize)
        }
    }
}

/// Formats the times as a table of the documents.
fn times(report: &Report) -> String {
    let nodes = report.nodes.iter().map(|&nodes| format!(" {} |", grouped(nodes as usize)));
    let mut text = format!(
        "| strategy | calls, 1,000 nodes | MB a node |{}\n| --- |{}\n",
        nodes.collect::<String>(),
        " ---: |".repeat(2 + report.nodes.len())
    );
    for it in &report.strategies {
        let seconds: String = it.seconds.iter().map(|it| format!(" {} |", short(*it))).collect();
        let (calls, megabytes) = (grouped(it.calls as usize), (it.bytes_per_node / 1e6).round());
        text.push_str(&format!("| {} | {calls} | {megabytes} |{seconds}\n", it.name));
    }
    text
}

/// Formats the comparison with published figures as a table of the documents.
fn comparison(report: &Report) -> String {
    let mut text =
        "| published, seconds | | model | model ÷ published |\n| --- | ---: | ---: | ---: |\n"
            .to_owned();
    for it in &report.checks {
        let ratio = match (it.fitted, it.agrees()) {
            (true, _) => "fitted".to_owned(),
            (_, true) => short(it.computed / it.published),
            (_, false) => format!("**{}**", short(it.computed / it.published)),
        };
        let (published, computed) = (it.published, short(it.computed));
        text.push_str(&format!("| {} | {published} | {computed} | {ratio} |\n", it.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_tables_that_the_model_computes() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/network-file-systems.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let report = report(TABLE).expect("a table");
        for line in (times(&report) + &comparison(&report)).lines() {
            assert!(page.contains(line), "not in the page: {line}");
        }
    }

    #[test]
    fn at_least_three_published_figures_are_met_that_were_not_fitted() {
        let report = report(TABLE).expect("a table");
        let met = report.checks.iter().filter(|it| it.agrees() && !it.fitted).count();
        assert!(met >= 3, "{}", comparison(&report));
        assert!(report.checks.iter().filter(|it| it.fitted).all(Compared::agrees));
    }

    #[test]
    fn a_table_with_an_unknown_or_a_missing_parameter_is_refused() {
        assert!(report(&TABLE.replace("round_trip_seconds", "round_trip")).is_err());
        assert!(report(&TABLE.replacen("\"fan_out\"", "\"fan\"", 1)).is_err());
    }

    #[test]
    fn seconds_have_two_digits() {
        let shown = [0.304, 0.996, 9.94, 9.96, 99.7, 344.6, 12_345.0].map(short);
        assert_eq!(shown, ["0.30", "1.0", "9.9", "10", "100", "340", "12,000"]);
    }
}
