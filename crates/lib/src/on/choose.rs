//! The programs that gain: found in `PATH`, predicted by their bindings, confirmed by starts.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use becalm_host::bench::stats::Spread;
use becalm_host::confined::{Confinement, Ended};
use becalm_host::trace::Command;
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::assume::{self, Assumptions};
use crate::estimate::Estimate;
use crate::index::programs::libraries_of;
use crate::index::trust;
use crate::index::variables::{NO_AHEAD, SWITCHES};
use crate::on::Program;
use crate::on::fit::fit;
use crate::on::folder::Folder;
use crate::on::launchers::Launchers;
use crate::path::{at, path_bytes};
use crate::progress::Progress;
use crate::relocations::ns;
use crate::run::program;

/// The smallest gain of a program that is switched on without having been named, and its part of the
/// start.
const GAIN: Duration = Duration::from_millis(2);
const PART: f64 = 0.1;
/// The number of bindings below which no program gains that much, so that its time is not estimated.
/// The estimate only decides which programs are started.
const BINDINGS: u32 = 2000;
/// Rounds that decide about a clear gain or none, and those about any other.
const ROUNDS: [usize; 2] = [3, 7];
/// The time after which a start is no start that ends by itself.
const LIMIT: Duration = Duration::from_secs(5);
/// Names of programs that are not started, whatever they do with `--version`.
const NEVER: [&str; 8] =
    ["halt", "init", "kexec", "poweroff", "reboot", "runlevel", "shutdown", "telinit"];

/// A program that gains nothing, although it was predicted to.
#[derive(Clone, Debug, Serialize)]
pub struct NotChosen {
    /// Its name.
    pub name: String,
    /// The reason: `no-gain`, `differs` (its output or status with the index) or `no-end`.
    pub reason: &'static str,
    /// The median time of a plain start, in nanoseconds, if it was measured.
    pub plain_ns: Option<u64>,
    /// The median time of a start by the index.
    pub on_ns: Option<u64>,
}

/// The starts that confirmed the prediction.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trials {
    /// The programs that were started, with `--version`.
    pub started: Vec<String>,
    /// True if they had no network.
    pub no_network: bool,
    /// The programs that were left out.
    pub not_chosen: Vec<NotChosen>,
}

/// Returns the named programs, or why they cannot be switched on.
pub(super) fn named(names: &[OsString], bin: &Path) -> Vec<Result<Program>> {
    let dirs = path_dirs(bin);
    let of_name = |name: &OsString| {
        let path = match name.to_str() {
            Some(text) if text.contains('/') => std::path::absolute(name).ok(),
            _ => dirs.iter().map(|dir| dir.join(name)).find(|path| is_executable(path)),
        };
        let path = path.with_context(|| program::not_found(name))?;
        let not_fit = |why| anyhow!("{}: {why}", name.to_string_lossy());
        fit(&path).map_err(not_fit)?;
        let real = path.canonicalize().with_context(at(&path))?;
        libraries_of(&real)?;
        let program = program_at(&path).ok_or_else(|| not_fit("its name is not UTF-8"))?;
        Ok(Program { real: Some(real), ..program })
    };
    names.iter().map(of_name).collect()
}

/// Returns the programs of `PATH` and of launchers that are predicted to gain, tried in a scratch
/// folder, and what was started.
pub(super) fn of_path(
    bin: &Path,
    launchers: &Launchers,
    for_all: bool,
    progress: &dyn Progress,
) -> Result<(Vec<Program>, Trials)> {
    let scratch = tempfile::tempdir().with_context(at(&env::temp_dir()))?;
    let real = scratch.path().canonicalize().with_context(at(scratch.path()))?;
    let folder = Folder::new(real.join("on"), Vec::new());
    folder.check()?;
    let (lock, _) = folder.lock()?;
    let candidates = folder.fill(candidates(bin, launchers, for_all), progress)?;
    let mut by_file: BTreeMap<PathBuf, Vec<Program>> = BTreeMap::new();
    for program in candidates.into_iter().filter(|program| program.bindings >= BINDINGS) {
        by_file.entry(program.real.clone().unwrap_or_default()).or_default().push(program);
    }
    let assumed = Assumptions::new(&assume::Options::default()).ok();
    let may_gain = |file: &PathBuf| assumed.as_ref().is_some_and(|it| may_gain(it, file));
    let by_file: BTreeMap<_, _> =
        by_file.into_par_iter().filter(|(file, _)| may_gain(file)).collect();
    let trial = Trial::new(&folder, &real);
    let mut trials = Trials { no_network: trial.confinement.has_no_network(), ..Trials::default() };
    let phase = progress.phase(by_file.len());
    let mut chosen = Vec::new();
    for programs in by_file.into_values() {
        let Some(first) = programs.first() else { continue };
        if progress.is_interrupted() {
            break;
        }
        let outcome = trial.of(first);
        trials.started.push(path_bytes(&first.path).to_string());
        match outcome {
            Ok((plain, on)) => {
                let (plain_ns, on_ns) = (Some(plain), Some(on));
                let with = |it| Program { plain_ns, on_ns, fresh: None, ..it };
                chosen.extend(programs.into_iter().map(with));
            }
            Err(not_chosen) => trials.not_chosen.push(not_chosen),
        }
        phase(1);
    }
    drop(lock);
    Ok((chosen, trials))
}

/// True if the estimate of a program's start gains enough from an index.
fn may_gain(assumed: &Assumptions, file: &Path) -> bool {
    let estimate = Estimate::of_path(assumed, file);
    let gain = estimate.and_then(|it| Some(it.loader_ns.saturating_sub(it.indexed_ns?)));
    gain.is_some_and(|gain| gain >= ns(GAIN))
}

/// Returns the absolute directories of `PATH` but the folder's own, each once.
fn path_dirs(bin: &Path) -> Vec<PathBuf> {
    let list = program::path_list();
    let mut seen = FxHashSet::default();
    let mut is_new = |dir: &PathBuf| {
        let real = dir.canonicalize();
        dir.is_absolute() && real.is_ok_and(|real| real != bin && seen.insert(real))
    };
    env::split_paths(&list).filter(|dir| is_new(dir)).collect()
}

/// Returns the programs of `PATH`, and of launchers if `PATH` has no other of their names, that an index
/// may start, by name. Nothing of sbin is among them, and for all users only what no one but root can
/// write.
fn candidates(bin: &Path, launchers: &Launchers, for_all: bool) -> Vec<Program> {
    let mut names = FxHashSet::default();
    let entries = path_dirs(bin).into_iter().flat_map(|dir| dir.read_dir()).flatten().flatten();
    let of_path = entries.map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        of_path.chain(launchers.0.iter().map(|(_, path)| path.clone())).collect();
    paths.retain(|path| is_executable(path) && names.insert(path.file_name().map(OsStr::to_owned)));
    paths.retain(|path| !path.parent().is_some_and(is_sbin));
    let is_fit = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        let is_allowed = !NEVER.iter().any(|never| name == *never);
        is_allowed
            && fit(path).is_ok()
            && (!for_all || path.canonicalize().is_ok_and(|it| trust::check_for_all(&it).is_ok()))
    };
    let mut programs: Vec<Program> =
        paths.par_iter().filter(|path| is_fit(path)).filter_map(|path| program_at(path)).collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

fn is_sbin(dir: &Path) -> bool {
    dir.ends_with("sbin") || dir.canonicalize().is_ok_and(|real| real.ends_with("sbin"))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

fn program_at(path: &Path) -> Option<Program> {
    let name = path.file_name()?.to_str()?.to_owned();
    path.to_str()?;
    Some(Program { name, path: path.to_owned(), ..Program::default() })
}

/// Starts of programs with `--version`: no terminal, no network if possible, an empty home directory.
struct Trial<'a> {
    folder: &'a Folder,
    dir: &'a Path,
    environment: Vec<(OsString, OsString)>,
    confinement: Confinement,
}

impl<'a> Trial<'a> {
    fn new(folder: &'a Folder, dir: &'a Path) -> Self {
        let path = [folder.bin().into_os_string(), program::path_list()].join(OsStr::new(":"));
        let home = dir.as_os_str().to_owned();
        let environment = [
            ("PATH", path),
            ("HOME", home.clone()),
            ("XDG_RUNTIME_DIR", home),
            ("LC_ALL", "C.UTF-8".into()),
            // No process reads ahead, or learns, beside a start that is measured.
            (SWITCHES, NO_AHEAD.into()),
        ];
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value));
        Self { folder, dir, environment: environment.collect(), confinement: Confinement::make() }
    }

    /// Returns the median times of plain starts and of starts by the index, in nanoseconds, if the
    /// program gains.
    fn of(&self, program: &Program) -> Result<(u64, u64), NotChosen> {
        let not_chosen = |reason, times: Option<(u64, u64)>| {
            let (plain_ns, on_ns) = times.unzip();
            NotChosen { name: program.name.clone(), reason, plain_ns, on_ns }
        };
        let link = self.folder.bin().join(&program.name);
        let start = |file: &Path| self.start(program, file).ok_or(not_chosen("no-end", None));
        // The first starts read the files.
        let (plain, on) = (start(&program.path)?, start(&link)?);
        if (plain.status, &plain.output) != (on.status, &on.output) {
            return Err(not_chosen("differs", None));
        }
        let (mut plain, mut on) = (Vec::new(), Vec::new());
        let mut last = (0, 0);
        for rounds in ROUNDS {
            while plain.len() < rounds {
                plain.push(ns(start(&program.path)?.wall) as f64);
                on.push(ns(start(&link)?.wall) as f64);
            }
            last = (Spread::of(&plain).median as u64, Spread::of(&on).median as u64);
            let gain = last.0.saturating_sub(last.1);
            let needed = ns(GAIN).max((last.0 as f64 * PART) as u64);
            match gain {
                gain if gain >= 2 * needed => return Ok(last),
                gain if gain < needed / 2 => break,
                gain if gain >= needed && rounds == ROUNDS[1] => return Ok(last),
                _ => {}
            }
        }
        Err(not_chosen("no-gain", Some(last)))
    }

    /// Starts the program or its link, with the first argument that the starter would give it.
    fn start(&self, program: &Program, file: &Path) -> Option<Ended> {
        let command = Command {
            env: Some(self.environment.clone()),
            dir: Some(self.dir.to_owned()),
            ..Command::new(&program.path, ["--version".into()])
        };
        self.confinement.run(&command, file, LIMIT).ok().flatten()
    }
}
