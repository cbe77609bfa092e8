//! Makes and updates indexes of stores and programs (`becalm index`).
//!
//! The host walks the stores and resolves lookups with the core, [`crate::index::module`] puts the
//! table into the audit module, [`file`] writes it.

use anyhow::{Result, bail};
use bstr::BString;

use crate::index::module::{Modules, NOTHING};
use crate::index::report::Report;
use crate::index::{existing, file, paths, places, plan, programs};
use crate::path::path_bytes;
use crate::problem::Problem;
use crate::progress::Progress;

pub use crate::index::options::{Options, Traced};

/// Makes or updates an index, and writes it. An error of a single file is part of the report.
///
/// # Errors
/// Returns an error if a store or program does not exist, nothing can be indexed, or the index
/// cannot be written.
pub fn index(options: &Options, progress: &dyn Progress) -> Result<Report> {
    options.remark(progress);
    let (path, old) = existing::find(options, progress)?;
    if options.output.is_none() {
        places::check_exec(&path)?;
    }
    let old = old.as_ref();
    let modules = Modules::new(options.module.as_deref())?;
    let programs = programs::named(options, old, progress)?;
    if let Some(kept) = existing::keep(options, (&path, old), &programs, &modules, progress)? {
        return Ok(kept);
    }
    let plan = plan::plan(options, old, programs, progress)?;
    progress.begin_work();
    let (mut indexed, kept) = plan.walk(&options.prefixes, old, progress);
    let problems: Vec<Problem> = indexed.errors.iter().map(Problem::from).collect();
    if indexed.machines.is_empty() {
        problems.iter().for_each(|problem| progress.remark(problem));
    }
    let of_old = old.and_then(|old| old.index.paths.as_ref());
    let add_paths = |stores| paths::add(&mut indexed, stores, of_old, &plan.trusted_times);
    let mut paths = plan.path_stores.as_deref().map(add_paths).transpose()?;
    if let (Some(paths), Some(traced)) = (&mut paths, &options.traced) {
        paths.outside.clone_from(&traced.outside);
    }
    if paths.is_some() && plan.files.is_empty() && indexed.machines.is_empty() {
        bail!(
            "{NOTHING} in the stores; --program names the program whose lookups the paths answer, \
             such as the interpreter of the scripts there"
        );
    }
    let sealed = modules.seal(indexed)?;
    // A link to an index stays one.
    file::write(&options.rule().real(&path)?, sealed.machine.target, &sealed.file, options.rule())?;
    let known = &sealed.machine.index.directories;
    let is_known = |dir: &BString| known.iter().any(|it| it.path == *dir && it.names.is_some());
    let mut not_snapshotted: Vec<BString> = plan.dirs.iter().map(|dir| path_bytes(dir)).collect();
    not_snapshotted.retain(|dir| !is_known(dir));
    not_snapshotted.extend(options.relative_dirs.iter().map(|dir| path_bytes(dir)));
    let not_known = (not_snapshotted, plan.modules_not_understood);
    Ok(Report {
        stores: Some(plan.stores.iter().map(|store| path_bytes(store)).collect()),
        kept: Some(kept),
        problems,
        ..Report::of_written(path_bytes(&path), &sealed, not_known, paths)
    })
}
