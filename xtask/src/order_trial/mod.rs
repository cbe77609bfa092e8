//! `cargo xtask order-trial`: edits files in many orders with other tools between becalm's edits.
//!
//! Each order is a list of steps on a copy of a file: becalm's edits, `strip`, `llvm-strip`, `objcopy`,
//! `eu-strip` and `patchelf`. The loader lists the copy, and the list must stay that of the original. A step may refuse
//! the file, and then must leave it unchanged. At the end `becalm undo` must restore the bytes that the
//! last step of another tool left, or refuse.
//!
//! Files of a root of `scripts/sysroots` are listed by the root's own loader under qemu-user.

pub(crate) mod step;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use becalm_core::elf;
use becalm_host::{WalkOptions, find_objects};
use clap::Args;
use rayon::prelude::*;

use crate::root::{self, Loader};
use crate::tally::Tally;

use self::step::{
    BUNDLE, EU_STRIP, LLVM_STRIP, NOTE, OBJCOPY, PATCHELF, PATCHELF_SHRINK, RUN_PATH, SHRINK,
    SPLIT_DEBUG, STRIP, Step, Tools, is_becalm, is_patchelf,
};

/// Options of the trial.
#[derive(Args)]
pub struct Options {
    /// The becalm that edits
    #[arg(long, value_name = "FILE")]
    becalm: PathBuf,
    /// The patchelf that edits; orders with it are left out without one
    #[arg(long, value_name = "FILE")]
    patchelf: Option<PathBuf>,
    /// Folders with programs and libraries
    #[arg(value_name = "DIR", default_values = ["/usr/bin", "/usr/lib/x86_64-linux-gnu"])]
    folders: Vec<PathBuf>,
    /// A root of scripts/sysroots, whose /usr is tried instead
    #[arg(long, value_name = "ROOT", conflicts_with = "folders")]
    sysroot: Option<PathBuf>,
    /// Number of files, spread evenly
    #[arg(long, value_name = "N", default_value_t = 200)]
    files: usize,
    /// Number of orders for each file, by turns; all by default
    #[arg(long, value_name = "N", default_value_t = ORDERS.len())]
    orders: usize,
}

/// The orders. In the last three steps of a build patchelf and strip come before becalm or after it. Of
/// files that came from a wheel or a conda package, patchelf comes first, once or twice.
const ORDERS: [&[Step]; 15] = [
    &[RUN_PATH, NOTE, STRIP, RUN_PATH, STRIP],
    &[STRIP, RUN_PATH, NOTE],
    &[RUN_PATH, PATCHELF, NOTE],
    &[NOTE, PATCHELF, STRIP, NOTE],
    &[RUN_PATH, PATCHELF_SHRINK, RUN_PATH],
    &[RUN_PATH, SHRINK, NOTE],
    &[NOTE, OBJCOPY, NOTE],
    &[NOTE, EU_STRIP, NOTE],
    &[NOTE, SPLIT_DEBUG, RUN_PATH],
    &[PATCHELF, STRIP, RUN_PATH, PATCHELF, STRIP, NOTE],
    &[BUNDLE, RUN_PATH, STRIP, NOTE],
    &[BUNDLE, NOTE, LLVM_STRIP, RUN_PATH],
    &[BUNDLE, PATCHELF, NOTE, OBJCOPY, RUN_PATH],
    &[BUNDLE, RUN_PATH, EU_STRIP, NOTE],
    &[PATCHELF, BUNDLE, NOTE, STRIP, SPLIT_DEBUG],
];

/// Tries the orders on all files. Returns false if a file is damaged.
///
/// # Errors
/// Returns an error if there are no files, or a tool cannot be run.
pub fn run(options: &Options) -> Result<bool> {
    let files = files(options);
    ensure!(!files.is_empty(), "no files with needed strings");
    let scratch = tempfile::tempdir()?;
    let try_file = |(number, file): (usize, &PathBuf)| -> Result<Vec<(String, Option<String>)>> {
        let mut tried = Vec::new();
        for turn in 0..options.orders.min(ORDERS.len()) {
            let order = ORDERS[(number * options.orders + turn) % ORDERS.len()];
            if options.patchelf.is_none() && order.iter().any(|step| is_patchelf(*step)) {
                continue;
            }
            let copy = scratch.path().join(format!("{number}-{turn}"));
            let trial = Trial::new(options, file, &copy)?;
            let mut outcome = trial.run(order)?;
            // A file that the other tools damage by themselves says nothing of becalm.
            let others: Vec<Step> = order.iter().copied().filter(|it| !is_becalm(*it)).collect();
            if outcome.is_err() {
                renew(file, &copy)?;
                if trial.run(&others)?.is_err() {
                    outcome = Ok("damaged without becalm".to_owned());
                }
            }
            tried.push(match outcome {
                Ok(kind) => (kind, None),
                Err(what) => {
                    let steps = order.iter().map(|step| step.0).collect::<Vec<_>>().join(" ");
                    let damage = format!("{} {steps}: {what}", file.display());
                    ("damaged".to_owned(), Some(damage))
                }
            });
            let _ = fs::remove_file(copy);
        }
        Ok(tried)
    };
    let tried: Vec<_> = files.par_iter().enumerate().map(try_file).collect::<Result<_>>()?;
    let mut tally = Tally::default();
    for (kind, damage) in tried.into_iter().flatten() {
        tally.group(&kind, String::new()).add("orders", 1);
        damage.into_iter().for_each(|what| tally.differs(kind.clone(), what));
    }
    println!("{} files", files.len());
    print!("{}", tally.text((40, 8), &["orders"]));
    Ok(tally.differences() == 0)
}

/// Returns files below the folders that need a library: one of each group of neighbours.
fn files(options: &Options) -> Vec<PathBuf> {
    let folders = match &options.sysroot {
        Some(root) => vec![root.join("usr")],
        None => options.folders.clone(),
    };
    let found = find_objects(&folders, WalkOptions::default()).objects;
    let needs = |path: &PathBuf| {
        let Ok(bytes) = fs::read(path) else { return false };
        elf::parse(bytes.as_slice()).is_ok_and(|view| view.needed().next().is_some())
    };
    let every = found.len().div_ceil(options.files.max(1)).max(1);
    let groups = found.chunks(every);
    let chosen =
        groups.filter_map(|group| group.iter().map(|it| &it.path).find(|path| needs(path)));
    chosen.take(options.files).cloned().collect()
}

fn renew(file: &Path, copy: &Path) -> Result<()> {
    fs::copy(file, copy).with_context(|| file.display().to_string())?;
    Ok(fs::set_permissions(copy, fs::Permissions::from_mode(0o755))?)
}

/// The steps on one copy.
struct Trial<'a> {
    options: &'a Options,
    copy: &'a Path,
    loader: Option<Loader>,
    tools: Tools,
}

impl<'a> Trial<'a> {
    fn new(options: &'a Options, file: &Path, copy: &'a Path) -> Result<Self> {
        renew(file, copy)?;
        let bytes = fs::read(copy)?;
        let view = elf::parse(bytes.as_slice()).ok().context("it parsed before")?;
        let loader = root::loader(file, &view, options.sysroot.as_deref())?;
        let patchelf = options.patchelf.as_deref().unwrap_or(Path::new("false"));
        let tools = [
            ("BECALM", options.becalm.clone().into()),
            ("PATCHELF", patchelf.into()),
            ("STRIP", step::tool(&view, "strip").into()),
            ("OBJCOPY", step::tool(&view, "objcopy").into()),
        ];
        Ok(Self { options, copy, loader, tools })
    }

    /// Makes the steps. Returns what the undo did, or what is damaged.
    fn run(&self, order: &[Step]) -> Result<Result<String, String>> {
        let Some(expected) = self.see() else { return Ok(Ok("not listed by the loader".into())) };
        let mut before_becalm = fs::read(self.copy)?;
        let mut refused = false;
        for (number, &step) in order.iter().enumerate() {
            let before = fs::read(self.copy)?;
            let done = step::make(step, self.copy, &self.tools)?;
            if !done && fs::read(self.copy)? != before {
                return Ok(Err(format!("{} failed and changed the file", step.0)));
            }
            refused |= !done && is_becalm(step);
            // A tool that changes nothing leaves becalm's record in place.
            let after = fs::read(self.copy)?;
            if done && !is_becalm(step) && after != before {
                before_becalm = after;
            }
            // An emulated loader is slow: it lists the file after the last step only.
            let is_seen = self.options.sysroot.is_none() || number + 1 == order.len();
            if is_seen && self.see().as_ref() != Some(&expected) {
                return Ok(Err(format!("another list after {}", step.0)));
            }
        }
        let undo = Command::new(&self.options.becalm).arg("undo").arg(self.copy).output()?;
        let after = fs::read(self.copy)?;
        if self.see().as_ref() != Some(&expected) {
            return Ok(Err("another list after the undo".into()));
        }
        let refusal = if refused { ", an edit refused" } else { "" };
        Ok(match (undo.status.success(), after == before_becalm) {
            (true, true) => Ok(format!("undo is exact{refusal}")),
            (true, false) => Err("undo succeeded and is not exact".into()),
            (false, _) => Ok(format!("undo refused{refusal}")),
        })
    }

    /// Returns the libraries that the loader lists, without their addresses. `None` if it refuses the file.
    fn see(&self) -> Option<Vec<String>> {
        let done = self.loader.as_ref()?.list(self.copy).ok()?;
        let text = String::from_utf8_lossy(&done.stdout);
        let line = |line: &str| line.split(" (0x").next().unwrap_or_default().to_owned();
        done.status.success().then(|| text.lines().map(line).collect())
    }
}
