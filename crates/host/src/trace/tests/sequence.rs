//! Compares the tracer's lookups with those of `strace` and with the model's prediction.

use std::path::Path;

use becalm_core::closure::{Subject, resolve};
use becalm_core::loader::Environment;
use becalm_core::observe::{Attributed, Lookup, attribute};
use becalm_core::probe::{Attempt, Probe};
use bstr::{BStr, BString, ByteSlice};

use super::fixture::{build, run, trace_in};
use crate::trace::{Command, Image, Options};
use crate::{FactChoice, OsFs, loader_facts};
use becalm_testing::oracle::{Launch, Start};
use becalm_testing::skip;
use becalm_testing::strace::strace;

/// A program with libraries of its own, and environments to start it in.
struct Storm {
    dir: tempfile::TempDir,
    program: String,
}

impl Storm {
    /// Compiles a program that needs a library along its runpath and opens another at run time.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        build(dir.path(), "libused.so", "int used(void) { return 0; }", &["-shared", "-fPIC"]);
        build(dir.path(), "libopened.so", "int opened;", &["-shared", "-fPIC"]);
        let runpath = format!("-Wl,-rpath,/nonexistent-becalm/a:{path}");
        let main = "#include <dlfcn.h>
            #include <fcntl.h>
            #include <sys/stat.h>
            int used(void);
            int main(void) {
                struct stat s;
                if (!dlopen(\"libopened.so\", RTLD_NOW)) return 1;
                stat(\"/nonexistent-becalm/b\", &s);
                open(\"/nonexistent-becalm/c\", O_RDONLY);
                return used();
            }";
        let program = build(dir.path(), "program", main, &["-L", path, "-lused", "-ldl", &runpath]);
        Storm { program: program.to_str().unwrap().to_owned(), dir }
    }

    /// Returns variables that make the loader search different directories.
    fn environments(&self) -> [Vec<(&'static str, String)>; 2] {
        let path = self.dir.path().display();
        [vec![], vec![("LD_LIBRARY_PATH", format!("/nonexistent-becalm/d:{path}"))]]
    }
}

#[test]
fn the_tracer_sees_the_opens_and_stats_that_strace_sees() {
    if !Path::new("/usr/bin/strace").exists() {
        return skip("strace is not installed");
    }
    let storm = Storm::new();
    let program = storm.program.as_str();
    for env in &storm.environments() {
        let mut start = Start::new(program, Launch::Execute);
        for (name, value) in env {
            start = start.env(name, value);
        }
        let expected = strace(&start).unwrap().attempts();
        for all_syscalls in [false, true] {
            let options = Options { all_syscalls, ..Options::default() };
            let seen = attempts(program, env, options);
            assert_eq!(seen.len(), expected.len(), "{program}");
            for (index, pair) in seen.iter().zip(&expected).enumerate() {
                assert_eq!(pair.0, pair.1, "{program}: {index}");
            }
        }
    }
}

/// Returns all opens and stats of a program, before and after its entry point. The program has no
/// input or output.
fn attempts(program: &str, env: &[(&str, String)], options: Options) -> Vec<Attempt> {
    // `strace` ran the program with an empty standard input.
    let line = format!("exec '{program}' </dev/null >/dev/null 2>&1");
    let env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let command = Command { env: Some(env), ..Command::new("/bin/sh", ["-c".into(), line.into()]) };
    let traced = run(&command, Options { timeline: true, ..options }).unwrap();
    assert_eq!(traced.images.len(), 2);
    traced.images[1].timeline.iter().filter_map(|timed| timed.lookup.attempt()).collect()
}

#[test]
fn the_loaders_share_is_what_the_model_predicts() {
    let storm = Storm::new();
    let program = storm.program.as_str();
    for env in &storm.environments() {
        let command = format!("exec '{program}' </dev/null >/dev/null 2>&1");
        let variables = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let command = Command {
            env: Some(variables),
            ..Command::new("/bin/sh", ["-c".into(), command.into()])
        };
        let traced = run(&command, Options::default()).unwrap();
        let image = &traced.images[1];
        let (joined, predicted) = join(image);
        assert_eq!(joined.probes, predicted, "{program}");
        assert!(joined.predicted.iter().all(Option::is_some));
        assert!(joined.probes.iter().all(|probe| !probe.needed_by.is_empty()));
        let missed = joined.storm.missed_opens + joined.storm.missed_stats;
        assert!(missed > 0);
    }
}

/// Joins an image's lookups with the model's closure of its program. Returns the predicted probes, too.
fn join(image: &Image) -> (Attributed, Vec<Probe>) {
    let value = |name: &str| {
        let variable = image.environment.iter().find(|(key, _)| key == name);
        variable.map(|(_, value)| BString::from(value.as_slice()))
    };
    let fs = OsFs::new();
    let session = fs.session();
    let subject = Subject::open(&session, image.exec_path.as_bstr()).unwrap();
    let interpreter: &BStr = image.interpreter.as_ref().unwrap().as_bstr();
    let facts = loader_facts(&fs, interpreter, &FactChoice::default()).unwrap();
    let environment = Environment {
        library_path: value("LD_LIBRARY_PATH"),
        preload: value("LD_PRELOAD"),
        audit: value("LD_AUDIT"),
        secure: image.secure,
        ..Environment::default()
    };
    let closure = resolve(&session, subject, interpreter, facts, &environment).unwrap();
    let by_loader = image.lookups.iter().filter(|lookup| lookup.by_loader);
    let attempts = by_loader.filter_map(Lookup::attempt).collect();
    (attribute(attempts, Some(&closure)), closure.probes().collect())
}

#[test]
fn lookups_of_initialisers_are_not_the_loaders() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <fcntl.h>
        __attribute__((constructor)) static void start(void) { open(\"/nonexistent-becalm\", 0); }
        int used(void) { return 0; }";
    let library = build(dir.path(), "libinit.so", source, &["-shared", "-fPIC"]);
    let runpath = format!("-Wl,-rpath,/nonexistent-becalm/a:{}", dir.path().display());
    let arguments = ["-L", dir.path().to_str().unwrap(), "-linit", &runpath];
    assert!(library.exists());
    let main = "int used(void); int main(void) { return used(); }";
    let program = build(dir.path(), "program", main, &arguments);
    let traced = trace_in(&program, &[], Options::default());
    let image = &traced.images[0];
    let (joined, predicted) = join(image);
    assert_eq!(joined.probes, predicted);
    assert_eq!((image.initialisers, image.dropped), (1, 0));
    let first = &joined.probes[0];
    assert_eq!(
        (first.needed.as_slice(), first.needed_by.as_slice()),
        (&b"libinit.so"[..], program.as_os_str().as_encoded_bytes())
    );
}
