//! The files asked for → what the carrier proposes for them, in parallel.

use becalm_core::carrier::{
    FilePlan, Finding, Names, Plan, Settings, What, absolute, farm, ldcache, note, patchelf,
};
use becalm_core::closure::{Closure, Subject, SubjectKind};
use becalm_core::cost::Storm;
use becalm_core::edit::Edit;
use becalm_core::facts::{Environment, Libc};
use becalm_core::fs::{FileSystem, MappedFs, Mapping};
use becalm_core::probe::ProbeLog;
use bstr::BString;
use rayon::prelude::*;

use crate::commands::assume::Assumptions;
use crate::commands::follow::{Followed, follow_where};
use crate::commands::targets::{Problem, Target};
use crate::flags::{CarrierName, Compat, FixFlags, Resolve};

/// Files planned with one look at the directories they share.
const IN_A_SESSION: usize = 64;

/// What every file's plan goes by.
pub(super) struct Planner<'a> {
    pub(super) asked: &'a FixFlags,
    pub(super) assumed: &'a Assumptions,
    settings: Settings,
    mappings: Vec<Mapping>,
}

/// What was proposed for all files.
#[derive(Debug, Default)]
pub(super) struct Planned {
    pub(super) plan: Plan,
    /// The programs among the targets, as they start now.
    pub(super) programs: Vec<Program>,
    pub(super) problems: Vec<Problem>,
    /// One for each file, before they are gathered.
    parts: Vec<Plan>,
    /// The objects, where a carrier plans them together.
    subjects: Vec<Subject>,
}

/// A program among the targets, and its start as it is now.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) target: Target,
    /// Without its probes where nothing but their number is asked for.
    pub(super) closure: Closure,
    pub(super) storm: Storm,
}

impl<'a> Planner<'a> {
    pub(super) fn new(asked: &'a FixFlags, assumed: &'a Assumptions) -> Self {
        let mut keep = Names::kept_short();
        for name in &asked.keep {
            keep.add(name.as_str());
        }
        let stores = assumed.stores.clone();
        let glibc_minor = match assumed.choice.libc {
            Some(Libc::Glibc(version)) => Some(version.minor),
            _ => None,
        };
        let dlopen = asked.dlopen.iter().map(|name| BString::from(name.as_str())).collect();
        let settings = Settings { stores, keep, dlopen, glibc_minor };
        let mappings = asked.prefix_map.clone();
        Self { asked, assumed, settings, mappings }
    }

    /// What programs are started in, as far as a plan goes: nothing that is set here and now.
    /// With `reads`, by a loader that reads what the carrier writes.
    pub(super) fn environment(&self, reads: bool) -> Environment {
        let mut environment = Environment::default();
        environment.reads.stores = self.settings.stores.to_vec();
        match self.asked.with {
            CarrierName::Note => environment.reads.note = reads,
            CarrierName::Ldcache if reads => {
                environment.reads.package_caches = environment.reads.stores.clone();
            }
            _ => {}
        }
        environment
    }

    /// The files under the names they will have.
    pub(super) fn mapped<'f>(&self, fs: &'f dyn FileSystem) -> MappedFs<'f> {
        MappedFs::new(fs, self.mappings.clone())
    }

    /// Plans all files; one that several paths lead to once.
    pub(super) fn plan(&self, files: &[Target]) -> Planned {
        let progress = crate::progress::Progress::new(files.len());
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
        progress.finish();
        let mut all = Planned::default();
        for part in planned {
            all.parts.extend(part.parts);
            all.programs.extend(part.programs);
            all.problems.extend(part.problems);
            all.subjects.extend(part.subjects);
        }
        if self.asked.with == CarrierName::Ldcache {
            let session = self.assumed.fs.session();
            let subjects = std::mem::take(&mut all.subjects);
            all.parts.push(ldcache::plan(&self.mapped(&session), &subjects, &self.settings));
        }
        all.plan = Plan::gather(std::mem::take(&mut all.parts));
        all
    }

    fn one(&self, fs: &MappedFs<'_>, target: &Target, planned: &mut Planned) {
        let target = Target { inside: fs.planned(target.inside.as_ref()), ..target.clone() };
        let environment = self.environment(false);
        let walks = |kind: &_| self.needs_closures() || matches!(kind, SubjectKind::Program { .. });
        let closure = match follow_where(self.assumed, fs, &target, &environment, walks) {
            Ok(Followed::Elf(closure, _)) => *closure,
            Ok(Followed::MachO(_)) if target.named => {
                let reason = "a Mach-O file; carriers are for ELF files".to_owned();
                return planned.problems.push(Problem { path: target.shown, reason });
            }
            Ok(Followed::MachO(_) | Followed::Nothing) => return,
            Err(reason) => {
                return planned.problems.push(Problem { path: target.shown, reason });
            }
        };
        let plan = self.of_closure(fs, &target, &closure, &mut planned.problems);
        planned.parts.push(plan);
        if self.asked.with == CarrierName::Ldcache {
            planned.subjects.push(closure.subject.clone());
        }
        if matches!(closure.subject.kind, SubjectKind::Program { .. }) {
            planned.programs.push(self.program(target, closure));
        }
    }

    /// A program to be judged by. Of its probes the counts are kept, for those of a store's
    /// programs would fill the memory; what an index leaves is counted from the probes.
    fn program(&self, target: Target, mut closure: Closure) -> Program {
        let storm = Storm::of(&closure.load);
        if self.asked.with != CarrierName::Audit {
            closure.load.probes = ProbeLog::default();
        }
        Program { target, closure, storm }
    }

    /// True where a library's plan asks what its whole start would load. What is planned
    /// for each object alone needs programs' starts only, to be held against each other.
    fn needs_closures(&self) -> bool {
        match self.asked.with {
            CarrierName::Note | CarrierName::Ldcache => false,
            CarrierName::Farm => !self.asked.leaf,
            CarrierName::Absolute | CarrierName::Audit => true,
        }
    }

    fn of_closure(
        &self,
        fs: &MappedFs<'_>,
        target: &Target,
        closure: &Closure,
        problems: &mut Vec<Problem>,
    ) -> Plan {
        match self.asked.with {
            CarrierName::Note => match self.asked.compat {
                None => note::plan(fs, &closure.subject, &self.settings),
                Some(Compat::Patchelf) => as_patchelf(fs, closure),
            },
            CarrierName::Absolute => {
                let told = match self.asked.resolve {
                    Resolve::Static => None,
                    Resolve::Loader => match super::loader::answers(target, closure) {
                        Ok(told) => Some(told),
                        Err(reason) => {
                            problems.push(Problem { path: target.shown.clone(), reason });
                            return Plan::default();
                        }
                    },
                };
                let scope = absolute::Scope::Subject;
                absolute::plan(fs, closure, scope, told.as_deref(), &self.settings)
            }
            CarrierName::Farm if self.asked.leaf => {
                farm::leaf(fs, &closure.subject, &self.settings)
            }
            CarrierName::Farm => farm::graph(fs, closure, &self.settings),
            CarrierName::Audit => {
                let stores = crate::commands::index::prefixes(&self.asked.assume.store);
                match super::audit::plan_audit(&self.assumed.fs, closure, &stores) {
                    Ok(plan) => plan,
                    Err(reason) => {
                        if target.named {
                            problems.push(Problem { path: target.shown.clone(), reason });
                        }
                        Plan::default()
                    }
                }
            }
            // A package's objects are planned together.
            CarrierName::Ldcache => Plan::default(),
        }
    }
}

/// What patchelf would write, as a plan.
fn as_patchelf(fs: &dyn FileSystem, closure: &Closure) -> Plan {
    let subject = &closure.subject;
    let path = fs.canonicalize(subject.path.as_ref()).unwrap_or_else(|_| subject.path.clone());
    let Some(descriptor) = patchelf::descriptor(fs, subject) else {
        let what = What::NoRunPath;
        return Plan { findings: vec![Finding { path, needed: None, what }], ..Plan::default() };
    };
    let edits = match subject.view.notes.resolution.as_ref() == Some(&descriptor) {
        true => Vec::new(),
        false => vec![Edit::ResolutionNote(Some(descriptor))],
    };
    Plan { files: vec![FilePlan { path, edits, answers: Vec::new() }], ..Plan::default() }
}
