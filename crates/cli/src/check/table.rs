//! Several programs: one row each, the worst first, and the total.

use std::io::{self, Write};

use becalm_core::cost::SearchCost;
use becalm_lib::check::{Kind, Program};
use becalm_lib::escape::shown;
use becalm_lib::words::{counted, grouped};

use crate::terminal::style::Look;

const HEADINGS: [&str; 5] = ["misses", "opens", "stats", "libraries", "dirs"];

/// Writes the table; the programs are sorted by misses, ties by path.
pub(crate) fn write(
    out: &mut impl Write,
    look: Look,
    mut programs: Vec<Program>,
) -> io::Result<()> {
    if programs.is_empty() {
        return Ok(());
    }
    programs
        .sort_by(|a, b| b.storm.misses().cmp(&a.storm.misses()).then_with(|| a.path.cmp(&b.path)));
    let mut total = SearchCost::default();
    programs.iter().for_each(|program| total.add(&program.storm));
    let sum = cells(&total, programs.iter().map(|program| program.libraries).sum());
    // The sums are the widest numbers.
    let widths: [usize; 5] = std::array::from_fn(|at| HEADINGS[at].len().max(sum[at].len()));
    let aligned = |cells: [String; 5]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    let heading = aligned(HEADINGS.map(str::to_owned));
    writeln!(out, "{}", look.strong(&format!("{heading}  path")))?;
    for program in &programs {
        let remark = remark(program);
        let numbers = aligned(cells(&program.storm, program.libraries));
        let used = numbers.len() + 2 + remark.chars().count();
        let path = look.fitted(&shown(program.path.as_ref()), used);
        let is_over = program.over_budget == Some(true);
        let numbers = if is_over { look.bad(&numbers) } else { numbers };
        writeln!(out, "{numbers}  {path}{}", look.bad(&remark))?;
    }
    let files = counted(programs.len() as u64, "file", "files");
    writeln!(out, "{}", look.strong(&format!("{}  total of {files}", aligned(sum))))
}

fn cells(storm: &SearchCost, libraries: usize) -> [String; 5] {
    let libraries = libraries as u64;
    [storm.misses(), storm.missed_opens, storm.missed_stats, libraries, storm.search_dirs]
        .map(grouped)
}

/// Returns remarks on a row beyond its numbers.
fn remark(program: &Program) -> String {
    let mut remarks = Vec::new();
    if program.kind == Kind::MachO {
        remarks.push("Mach-O".to_owned());
    }
    if !program.unresolved.is_empty() {
        remarks.push(format!("{} unresolved", grouped(program.unresolved.len() as u64)));
    }
    if program.stop.is_some() {
        remarks.push("does not start".to_owned());
    }
    if remarks.is_empty() { String::new() } else { format!("  ({})", remarks.join(", ")) }
}
