//! `cargo xtask trees-trial`: starts a program by `becalm run` again and again whose files are on a
//! FUSE file system, and edits the files between the starts: through the mount, as a process on the
//! same node does, and below it, as another node does. A start whose output differs from that of a
//! plain start was given a stale answer.
//!
//! In some rounds processes of becalm are killed, learning goes on during the edits, or the cache is
//! damaged or open to other users. At the end, many starts run at once. [`tree`] has the tree, [`edit`]
//! the edits, [`scene`] the starts, and [`compare`] the comparison of their outputs.

mod compare;
mod edit;
mod scene;
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fastrand::Rng;

use self::edit::Editor;
use self::scene::{Ended, Scene};
use crate::command::given_or_beside;
use crate::tally::Counts;
use crate::user::is_root;

/// Names the scene's folder in the process that sees the mount.
const INSIDE: &str = "BECALM_TREES_TRIAL_INSIDE";
/// Starts before the first edit.
const LEARNED: usize = 4;
/// Starts that run at once.
const AT_ONCE: usize = 20;
/// Starts whose differences are printed.
const PRINTED: usize = 10;
/// Rounds with the same list.
const LISTED: usize = 40;
/// Most edits between two starts.
const MOST: usize = 20;
/// Rounds between two lines of progress.
const SHOWN: usize = 25;

/// Options of the trial.
#[derive(Args)]
pub struct Options {
    /// Number of edits
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    edits: usize,
    /// The becalm to try [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    becalm: Option<PathBuf>,
    /// The lab, for its FUSE file system [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    lab: Option<PathBuf>,
    /// Seed of the tree, of the edits and of what goes wrong. Programs with an even one call the
    /// functions for large files (open64 and so on)
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Events of a round, next to its edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Nothing more. Learning is waited for before the next edits.
    Calm,
    /// The next edits are made while a process may still learn.
    Hurry,
    /// The program that is compared is started by one that becalm has started before the edits.
    Child,
    /// Processes of becalm are killed during a start before the one that is compared.
    KilledStart,
    /// Processes that learn are killed after the start.
    KilledLearning,
    /// Files of the cache are deleted and truncated.
    Damage,
    /// Other users can write to the cache.
    OpenCache,
}

/// The events, each with its number of rounds in sixty.
const EVENTS: [(Event, usize); 7] = [
    (Event::Hurry, 15),
    (Event::KilledStart, 3),
    (Event::KilledLearning, 3),
    (Event::Damage, 2),
    (Event::OpenCache, 1),
    (Event::Child, 15),
    (Event::Calm, 21),
];

/// Runs the trial. Returns false if an answer was stale, or if nothing was answered.
///
/// # Errors
/// Returns an error if the trial cannot be set up, or if an edit or a plain start fails.
pub fn run(options: &Options) -> Result<bool> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return Trial::new(options, Path::new(&folder))?.run();
    }
    ensure!(is_root(), "only root can mount a file system for all processes of the trial");
    let becalm = given_or_beside(options.becalm.as_deref(), "becalm")?;
    let lab = given_or_beside(options.lab.as_deref(), "lab")?;
    let scratch = tempfile::Builder::new().prefix("trees-trial-").tempdir_in("/var/tmp")?;
    let folder = scratch.path().canonicalize()?;
    Scene::of(&folder).prepare(&becalm, options.seed.is_multiple_of(2))?;
    // The mount is seen by the trial alone, and ends with its last process.
    let mut inside = Command::new(lab);
    inside.args(["slowfs", "--delay-us", "0", "--forgetful", "--writable"]);
    inside.args(["source", "mount"].map(|name| folder.join(name)));
    inside
        .arg("--")
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, &folder);
    let status = inside.status().context("lab slowfs")?;
    // Errors of the process inside were printed by it.
    Ok(status.success())
}

/// Edits of one round that may fail.
const MOST_FAILED: usize = 20;

struct Trial {
    scene: Scene,
    editor: Editor,
    rng: Rng,
    wanted: usize,
    /// Of them `answered` are starts that were answered, `children` the programs of a start that were answered
    /// too, `differing` starts with a stale line, and `left` locks that no process removed.
    counts: Counts,
}

impl Trial {
    /// Makes the tree and the list below the mount that exists already.
    fn new(options: &Options, folder: &Path) -> Result<Self> {
        let (scene, mut rng) = (Scene::of(folder), Rng::with_seed(options.seed));
        let (source, mount) = (scene.at("source"), scene.at("mount"));
        fs::write(scene.at("outside"), "outside")?;
        tree::make(&source, &mount, &scene.at("outside"), &mut rng)?;
        edit::age(&source, true, &mut rng)?;
        let (outside, listed) = (scene.at("outside"), Vec::new());
        let editor = Editor { source, mount, outside, listed, swapped: None, recent: Vec::new() };
        let wanted = options.edits;
        let mut trial = Self { scene, editor, rng, wanted, counts: Counts::default() };
        trial.list()?;
        Ok(trial)
    }

    /// Lists the paths that exist now, and others that do not.
    fn list(&mut self) -> Result<()> {
        self.editor.listed = tree::listed(&self.editor.source, &mut self.rng)?;
        let list = tree::list(&self.editor.listed, &self.editor.mount, &mut self.rng);
        Ok(fs::write(self.scene.at("list"), list)?)
    }

    fn run(mut self) -> Result<bool> {
        let before = self.scene.calls(true)?;
        for _ in 0..LEARNED {
            self.compared_start("a start before the first edit", &[])?;
            self.learned()?;
        }
        let after = self.scene.calls(false)?;
        self.learned()?;
        println!("calls of the program below the mount: {before} plain, {after} after learning");
        let draws: Vec<Event> = EVENTS.iter().flat_map(|it| vec![it.0; it.1]).collect();
        let mut seen = BTreeSet::new();
        while self.counts.get("edits") < self.wanted {
            let event = *tree::choice(&draws, &mut self.rng);
            seen.insert(event);
            self.round(event)?;
            if self.counts.get("rounds").is_multiple_of(SHOWN) {
                self.print(&format!("round {}", self.counts.get("rounds")));
            }
            if self.counts.get("rounds").is_multiple_of(LISTED) {
                self.list()?;
            }
        }
        // Each event at least once, however few the edits are.
        for (event, _) in EVENTS {
            if seen.insert(event) {
                self.round(event)?;
            }
        }
        self.at_once()?;
        self.print("all");
        if after >= before {
            println!("nothing was answered");
        } else if self.counts.get("answered") == 0 {
            println!("no start has a line `trees 0 served` in its log");
        }
        let is_answered = after < before && self.counts.get("answered") > 0;
        let is_clean = self.counts.get("stale") + self.counts.get("failed") == 0;
        Ok(is_clean && is_answered)
    }

    fn print(&self, what: &str) {
        let names = "edits starts answered children lines stale differing failed killed left";
        let counts = names.split(' ').map(|name| format!("{} {name}", self.counts.get(name)));
        let exists = |path: &&PathBuf| self.editor.source.join(path).symlink_metadata().is_ok();
        let there = self.editor.listed.iter().filter(exists).count();
        let counts = counts.collect::<Vec<_>>().join(", ");
        println!("{what}: {counts}; {there} of {} paths exist", self.editor.listed.len());
    }

    /// Makes edits, lets something happen, and compares a start.
    fn round(&mut self, event: Event) -> Result<()> {
        self.counts.add("rounds", 1);
        let what = format!("round {}, {event:?}", self.counts.get("rounds"));
        let count = self.rng.usize(1..=MOST);
        let parent = (event == Event::Child).then(|| self.scene.start_of_child()).transpose()?;
        if parent.is_some() {
            self.pause();
        }
        let edits = self.edits(count).with_context(|| what.clone())?;
        if let Some(parent) = parent {
            let ended = self.scene.wait(parent)?;
            let plain = self.scene.plain()?;
            self.counts.add("children", usize::from(ended.is_child_answered));
            self.compare(&what, &edits, &plain, &ended)?;
        }
        match event {
            Event::Calm | Event::KilledLearning => {
                self.compared_start(&what, &edits)?;
            }
            Event::Child => {}
            Event::Hurry => {
                // Plainly first, so that the next edits begin when learning does.
                let plain = self.scene.plain()?;
                let ended = self.scene.wait(self.scene.start("becalm")?)?;
                self.compare(&what, &edits, &plain, &ended)?;
            }
            Event::KilledStart => {
                self.killed_start(&what, &edits)?;
                self.compared_start(&what, &edits)?;
            }
            Event::Damage => {
                self.learned()?;
                let count = self.scene.damage_copies(&mut self.rng)?;
                println!("{what}: {count} files of the cache deleted or truncated");
                self.compared_start(&what, &edits)?;
            }
            Event::OpenCache => {
                self.learned()?;
                let count = self.scene.open_copies(&mut self.rng)?;
                let served = self.compared_start(&what, &edits)?;
                println!("{what}: {count} copies changed, {served} paths served");
            }
        }
        match event {
            Event::Hurry => {}
            Event::KilledLearning => {
                self.pause();
                self.counts.add("killed", self.scene.kill());
            }
            _ => self.learned()?,
        }
        if event == Event::OpenCache {
            self.scene.renew_copies()?;
        }
        Ok(())
    }

    fn edits(&mut self, count: usize) -> Result<Vec<String>> {
        let (mut edits, mut failed) = (Vec::new(), 0);
        while edits.len() < count {
            match self.editor.edit(&mut self.rng) {
                Ok(edit) => edits.push(edit),
                // An edit through the mount below a directory that was moved in the source (ESTALE, as NFS has it
                // too) leaves half of its work, which is in the way of others.
                Err(error) if failed == MOST_FAILED => return Err(error),
                Err(_) => failed += 1,
            }
        }
        self.counts.add("edits", count);
        edit::age(&self.editor.source, false, &mut self.rng)?;
        Ok(edits)
    }

    /// Starts by becalm and plainly, and compares. Returns the number of paths that were served.
    fn compared_start(&mut self, what: &str, edits: &[String]) -> Result<u64> {
        let ended = self.scene.wait(self.scene.start("becalm")?)?;
        let plain = self.scene.plain()?;
        self.compare(what, edits, &plain, &ended)?;
        Ok(ended.served)
    }

    /// Kills the processes of becalm during a start. If the start ends in spite of it, it is compared.
    fn killed_start(&mut self, what: &str, edits: &[String]) -> Result<()> {
        let started = self.scene.start("killed")?;
        self.pause();
        self.counts.add("killed", self.scene.kill());
        let ended = self.scene.wait(started)?;
        if !ended.is_killed {
            let plain = self.scene.plain()?;
            self.compare(&format!("{what}, a start during a kill"), edits, &plain, &ended)?;
        }
        Ok(())
    }

    /// Waits for up to a tenth of a second; mostly for less.
    fn pause(&mut self) {
        let most = *tree::choice(&[1_000, 10_000, 100_000], &mut self.rng);
        sleep(Duration::from_micros(self.rng.u64(..most)));
    }

    fn learned(&mut self) -> Result<()> {
        self.counts.add("left", usize::from(self.scene.learned()?));
        Ok(())
    }

    /// Counts a start, and prints the lines that differ from those of a plain one.
    fn compare(&mut self, what: &str, edits: &[String], plain: &[u8], ended: &Ended) -> Result<()> {
        self.counts.add("starts", 1);
        self.counts.add("answered", usize::from(ended.served > 0));
        if let Some(failure) = &ended.failure {
            self.counts.add("failed", 1);
            println!("{what}: the start fails: {failure}");
        }
        let (lines, differences) = compare::differences(plain, &ended.output);
        self.counts.add("lines", lines);
        if differences.is_empty() {
            return Ok(());
        }
        self.counts.add("stale", differences.len());
        self.counts.add("differing", 1);
        if self.counts.get("differing") > PRINTED {
            return Ok(());
        }
        compare::print(what, &differences);
        edits.iter().for_each(|edit| println!("  after: {edit}"));
        let again = self.scene.plain()?;
        let (_, own) = compare::differences(plain, &again);
        if !own.is_empty() {
            compare::print("another plain start, beside the first", &own);
        }
        Ok(())
    }

    /// Compares starts that run at once after some edits.
    fn at_once(&mut self) -> Result<()> {
        let edits = self.edits(MOST)?;
        let started = (0..AT_ONCE).map(|number| self.scene.start(&number.to_string()));
        let started = started.collect::<Result<Vec<_>>>()?;
        let ended = started.into_iter().map(|one| self.scene.wait(one));
        let ended = ended.collect::<Result<Vec<_>>>()?;
        let plain = self.scene.plain()?;
        for (number, ended) in ended.iter().enumerate() {
            self.compare(&format!("start {number} of {AT_ONCE} at once"), &edits, &plain, ended)?;
        }
        self.learned()?;
        self.compared_start("the start after those at once", &edits)?;
        Ok(())
    }
}
