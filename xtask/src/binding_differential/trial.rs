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

use anyhow::{Context, Result, ensure};
use becalm_core::closure::Closure;
use becalm_core::loader::Libc;
use becalm_core::symbols::{BindOptions, Bindings, bind};
use becalm_host::child::status_within;
use bstr::BStr;

use super::compare::{Outcome, compare};
use super::lookups;
use super::recorder::{PATIENCE, Recording};
use crate::differential::candidates::{Object, Place};
use crate::predict::Request;
use crate::tally::Counts;
use crate::user::{NOBODY, is_root};

/// The environment of each start, besides `LD_AUDIT`. An audit module takes some of the surplus of
/// static TLS from the libraries, so the surplus is increased.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("LD_BIND_NOW", "1"),
    ("LD_DEBUG", "bindings"),
    ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=16384"),
];
/// Path of the folder of the recorders inside another root.
const INSIDE: &str = "/tmp";

/// One program to start.
pub(crate) struct Trial<'a> {
    pub(crate) place: &'a Place,
    pub(crate) object: &'a Object,
    /// The recorder of its machine.
    pub(crate) recorder: &'a Path,
    /// Variables of its environment that a loader obeys; only outside other roots.
    pub(crate) env: &'a [(String, String)],
}

/// The prediction for one start.
pub(crate) struct Prediction {
    pub(crate) closure: Closure,
    libc: Libc,
    pub(crate) bindings: Bindings,
}

/// The result of a trial.
pub(crate) struct Verdict {
    pub(crate) libc: String,
    pub(crate) compared: Counts,
    pub(crate) differences: Vec<String>,
    /// The start was predicted to fail, and did.
    pub(crate) fails: bool,
}

impl Prediction {
    /// Returns true if the start is predicted to fail, because a library, a version or a symbol is
    /// missing.
    fn fails(&self) -> bool {
        let missing_version = self.bindings.missing_versions.iter().any(|missing| !missing.weak);
        !self.closure.unresolved().is_empty()
            || self.closure.fatal().is_some()
            || missing_version
            || self.bindings.undefined().next().is_some()
    }
}

impl Trial<'_> {
    /// Predicts the bindings of a start that binds everything at once.
    pub(crate) fn predict(&self) -> Result<Prediction> {
        let request = Request {
            object: self.object.path.clone(),
            loader: Some(self.object.loader.clone()),
            env: self.env.to_vec(),
            ..Request::default()
        };
        let facts = self.place.facts_of(&self.object.loader);
        let closure = request.closure(&self.place.fs, facts)?;
        let libc = closure.facts.as_ref().map(|facts| facts.libc).context("a static program")?;
        ensure!(matches!(libc, Libc::Glibc(_)), "not glibc");
        let options = BindOptions { bind_now: true, ..BindOptions::default() };
        let bindings = bind(&closure.load, libc, &self.place.fs.symbols(), options)?;
        Ok(Prediction { closure, libc, bindings })
    }

    /// Starts and compares.
    pub(crate) fn verdict(&self, prediction: &Prediction) -> Result<Verdict> {
        let (recorded, fails) = (self.record(prediction)?, prediction.fails());
        let unlike = match (&recorded, fails) {
            (None, false) => Some("it ends before it is relocated".to_owned()),
            (Some(_), true) => Some("it starts, although something is missing".to_owned()),
            _ => None,
        };
        let fails = fails && recorded.is_none();
        let Outcome { compared, mut differences } = recorded.unwrap_or_default();
        differences.extend(unlike);
        Ok(Verdict { libc: prediction.libc.to_string(), compared, differences, fails })
    }

    /// Records the start and compares it with the prediction; returns `None` if the start ends
    /// before the recorder.
    fn record(&self, prediction: &Prediction) -> Result<Option<Outcome>> {
        let (closure, bindings) = (&prediction.closure, &prediction.bindings);
        let (load, ident) = (&closure.load, closure.subject.view.ident);
        let (socket, theirs) = UnixStream::pair()?;
        let mut said = tempfile::tempfile()?;
        let mut child = self.start(theirs, said.try_clone()?)?;
        let recording = Recording::open(socket, ident);
        let compared = recording.and_then(|recording| {
            let Some(mut recording) = recording else { return Ok(None) };
            let outcome = compare(load, bindings, ident, &mut recording);
            let _ = recording.close();
            outcome.map(Some)
        });
        // The process group has read the end of its input by now. It is killed if it does not end by itself.
        status_within(&mut child, PATIENCE)?;
        let Some(mut outcome) = compared? else { return Ok(None) };
        let mut text = Vec::new();
        said.rewind()?;
        said.read_to_end(&mut text)?;
        let program = BStr::new(self.object.path.as_os_str().as_bytes());
        let (count, differences) = lookups::compare(load, bindings, program, &text);
        outcome.compared.add("lookups", count);
        outcome.differences.extend(differences);
        Ok(Some(outcome))
    }

    /// Starts the program. The output of the loader is written to `said`.
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
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if is_root() && is_open_to_all(&self.object.path) {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Returns the command for a mount namespace in which the recorder is inside the root.
    fn inside(&self, root: &Path) -> Result<Command> {
        let name = self.recorder.file_name().context("the recorder has no name")?;
        let folder = self.recorder.parent().context("the recorder has no folder")?;
        let recorder = Path::new(INSIDE).join(name);
        let script = "mount --bind \"$1\" \"$2$3\" && shift 2 && shift && exec \"$@\"";
        let mut command = Command::new("/usr/bin/unshare");
        command.args(["--mount", "sh", "-c", script, "start"]).args([folder, root]).arg(INSIDE);
        command.args(["/usr/sbin/chroot", "--userspec=65534:65534"]).arg(root);
        let mut variables = vec![format!("LD_AUDIT={}", recorder.display())];
        variables.extend(ENVIRONMENT.map(|(name, value)| format!("{name}={value}")));
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

/// True if every user may search the directories above a file. A store in a checkout that only its
/// owner may read has programs of the lab alone, which are started as that owner.
fn is_open_to_all(path: &Path) -> bool {
    let mut above = path.ancestors().skip(1);
    above.all(|dir| std::fs::metadata(dir).is_ok_and(|status| status.mode() & 0o001 != 0))
}

/// A program with file capabilities starts in secure-execution mode, in which the loader ignores
/// the recorder, and the program would run.
pub(super) fn has_capabilities(path: &PathBuf) -> bool {
    let mut value = [0_u8; 64];
    match rustix::fs::getxattr(path, "security.capability", &mut value[..]) {
        Ok(size) => size > 0,
        Err(error) => !matches!(error, rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP),
    }
}
