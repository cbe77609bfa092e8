//! The content of an index, decided before a store is walked.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::facts::Environment;
use becalm_core::index::Index;
use becalm_host::OsFs;
use becalm_host::index_store::{
    BindThreshold, Binding, IndexOptions, Indexed, MachineIndex, index_stores, python_of,
    update_stores,
};
use becalm_host::path_table::PathStore;
use bstr::BString;

use crate::index::file::Whole;
use crate::index::options::Options;
use crate::index::settled::{let_settle, recent_directories};
use crate::index::variables::environment_of_process;
use crate::index::{current, module_files, paths, programs};
use crate::path::{at, dirs_of};
use crate::progress::Progress;

/// The content of an index, decided before a store is walked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) stores: Vec<PathBuf>,
    /// Additional objects: the programs with their libraries, and the Pythons of virtual environments.
    pub(super) files: Vec<PathBuf>,
    /// The programs that are bound; none for all of the stores.
    only: Option<Vec<PathBuf>>,
    pub(super) dirs: Vec<PathBuf>,
    threshold: BindThreshold,
    environments: Vec<Environment>,
    image: bool,
    pub(super) trusted_times: Vec<PathBuf>,
    pub(super) path_stores: Option<Vec<PathStore>>,
    pub(super) modules_not_understood: Vec<BString>,
}

/// Returns the plan of an index that has to be made, for these programs.
pub(super) fn plan(
    options: &Options,
    old: Option<&Whole>,
    wanted: Vec<PathBuf>,
    progress: &dyn Progress,
) -> Result<Plan> {
    let of_old = old.map(|old| &old.index);
    let (mut stores, mut dirs) = stores_and_dirs(options, of_old, &wanted)?;
    let mut files = add_pythons(&mut stores);
    let modules = module_files::of_session(options, &stores);
    dirs.extend(modules.dirs);
    let_settle(recent_directories(&stores).iter().chain(&wanted));
    let programs = programs::fitting(options, wanted, &mut files, progress)?;
    let path_stores = paths::stores_to_list(options, &stores, of_old);
    let only = stores.is_empty().then_some(programs);
    let binds_all = only.is_some() || path_stores.is_some();
    let usual = if binds_all { BindThreshold::ALL } else { BindThreshold::default() };
    let mut conditions = of_old.iter().flat_map(|index| index.conditions());
    Ok(Plan {
        files,
        only,
        dirs,
        threshold: options.bind_threshold.unwrap_or(usual),
        environments: environments(of_old),
        image: options.image || conditions.any(|it| it.is_of_image()),
        trusted_times: options.trusted_times.iter().flat_map(|it| it.canonicalize()).collect(),
        path_stores,
        modules_not_understood: modules.not_understood,
        stores,
    })
}

/// Returns the stores to walk and the directories to snapshot: the named ones, else those of
/// this session; directories of the index that is updated stay.
fn stores_and_dirs(
    options: &Options,
    old: Option<&Index>,
    programs: &[PathBuf],
) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut stores, mut dirs) = (options.stores.clone(), options.dirs.clone());
    if dirs.is_empty() && options.in_session {
        dirs = dirs_of(env::var_os("LD_LIBRARY_PATH"));
    }
    if let Some(old) = old {
        if options.names_nothing() {
            stores.extend(current::stores(old));
        }
        dirs.extend(current::snapshotted(old));
    }
    if stores.is_empty() && programs.is_empty() {
        match options.programs.first() {
            Some(folder) => bail!("{}: no program in this folder", folder.display()),
            None => bail!("nothing to update: name the stores"),
        }
    }
    for store in &mut stores {
        let absolute = std::path::absolute(&*store).with_context(at(&*store));
        if !store.metadata().with_context(at(&*store))?.is_dir() {
            return Err(anyhow!("{}: not a folder", store.display()));
        }
        *store = absolute?;
    }
    Ok((stores, dirs))
}

/// Returns the environments that starts are bound for: those of the index that is updated, else the
/// empty one and that of this process.
fn environments(old: Option<&Index>) -> Vec<Environment> {
    let of_old = old.map(|index| index.bound.environments()).unwrap_or_default();
    if !of_old.is_empty() {
        return of_old;
    }
    let mut both = vec![Environment::default(), environment_of_process()];
    both.dedup();
    both
}

/// Adds, for the virtual environments among the stores, the trees of the Pythons that they were
/// made from. Returns the programs of these.
fn add_pythons(stores: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mut programs = Vec::new();
    for (program, trees) in stores.clone().iter().filter_map(|store| python_of(store)) {
        programs.push(program);
        let is_below = |tree: &PathBuf| stores.iter().any(|store| tree.starts_with(store));
        let new: Vec<PathBuf> = trees.into_iter().filter(|tree| !is_below(tree)).collect();
        stores.extend(new);
    }
    programs
}

impl Plan {
    /// Indexes the stores, reusing the valid parts of an old index. Returns the number of objects whose
    /// answers were reused as well.
    pub(super) fn walk(
        &self,
        prefixes: &[PathBuf],
        old: Option<&Whole>,
        progress: &dyn Progress,
    ) -> (Indexed, usize) {
        let search = progress.search();
        let (only, environments) = (self.only.as_deref(), &self.environments[..]);
        // The prefixes that were immutable for the old index and contain answers.
        let known = old.map(|old| current::root_paths(&old.index)).unwrap_or_default();
        let all = [prefixes, &known].concat();
        let options = IndexOptions {
            stores: &self.stores,
            files: &self.files,
            prefixes: &all,
            dirs: &self.dirs,
            bind: Some(Binding { threshold: self.threshold, only, environments }),
            image: self.image,
            trusted_times: &self.trusted_times,
            progress: Some(&*search),
            ..IndexOptions::default()
        };
        let os = OsFs::new();
        // Without stores, there is little to reuse.
        let updated = old.filter(|_| !self.stores.is_empty()).and_then(|old| {
            // `--store` may have been different for the old index.
            let mut ways = [options, IndexOptions { prefixes: &known, ..options }].into_iter();
            ways.find_map(|way| update_stores(&os, &old.index, old.target, way))
        });
        let kept = |machine: &MachineIndex| {
            let named = machine.index.objects.iter().filter(|object| !object.path.is_empty());
            named.count().saturating_sub(machine.read)
        };
        match updated {
            Some(updated) => {
                let kept = updated.machines.iter().map(kept).sum();
                (updated, kept)
            }
            None => (index_stores(&os, options), 0),
        }
    }
}
