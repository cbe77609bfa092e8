//! Property tests with random run paths and libraries. With an applied strategy every program has the
//! same load set as without it, today and after files were added to mutable directories.

use proptest::prelude::*;

use super::absolute::{LD_SO, base, facts, settings};
use super::planned;
use crate::closure::{self, Closure, Subject};
use crate::elf::Class;
use crate::facts::{Environment, Readers};
use crate::fs::mem::ObjectBuilder;
use crate::fs::{FileSystem, MemFs};
use crate::loader::LoaderFacts;
use crate::strategy::planned::Outlook;
use crate::strategy::verify::{self, Verdict};
use crate::strategy::{Plan, farm, ldcache, note};

/// The elements of run paths. The first seven have libraries.
const DIRS: [&str; 14] = [
    "/s/a/lib",
    "/s/b/lib",
    "/s/p/lib",
    "/s/q/lib",
    "/s/q/lib/glibc-hwcaps/x86-64-v2",
    "/m",
    "/s/p/bin",
    "/s/a/none",
    "/none",
    "/s/none/lib",
    "$ORIGIN",
    "$ORIGIN/../lib",
    "",
    "/s/b/lib/",
];
const NAMES: [&str; 4] = ["liba.so", "libb.so", "libc.so", "libd.so"];
/// The directories to which files are added later.
const LATER: [&str; 3] = ["/m", "/none", "/s/none/lib"];

/// The needed strings and the run path of one object.
#[derive(Clone, Debug)]
struct Object {
    needed: Vec<usize>,
    path: Vec<usize>,
    is_rpath: bool,
    is_other_class: bool,
}

#[derive(Clone, Debug)]
struct World {
    program: Object,
    libraries: Vec<(usize, usize, Object)>,
    later: Vec<(usize, usize, Object)>,
    library_path: bool,
    preload: Option<usize>,
}

fn object() -> impl Strategy<Value = Object> {
    let needed = prop::collection::vec(0..NAMES.len(), 0..4);
    let path = prop::collection::vec(0..DIRS.len(), 0..6);
    (needed, path, prop::bool::weighted(0.3), prop::bool::weighted(0.1)).prop_map(
        |(needed, path, is_rpath, is_other_class)| Object {
            needed,
            path,
            is_rpath,
            is_other_class,
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let libraries = prop::collection::vec((0..7_usize, 0..NAMES.len(), object()), 0..12);
    let later = prop::collection::vec((0..LATER.len(), 0..NAMES.len(), object()), 0..4);
    let preload = prop::option::of(0..NAMES.len());
    (object(), libraries, later, any::<bool>(), preload).prop_map(
        |(program, libraries, later, library_path, preload)| World {
            program,
            libraries,
            later,
            library_path,
            preload,
        },
    )
}

impl Object {
    fn fill(&self, mut builder: ObjectBuilder) -> ObjectBuilder {
        for &needed in &self.needed {
            builder = builder.needed(NAMES[needed]);
        }
        if self.is_other_class {
            builder = builder.class(Class::Elf32);
        }
        let path: Vec<&str> = self.path.iter().map(|&dir| DIRS[dir]).collect();
        match (path.is_empty(), self.is_rpath) {
            (true, _) => builder,
            (false, true) => builder.rpath(path.join(":")),
            (false, false) => builder.runpath(path.join(":")),
        }
    }

    fn library(&self, name: &str) -> ObjectBuilder {
        self.fill(ObjectBuilder::library(name))
    }
}

impl World {
    fn today(&self) -> MemFs {
        let program = Object { is_other_class: false, ..self.program.clone() };
        let program = program.fill(ObjectBuilder::program().interpreter(LD_SO));
        let fs = base().object("/s/p/bin/prog", program).dir("/s/a/lib").dir("/s/b/lib").cwd("/m");
        self.libraries.iter().fold(fs, |fs, (dir, name, object)| {
            let name = NAMES[*name];
            fs.object(format!("{}/{name}", DIRS[*dir]), object.library(name))
        })
    }

    fn tomorrow(&self) -> MemFs {
        self.later.iter().fold(self.today(), |fs, (dir, name, object)| {
            let name = NAMES[*name];
            fs.object(format!("{}/{name}", LATER[*dir]), object.library(name))
        })
    }

    /// Returns every object in a package.
    fn subjects(&self, fs: &dyn FileSystem) -> Vec<Subject> {
        let libraries = self.libraries.iter();
        let paths = libraries.map(|(dir, name, _)| format!("{}/{}", DIRS[*dir], NAMES[*name]));
        let mut paths: Vec<String> = paths.filter(|path| path.starts_with("/s/")).collect();
        paths.push("/s/p/bin/prog".into());
        paths.sort();
        paths.dedup();
        paths.iter().filter_map(|path| Subject::open(fs, path.as_str().into()).ok()).collect()
    }

    fn environment(&self, reads: Readers) -> Environment {
        let library_path = self.library_path.then(|| "/m".into());
        let preload = self.preload.map(|name| NAMES[name].into());
        Environment { library_path, preload, reads, ..Environment::default() }
    }
}

/// Returns the facts of a loader on a CPU with one level, so that variants count.
fn loader() -> LoaderFacts {
    LoaderFacts { hwcaps: vec!["x86-64-v2".into()], ..facts() }
}

fn walk(fs: &MemFs, environment: &Environment) -> Closure {
    let subject = Subject::open(fs, "/s/p/bin/prog".into()).expect("the program");
    closure::resolve(fs, subject, LD_SO.into(), loader(), environment).expect("the loader")
}

/// Checks that the program loads the same objects with the plan of today, before and after the
/// additions.
fn holds(world: &World, plan: &Plan, reads: &Readers) -> Result<(), TestCaseError> {
    for fs in [world.today(), world.tomorrow()] {
        let before = walk(&fs, &world.environment(Readers::default()));
        let environment = world.environment(reads.clone());
        let after = planned(&fs, &before, plan, &environment);
        let after = after.expect("it starts as before");
        let probes: Vec<_> = after.after.probes().map(|p| p.path.to_string()).collect();
        prop_assert!(after.is_equal(), "{:?}\n{plan:#?}\n{probes:#?}", after.finding());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2048) })]

    #[test]
    fn notes_do_not_change_the_load_set(world in world()) {
        let fs = world.today();
        let subjects = world.subjects(&fs);
        let plan = Plan::gather(subjects.iter().map(|s| note::plan(&fs, s, &settings())));
        holds(&world, &plan, &Readers { note: true, ..Readers::default() })?;
        holds(&world, &plan, &Readers::default())?;
        let outlook = Outlook::of(&fs, &plan);
        let later = outlook.over(&fs);
        for subject in world.subjects(&later) {
            for checked in verify::object(&later, &subject, &settings()) {
                prop_assert_eq!(&checked.verdict, &Verdict::True, "{} {:?}", subject.path, checked);
            }
            prop_assert!(note::plan(&later, &subject, &settings()).is_empty());
        }
    }

    #[test]
    fn package_caches_do_not_change_the_load_set(world in world()) {
        let fs = world.today();
        let plan = ldcache::plan(&fs, &world.subjects(&fs), &[], &settings());
        holds(&world, &plan, &Readers { note: true, package_caches: vec!["/s".into()] })?;
    }

    #[test]
    fn farms_do_not_change_the_load_set(world in world()) {
        let fs = world.today();
        let subjects = world.subjects(&fs);
        let plan = Plan::gather(subjects.iter().map(|s| farm::leaf(&fs, s, &settings())));
        holds(&world, &plan, &Readers::default())?;
        let outlook = Outlook::of(&fs, &plan);
        let later = outlook.over(&fs);
        for subject in world.subjects(&later) {
            prop_assert!(farm::leaf(&later, &subject, &settings()).is_empty());
        }
    }
}
