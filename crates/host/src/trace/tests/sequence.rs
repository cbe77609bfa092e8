//! What the tracer saw is what `strace` sees, and what the model predicts.

use std::path::Path;

use becalm_core::closure::{Subject, resolve};
use becalm_core::loader::Environment;
use becalm_core::observe::{Attributed, attribute};
use becalm_core::record::strace::Attempt;
use bstr::{BStr, BString, ByteSlice};

use super::fixture::{build, trace_in};
use crate::oracle::{Start, Way, strace};
use crate::test_user::skip;
use crate::trace::{Command, Event, Image, Options, run_with};
use crate::{FactChoice, OsFs, loader_facts};

/// Programs that look for the same files each time, with what makes them end at once.
fn programs() -> Vec<(&'static str, &'static [(&'static str, &'static str)])> {
    let library_path = &[("LD_LIBRARY_PATH", "/nonexistent-becalm:/usr/lib")][..];
    let all = vec![
        ("/bin/true", &[][..]),
        ("/bin/true", library_path),
        ("/usr/bin/git", &[][..]),
        ("/usr/bin/git", library_path),
        ("/usr/bin/python3", &[("PYTHONSTARTUP", ""), ("PYTHONDONTWRITEBYTECODE", "1")][..]),
    ];
    all.into_iter().filter(|(path, _)| Path::new(path).exists()).collect()
}

#[test]
fn every_open_and_stat_is_the_one_strace_sees() {
    if !Path::new("/usr/bin/strace").exists() {
        return skip("strace is not installed");
    }
    for (program, env) in programs() {
        let mut start = Start::new(program, Way::Execute);
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

/// All opens and stats, before the entry point and after it, without input or output.
fn attempts(program: &str, env: &[(&str, &str)], options: Options) -> Vec<Attempt> {
    // `strace` is run with nothing on standard input; so is this.
    let line = format!("exec '{program}' </dev/null >/dev/null 2>&1");
    let env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let command = Command { env: Some(env), ..Command::new("/bin/sh", ["-c".into(), line.into()]) };
    let mut seen = Vec::new();
    let traced = run_with(&command, options, &mut |event: Event<'_>| {
        if event.image == 1 {
            seen.extend(event.lookup.attempt());
        }
    });
    assert_eq!(traced.unwrap().images.len(), 2);
    seen
}

#[test]
fn the_loaders_share_is_what_the_model_predicts() {
    for (program, env) in programs() {
        let command = format!("exec '{program}' </dev/null >/dev/null 2>&1");
        let variables = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let command = Command {
            env: Some(variables),
            ..Command::new("/bin/sh", ["-c".into(), command.into()])
        };
        let traced = crate::trace::run(&command, Options::default()).unwrap();
        let image = &traced.images[1];
        let joined = join(image);
        assert_eq!(joined.difference, None, "{program}: {}", show(&joined));
        assert_eq!(joined.unpredicted(), 0);
        assert!(joined.unobserved.is_empty());
        assert!(joined.probes.iter().all(|probe| !probe.needed_by.is_empty()));
        let missed = joined.storm.missed_opens + joined.storm.missed_stats;
        assert!(env.is_empty() || program.contains("python") || missed > 0);
    }
}

fn show(joined: &Attributed) -> String {
    joined.difference.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Joins an image with the model's closure of its program.
fn join(image: &Image) -> Attributed {
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
    attribute(&image.lookups, &closure)
}

#[test]
fn what_initialisers_look_for_is_not_the_loaders() {
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
    let joined = join(image);
    assert_eq!(joined.difference, None, "{}", show(&joined));
    assert_eq!((image.initialisers, image.dropped), (1, 0));
    let first = &joined.probes[0];
    assert_eq!(
        (first.needed.as_slice(), first.needed_by.as_slice()),
        (&b"libinit.so"[..], program.as_os_str().as_encoded_bytes())
    );
}
