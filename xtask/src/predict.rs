//! Predicts the probes of one start with the model.
//!
//! A prediction depends on the current directory and on the files that the user may read. So a case
//! lets a child process make it: `xtask predict` gets the request as JSON and writes the prediction to
//! standard output.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use becalm_core::closure::{Closure, Subject, resolve};
use becalm_core::loader::{Environment, LoaderFacts};
use becalm_core::probe::Probe;
use becalm_host::{FactChoice, OsFs, loader_facts};
use becalm_testing::oracle::{Start, User};
use bstr::{BStr, BString, ByteSlice};
use serde::{Deserialize, Serialize};

/// Options of the chore.
#[derive(clap::Args)]
pub struct Options {
    /// The request, as JSON.
    request: String,
}

/// Answers the request.
///
/// # Errors
/// Returns an error if it is no request, or the errors of [`Request::answer`].
pub fn run(options: &Options) -> Result<bool> {
    let request: Request = serde_json::from_str(&options.request)?;
    println!("{}", serde_json::to_string(&request.answer()?)?);
    Ok(true)
}

/// A request for a prediction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// The object.
    pub object: PathBuf,
    /// Another root, with `object` inside it.
    pub root: Option<PathBuf>,
    /// The loader, if it is not the one that the object names.
    pub loader: Option<PathBuf>,
    /// The environment; only variables that the loader reads have an effect.
    pub env: Vec<(String, String)>,
    /// Secure-execution mode.
    pub secure: bool,
}

/// A prediction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prediction {
    /// The probes, in order.
    pub probes: Vec<Probe>,
    /// Release of the C library (`glibc-2.36`, `musl`).
    pub libc: String,
    /// Path of the loader cache.
    pub cache: Option<String>,
}

impl Request {
    /// Returns the request for a start.
    #[must_use]
    pub fn of(start: &Start) -> Self {
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        Self {
            object: start.object.clone(),
            root: start.root.clone(),
            loader: start.named_loader().map(Path::to_owned),
            env: start.env.iter().map(|(name, value)| (text(name), text(value))).collect(),
            secure: false,
        }
    }

    /// Returns the variables of [`Request::env`] that a loader reads.
    #[must_use]
    pub fn environment(&self) -> Environment {
        let value = |name: &str| {
            let variable = self.env.iter().find(|(key, _)| key == name);
            variable.map(|(_, value)| BString::from(value.as_str()))
        };
        Environment {
            library_path: value("LD_LIBRARY_PATH"),
            preload: value("LD_PRELOAD"),
            audit: value("LD_AUDIT"),
            secure: self.secure,
            ..Environment::default()
        }
    }

    fn choice(&self) -> FactChoice {
        let tunables = self.env.iter().find(|(name, _)| name == "GLIBC_TUNABLES" && !self.secure);
        let tunables = tunables.map(|(_, value)| value.as_str()).unwrap_or_default().into();
        FactChoice { tunables, ..FactChoice::default() }
    }

    /// Predicts with this process's file system, current directory and rights.
    ///
    /// # Errors
    /// Returns an error if the object or its loader cannot be read, or the loader's facts are
    /// unknown.
    pub fn answer(&self) -> Result<Prediction> {
        let fs = match &self.root {
            Some(root) => OsFs::in_root(root)?,
            None => OsFs::new(),
        };
        self.answer_on(&fs, None)
    }

    /// Predicts on a file system that several requests share, with the facts `known` of the loader
    /// or those read from it.
    ///
    /// # Errors
    /// Returns the errors of [`Request::answer`].
    pub fn answer_on(&self, fs: &OsFs, known: Option<&LoaderFacts>) -> Result<Prediction> {
        let closure = self.closure(fs, known)?;
        let facts = closure.facts.as_ref().context("a static program")?;
        Ok(Prediction {
            libc: facts.libc.to_string(),
            cache: facts.cache_path.as_ref().map(ToString::to_string),
            probes: closure.probes().collect(),
        })
    }

    /// Predicts all of a start, as [`Request::answer_on`].
    ///
    /// # Errors
    /// Returns the errors of [`Request::answer`].
    pub(crate) fn closure(&self, fs: &OsFs, known: Option<&LoaderFacts>) -> Result<Closure> {
        let session = fs.session();
        let object = BStr::new(self.object.as_os_str().as_bytes());
        let subject = Subject::open(&session, object)?;
        let interpreter = match &self.loader {
            Some(loader) => BString::from(loader.as_os_str().as_bytes()),
            None => subject.interpreter.clone().context("a static program")?,
        };
        let facts = match known {
            Some(facts) => facts.clone().into(),
            None => loader_facts(fs, interpreter.as_bstr(), &self.choice())?,
        };
        Ok(resolve(&session, subject, interpreter.as_bstr(), facts, &self.environment())?)
    }

    /// Runs the program `xtask` to make the prediction in a process of its own, in the directory
    /// `dir` and as `user`.
    ///
    /// # Errors
    /// Returns an error with the child's output if the child failed.
    pub fn ask(&self, xtask: &Path, dir: Option<&Path>, user: Option<&User>) -> Result<Prediction> {
        let mut command = Command::new(xtask);
        command.arg("predict").arg(serde_json::to_string(self)?);
        if let Some(dir) = dir {
            command.current_dir(dir);
        }
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid);
        }
        let output = command.output().context("xtask predict cannot be started")?;
        if !output.status.success() {
            bail!("no prediction: {}", output.stderr.trim_ascii().to_str_lossy());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
