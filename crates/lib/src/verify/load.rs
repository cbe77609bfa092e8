//! Compares the objects that the real loader loads for a program with those of the same start
//! without becalm's edits.
//!
//! The first list is the loader's own output, from a run that ends before the program's entry
//! point. The second cannot be observed without writing to the store, so it is predicted from the
//! original bytes in each file's trailer.

use std::fs::File;

use anyhow::{Result, anyhow, bail};
use becalm_core::closure::{self, Closure, Subject};
use becalm_core::elf;
use becalm_core::facts::Environment;
use becalm_core::fs::{FileId, FileSystem, Overlay};
use becalm_core::loader::load::Role;
use becalm_core::strategy::planned::differences;
use becalm_host::oracle;
use bstr::{BStr, BString};
use object::ReadCache;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::assume::Assumptions;
use crate::fix::loader::loader;
use crate::json::{lossy, lossy_list};
use crate::path::path_of;
use crate::targets::Target;
use crate::words::{words, words_of_chain};

/// The load set of a program, compared with the one without its strategies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loads {
    /// The program.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// True if the strategies change nothing.
    pub equal: bool,
    /// The number of objects that the loader loads.
    pub objects: usize,
    /// Objects that are loaded only without the strategies.
    #[serde(serialize_with = "lossy_list")]
    pub lost: Vec<BString>,
    /// Objects that are loaded only with the strategies.
    #[serde(serialize_with = "lossy_list")]
    pub gained: Vec<BString>,
    /// True if the same objects are loaded in another order.
    pub reordered: bool,
}

/// Runs the loader and compares.
///
/// # Errors
/// Returns an error if one of the two load sets cannot be determined.
pub(crate) fn compare(
    fs: &dyn FileSystem,
    assumed: &Assumptions,
    target: &Target,
    closure: &Closure,
) -> Result<Loads> {
    if !assumed.fs.is_real_root() {
        bail!("--load: nothing of another root is run");
    }
    let record = oracle::list(&target.host, None)
        .map_err(|error| anyhow!("--load: {}", words_of_chain(&error)))?;
    // The loader's own list: LD_DEBUG does not show the lookups that an audit module answers.
    let identified = |path: BString| Some((fs.open(path.as_ref()).ok()?.id, path));
    let loader = loader(closure).and_then(|path| identified(path.to_owned()));
    let listed = record.listed.into_iter().filter_map(identified);
    let with: Vec<(FileId, BString)> =
        listed.filter(|(id, _)| loader.as_ref().is_none_or(|(loader, _)| loader != id)).collect();
    let (lost, gained, reordered) = differences(&plain(fs, closure)?, &with);
    let equal = lost.is_empty() && gained.is_empty() && !reordered;
    let path = target.shown.clone();
    Ok(Loads { path, equal, objects: with.len(), lost, gained, reordered })
}

/// Returns the libraries of the start without the edits, in load order.
fn plain(fs: &dyn FileSystem, now: &Closure) -> Result<Vec<(FileId, BString)>> {
    let mut originals = FxHashMap::default();
    for object in &now.load.objects {
        if let Some(view) = original(object.path.as_ref())? {
            originals.insert(object.id, view);
        }
    }
    let mut overlay = Overlay::new(fs);
    overlay.edit = Some(Box::new(|_, file| originals.get(&file.id).cloned()));
    let subject = Subject::open(&overlay, now.subject.path.as_ref())?;
    let (Some(interpreter), Some(facts)) = (loader(now), &now.facts) else {
        return Ok(Vec::new());
    };
    let environment = Environment::default();
    let closure = closure::resolve(&overlay, subject, interpreter, facts.clone(), &environment)?;
    let objects = closure.load.objects.into_iter();
    let libraries = objects.filter(|object| object.role == Role::Library);
    Ok(libraries.map(|object| (object.id, object.path)).collect())
}

/// Returns the object as it was before becalm edited it; `None` if becalm did not edit it.
fn original(path: &BStr) -> Result<Option<elf::ObjectView>> {
    let file = File::open(path_of(path)).map_err(|error| anyhow!(words(&error)))?;
    becalm_rewrite::original(&ReadCache::new(file)).map_err(|error| anyhow!("{path}: {error}"))
}
