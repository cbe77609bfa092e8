//! Makes a virtual environment with wheels, which is kept for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::succeed;

/// The Python to make it with.
const PYTHON: &str = "python3";

/// Makes the environment, or returns the existing one with the same wheels.
pub(super) fn make(folder: &Path, wheels: &[&str]) -> Result<PathBuf> {
    let venv = folder.join("venv");
    let list = folder.join("wheels.txt");
    let wanted = format!("{PYTHON}\n{}\n", wheels.join("\n"));
    if fs::read_to_string(&list).is_ok_and(|made| made == wanted) {
        return Ok(venv);
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    if venv.exists() {
        fs::remove_dir_all(&venv).with_context(|| venv.display().to_string())?;
    }
    succeed(Command::new(PYTHON).args(["-m", "venv"]).arg(&venv))?;
    let pip = venv.join("bin/pip");
    let quiet = ["install", "--quiet", "--no-cache-dir", "--only-binary", ":all:"];
    succeed(Command::new(pip).args(quiet).args(wheels))?;
    fs::write(&list, wanted).with_context(|| list.display().to_string())?;
    Ok(venv)
}
