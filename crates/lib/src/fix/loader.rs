//! `--resolve loader`: the files that the real loader opens, from a run of that loader which ends
//! before the program's entry point.

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::loader::load::Role;
use becalm_core::strategy::row::LoaderAnswers;
use becalm_host::oracle;
use bstr::BStr;

use crate::path::path_of;
use crate::targets::Target;
use crate::words::words_of_chain;

/// Returns the loader's answers for the subject of a closure, with an empty environment.
///
/// # Errors
/// Returns an error if the loader cannot be run.
pub fn answers(target: &Target, closure: &Closure) -> Result<LoaderAnswers> {
    let loader = match closure.subject.kind {
        SubjectKind::Program => None,
        SubjectKind::Library | SubjectKind::Static => {
            Some(path_of(loader(closure).context("no loader to ask")?))
        }
    };
    let record = oracle::list(&target.host, loader.as_deref())
        .map_err(|error| anyhow!("--resolve loader: {}", words_of_chain(&error)))?;
    if let Some(fatal) = record.fatal {
        bail!("--resolve loader: the loader gives up: {fatal}");
    }
    let searches = record.searches.into_iter();
    let mapped = searches.filter(|search| search.mapped && !search.at_run_time);
    let told = mapped.filter_map(|mut it| Some((it.needed_by?, it.needed, it.tries.pop()?.path)));
    let told: Vec<_> = told.collect();
    let asks = closure.subject.view.needed().next().is_some();
    if told.is_empty() && asks {
        bail!("--resolve loader: its loader keeps no record (LD_DEBUG)");
    }
    let own = closure.load.objects.first().map(|subject| &subject.path);
    let told = told.into_iter().filter(|(by, ..)| Some(by) == own);
    Ok(told.map(|(_, needed, path)| (needed, path)).collect())
}

/// Returns the loader of a closure, by the path it was found by.
pub fn loader(closure: &Closure) -> Option<&BStr> {
    let objects = &closure.load.objects;
    objects.iter().find(|object| object.role == Role::Loader).map(|loader| loader.path.as_ref())
}
