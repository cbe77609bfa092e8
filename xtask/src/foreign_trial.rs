//! `cargo xtask foreign-trial`: applies the absolute strategy to whole roots of other machines,
//! whose loaders cannot run here. Each program is then started under the emulator and must load the
//! same objects and have the same output as before. `becalm undo` must restore every byte.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use becalm_core::elf::ObjectView;
use becalm_core::record::compare::listed;
use becalm_host::{WalkOptions, find_objects};
use becalm_testing::strace::not_found;
use bstr::BString;
use clap::Args;
use rayon::prelude::*;

use crate::command::succeed;
use crate::root;
use crate::user::{NOBODY, is_root};

/// Time limit of a program, in seconds.
const TIME_LIMIT: &str = "60";
/// Options of the trial.
#[derive(Args)]
pub struct Options {
    /// The becalm to try, as scripts/build prints it
    #[arg(long)]
    becalm: PathBuf,
    /// The folder of the roots, as scripts/sysroots creates it
    #[arg(long, default_value = "target/sysroots")]
    sysroots: PathBuf,
    /// The roots to try
    #[arg(default_values = ["arm64", "s390x"])]
    names: Vec<String>,
}

/// Objects and output of one start.
#[derive(Debug, PartialEq, Eq)]
struct Start {
    loaded: BTreeSet<BString>,
    version: (Option<i32>, Vec<u8>, Vec<u8>),
}

/// Edits a copy of each root and compares.
///
/// # Errors
/// Returns an error if a root or an emulator is missing, or becalm fails.
pub fn run(options: &Options) -> Result<bool> {
    let becalm = options.becalm.canonicalize().context("--becalm")?;
    let mut failures = 0;
    for name in &options.names {
        failures += one(&becalm, &options.sysroots.join(name))
            .with_context(|| format!("the root {name}"))?;
    }
    println!("{failures} failures");
    Ok(failures == 0)
}

fn one(becalm: &Path, original: &Path) -> Result<usize> {
    let scratch = tempfile::Builder::new().prefix("foreign-trial").tempdir()?;
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755))?;
    let root = scratch.path().join("root");
    let mut copy = Command::new("cp");
    succeed(copy.args(["-a", "--reflink=auto"]).arg(original).arg(&root))?;
    let mut programs = root::objects(&root.join("usr"));
    programs.retain(|(_, view)| view.interpreter.is_some());
    ensure!(!programs.is_empty(), "{}: no programs", original.display());
    let starts = || -> Result<Vec<Start>> {
        programs.par_iter().map(|(path, view)| start(&root, path, view)).collect()
    };
    let before = starts()?;

    let (usr, root_flag) = (root.join("usr"), root.display().to_string());
    let fix = ["fix", "--with", "absolute", "--resolve", "static", "--sysroot", &root_flag];
    succeed(Command::new(becalm).args(fix).arg(&usr))?;
    let after = starts()?;
    let mut failures = 0;
    let changed = differing(&root, original)?;
    let edited = programs.iter().filter(|(path, _)| changed.contains(path)).count();
    let mut loaded = 0;
    for ((program, _), (before, after)) in programs.iter().zip(before.iter().zip(&after)) {
        loaded += usize::from(before.loaded.len() > 1);
        if before != after {
            println!("FAILED {}: {before:?} before, {after:?} after", program.display());
            failures += 1;
        }
    }
    succeed(Command::new(becalm).arg("undo").arg(&usr))?;
    let left = differing(&root, original)?;
    for path in &left {
        println!("FAILED {} differs after undo", path.display());
    }
    println!(
        "{}: {} programs, {loaded} with libraries, {edited} edited, {} files edited, {} failures",
        original.file_name().unwrap_or_default().to_string_lossy(),
        programs.len(),
        changed.len(),
        failures + left.len(),
    );
    Ok(failures + left.len())
}

fn start(root: &Path, program: &Path, view: &ObjectView) -> Result<Start> {
    let emulator = root::emulator(view.ident.machine_name())?;
    let command = || {
        // Some programs do not know --version, and some wait for input.
        let mut command = Command::new("/usr/bin/timeout");
        command.args(["-k", "1", TIME_LIMIT]).arg(&emulator).arg("-L").arg(root);
        command.env_clear().env("LC_ALL", "C").stdin(Stdio::null()).current_dir("/");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    };
    let traced = command().args(["-E", "LD_TRACE_LOADED_OBJECTS=1"]).arg(program).output()?;
    let said = command().arg(program).arg("--version").output()?;
    // The names of missing libraries have no slash.
    let loaded = listed(&traced.stdout).into_iter().chain(not_found(&traced.stdout)).collect();
    Ok(Start { loaded, version: (said.status.code(), said.stdout, said.stderr) })
}

/// Returns the objects of a copied root that differ from the original.
fn differing(root: &Path, original: &Path) -> Result<Vec<PathBuf>> {
    let found = find_objects(&[root.to_owned()], WalkOptions::default());
    let mut differing = Vec::new();
    for object in found.objects {
        if fs::read(&object.path)? != fs::read(original.join(object.path.strip_prefix(root)?))? {
            differing.push(object.path);
        }
    }
    Ok(differing)
}
