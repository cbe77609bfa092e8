//! One start: predicted, made, compared.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use becalm_core::closure::{Closure, Subject, resolve};
use becalm_core::elf::Words;
use becalm_core::loader::{Environment, Libc};
use becalm_core::symbols::{BindOptions, Bindings, bind};
use becalm_host::{FactChoice, OsSymbols, loader_facts};
use bstr::BStr;

use super::compare::{Compared, compare};
use super::lookups;
use super::recorder::{PATIENCE, Recording};
use crate::differential::candidates::{Object, Place};

/// The user nobody: a program that is not stopped by the recorder can do no harm.
const NOBODY: u32 = 65534;
/// The environment of each start, beside `LD_AUDIT`. An audit module takes from the static TLS that
/// libraries may have beyond what they ask for, so it is made larger.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("LD_BIND_NOW", "1"),
    ("LD_DEBUG", "bindings"),
    ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=16384"),
];
/// Where the folder of the recorders is seen inside another root.
const INSIDE: &str = "/tmp";

/// One program to start.
pub(super) struct Trial<'a> {
    pub(super) place: &'a Place,
    pub(super) symbols: &'a OsSymbols<'a>,
    pub(super) object: &'a Object,
    /// The recorder of its machine.
    pub(super) recorder: &'a Path,
}

/// What came of a trial.
pub(super) enum Verdict {
    /// The start was recorded.
    Recorded { libc: String, compared: Compared, differences: Vec<String> },
    /// The start was predicted to fail, and did.
    Failed { libc: String },
    /// There is nothing to compare, by this reason.
    NotRun(String),
}

impl Trial<'_> {
    /// Predicts, starts, compares.
    pub(super) fn run(&self) -> Verdict {
        self.verdict().unwrap_or_else(|error| Verdict::NotRun(format!("{error:#}")))
    }

    fn verdict(&self) -> Result<Verdict> {
        let closure = self.closure()?;
        let Some(Libc::Glibc(version)) = closure.facts.as_ref().map(|facts| facts.libc) else {
            return Ok(Verdict::NotRun("not glibc".to_owned()));
        };
        let libc = Libc::Glibc(version);
        let options = BindOptions { bind_now: true, ..BindOptions::default() };
        let bindings = bind(&closure.load, libc, self.symbols, options)?;
        let ident = closure.subject.view.ident;
        let words = Words { class: ident.class, endian: ident.endian };
        let fails = starts_in_vain(&closure, &bindings);
        let (socket, theirs) = UnixStream::pair()?;
        let mut said = tempfile::tempfile()?;
        let mut child = self.start(theirs, said.try_clone()?)?;
        let recording = Recording::open(socket, words);
        let compared = match recording {
            Ok(Some(mut recording)) => {
                let outcome = compare(&closure.load, &bindings, words, &mut recording);
                let _ = recording.close();
                outcome.map(Some)
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        end(&mut child)?;
        let compared = match compared? {
            Some(mut outcome) => {
                let mut text = Vec::new();
                said.rewind()?;
                said.read_to_end(&mut text)?;
                let program = BStr::new(self.object.path.as_os_str().as_bytes());
                let (count, lines) = lookups::compare(&closure.load, &bindings, program, &text);
                outcome.compared.lookups = count;
                outcome.differences.extend(lines);
                Some(outcome)
            }
            None => None,
        };
        let libc = libc.to_string();
        Ok(match (compared, fails) {
            (None, true) => Verdict::Failed { libc },
            (None, false) => {
                let said = "it ends before it is relocated".to_owned();
                Verdict::Recorded { libc, compared: Compared::default(), differences: vec![said] }
            }
            (Some(mut outcome), fails) => {
                if fails {
                    outcome.differences.push("it starts, although something is missing".to_owned());
                }
                let (compared, differences) = (outcome.compared, outcome.differences);
                Verdict::Recorded { libc, compared, differences }
            }
        })
    }

    fn closure(&self) -> Result<Closure> {
        let session = self.place.fs.session();
        let path = BStr::new(self.object.path.as_os_str().as_bytes());
        let subject = Subject::open(&session, path)?;
        let loader = BStr::new(self.object.loader.as_os_str().as_bytes());
        let facts = match self.place.facts_of(&self.object.loader) {
            Some(facts) => facts.clone().into(),
            None => loader_facts(&self.place.fs, loader, &FactChoice::default())?,
        };
        Ok(resolve(&session, subject, loader, facts, &Environment::default())?)
    }

    /// Starts the program; what the loader says goes to `said`.
    fn start(&self, channel: UnixStream, said: File) -> Result<Child> {
        let mut command = match &self.place.root {
            None => self.direct(),
            Some(root) => self.inside(root)?,
        };
        command
            .stdin(Stdio::from(OwnedFd::from(channel)))
            .stdout(Stdio::null())
            .stderr(Stdio::from(said))
            .process_group(0);
        command.spawn().with_context(|| format!("{command:?}"))
    }

    fn direct(&self) -> Command {
        let mut command = Command::new(&self.object.path);
        command.arg("--version").env_clear().current_dir("/");
        command.env("LD_AUDIT", self.recorder).envs(ENVIRONMENT);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// In a mount namespace of its own, in which the recorder lies inside the root.
    fn inside(&self, root: &Path) -> Result<Command> {
        let name = self.recorder.file_name().context("the recorder has no name")?;
        let folder = self.recorder.parent().context("the recorder has no folder")?;
        let recorder = Path::new(INSIDE).join(name);
        let script = "mount --bind \"$1\" \"$2$3\" && shift 2 && shift && exec \"$@\"";
        let mut command = Command::new("/usr/bin/unshare");
        command.args(["--mount", "sh", "-c", script, "start"]).args([folder, root]).arg(INSIDE);
        command.args(["/usr/sbin/chroot", "--userspec=65534:65534"]).arg(root);
        let assignment = |name: &str, value: &Path| {
            let mut text = std::ffi::OsString::from(format!("{name}="));
            text.push(value);
            text
        };
        let mut variables = vec![assignment("LD_AUDIT", &recorder)];
        variables.extend(ENVIRONMENT.map(|(name, value)| assignment(name, Path::new(value))));
        match &self.place.emulator {
            Some(emulator) => {
                command.arg(emulator);
                for variable in variables {
                    command.arg("-E").arg(variable);
                }
            }
            None => {
                command.args(["/usr/bin/env", "-i"]).args(variables);
            }
        }
        command.arg(&self.object.path).arg("--version");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        if let Some((name, value)) = self.place.emulated_cpu() {
            command.env(name, value);
        }
        Ok(command)
    }
}

/// True if the loader is predicted to end the start: a library, a version or a symbol is missing.
fn starts_in_vain(closure: &Closure, bindings: &Bindings) -> bool {
    let missing_version = bindings.missing_versions.iter().any(|missing| !missing.weak);
    !closure.unresolved().is_empty()
        || closure.fatal().is_some()
        || missing_version
        || bindings.undefined().next().is_some()
}

/// Waits for the process group, which has read the end of its input by now, and ends it if it
/// does not end by itself.
fn end(child: &mut Child) -> Result<()> {
    let ended = becalm_host::child::ends_within(child, PATIENCE)?;
    if !ended {
        child.kill()?;
    }
    child.wait()?;
    Ok(())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|status| status.uid() == 0)
}

/// A program with file capabilities starts in secure-execution mode, in which the loader ignores
/// the recorder, and the program would run.
pub(super) fn has_capabilities(path: &PathBuf) -> bool {
    let mut none = [0_u8; 0];
    match rustix::fs::getxattr(path, "security.capability", &mut none[..]) {
        Ok(size) => size > 0,
        Err(error) => !matches!(error, rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP),
    }
}
