//! Strategies with deliberate faults: the right trial detects each. No trial rejects a strategy
//! without a fault.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use becalm_core::edit::Edit;
use becalm_host::{FactChoice, OsFs, loader_facts};
use becalm_lib::path::path_bytes;

use crate::compare::apply::plain;
use crate::compare::trials::experiments::TRIALS;
use crate::compare::trials::lab::Lab;
use crate::compare::trials::sources::{OBJECTS, Object};
use crate::compare::trials::{Applied, Seen, judged, see_all};
use crate::words::naming;
use becalm_lib::compare::comparison::Verdict;

/// Trials that check for the same libraries and symbols.
const FAITH: [&str; 13] = [
    "library-path",
    "preload",
    "driver-swap",
    "two-builds",
    "keeps-libraries",
    "hwcaps-variants",
    "later-library",
    "static-tls",
    "interposer",
    "symbol-versions",
    "ifunc",
    "copy-relocation",
    "unique",
];

/// A program, and an edit of it.
type Change = (&'static str, Box<dyn Fn(&Lab) -> Edit>);

/// Edits of files, and a variable that is removed from a program's environment.
#[derive(Default)]
struct Strategy {
    edits: Vec<Change>,
    /// Libraries that are built differently: path, source, further arguments of the compiler.
    rebuilt: Vec<(&'static str, &'static str, &'static [&'static str])>,
    passes_over: Option<&'static str>,
}

impl Applied for Strategy {
    fn apply(&mut self, lab: &Lab) -> Result<()> {
        for (program, edit) in &self.edits {
            let path = lab.program(program);
            let bytes = fs::read(&path).with_context(naming(&path))?;
            let edited = becalm_rewrite::edit(bytes.as_slice(), &[edit(lab)]).expect("edited");
            let patch = edited.patch.expect("there is something to change");
            fs::write(&path, patch.applied_to(&bytes)).with_context(naming(&path))?;
        }
        for (path, source, flags) in &self.rebuilt {
            let object = OBJECTS.iter().find(|object| object.path == *path).expect("it is built");
            lab.compile(&Object { source, flags, ..*object })?;
        }
        Ok(())
    }

    fn start(&self, program: &Path, variables: &[(&str, OsString)]) -> Result<Command> {
        let mut command = Command::new(program);
        plain(&mut command);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some(name) = self.passes_over {
            command.env_remove(name);
        }
        Ok(command)
    }
}

/// Returns the edit that replaces a needed string of a program by a path.
fn absolute(
    program: &'static str,
    needed: &'static str,
    path: fn(&Lab) -> std::path::PathBuf,
) -> Change {
    let edit =
        move |lab: &Lab| Edit::ReplaceNeeded { from: needed.into(), to: path_bytes(&path(lab)) };
    (program, Box::new(edit))
}

/// Returns a library that the lab built, by the end of its path.
fn library(lab: &Lab, ending: &str) -> std::path::PathBuf {
    let objects = lab.objects();
    objects.into_iter().find(|path| path.ends_with(ending)).expect("it was built")
}

struct Scene {
    _dir: tempfile::TempDir,
    lab: Lab,
    control: Vec<Seen>,
}

/// Builds the lab; `None` if nothing can be built or tested.
fn scene() -> Option<Scene> {
    let skip = |reason: &str| {
        becalm_testing::skip(reason);
        None
    };
    if Command::new("cc").arg("--version").output().is_err() {
        return skip("no C compiler");
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    let place = dir.path().canonicalize().expect("is there");
    let store = place.join("store");
    fs::create_dir(&store).expect("made");
    // The lowest hwcaps level is searched on every machine that has one.
    let shell = OsFs::new();
    let subject = becalm_core::closure::Subject::open(&shell.session(), "/bin/sh".into());
    let interpreter = subject.expect("a shell").interpreter;
    let facts = interpreter
        .and_then(|path| loader_facts(&shell, path.as_ref(), &FactChoice::default()).ok());
    let Some(facts) = facts else { return skip("no loader to try with") };
    let hwcap = facts.hwcaps.last().map(|name| format!("glibc-hwcaps/{name}"));
    let lab = Lab::build(&place, &store, hwcap.as_deref(), None).expect("built");
    let control = see_all(&lab, &mut Strategy::default(), |_| true);
    Some(Scene { _dir: dir, lab, control })
}

impl Scene {
    /// Returns the trials of [`FAITH`] with the verdict `no`.
    fn caught(&self, mut strategy: Strategy) -> Vec<&'static str> {
        let seen = see_all(&self.lab, &mut strategy, |trial| FAITH.contains(&trial.id));
        let all = TRIALS.iter().zip(&self.control).zip(&seen);
        all.filter(|((trial, _), _)| FAITH.contains(&trial.id))
            .filter(|((trial, control), seen)| {
                judged(trial, control, seen).verdict == Some(Verdict::No)
            })
            .map(|((trial, _), _)| trial.id)
            .collect()
    }
}

#[test]
fn each_kind_of_broken_strategy_is_caught_by_its_trial() {
    let Some(scene) = scene() else { return };
    // Each trial must be able to detect a difference from the untouched store.
    for (trial, control) in TRIALS.iter().zip(&scene.control) {
        let tells = control.as_ref().is_ok_and(|seen| (trial.tells)(seen));
        let may_lack =
            ["hwcaps-variants", "set-uid", "strip", "ifunc", "copy-relocation"].contains(&trial.id);
        assert!(tells || may_lack, "{}: {control:?}", trial.id);
    }
    assert_eq!(scene.caught(Strategy::default()), Vec::<&str>::new());

    let drops = Strategy {
        edits: vec![("plain", Box::new(|_| Edit::RemoveNeeded("libquiet.so.1".into())))],
        ..Strategy::default()
    };
    assert_eq!(scene.caught(drops), ["keeps-libraries"]);

    let deaf = Strategy { passes_over: Some("LD_LIBRARY_PATH"), ..Strategy::default() };
    assert_eq!(scene.caught(deaf), ["library-path", "driver-swap"]);

    let late = Strategy { passes_over: Some("LD_PRELOAD"), ..Strategy::default() };
    assert_eq!(scene.caught(late), ["preload", "interposer"]);

    let stale = absolute("later", "libone.so.1", |lab| library(lab, "lib/libone.so.1"));
    let stale = Strategy { edits: vec![stale], ..Strategy::default() };
    assert_eq!(scene.caught(stale), ["later-library"]);

    let fixed = absolute("draw", "libGL.so.1", |lab| library(lab, "lib/libGL.so.1"));
    let fixed = Strategy { edits: vec![fixed], ..Strategy::default() };
    assert_eq!(scene.caught(fixed), ["driver-swap"]);

    // The order of a program's libraries decides which of two builds it gets.
    let mixed = absolute("ab", "liba.so.1", |lab| library(lab, "lib/libb.so.1"));
    let mixed = Strategy { edits: vec![mixed], ..Strategy::default() };
    assert_eq!(scene.caught(mixed), ["two-builds"]);
}

/// Wrong bindings: by the symbol's name alone, for another CPU, or for one object alone.
#[test]
fn each_kind_of_wrong_binding_is_caught_by_its_trial() {
    let Some(scene) = scene() else { return };
    let may_tell = |id: &str| {
        let at = TRIALS.iter().position(|trial| trial.id == id).expect("there is one");
        let tells = scene.control[at].as_ref().is_ok_and(|seen| (TRIALS[at].tells)(seen));
        tells || becalm_testing::skipped(&format!("{id} cannot be tried here"))
    };
    if may_tell("ifunc") {
        let other = Strategy { passes_over: Some("GLIBC_TUNABLES"), ..Strategy::default() };
        assert_eq!(scene.caught(other), ["ifunc"]);
    }
    let rebuilt = |path, source, flags| Strategy {
        rebuilt: vec![(path, source, flags)],
        ..Strategy::default()
    };
    let newest = "int first(void) { return 2; } int second(void) { return 2; }\n\
                  __asm__(\".symver first,which@V1\\n.symver second,which@@V2\");";
    let newest = rebuilt("versions/lib/libversions.so.1", newest, &[]);
    assert_eq!(scene.caught(newest), ["symbol-versions"]);

    let first = "int who(void) { return 2; } int asks(void) { return who(); }";
    let itself = rebuilt("second/lib/libsecond.so.1", first, &["-Wl,-Bsymbolic"]);
    assert_eq!(scene.caught(itself), ["interposer"]);

    if may_tell("copy-relocation") {
        let source = "static int hidden = 1; int shared = 1; void bump(void) { hidden++; }\n\
                      int get(void) { return hidden; }";
        let two = rebuilt("copy/lib/libcopy.so.1", source, &[]);
        assert_eq!(scene.caught(two), ["copy-relocation"]);
    }
    let source = "int token; int plugin(void) { return token; }";
    assert_eq!(scene.caught(rebuilt("other/lib/plugin.so", source, &[])), ["unique"]);
}

#[test]
fn a_strategy_that_does_nothing_removes_no_miss() {
    let Some(scene) = scene() else { return };
    let seen = see_all(&scene.lab, &mut Strategy::default(), |_| true);
    for id in ["stock-glibc", "hwcaps-floor", "dlopen", "dlopen-needed"] {
        let at = TRIALS.iter().position(|trial| trial.id == id).expect("there is one");
        let cell = judged(&TRIALS[at], &scene.control[at], &seen[at]);
        assert_eq!(cell.verdict, Some(Verdict::No), "{id}: {cell:?}");
    }
}
