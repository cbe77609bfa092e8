//! Plans the strategy for the named files, in parallel.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Result, bail};
use becalm_core::closure::{Closure, Subject, SubjectKind};
use becalm_core::cost::{SearchCost, misses_by_object};
use becalm_core::edit::Edit;
use becalm_core::facts::{Environment, Format, Libc, Readers};
use becalm_core::fs::{FileKind, FileSystem, MappedFs, Mapping};
use becalm_core::probe::ProbeLog;
use becalm_core::strategy::row::{Row, Unit};
use becalm_core::strategy::{
    FilePlan, Finding, FindingKind, Names, Plan, Settings, Severity, patchelf, real_path,
};
use becalm_host::{HostError, WalkOptions, find_objects};
use bstr::{BStr, BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::assume::Assumptions;
use crate::fix::options::{Options, Resolve};
use crate::follow::{Followed, follow, follow_where};
use crate::path::bytes;
use crate::problem::NoPlace;
use crate::progress::Progress;
use crate::targets::{Problem, Target};

/// The number of files that share one cached view of the directories.
const IN_A_SESSION: usize = 64;

/// The settings of every file's plan.
pub struct Planner<'a> {
    /// The strategy, and how it is planned.
    pub options: &'a Options,
    /// The display of the progress.
    pub progress: &'a dyn Progress,
    /// Assumptions about the machine.
    pub assumed: &'a Assumptions,
    /// True for advice on one program: the caches of packages are planned without the objects that are not
    /// targets.
    pub is_forecast: bool,
    settings: Settings,
    mappings: Vec<Mapping>,
}

/// The proposals for all files.
#[derive(Debug, Default)]
pub struct Planned {
    /// The plans of all files, gathered.
    pub plan: Plan,
    /// The programs among the targets, as they start now.
    pub programs: Vec<Program>,
    /// Files that cannot be planned, with the reason.
    pub problems: Vec<Problem>,
    /// True if a file that a program loads was replaced since it was planned.
    pub replaced: bool,
    /// One plan for each file, before they are merged.
    parts: Vec<Plan>,
    /// The objects, if a strategy plans them together.
    subjects: Vec<Subject>,
    /// The libraries among the targets.
    libraries: Vec<Target>,
}

/// A program among the targets, and its start as it is now.
#[derive(Debug)]
pub struct Program {
    /// Its file.
    pub target: Target,
    /// Without its probes if only their number is needed.
    pub closure: Closure,
    /// The cost of its search.
    pub storm: SearchCost,
    /// Failing calls by object of the closure.
    pub misses: Vec<u64>,
}

impl<'a> Planner<'a> {
    /// Returns a planner that shows its progress on `progress`.
    #[must_use]
    pub fn new(options: &'a Options, assumed: &'a Assumptions, progress: &'a dyn Progress) -> Self {
        let mut keep = Names::kept_short();
        for name in &options.keep {
            keep.add(name.as_str());
        }
        let stores = assumed.stores.clone();
        let glibc_minor = match assumed.choice.libc {
            Some(Libc::Glibc(version)) => Some(version.minor),
            _ => None,
        };
        let dlopen = options.dlopen.iter().map(|name| BString::from(name.as_str())).collect();
        let mappings = options.prefix_map.clone();
        let session = assumed.fs.session();
        let mapped = MappedFs::new(&session, mappings.clone());
        let folder = |path: &PathBuf| {
            let real = session.canonicalize(assumed.fs.inside(path).as_ref()).ok()?;
            (session.stat(real.as_ref()) == Ok(FileKind::Directory))
                .then(|| mapped.planned(real.as_ref()))
        };
        let folders = options.paths.iter().filter_map(folder).collect();
        let settings = Settings { stores, folders, keep, dlopen, glibc_minor };
        Self { options, progress, assumed, is_forecast: false, settings, mappings }
    }

    /// Returns the environment of programs as far as a plan depends on it: no variable of the
    /// current environment, only the list of `--library-path`. With `reads`, the loader reads the
    /// format that the strategy writes.
    pub fn environment(&self, reads: bool) -> Environment {
        let library_path = self.options.assume.library_path.as_ref().map(bytes);
        let library_path = library_path.filter(|list| !list.is_empty());
        let format = self.row().format.filter(|_| reads);
        let reads = Readers::of(format.as_slice(), &self.settings.stores.to_vec());
        Environment { library_path, reads, ..Environment::default() }
    }

    /// Returns the files under their final names.
    pub fn mapped<'f>(&self, fs: &'f dyn FileSystem) -> MappedFs<'f> {
        MappedFs::new(fs, self.mappings.clone())
    }

    /// The place of a file of a plan on this machine.
    ///
    /// # Errors
    /// Returns an error if the assumed root has no such place.
    pub fn host_path(&self, path: &BStr) -> Result<PathBuf, NoPlace> {
        let session = self.assumed.fs.session();
        let here = self.mapped(&session).real(path);
        let os = &self.assumed.fs;
        let place = os.host_path(here.as_ref()).or_else(|error| {
            // A planned file does not exist yet, but its directory does.
            let at = here.rfind_byte(b'/').ok_or(error)?;
            let dir = os.host_path(here[..at.max(1)].as_bstr())?;
            Ok(dir.join(OsStr::from_bytes(&here[at + 1..])))
        });
        place.map_err(|error: HostError| error.into())
    }

    /// Plans all files; a file that several paths lead to once.
    ///
    /// # Errors
    /// Returns an error if the programs among them cannot have one farm each (`--closure`).
    pub fn plan(&self, files: &[Target]) -> Result<Planned> {
        let progress = self.progress.phase(files.len());
        let some = |files: &[Target]| {
            let session = self.assumed.fs.session();
            let fs = self.mapped(&session);
            let mut planned = Planned::default();
            for target in files {
                self.one(&fs, target, &mut planned);
                progress.tick();
            }
            planned
        };
        let planned: Vec<Planned> = files.par_chunks(IN_A_SESSION).map(some).collect();
        drop(progress);
        let mut all = Planned::default();
        for part in planned {
            all.parts.extend(part.parts);
            all.programs.extend(part.programs);
            all.problems.extend(part.problems);
            all.subjects.extend(part.subjects);
            all.libraries.extend(part.libraries);
        }
        let session = self.assumed.fs.session();
        let fs = self.mapped(&session);
        if let Unit::Package(plan) = self.row().unit {
            let subjects = std::mem::take(&mut all.subjects);
            let programs = all.programs.iter().filter(|_| self.options.closure);
            let closures: Vec<&Closure> = programs.map(|program| &program.closure).collect();
            let plan = |subjects: &[_]| plan(&fs, subjects, &closures, &self.settings);
            all.parts.push(self.packages(&fs, subjects, plan));
        }
        all.plan = Plan::gather(std::mem::take(&mut all.parts));
        if let (Unit::ObjectOrClosure(leaf, _), true) = (self.row().unit, self.options.closure) {
            finish_closures(&fs, &mut all, |subject| leaf(&fs, subject, &self.settings))?;
        }
        Ok(all)
    }

    fn row(&self) -> &'static Row {
        self.options.with.row()
    }

    /// Plans the targets' packages. The answers are for every object of a package, so the objects
    /// that are not targets are resolved as well, and no answer contradicts one of them.
    fn packages(
        &self,
        fs: &MappedFs<'_>,
        mut subjects: Vec<Subject>,
        plan: impl Fn(&[Subject]) -> Plan,
    ) -> Plan {
        let real = |path: &BString| real_path(fs, path.as_ref());
        let mut known: FxHashSet<BString> = subjects.iter().map(|s| real(&s.path)).collect();
        let targets = known.clone();
        let root =
            |path: &BString| self.settings.stores.package_of(path.as_ref()).map(BStr::to_owned);
        let roots: FxHashSet<BString> = targets.iter().filter_map(root).collect();
        let walked = roots.iter().filter(|_| !self.is_forecast);
        let here: Vec<PathBuf> =
            walked.filter_map(|root| self.host_path(root.as_ref()).ok()).collect();
        for found in find_objects(&here, WalkOptions::default()).objects {
            let inside = fs.planned(self.assumed.fs.inside(&found.path).as_ref());
            if let (true, Ok(subject)) =
                (known.insert(real(&inside)), Subject::open(fs, inside.as_ref()))
            {
                subjects.push(subject);
            }
        }
        let mut plan = plan(&subjects);
        let is_told = |path: &BString| targets.contains(path) || !known.contains(path);
        plan.files.retain(|file| is_told(&file.path));
        for root in roots.iter().filter(|root| self.is_outside(root)) {
            plan.creations.retain(|creation| !is_in(creation.path(), root));
            plan.findings.push(Finding::of_file(root.as_ref(), FindingKind::OutsidePaths));
        }
        let is_grave = |finding: &Finding| finding.what.severity() >= Severity::Conflict;
        plan.findings.retain(|finding| is_grave(finding) || is_told(&finding.path));
        plan
    }

    /// True for a package that was only partly named.
    fn is_outside(&self, root: &BString) -> bool {
        let folders = || self.settings.folders.iter();
        let covers = |folder: &BString| folder == root || is_in(root.as_ref(), folder);
        folders().any(|folder| is_in(folder.as_ref(), root)) && !folders().any(covers)
    }

    fn one(&self, fs: &MappedFs<'_>, target: &Target, planned: &mut Planned) {
        let target = Target { inside: fs.planned(target.inside.as_ref()), ..target.clone() };
        let environment = self.environment(false);
        let walks =
            |kind: &_| self.needs_closure(&target) || matches!(kind, SubjectKind::Program { .. });
        let closure = match follow_where(self.assumed, fs, &target, &environment, walks) {
            Ok(Followed::Elf(closure, _)) => *closure,
            Ok(Followed::MachO(_)) if target.named => {
                let reason = "a Mach-O file; strategies are for ELF files";
                return planned.problems.push(Problem::new(target.shown, reason));
            }
            Ok(Followed::MachO(_) | Followed::Nothing) => return,
            Err(error) => return planned.problems.push(Problem::new(target.shown, error)),
        };
        let is_program = matches!(closure.subject.kind, SubjectKind::Program { .. });
        let is_later = match self.row().unit {
            Unit::Package(_) => true,
            // Planned after the programs, if none of them loads it.
            Unit::ObjectOrClosure(..) => self.options.closure && !is_program && !target.named,
            _ => false,
        };
        if is_later {
            planned.subjects.push(closure.subject.clone());
        } else {
            let plan = self.of_closure(fs, &target, &closure, &mut planned.problems);
            planned.parts.push(plan);
        }
        if !is_program {
            planned.libraries.push(target);
        } else {
            planned.programs.push(self.program(target, closure));
        }
    }

    /// Makes the record of a program for the check of the plan. Only the counts of its probes are
    /// kept, because the probes of a whole store would fill the memory; the misses that an index
    /// leaves are counted from the probes.
    fn program(&self, target: Target, mut closure: Closure) -> Program {
        let storm = SearchCost::of(&closure.load);
        let misses = misses_by_object(&closure.load);
        if !self.row().unit.is_index() {
            closure.load.probes = ProbeLog::default();
        }
        Program { target, closure, storm, misses }
    }

    /// Returns the libraries with another run path that no program of the targets loads, as starts of
    /// their own. The search along the new one may cost more than it saves.
    pub fn unseen(&self, all: &Planned) -> Vec<Program> {
        let session = self.assumed.fs.session();
        let fs = self.mapped(&session);
        let real = |path: &BString| real_path(&fs, path.as_ref());
        let objects = all.programs.iter().flat_map(|program| &program.closure.load.objects);
        let seen: FxHashSet<BString> = objects.map(|object| real(&object.path)).collect();
        let is_run_path = |edit: &Edit| matches!(edit, Edit::RunPath { .. });
        let files = all.plan.files.iter().filter(|file| file.edits.iter().any(is_run_path));
        let edited: FxHashSet<&BString> = files.map(|file| &file.path).collect();
        let is_unseen = |target: &&Target| {
            let path = real(&target.inside);
            edited.contains(&path) && !seen.contains(&path)
        };
        let unseen: Vec<&Target> = all.libraries.iter().filter(is_unseen).collect();
        let start = |target: &&Target| {
            let session = self.assumed.fs.session();
            let (fs, environment) = (self.mapped(&session), self.environment(false));
            // Without its loader on this machine it cannot be followed.
            let (closure, _) = follow(self.assumed, &fs, target, &environment).ok()?.elf()?;
            Some(self.program(Target::clone(target), closure))
        };
        unseen.par_iter().filter_map(start).collect()
    }

    /// True if a library's plan depends on its whole start. If each object is planned alone, only
    /// programs' starts are needed, for the comparison.
    fn needs_closure(&self, target: &Target) -> bool {
        match self.row().unit {
            Unit::Object(_) | Unit::Package(_) | Unit::Stores => false,
            Unit::ObjectOrClosure(..) => self.options.closure && target.named,
            Unit::Start(_) | Unit::Program => true,
        }
    }

    fn of_closure(
        &self,
        fs: &MappedFs<'_>,
        target: &Target,
        closure: &Closure,
        problems: &mut Vec<Problem>,
    ) -> Plan {
        let row = self.row();
        match row.unit {
            Unit::Object(_)
                if self.options.compat.is_some() && row.format == Some(Format::Notes) =>
            {
                as_patchelf(fs, closure)
            }
            Unit::ObjectOrClosure(_, plan) if self.options.closure => {
                plan(fs, closure, &self.settings)
            }
            Unit::Object(plan) | Unit::ObjectOrClosure(plan, _) => {
                plan(fs, &closure.subject, &self.settings)
            }
            Unit::Start(plan) => {
                let told = match self.options.resolve {
                    Resolve::Static => None,
                    Resolve::Loader => match crate::fix::loader::answers(target, closure) {
                        Ok(told) => Some(told),
                        Err(error) => {
                            problems.push(Problem::new(target.shown.clone(), error));
                            return Plan::default();
                        }
                    },
                };
                plan(fs, closure, told.as_deref(), &self.settings)
            }
            Unit::Program => {
                let stores = self.options.assume.store.paths();
                match crate::fix::audit::plan_audit(&self.assumed.fs, closure, &stores) {
                    Ok(plan) => plan,
                    Err(error) if target.named => {
                        problems.push(Problem::new(target.shown.clone(), error));
                        Plan::default()
                    }
                    Err(error) => passed_over(closure, error.to_string()),
                }
            }
            // A package's objects are planned together. An index changes no object.
            Unit::Package(_) | Unit::Stores => Plan::default(),
        }
    }
}

/// Gives its own plan to each library that no program of the targets loads.
///
/// # Errors
/// Returns an error if two programs load the same library, whose run path can begin with the farm of
/// one of them only.
fn finish_closures(
    fs: &dyn FileSystem,
    all: &mut Planned,
    leaf: impl Fn(&Subject) -> Plan,
) -> Result<()> {
    if all.plan.findings.iter().any(|finding| finding.what == FindingKind::TwoPlans) {
        bail!(
            "--closure: {} programs share libraries, and a library can have the farm of one \
             program only; name one program, or give each object its own farm (--leaf)",
            all.programs.len()
        );
    }
    let planned: FxHashSet<BString> = all.plan.files.iter().map(|file| file.path.clone()).collect();
    let subjects = std::mem::take(&mut all.subjects);
    let is_left = |it: &&Subject| !planned.contains(&real_path(fs, it.path.as_ref()));
    let leaves = subjects.iter().filter(is_left).map(leaf);
    let graphs = std::mem::take(&mut all.plan);
    all.plan = Plan::gather([graphs].into_iter().chain(leaves));
    Ok(())
}

/// Returns the plan of a program in a folder that cannot have an audit entry. Libraries there never
/// have one.
fn passed_over(closure: &Closure, reason: String) -> Plan {
    if !matches!(closure.subject.kind, SubjectKind::Program { .. }) {
        return Plan::default();
    }
    Plan::only(closure.subject.path.as_ref(), FindingKind::NoAuditEntry(reason))
}

fn is_in(path: &BStr, folder: &BString) -> bool {
    path.strip_prefix(folder.as_slice()).is_some_and(|below| below.starts_with(b"/"))
}

/// Plans the note that patchelf would write.
fn as_patchelf(fs: &dyn FileSystem, closure: &Closure) -> Plan {
    let subject = &closure.subject;
    let path = real_path(fs, subject.path.as_ref());
    let Some(descriptor) = patchelf::descriptor(fs, &subject.view) else {
        return Plan::only(path.as_ref(), FindingKind::NoRunPath);
    };
    let edits = match subject.view.notes.resolution.as_ref() == Some(&descriptor) {
        true => Vec::new(),
        false => vec![Edit::ResolutionNote(Some(descriptor))],
    };
    Plan::of_file(FilePlan { path, edits, answers: Vec::new() })
}
