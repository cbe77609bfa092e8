//! Several programs: one row each, the worst first, and the total.

use std::io::Write;

use anyhow::Result;
use becalm_core::cost::SearchCost;
use becalm_lib::check::{Kind, Program};
use becalm_lib::escape::shown;
use becalm_lib::targets::Problem;
use becalm_lib::words::{counted, grouped};

use crate::check::view::View;
use crate::terminal::style::Look;
use crate::terminal::{Stdout, aligned};

const HEADINGS: [&str; 5] = ["misses", "opens", "stats", "libraries", "dirs"];

/// One row: its numbers as text.
type Cells = [String; 5];

/// One row a program.
pub(crate) struct Table;

impl View for Table {
    fn is_long(&self) -> bool {
        false
    }

    fn end(&self, out: &mut Stdout, look: Look, all: (Vec<Program>, &[Problem])) -> Result<()> {
        let mut programs = all.0;
        if programs.is_empty() {
            return Ok(());
        }
        // The worst first, ties by path.
        programs.sort_by(|a, b| {
            b.storm.misses().cmp(&a.storm.misses()).then_with(|| a.path.cmp(&b.path))
        });
        let mut total = SearchCost::default();
        let mut libraries = 0;
        for program in &programs {
            total.add(&program.storm);
            libraries += program.libraries;
        }
        let rows = programs.iter().map(|program| cells(&program.storm, program.libraries));
        let rows = [HEADINGS.map(str::to_owned)].into_iter().chain(rows);
        let rows: Vec<Cells> = rows.chain([cells(&total, libraries)]).collect();
        let lines = aligned(&rows);
        let (heading, sum) = (&lines[0], &lines[lines.len() - 1]);
        writeln!(out, "{}", look.strong(&format!("{heading}  path")))?;
        for (program, numbers) in programs.iter().zip(&lines[1..]) {
            let remark = remark(program);
            let used = numbers.len() + 2 + remark.chars().count();
            let path = look.fitted(&shown(program.path.as_ref()), used);
            let is_over = program.over_budget == Some(true);
            let numbers = if is_over { look.bad(numbers) } else { numbers.clone() };
            writeln!(out, "{numbers}  {path}{}", look.bad(&remark))?;
        }
        let files = counted(programs.len() as u64, "file", "files");
        writeln!(out, "{}", look.strong(&format!("{sum}  total of {files}")))?;
        Ok(())
    }
}

fn cells(storm: &SearchCost, libraries: usize) -> Cells {
    [
        grouped(storm.misses()),
        grouped(storm.missed_opens),
        grouped(storm.missed_stats),
        grouped(libraries as u64),
        grouped(storm.search_dirs),
    ]
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
