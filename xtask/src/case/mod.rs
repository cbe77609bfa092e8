//! Runs one folder of `tests/cases/`: builds it, starts it under the real loader, predicts the
//! start and compares.
//!
//! `build.sh` makes the fixture (its functions are in `tests/cases/lib.sh`). `case.json`
//! ([`Description`]) has the start and the expected result. The expected result is compared with
//! the real loader alone, so a case that no longer shows its rule fails even if model and loader
//! agree.

mod bindings;
mod build;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becalm_core::probe::{Attempt, Call, Outcome};
use becalm_core::record::compare::candidates;
use becalm_testing::oracle::{Launch, LdDebug, Start, User, ld_debug};
use becalm_testing::strace::strace;
use bstr::{BStr, BString, ByteSlice};
use serde::Deserialize;

use crate::difference::{describe, describe_attempt, with_ld_debug, with_strace};
use crate::predict::{Prediction, Request};
use crate::trace_differential::run::reachable;
use crate::user::is_root;

const GLIBC_LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
const MUSL_LOADER: &str = "/lib/ld-musl-x86_64.so.1";

/// The content of `case.json`. In strings, `{out}` is the directory of the built fixture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The rule, in a sentence.
    pub rule: String,
    /// The object to start, relative to the fixture's directory.
    pub object: String,
    /// The whole environment.
    #[serde(default)]
    pub env: std::collections::BTreeMap<String, String>,
    /// The current directory, relative to the fixture's.
    pub dir: Option<String>,
    /// The method of starting it.
    #[serde(default)]
    pub way: CaseWay,
    /// The C library.
    #[serde(default)]
    pub libc: CaseLibc,
    /// Run as this user (`nobody`).
    pub user: Option<String>,
    /// True if the program is set-user-id and started by another user.
    #[serde(default)]
    pub secure: bool,
    /// True if the fixture's directory is the root.
    #[serde(default)]
    pub root: bool,
    /// True if the case needs root.
    #[serde(default)]
    pub needs_root: bool,
    /// The records to compare with, if not both can show the rule.
    #[serde(default = "both")]
    pub records: Vec<Record>,
    /// Dynamic tags to change after the build.
    #[serde(default)]
    pub retag: Vec<Retag>,
    /// The files below the fixture's directory that the loader finds, in order.
    pub loaded: Option<Vec<String>>,
    /// The last glibc 2.x for which `loaded` is valid.
    pub loaded_until: Option<u32>,
    /// The needed strings that the loader reports as not found, each once.
    pub missing: Option<Vec<String>>,
    /// The definitions that symbols bind to. The start is then compared slot by slot as well.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Symbols that nothing defines, so that the start fails.
    #[serde(default)]
    pub undefined: Vec<String>,
}

/// The definition that one relocation binds to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// The object that has the relocation, below the directory of the fixture.
    pub object: String,
    /// The symbol.
    pub symbol: String,
    /// The kind of the relocation (`glob_dat`, `jump_slot`, …); any if it is missing.
    pub kind: Option<String>,
    /// The object that defines it; none for a weak reference that nothing defines.
    pub definer: Option<String>,
}

/// The method of starting, as a case names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseWay {
    /// [`Launch::Trace`].
    #[default]
    Trace,
    /// [`Launch::TraceBy`]; for musl [`Launch::List`].
    List,
    /// [`Launch::Execute`].
    Execute,
}

/// The C library of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseLibc {
    /// This machine's glibc.
    #[default]
    Glibc,
    /// This machine's musl.
    Musl,
}

/// A record of a real start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// `LD_DEBUG=libs,files`.
    LdDebug,
    /// `strace`.
    Strace,
}

fn both() -> Vec<Record> {
    vec![Record::LdDebug, Record::Strace]
}

/// A change of a dynamic tag to a value that no linker writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retag {
    /// The object.
    pub file: String,
    /// The old tag.
    pub from: u64,
    /// The new tag.
    pub to: u64,
}

/// Options of the chore.
#[derive(clap::Args)]
pub struct Options {
    /// Folder of the case.
    folder: PathBuf,
}

/// Builds one case and prints the loader's probes and the model's. Returns false if they differ.
///
/// # Errors
/// Returns the errors of [`Case::read`] and [`Case::run`].
pub fn run(options: &Options) -> Result<bool> {
    let (_folder, xtask) = reachable(&std::env::current_exe()?)?;
    let case = Case::read(&options.folder)?;
    let report = case.run(&xtask)?;
    print!("{}: {}\n{}", report.name, case.description.rule, report.probes);
    report.failures.iter().for_each(|failure| println!("  FAILED {failure}"));
    Ok(report.failures.is_empty())
}

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The rule's name.
    pub name: String,
    /// The model's probes and those of each record, a line each.
    pub probes: String,
    /// All errors; empty if everything agrees.
    pub failures: Vec<String>,
}

impl Report {
    fn list(&mut self, title: &str, probes: impl Iterator<Item = String>) {
        self.probes += &format!("  {title}\n");
        self.probes.extend(probes.map(|probe| format!("    {probe}\n")));
    }
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its folder.
    pub folder: PathBuf,
    /// Its description.
    pub description: Description,
}

impl Case {
    /// Reads a case from its folder.
    ///
    /// # Errors
    /// Returns an error if `case.json` is missing or is not a valid [`Description`].
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join("case.json");
        let text = fs::read(&file).with_context(|| file.display().to_string())?;
        let description =
            serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        Ok(Case { folder: folder.to_owned(), description })
    }

    /// Returns the rule's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Returns the reason why the case cannot run on this machine, if there is one.
    #[must_use]
    pub fn lacks(&self) -> Option<String> {
        let d = &self.description;
        let mut tools = vec!["/usr/bin/gcc", "/usr/bin/as", "/usr/bin/ld"];
        if d.records.contains(&Record::Strace) {
            tools.push("/usr/bin/strace");
        }
        match d.libc {
            CaseLibc::Glibc => tools.push(GLIBC_LOADER),
            CaseLibc::Musl => tools.extend(["/usr/bin/musl-gcc", MUSL_LOADER]),
        }
        if let Some(tool) = tools.into_iter().find(|tool| !Path::new(tool).exists()) {
            return Some(format!("{tool} is not there"));
        }
        let wants_root = d.user.is_some() || d.secure || d.root || d.needs_root;
        (wants_root && !is_root()).then(|| "needs root".to_owned())
    }

    /// Builds, starts, predicts and compares. `xtask` is the program that predicts, at a path that
    /// every user can reach ([`reachable`]).
    ///
    /// # Errors
    /// Returns an error if the fixture cannot be built or started. Differences are in
    /// [`Report::failures`].
    pub fn run(&self, xtask: &Path) -> Result<Report> {
        let scratch = tempfile::tempdir()?;
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755))?;
        let out = scratch.path().join("out");
        build::fixture(self, scratch.path(), &out)?;
        let start = self.start(&out);
        let user = start.user.as_ref().filter(|_| !self.description.secure);
        let request = Request { secure: self.description.secure, ..Request::of(&start) };
        let prediction = request.ask(xtask, start.dir.as_deref(), user);
        let mut report = self.compare(&out, &start, prediction)?;
        if !self.description.binds.is_empty() || !self.description.undefined.is_empty() {
            report.failures.extend(bindings::compare(self, scratch.path(), &out)?);
        }
        Ok(report)
    }

    fn expand(&self, text: &str, out: &Path) -> String {
        text.replace("{out}", &out.to_string_lossy())
    }

    fn start(&self, out: &Path) -> Start {
        let d = &self.description;
        let base = if d.root { Path::new("/") } else { out };
        let loader = match d.libc {
            CaseLibc::Glibc => GLIBC_LOADER,
            CaseLibc::Musl => MUSL_LOADER,
        };
        let way = match d.way {
            _ if d.secure => Launch::Execute,
            CaseWay::Trace => Launch::Trace,
            CaseWay::List if d.libc == CaseLibc::Glibc => Launch::TraceBy { loader: loader.into() },
            CaseWay::List => Launch::List { loader: loader.into() },
            CaseWay::Execute => Launch::Execute,
        };
        let mut start = Start::new(base.join(&d.object), way);
        for (name, value) in &d.env {
            start = start.env(name, self.expand(value, out));
        }
        start.root = d.root.then(|| out.to_owned());
        start.dir = d.dir.as_ref().map(|dir| out.join(dir));
        start.user = (d.secure || d.user.is_some()).then(User::nobody);
        start
    }

    fn compare(&self, out: &Path, start: &Start, prediction: Result<Prediction>) -> Result<Report> {
        let d = &self.description;
        let mut report = Report { name: self.name(), ..Report::default() };
        let failed = |error| report.failures.push(format!("{error:#}"));
        let predicted = prediction.map_err(failed).ok();
        let probes = predicted.as_ref().map_or(&[][..], |predicted| &predicted.probes);
        report.list("predicted", probes.iter().map(describe));
        let mut found: Vec<BString> = Vec::new();
        if d.records.contains(&Record::Strace) {
            let cache = (d.libc == CaseLibc::Glibc).then_some(BStr::new("/etc/ld.so.cache"));
            let own = start.named_loader().map(|_| start.object.as_os_str().as_encoded_bytes());
            let seen = strace(start)?.attempts();
            let seen = candidates(seen, cache, own.map(BStr::new));
            let is_opened = |a: &&Attempt| a.call == Call::Open && a.outcome == Outcome::Hit;
            found = seen.iter().filter(is_opened).map(|a| a.path.clone()).collect();
            if let Some(predicted) = &predicted {
                let difference = with_strace(&predicted.probes, &seen);
                report.failures.extend(difference.map(|d| format!("strace: {d}")));
            }
            report.list("strace", seen.iter().map(describe_attempt));
        }
        if d.records.contains(&Record::LdDebug) && !d.secure {
            let said = ld_debug(start)?;
            let hits = said.probes.iter().filter(|p| p.outcome == Outcome::Hit);
            found = hits.map(|p| p.path.clone()).collect();
            self.check_missing(&said, out, &mut report);
            if let Some(predicted) = &predicted {
                let difference = with_ld_debug(&predicted.probes, &said.probes);
                report.failures.extend(difference.map(|d| format!("LD_DEBUG: {d}")));
            }
            report.list("LD_DEBUG", said.probes.iter().map(describe));
        }
        let libc = predicted.as_ref().map(|predicted| predicted.libc.as_str());
        self.check_loaded(&found, libc, out, &mut report);
        Ok(report)
    }

    fn check_missing(&self, said: &LdDebug, out: &Path, report: &mut Report) {
        let Some(expected) = &self.description.missing else { return };
        let expected: Vec<BString> =
            expected.iter().map(|name| BString::from(self.expand(name, out))).collect();
        let mut missing = said.missing.clone();
        missing.dedup();
        if missing != expected {
            report.failures.push(format!("the loader misses {missing:?}, not {expected:?}"));
        }
    }

    fn check_loaded(&self, found: &[BString], libc: Option<&str>, out: &Path, report: &mut Report) {
        let d = &self.description;
        let Some(expected) = &d.loaded else { return };
        let minor = libc.and_then(|libc| libc.strip_prefix("glibc-2.")?.parse::<u32>().ok());
        if d.loaded_until.is_some_and(|last| minor.is_none_or(|now| now > last)) {
            return;
        }
        let below = |path: &BString| {
            if d.root {
                return (!path.ends_with(b"/libc.so.6")).then(|| path.clone());
            }
            let rest = path.strip_prefix(out.as_os_str().as_encoded_bytes())?;
            rest.strip_prefix(b"/").map(BString::from)
        };
        let found: Vec<BString> = found.iter().filter_map(below).collect();
        if found.iter().map(|path| path.as_bstr()).ne(expected.iter().map(BStr::new)) {
            report.failures.push(format!("the loader finds {found:?}, not {expected:?}"));
        }
    }
}
