//! Compares programs with and without bindings from an index: they must have the same slots, the
//! same output and the same exit code.
//!
//! For each program an index with its bindings is made. The module writes the slots at the end of
//! the start (`BECALM=dump:FILE`), with `LD_BIND_NOW` in an address space that is not randomised. With
//! `--pages`, starts that map ready pages are compared as well.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use becalm_core::facts::Environment;
use becalm_core::index::{Index, embed, encode};
use becalm_host::OsFs;
use becalm_host::index_store::{BindThreshold, Binding, IndexOptions, index_stores};

use crate::audit_trial::{make, sysroot};
use crate::command::is_done_within;
use crate::differential::verdicts;
use crate::tally::{Counts, Tally};
use crate::trace_differential::choose::{self, Trial};
use crate::trace_differential::run::{Ran, open_folder};

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Roots of other machines or glibc releases (scripts/sysroots): of each a store is made, and all
    /// its programs are tried, under qemu-user if necessary.
    #[arg(long, value_name = "DIR")]
    sysroot: Vec<PathBuf>,
    /// A library to preload in each start. The indexes are made for starts with it.
    #[arg(long, value_name = "PATH")]
    preload: Option<PathBuf>,
    /// A becalm, which makes the ready pages of each program; starts with them are compared too.
    #[arg(long, value_name = "BECALM")]
    pages: Option<PathBuf>,
    /// The number of programs of /usr/bin to take.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    programs: usize,
    /// Seed of the sample: the same seed, the same programs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// The result for one program.
#[derive(Default)]
struct Verdict {
    /// The reason why it was not bound, if the index or the module gives one.
    not_bound: Option<String>,
    /// Slots, slots of starts that mapped ready pages, bindings and relocations with a symbol, bytes of
    /// bindings, and whether the output varies by itself.
    counts: Counts,
    differences: Vec<String>,
}

/// Tries; returns false if anything differs.
///
/// # Errors
/// Returns an error if the module cannot be made.
pub fn run(options: &Options) -> Result<bool> {
    let scratch = open_folder()?;
    // The module and the emulator that the programs of each machine are started with; this machine has none.
    let own: Machine = (
        std::fs::read(make::module(&make::compiler(std::env::consts::ARCH), scratch.path())?)?,
        None,
    );
    let mut machines = vec![own];
    let own = |trial| (trial, 0);
    let mut trials: Vec<(Trial, usize)> = programs(options)?.into_iter().map(own).collect();
    for (at, root) in options.sysroot.iter().enumerate() {
        let store = scratch.path().join(format!("store-{at}"));
        let made = sysroot::make(root, &store)?;
        let group = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let both = made.programs.iter().flat_map(|program| choose::both(&group, program));
        let both = both.filter(|trial| trial.argument == "--version");
        trials.extend(both.map(|trial| (trial, machines.len())));
        // make finds nothing to do if the module of another machine is there.
        let folder = scratch.path().join(format!("module-{at}"));
        std::fs::create_dir(&folder)?;
        let module = std::fs::read(make::module(&make::compiler(&made.machine), &folder)?)?;
        machines.push((module, made.emulator));
    }
    let one = |(trial, machine): &(Trial, usize)| try_one(trial, &machines[*machine], options);
    let verdicts = verdicts(&trials, one);
    let mut tally = Tally::default();
    for ((trial, _), verdict) in trials.iter().zip(verdicts) {
        let verdict = verdict.unwrap_or_else(|error| Verdict {
            differences: vec![format!("not tried: {error:#}")],
            ..Verdict::default()
        });
        let bound = verdict.not_bound.map_or("bound".to_owned(), |why| format!("not bound: {why}"));
        let counts = tally.group(&bound, String::new());
        counts.add("programs", 1);
        counts.add("with pages", usize::from(verdict.counts.get("slots of pages") > 0));
        counts.merge(&verdict.counts);
        if !verdict.differences.is_empty() {
            let first = verdict.differences.len().min(5);
            tally.differs(trial.line(), verdict.differences[..first].join("\n  "));
        }
    }
    print!("{}", tally.text((40, 16), &COLUMNS));
    println!("{} programs differ", tally.differences());
    Ok(tally.differences() == 0)
}

/// The counts of a table: slots that were compared, of them those of starts that mapped ready pages, bindings and
/// relocations with a symbol in the indexes, and bytes of bindings, one index a program.
const COLUMNS: [&str; 8] = [
    "programs",
    "varies",
    "slots",
    "with pages",
    "slots of pages",
    "bindings",
    "relocations",
    "bytes",
];

/// Each program file once.
fn programs(options: &Options) -> Result<Vec<Trial>> {
    if !options.sysroot.is_empty() {
        return Ok(Vec::new());
    }
    let mut trials = choose::trials(&[], options.programs, options.seed)?;
    trials.retain(|trial| trial.argument == "--version");
    let mut seen = std::collections::BTreeSet::new();
    trials.retain(|trial| trial.program.canonicalize().is_ok_and(|real| seen.insert(real)));
    Ok(trials)
}

type Machine = (Vec<u8>, Option<PathBuf>);

fn try_one(trial: &Trial, machine: &Machine, options: &Options) -> Result<Verdict> {
    let (module, emulator) = (&machine.0, machine.1.as_deref());
    let preload = options.preload.as_deref();
    let folder = open_folder()?;
    let index_file = folder.path().join("index.so");
    let os = OsFs::new();
    let files = std::slice::from_ref(&trial.program);
    let preloads = |path: &Path| Environment {
        preload: Some(path.as_os_str().as_bytes().into()),
        ..Environment::default()
    };
    let environments: Vec<Environment> = preload.into_iter().map(preloads).collect();
    let bind = Binding { threshold: BindThreshold::ALL, only: None, environments: &environments };
    let index = IndexOptions { files, bind: Some(bind), ..IndexOptions::default() };
    let indexed = index_stores(&os, index);
    let mut verdict = Verdict::default();
    let Some(machine) = indexed.machines.into_iter().next() else {
        let why = indexed.errors.first().map_or("no index".to_owned(), |_| "no loader".to_owned());
        verdict.not_bound = Some(why);
        return Ok(verdict);
    };
    let Some(program) = machine.index.bound.programs.first() else {
        let why = machine.not_bound.first().map(|(_, why)| kind_of(why));
        verdict.not_bound = Some(why.unwrap_or_else(|| "no program".to_owned()));
        return Ok(verdict);
    };
    verdict.counts.add("bindings", program.bindings as usize);
    verdict.counts.add("relocations", program.relocations as usize);
    let table = encode(&machine.index, machine.target)?;
    let without = Index { bound: Default::default(), ..machine.index.clone() };
    let bare = encode(&without, machine.target)?;
    verdict.counts.add("bytes", table.len() - bare.len());
    std::fs::write(&index_file, embed(module, &table)?)?;
    std::fs::set_permissions(&index_file, std::fs::Permissions::from_mode(0o644))?;
    let mut needs = machine.index.programs.iter().map(|program| program.needs.static_tls);
    let tls = needs.find(|&bytes| bytes > 0).map(u64::from);
    let folder = folder.path();
    let starts = Starts { trial, index: &index_file, folder, tls, emulator, preload };
    starts.compare_slots(&mut verdict)?;
    if let Some(becalm) = options.pages.as_ref().filter(|_| verdict.not_bound.is_none()) {
        starts.compare_pages(&std::path::absolute(becalm)?, &mut verdict)?;
    }
    starts.compare_output(&mut verdict)?;
    Ok(verdict)
}

/// Returns a reason without the name in it.
fn kind_of(why: &becalm_core::index::bound::NotBound) -> String {
    use becalm_core::index::bound::NotBound as Why;
    match why {
        Why::Undefined(_) => "an undefined symbol".to_owned(),
        Why::NoBuildId(_) => "a library without build ID".to_owned(),
        Why::Unsettled(_) => "a file that cannot be read".to_owned(),
        why => why.to_string(),
    }
}

struct Starts<'a> {
    trial: &'a Trial,
    index: &'a Path,
    folder: &'a Path,
    tls: Option<u64>,
    emulator: Option<&'a Path>,
    preload: Option<&'a Path>,
}

impl Starts<'_> {
    fn start(&self, words: &[&str], environment: &[String]) -> Result<Option<Ran>> {
        let preload = self.preload.map(|path| format!("LD_PRELOAD={}", path.display()));
        let environment: Vec<String> = environment.iter().cloned().chain(preload).collect();
        self.trial.start(words, &environment, self.emulator.map(Path::as_os_str).as_slice())
    }

    fn audited(&self, switches: &str, further: &[&str]) -> Vec<String> {
        let mut all =
            vec![format!("LD_AUDIT={}", self.index.display()), format!("BECALM={switches}")];
        all.extend(self.tls.map(|n| format!("GLIBC_TUNABLES=glibc.rtld.optional_static_tls={n}")));
        all.extend(further.iter().map(ToString::to_string));
        all
    }

    /// Returns the slots of a start that the module wrote.
    fn slots(&self, name: &str, switches: &str) -> Result<Option<String>> {
        let file = self.folder.join(name);
        let switches = format!("{switches},dump:{}", file.display());
        let fixed = ["setarch", std::env::consts::ARCH, "-R"];
        self.start(&fixed, &self.audited(&switches, &["LD_BIND_NOW=1"]))?;
        let bytes = std::fs::read(&file).ok();
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn compare_slots(&self, verdict: &mut Verdict) -> Result<()> {
        let log = self.folder.join("log");
        let switches = format!("log:{}", log.display());
        // Both texts have the same length, because some slots point to the stack, whose position
        // depends on it.
        let bare = format!("nobind,{}", "-".repeat(switches.len() - "nobind,".len()));
        let plain = self.slots("plain", &bare)?;
        let bound = self.slots("bound", &switches)?;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let said = said.lines().find_map(|line| Some(line.split_once("\tbindings\t0\t")?.1));
        match said {
            Some(said) if said.starts_with("applied") => {}
            Some(said) => {
                verdict.not_bound = Some(format!("the module: {}", said.replace('\t', " ")));
                if !said.contains("LD_BIND_NOW") {
                    verdict.differences.push(format!("declined: {said}"));
                }
            }
            // In secure-execution mode the module does nothing.
            None if plain.is_none() && bound.is_none() => {
                verdict.not_bound = Some("runs with other rights".to_owned());
                return Ok(());
            }
            None => verdict.differences.push("the module says nothing of bindings".to_owned()),
        }
        let (plain, bound) =
            (plain.context("no slots of a plain start")?, bound.context("no slots")?);
        verdict.counts.add("slots", slots(&plain));
        if plain != bound {
            let again = self.slots("again", &bare)?.unwrap_or_default();
            verdict.differences.extend(differences(&plain, &bound, &again));
        }
        Ok(())
    }

    /// Makes ready pages, and compares the slots of a start that maps them with those of one that is bound
    /// without. No program runs beyond its start, so that none is confined.
    fn compare_pages(&self, becalm: &Path, verdict: &mut Verdict) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(60);
        // becalm uses nothing below a folder that others may write.
        let own = tempfile::tempdir()?;
        let path = |name: &str| own.path().join(name);
        let (cache, log) = (path("cache"), path("log"));
        std::fs::DirBuilder::new().mode(0o700).create(&cache)?;
        std::fs::copy(self.index, path("index.so"))?;
        let start = |command: &mut Command| {
            command.env("BECALM_CACHE", &cache).env("HOME", own.path()).current_dir(own.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
        };
        let mut run = Command::new(becalm);
        run.args(["run", "--strict", "--no-ahead", "--share-pages", "--index"]);
        run.arg(path("index.so")).arg("--").arg(&self.trial.program);
        start(run.env("BECALM", "stop"))?;
        let folder = cache.join("pages");
        let is_made = || {
            let mut entries = folder.read_dir().into_iter().flatten().flatten();
            // A temporary file begins with a dot.
            entries.any(|entry| !entry.file_name().as_bytes().contains(&b'.'))
        };
        if !is_done_within(PATIENCE, is_made) {
            verdict.differences.push("no pages are made".to_owned());
            return Ok(());
        }
        let slots_of = |name: &str, switches: &str| -> Result<String> {
            let file = path(name);
            let mut fixed = Command::new("setarch");
            let switches = format!("stop,{switches},dump:{}", file.display());
            let module = format!("LD_AUDIT={}", path("index.so").display());
            fixed.args([std::env::consts::ARCH, "-R", "/usr/bin/env"]);
            fixed.args(self.audited(&switches, &[&module])).arg(&self.trial.program);
            start(&mut fixed)?;
            Ok(String::from_utf8_lossy(&std::fs::read(&file)?).into_owned())
        };
        let switches = format!("log:{},pages:{}", log.display(), folder.display());
        let bare = "-".repeat(switches.len());
        let (bound, mapped) = (slots_of("bound", &bare)?, slots_of("pages", &switches)?);
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        match said.lines().find_map(|line| Some(line.split_once("\tpages\t0\t")?.1)) {
            // Too few pages.
            None => return Ok(()),
            Some(said) if said.starts_with("mapped") => {}
            Some(said) => verdict.differences.push(format!("pages: {said}")),
        }
        verdict.counts.add("slots of pages", slots(&bound));
        if bound != mapped {
            verdict.differences.extend(differences(&bound, &mapped, &slots_of("again", &bare)?));
        }
        Ok(())
    }

    fn compare_output(&self, verdict: &mut Verdict) -> Result<()> {
        let (plain, mut is_varying) = (self.start(&[], &[])?, false);
        for now in [&[][..], &["LD_BIND_NOW=1"]] {
            let own: Vec<String> = now.iter().map(ToString::to_string).collect();
            let plain_now = self.start(&[], &own)?;
            let bound = self.start(&[], &self.audited("", now))?;
            if plain_now == bound {
                continue;
            }
            let mut varies = false;
            for _ in 0..3 {
                varies |= self.start(&[], &[])? != plain;
            }
            is_varying |= varies;
            if !varies {
                verdict.differences.push(format!("{plain_now:?}, bound {bound:?}"));
            }
        }
        verdict.counts.add("varies", usize::from(is_varying));
        Ok(())
    }
}

/// Returns the number of slots that the module wrote.
fn slots(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("slot")).count()
}

/// Returns the slots that differ from those of a plain start, but not between two plain starts: an example is
/// the copy of a stack guard, which is random.
fn differences(plain: &str, bound: &str, again: &str) -> Vec<String> {
    let counts = [plain, bound, again].map(|slots| slots.lines().count());
    if counts.iter().any(|count| *count != counts[0]) {
        return vec!["other objects or slots".to_owned()];
    }
    let mut found = Vec::new();
    let mut object = "";
    for ((a, b), again) in plain.lines().zip(bound.lines()).zip(again.lines()) {
        if a.starts_with("object") {
            object = a;
        }
        if a != b && a == again {
            found.push(format!("{object}: {a}, bound {b}"));
        }
    }
    found
}
