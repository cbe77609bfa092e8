//! Gain from the bindings of an index: the same start unchanged, under an audit module that does
//! nothing, and with bindings; lazily and with `LD_BIND_NOW`. Measured as in [`super::calm`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde_json::json;

use super::Common;
use super::calm::{Variant, measure, variant};
use crate::child;
use crate::stored;

/// The programs by name or path, each with arguments that make it end by itself.
const PROGRAMS: [(&str, &[&str]); 12] = [
    ("inkscape", &["--version"]),
    ("nix", &["--version"]),
    ("qemu-system-x86_64", &["--version"]),
    ("/usr/lib/chromium/chromium", &["--version"]),
    ("clang", &["--version"]),
    ("convert-im6.q16", &["--version"]),
    ("node", &["--version"]),
    ("emacs-gtk", &["--version"]),
    ("emacs-nox", &["--version"]),
    ("gdb", &["--version"]),
    ("git", &["--version"]),
    ("python3", &["-c", "0"]),
];

/// Bytes of static TLS that are enough for all of them.
const STATIC_TLS: &str = "glibc.rtld.optional_static_tls=8192";

/// Measures and prints one table a program: of /usr/bin, and of the store where it has one.
///
/// # Errors
/// Returns an error if becalm, a C compiler or a program cannot be run, or the raw data cannot be
/// written.
pub(super) fn run(args: &Common, only: &[String]) -> Result<()> {
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let scratch = tempfile::tempdir()?;
    let idle = idle_module(scratch.path())?;
    let mut all = Vec::new();
    for (name, arguments) in PROGRAMS.into_iter().filter(|(name, _)| is_wanted(name)) {
        let installed = Path::new("/usr/bin").join(name);
        let is_named = !name.starts_with('/') && args.store.is_dir();
        let in_store = if is_named { stored::find(&args.store, name)? } else { None };
        let places = [("", installed.exists().then_some(installed)), (", store", in_store)];
        for (what, program) in places {
            let Some(program) = program else {
                println!("{name}{what}: not installed");
                continue;
            };
            let index = scratch.path().join("index.so");
            let _ = fs::remove_file(&index);
            make(args, &program, !what.is_empty(), &index)?;
            let label = format!("{name}{what}");
            all.extend(measure(&label, &ways(&program, &idle, &index), arguments, args.rounds)?);
        }
    }
    args.write(json!({ "times": all }))
}

/// The index of one program, with its libraries and bindings.
fn make(args: &Common, program: &Path, is_stored: bool, index: &Path) -> Result<()> {
    let mut make = Command::new(&args.becalm);
    make.args(["index", "--bind-threshold", "0,0", "--program"]).arg(program);
    if is_stored {
        make.arg("--store").arg(fs::canonicalize(&args.store)?);
    }
    child::succeed(make.arg("-o").arg(index)).map(drop)
}

/// Builds an audit module that requests no events.
fn idle_module(folder: &Path) -> Result<PathBuf> {
    let (source, module) = (folder.join("idle.c"), folder.join("idle.so"));
    fs::write(&source, "unsigned la_version (unsigned version) { return version; }\n")?;
    let mut cc = Command::new("cc");
    child::succeed(
        cc.args(["-shared", "-fPIC", "-O2", "-nostdlib", "-o"]).args([&module, &source]),
    )?;
    Ok(module)
}

fn ways(program: &Path, idle: &Path, index: &Path) -> Vec<Variant> {
    let audited = |module: &Path| {
        let module = module.display().to_string();
        vec![("LD_AUDIT", module), ("GLIBC_TUNABLES", STATIC_TLS.to_owned())]
    };
    let now = |mut environment: Vec<(&'static str, String)>| {
        environment.push(("LD_BIND_NOW", "1".to_owned()));
        environment
    };
    vec![
        variant("plain", program, &[]),
        variant("plain again", program, &[]),
        variant("idle audit module", program, &audited(idle)),
        variant("bound", program, &audited(index)),
        variant("plain, LD_BIND_NOW", program, &now(Vec::new())),
        variant("idle audit module, LD_BIND_NOW", program, &now(audited(idle))),
        variant("bound, LD_BIND_NOW", program, &now(audited(index))),
    ]
}
