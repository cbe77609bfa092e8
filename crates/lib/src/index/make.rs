//! Makes and updates indexes of stores and programs (`becalm index`).
//!
//! The host walks the stores and resolves lookups with the core, [`crate::index::module`] puts the
//! table into the audit module, [`file`] writes it.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::facts::Environment;
use becalm_core::index::{Condition, Index};
use becalm_host::OsFs;
use becalm_host::index_store::{
    BindThreshold, Binding, IndexOptions, Indexed, MachineIndex, index_stores, python_of,
    update_stores,
};
use becalm_host::path_table::{Packages, PathStore};
use becalm_host::write::{WriteOptions, Writer};
use bstr::BString;

use crate::index::error::Damaged;
use crate::index::file::{self, Whole};
use crate::index::module::{Modules, NOTHING};
use crate::index::module_files::{self, ModuleFiles};
use crate::index::platforms::{self, State};
use crate::index::report::Report;
use crate::index::settled::{let_settle, recent_directories};
use crate::index::trust::{self, Rule, Untrusted};
use crate::index::variables::environment_of_process;
use crate::index::{current, paths, places, programs};
use crate::path::{at, dirs_of, path_bytes, path_of};
use crate::problem::Problem;
use crate::progress::Progress;
use crate::words::{counted, words_of_chain};

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The files to index, and the path of the index.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Stores: folders below which no file changes once it is there.
    pub stores: Vec<PathBuf>,
    /// Programs that are indexed with the libraries of their starts and their symbol bindings, and
    /// folders of such.
    pub programs: Vec<PathBuf>,
    /// Relocations above which the symbol bindings of a program are indexed; none for the default
    /// numbers.
    pub bind_threshold: Option<BindThreshold>,
    /// Directories that `LD_LIBRARY_PATH` names, whose file names are kept in the index.
    pub dirs: Vec<PathBuf>,
    /// Elements of the same lists that are empty or relative paths. They depend on the current
    /// directory of a process: they are only reported.
    pub relative_dirs: Vec<PathBuf>,
    /// Module trees, as in `MODULEPATH`, whose module files name more of these directories.
    pub module_trees: Vec<PathBuf>,
    /// True if the directories of `LD_LIBRARY_PATH` in this process's environment are taken if none
    /// are named, and those below the stores that the module files of `MODULEPATH` name.
    pub in_session: bool,
    /// Further prefixes of immutable directories, which are not walked.
    pub prefixes: Vec<PathBuf>,
    /// The file to write; none for the user's own index.
    pub output: Option<PathBuf>,
    /// True if the files are those of a container image, of which there are copies.
    pub image: bool,
    /// True if an existing index is updated.
    pub update: bool,
    /// The audit module to put the table into; none for the built-in one.
    pub module: Option<PathBuf>,
    /// True if the paths below the packages of the stores are indexed, and the bindings of every
    /// program.
    pub paths: bool,
    /// A traced run: its programs are indexed, and the paths of the packages that it searched.
    pub traced: Option<Traced>,
    /// Directories below which the times of directories show each change, although their file system
    /// is not known for it.
    pub trusted_times: Vec<PathBuf>,
    /// True if the user named the prefixes: every indexed directory directly below one of them is
    /// then a package, whatever its name.
    pub prefixes_are_named: bool,
}

/// Programs and directories of a run: input of `becalm index --paths-from`, which [`crate::traced_run`] reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// The programs that it started, in order, each once.
    pub programs: Vec<PathBuf>,
    /// The packages that it searched, by store.
    pub stores: Vec<PathStore>,
    /// The directories that it searched and that are in no package, those with the most misses first.
    pub outside: Vec<BString>,
}

/// The content of an index, decided before a store is walked.
#[derive(Debug)]
struct Plan {
    stores: Vec<PathBuf>,
    /// Additional objects: the programs with their libraries, and the Pythons of virtual environments.
    files: Vec<PathBuf>,
    /// The programs that are bound; none for all of the stores.
    only: Option<Vec<PathBuf>>,
    dirs: Vec<PathBuf>,
    threshold: BindThreshold,
    environments: Vec<Environment>,
    image: bool,
    trusted_times: Vec<PathBuf>,
    path_stores: Option<Vec<PathStore>>,
    modules_not_understood: Vec<BString>,
}

/// Makes or updates an index, and writes it. An error of a single file is part of the report.
///
/// # Errors
/// Returns an error if a store or program does not exist, nothing can be indexed, or the index
/// cannot be written.
pub fn index(options: &Options, progress: &dyn Progress) -> Result<Report> {
    let (path, rule) = (options.place()?, options.rule());
    options.remark(&path, progress);
    let modules = Modules::new(options.module.as_deref())?;
    let old = options.old(&path, progress)?;
    let old = old.as_ref();
    let programs = options.programs(old)?;
    if let Some(old) = old.filter(|old| options.is_satisfied_by(old, &programs, &modules)) {
        repair_folder(&path, rule, old, progress)?;
        options.remark_dirs(&path, &old.index, progress);
        return Ok(Report::of_current(path_bytes(&path), old));
    }
    let plan = options.plan(old, programs, progress)?;
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
    file::write(&rule.real(&path)?, &sealed, rule)?;
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

/// Makes the folder beside an index again if it is not as it was made: its links name the index,
/// and fail after both are renamed.
fn repair_folder(path: &Path, rule: Rule, old: &Whole, progress: &dyn Progress) -> Result<()> {
    // A link to an index has no folder.
    let path = rule.real(path)?;
    if platforms::state(&path, old.target) == State::Whole {
        return Ok(());
    }
    platforms::make(&Writer::under(rule, WriteOptions::default()), &path, old.target)?;
    let reason = "repaired: programs find the index through it again";
    progress.remark(&Problem::new(path_bytes(&platforms::dir_of(&path)), reason));
    Ok(())
}

impl Options {
    /// Reports what keeps the index from being used as it is meant to.
    fn remark(&self, index: &Path, progress: &dyn Progress) {
        let remark = |path, reason| progress.remark(&Problem::new(path_bytes(path), reason));
        if !file::can_be_named(index) {
            remark(
                index,
                "becalm run and env cannot name an index at a path with a colon or a dollar sign",
            );
        }
        let named = self.prefixes.iter().filter(|_| self.prefixes_are_named);
        for prefix in named.filter(|prefix| !prefix.exists()) {
            remark(prefix, "does not exist; without it, --store has no effect");
        }
        for dir in &self.relative_dirs {
            let named = if dir.as_os_str().is_empty() { Path::new("(empty element)") } else { dir };
            remark(named, "not an absolute path, so it has no place in an index: left out");
        }
        for program in self.programs.iter().filter(|program| programs::is_set_id(program)) {
            remark(program, "starts in secure-execution mode: its loader ignores the index");
        }
    }

    /// Returns the stores whose paths are indexed: the requested ones, and those of the index that is
    /// updated.
    fn path_stores(&self, stores: &[PathBuf], old: Option<&Index>) -> Option<Vec<PathStore>> {
        let of_old = old.and_then(|old| old.paths.as_ref()).map(paths::stores_of);
        let is_named = self.paths || (of_old.is_some() && !self.stores.is_empty());
        let of_old = of_old.unwrap_or_default();
        let store = |path: &PathBuf| {
            let any = PathStore { path: path.clone(), packages: Packages::Any };
            // A store that was indexed with any package names stays so.
            let is_named = self.prefixes_are_named && self.prefixes.contains(path);
            match is_named || of_old.contains(&any) {
                true => any,
                false => PathStore { packages: Packages::Hashed, ..any },
            }
        };
        let mut all = match is_named && !stores.is_empty() {
            true => stores.iter().map(store).collect(),
            false => of_old,
        };
        for store in self.traced.iter().flat_map(|traced| &traced.stores) {
            paths::choose(&mut all, store);
        }
        (!all.is_empty()).then_some(all)
    }

    /// Returns the named programs, by their real paths, and those of a traced run; for an index
    /// that is updated, also the bound programs outside its stores.
    fn programs(&self, old: Option<&Whole>) -> Result<Vec<PathBuf>> {
        if self.names_nothing() {
            let stores = old.map(|old| current::stores(&old.index)).unwrap_or_default();
            let bound = old.iter().flat_map(|old| &old.index.bound.programs);
            let bound: BTreeSet<_> = bound.map(|program| path_of(program.path.as_ref())).collect();
            let is_outside =
                |program: &PathBuf| !stores.iter().any(|store| program.starts_with(store));
            return Ok(bound.into_iter().filter(is_outside).collect());
        }
        let (mut named, mut others) = (Vec::new(), Vec::new());
        for program in &self.programs {
            let real = program.canonicalize().with_context(at(program))?;
            if real.is_dir() {
                others.extend(programs::in_folder(&real)?)
            } else {
                named.push(real)
            }
        }
        programs::check_one_machine(&named)?;
        let traced = self.traced.iter().flat_map(|traced| &traced.programs);
        others.extend(traced.flat_map(|program| program.canonicalize()));
        // The other programs are included if they fit: an index is for one machine.
        let mut of_all = named.first().map(|program| programs::machine(program)).transpose()?;
        for program in others {
            let Ok(of_this) = programs::machine(&program) else { continue };
            if *of_all.get_or_insert(of_this) == of_this && !named.contains(&program) {
                named.push(program);
            }
        }
        Ok(named)
    }

    /// Returns true if the stores and programs are those of the index that is updated.
    fn names_nothing(&self) -> bool {
        self.programs.is_empty() && self.stores.is_empty() && self.traced.is_none()
    }

    /// Returns true if making the existing index again would give the same file.
    fn is_satisfied_by(&self, old: &Whole, programs: &[PathBuf], modules: &Modules) -> bool {
        let has_dirs = || {
            let known = current::snapshotted(&old.index);
            let of_modules = module_files::read(&self.module_trees).dirs;
            self.dirs.iter().chain(&of_modules).all(|dir| known.contains(dir))
        };
        let bound = &old.index.bound.programs;
        let is_bound =
            |program: &PathBuf| bound.iter().any(|bound| bound.path == path_bytes(program));
        self.stores.is_empty()
            && !self.image
            && (old.index.paths.is_some() || !self.paths)
            && self.traced.is_none()
            && has_dirs()
            && programs.iter().all(is_bound)
            && modules.has_sealed(old.target, &old.table, &old.bytes)
            && current::is_current(&old.index)
    }

    /// Reports that an index that is up to date lacks directories of this session.
    fn remark_dirs(&self, path: &Path, index: &Index, progress: &dyn Progress) {
        let list = env::var_os(LIBRARY_PATH).filter(|_| self.in_session && self.dirs.is_empty());
        let missing = list.map(|list| current::not_snapshotted(index, &list)).unwrap_or_default();
        if !missing.is_empty() {
            let dirs = counted(missing.len() as u64, "directory", "directories");
            let reason = format!(
                "{dirs} of LD_LIBRARY_PATH not in it: --dirs \"$LD_LIBRARY_PATH\" adds them"
            );
            progress.remark(&Problem::new(path_bytes(path), reason));
        }
    }

    /// Reads the module trees: the named ones, or those of this session. Modules of a session may
    /// name directories of other software, so those must be below the stores.
    fn of_modules(&self, stores: &[PathBuf]) -> ModuleFiles {
        if !self.module_trees.is_empty() {
            return module_files::read(&self.module_trees);
        }
        let list = env::var_os("MODULEPATH").filter(|_| self.in_session && !stores.is_empty());
        let mut found = module_files::read(&dirs_of(&list.into_iter().collect::<Vec<_>>()));
        found.dirs.retain(|dir| stores.iter().any(|store| dir.starts_with(store)));
        ModuleFiles { not_understood: Vec::new(), ..found }
    }

    /// Returns the index to update. One that another user may have written is reported and not
    /// read: neither its answers nor its list of stores count.
    fn old(&self, path: &Path, progress: &dyn Progress) -> Result<Option<Whole>> {
        if !self.update || !path.exists() {
            return Ok(None);
        }
        match file::read_trusted(path) {
            Err(error) if self.stores.is_empty() && error.is::<Untrusted>() => {
                bail!("{error}; name the stores, and it is made anew from their files")
            }
            Err(error)
                if !self.stores.is_empty()
                    && (error.is::<Untrusted>() || error.is::<Damaged>()) =>
            {
                let reason = format!("{}; made anew", words_of_chain(error.as_ref()));
                progress.remark(&Problem::new(path_bytes(path), reason));
                Ok(None)
            }
            old => old.map(Some),
        }
    }

    fn rule(&self) -> Rule {
        if self.output.is_some() { Rule::Named } else { Rule::Chosen }
    }

    /// Returns the path of the index; creates the directory of the default path.
    fn place(&self) -> Result<PathBuf> {
        let path = match &self.output {
            Some(path) => path.clone(),
            None => {
                let path = places::own().context("no home directory; name the index with -o")?;
                let dir = path.parent().unwrap_or(Path::new("/"));
                trust::make_dirs(dir)?;
                path
            }
        };
        self.rule().real(&path)?;
        file::check_place(&path)?;
        Ok(path)
    }

    /// Returns the plan of an index that has to be made, for these programs.
    fn plan(
        &self,
        old: Option<&Whole>,
        wanted: Vec<PathBuf>,
        progress: &dyn Progress,
    ) -> Result<Plan> {
        let of_old = old.map(|old| &old.index);
        let (mut stores, mut dirs) = self.stores_and_dirs(of_old, &wanted)?;
        let modules = self.of_modules(&stores);
        dirs.extend(modules.dirs);
        let mut files = add_pythons(&mut stores);
        let_settle(recent_directories(&stores).iter().chain(&wanted));
        let programs = self.fitting(wanted, &mut files, progress)?;
        let path_stores = self.path_stores(&stores, of_old);
        let only = stores.is_empty().then_some(programs);
        let binds_all = only.is_some() || path_stores.is_some();
        let usual = if binds_all { BindThreshold::ALL } else { BindThreshold::default() };
        let mut conditions = of_old.iter().flat_map(|index| &index.conditions);
        Ok(Plan {
            files,
            only,
            dirs,
            threshold: self.bind_threshold.unwrap_or(usual),
            environments: environments(of_old),
            image: self.image || conditions.any(Condition::is_of_image),
            trusted_times: self.trusted_times.iter().flat_map(|it| it.canonicalize()).collect(),
            path_stores,
            modules_not_understood: modules.not_understood,
            stores,
        })
    }

    /// Returns the programs that can be indexed, and adds their libraries to the files. Another program is
    /// skipped if it was only found in a folder.
    fn fitting(
        &self,
        wanted: Vec<PathBuf>,
        files: &mut Vec<PathBuf>,
        progress: &dyn Progress,
    ) -> Result<Vec<PathBuf>> {
        let named: Vec<PathBuf> = self.programs.iter().flat_map(|it| it.canonicalize()).collect();
        let mut programs = Vec::new();
        for program in wanted {
            match programs::libraries_of(&program) {
                Ok(libraries) => {
                    files.extend(libraries);
                    programs.push(program);
                }
                Err(error) if !named.contains(&program) => {
                    let reason = format!("not indexed: {}", words_of_chain(error.as_ref()));
                    progress.remark(&Problem::new(path_bytes(&program), reason));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(programs)
    }

    /// Returns the stores to walk and the directories to snapshot: the named ones, else those of
    /// this session; directories of the index that is updated stay.
    fn stores_and_dirs(
        &self,
        old: Option<&Index>,
        programs: &[PathBuf],
    ) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let (mut stores, mut dirs) = (self.stores.clone(), self.dirs.clone());
        if dirs.is_empty() && self.in_session {
            dirs = dirs_of(&env::var_os(LIBRARY_PATH).into_iter().collect::<Vec<_>>());
        }
        if let Some(old) = old {
            if self.names_nothing() {
                stores.extend(current::stores(old));
            }
            dirs.extend(current::snapshotted(old));
        }
        if stores.is_empty() && programs.is_empty() {
            match self.programs.first() {
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
    fn walk(
        &self,
        prefixes: &[PathBuf],
        old: Option<&Whole>,
        progress: &dyn Progress,
    ) -> (Indexed, usize) {
        let search = progress.search();
        let tick = |files: usize| search.add(files);
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
            progress: Some(&tick),
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
