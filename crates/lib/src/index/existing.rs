//! The index that is already there: its place, its content if it is updated, and whether it stays.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::index::error::Damaged;
use crate::index::file::{self, Whole};
use crate::index::module::Modules;
use crate::index::options::Options;
use crate::index::report::Report;
use crate::index::trust::{self, Untrusted};
use crate::index::{current, module_files, places, platforms};
use crate::path::path_bytes;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::words::{counted, words_of_chain};

/// Returns the path of the index, and the index there if it is updated. Creates the directory of the
/// default path.
///
/// # Errors
/// Returns an error if no index can be written there, or if the one to update cannot be read.
pub(super) fn find(options: &Options, progress: &dyn Progress) -> Result<(PathBuf, Option<Whole>)> {
    let remark = |path: &Path, reason: &str| {
        progress.remark(&Problem::new(path_bytes(path), reason));
    };
    let path = match &options.output {
        Some(path) => path.clone(),
        None => {
            let path = places::own().context("no home directory; name the index with -o")?;
            trust::make_dirs(path.parent().unwrap_or(Path::new("/")))?;
            path
        }
    };
    options.rule().real(&path)?;
    file::check_place(&path)?;
    if !file::can_be_named(&path) {
        let reason =
            "becalm run and env cannot name an index at a path with a colon or a dollar sign";
        remark(&path, reason);
    }
    if !options.update || !path.exists() {
        return Ok((path, None));
    }
    // An index that another user may have written is reported and not read. Its answers and its list
    // of stores do not count.
    match file::read_trusted(&path) {
        Err(error) if options.stores.is_empty() && error.is::<Untrusted>() => {
            bail!("{error}; name the stores, and it is made anew from their files")
        }
        Err(error)
            if !options.stores.is_empty() && (error.is::<Untrusted>() || error.is::<Damaged>()) =>
        {
            remark(&path, &format!("{}; made anew", words_of_chain(error.as_ref())));
            Ok((path, None))
        }
        old => Ok((path, Some(old?))),
    }
}

/// Keeps an index that is as it would be made: completes the folder beside it, reports directories of
/// this session that it lacks, and returns its report.
///
/// # Errors
/// Returns an error if the folder cannot be completed.
pub(super) fn keep(
    options: &Options,
    (path, old): (&Path, Option<&Whole>),
    programs: &[PathBuf],
    modules: &Modules,
    progress: &dyn Progress,
) -> Result<Option<Report>> {
    let Some(old) = old else { return Ok(None) };
    let Whole { target, index, bytes, table } = old;
    let has_dirs = || {
        let known = current::snapshotted(index);
        let of_modules = module_files::read(&options.module_trees).dirs;
        options.dirs.iter().chain(&of_modules).all(|dir| known.contains(dir))
    };
    let bound = &index.bound.programs;
    let is_bound = |program: &PathBuf| bound.iter().any(|bound| bound.path == path_bytes(program));
    // Making it again would give the same file.
    let is_kept = options.stores.is_empty()
        && !options.image
        && (index.paths.is_some() || !options.paths)
        && options.traced.is_none()
        && has_dirs()
        && programs.iter().all(is_bound)
        && modules.has_sealed(*target, table, bytes)
        && current::is_current(index);
    if !is_kept {
        return Ok(None);
    }
    platforms::repair(path, options.rule(), *target, progress)?;
    let list =
        env::var_os("LD_LIBRARY_PATH").filter(|_| options.in_session && options.dirs.is_empty());
    let missing = list.map_or_else(Vec::new, |list| current::not_snapshotted(index, &list));
    if !missing.is_empty() {
        let dirs = counted(missing.len() as u64, "directory", "directories");
        let reason =
            format!("{dirs} of LD_LIBRARY_PATH not in it: --dirs \"$LD_LIBRARY_PATH\" adds them");
        progress.remark(&Problem::new(path_bytes(path), reason));
    }
    Ok(Some(Report::of(path_bytes(path), *target, index, bytes.len(), table.len())))
}
