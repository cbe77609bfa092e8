//! Runs Python in the environment: traced, and to read its mapped files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use becalm_core::cost::SearchCost;
use becalm_core::observe::tally::Missed;
use serde::Deserialize;
use serde_json::Value;

use super::text;
use crate::command::{is_done_within, output};

/// The arguments of a start with the index that plain `becalm run` makes.
pub(super) const RUN: &[&str] = &["run", "--"];
/// Time limit for making an index.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Python in an environment.
pub(super) struct Python {
    becalm: PathBuf,
    python: PathBuf,
    /// An index of the environment and its Python.
    pub(super) index: PathBuf,
    /// Home of the user; becalm's own indexes are below it.
    home: PathBuf,
    record: PathBuf,
}

/// Misses and mapped files of one statement.
pub(super) struct Counted {
    /// Misses before the entry point.
    pub(super) start: u64,
    /// Misses of `dlopen`.
    pub(super) dlopen: u64,
    /// Misses of `dlopen` for names that were not found.
    pub(super) not_found: u64,
    /// The missing names.
    pub(super) missing: BTreeSet<String>,
    /// Mapped files.
    pub(super) mapped: BTreeSet<String>,
}

impl Counted {
    /// Returns the misses for names that were found.
    pub(super) fn found(&self) -> u64 {
        self.start + self.dlopen - self.not_found
    }
}

impl Python {
    /// Indexes the environment with this becalm, and the prefix of its Python unless that is
    /// `/usr`.
    pub(super) fn new(becalm: &Path, venv: &Path, folder: &Path) -> Result<Self> {
        let home = folder.join("home");
        if home.exists() {
            fs::remove_dir_all(&home).with_context(|| home.display().to_string())?;
        }
        fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
        let python = Self {
            becalm: becalm.canonicalize().with_context(|| becalm.display().to_string())?,
            python: venv.join("bin/python"),
            index: folder.join("index.so"),
            home,
            record: folder.join("record.json"),
        };
        let prefix = python.prefix()?;
        let mut line =
            vec![text(&python.becalm)?, "index", "-o", text(&python.index)?, text(venv)?];
        // Debian's Python and its extension modules have no run paths.
        line.extend((prefix != "/usr").then_some(prefix.as_str()));
        python.ran(&line)?;
        Ok(python)
    }

    /// Returns the prefix of the Python from which the environment was made.
    fn prefix(&self) -> Result<String> {
        let line = [text(&self.python)?, "-c", "import sys; print(sys.base_prefix, end='')"];
        Ok(String::from_utf8(self.ran(&line)?.stdout)?)
    }

    /// Runs a statement by becalm with these arguments, or plainly without any, twice: traced, and to read its
    /// mapped files.
    pub(super) fn counted(&self, statement: &str, by: &[&str]) -> Result<Counted> {
        let mut before = Vec::new();
        before.extend((!by.is_empty()).then_some(text(&self.becalm)?));
        before.extend(by);
        // At the first start becalm makes an index, and Python writes its compiled files.
        self.mapped(statement, &before)?;
        if by == RUN {
            self.wait_for_index()?;
        }
        let mapped = self.mapped(statement, &before)?;
        let mut line =
            vec![text(&self.becalm)?, "trace", "--json", "-o", text(&self.record)?, "--"];
        line.extend(before);
        line.extend([text(&self.python)?, "-c", statement]);
        self.ran(&line)?;
        let record: Value = serde_json::from_slice(&fs::read(&self.record)?)?;
        ensure!(record["opens_alone"] == false, "nothing can be traced here");
        let image = record["images"].as_array().and_then(|images| images.last());
        counted(image.context("no image in the record")?, mapped)
    }

    /// Waits until the process that makes the index for plain `becalm run` has ended.
    fn wait_for_index(&self) -> Result<()> {
        let folder = self.home.join(".cache/becalm/programs");
        let is_made = || {
            let entries = folder.read_dir().into_iter().flatten().flatten();
            let names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            let has = |ending| names.iter().any(|it| it.extension().is_some_and(|e| e == ending));
            has("so") && !has("lock")
        };
        ensure!(is_done_within(TIME_LIMIT, is_made), "no index in {}", folder.display());
        Ok(())
    }

    /// Returns the files that a statement has mapped, without becalm's own.
    fn mapped(&self, statement: &str, before: &[&str]) -> Result<BTreeSet<String>> {
        let statement =
            format!("{statement}\nfor line in open('/proc/self/maps'): print(line, end='')");
        let output = self.ran(&[before, &[text(&self.python)?, "-c", &statement]].concat())?;
        let maps = String::from_utf8_lossy(&output.stdout);
        let paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
        let ours = |path: &&str| {
            !path.starts_with(&*self.home.to_string_lossy())
                && !path.starts_with(&*self.index.to_string_lossy())
        };
        Ok(paths.filter(ours).map(str::to_owned).collect())
    }

    fn ran(&self, line: &[&str]) -> Result<Output> {
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).env("HOME", &self.home).env("QT_QPA_PLATFORM", "offscreen");
        for variable in
            ["XDG_CACHE_HOME", "XDG_DATA_HOME", "LD_AUDIT", "LD_LIBRARY_PATH", "PYTHONPATH"]
        {
            command.env_remove(variable);
        }
        output(&mut command)
    }
}

/// Reads the counts of one image of a record.
fn counted(image: &Value, mapped: BTreeSet<String>) -> Result<Counted> {
    let opened = &image["dlopen"];
    let missed = Missed::deserialize(&opened["missed"])?;
    let dlopen = missed.opens + missed.stats;
    let found_misses = opened["found_misses"].as_u64().context("no found_misses")?;
    let needed = opened["needed"].as_array().context("no needed strings")?.iter();
    let missing = needed.filter(|needed| needed["found"] == false);
    Ok(Counted {
        start: SearchCost::deserialize(&image["storm"])?.misses(),
        dlopen,
        not_found: dlopen - found_misses,
        missing: missing.filter_map(|needed| Some(needed["name"].as_str()?.to_owned())).collect(),
        mapped,
    })
}
