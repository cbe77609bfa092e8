//! Tries wheels from PyPI in a virtual environment: counts the misses of an `import`, without and
//! with an index of the environment, and checks that the same files are loaded.
//!
//! [`measure`] starts Python in the environment. Each statement is run
//! without an index, under `becalm index VENV`, and under plain `becalm run` after the index that
//! its first start requests is made. A name that is not found anywhere (`libcuda.so.1` without a
//! driver) costs the loader its whole search under any index, because an audit module cannot report
//! that a name is absent. Such misses are printed and not counted.

mod measure;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use self::measure::{Counted, Python, RUN};
use crate::command::succeed;

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The becalm to try.
    #[arg(long, value_name = "FILE")]
    becalm: PathBuf,
    /// All wheels; by default only those that install quickly.
    #[arg(long)]
    full: bool,
}

/// Maximum number of remaining misses, in per cent.
const AT_MOST: u64 = 5;

/// Name of a wheel on PyPI, and the statement that loads it.
type Wheel = (&'static str, &'static str);

/// The wheels of each run.
const WHEELS: [Wheel; 3] = [
    ("numpy", "import numpy"),
    ("scikit-learn", "import sklearn"),
    ("PySide6_Essentials", "import PySide6.QtCore, PySide6.QtNetwork"),
];
/// A wheel that replaces a larger one, together with which it cannot be installed.
const QUICK: [Wheel; 1] = [("opencv-python-headless", "import cv2")];
/// Wheels that are large, or need libraries of the machine.
const FULL: [Wheel; 7] = [
    ("scipy", "import scipy.linalg"),
    ("pandas", "import pandas"),
    ("opencv-python", "import cv2"),
    ("PySide6", "import PySide6.QtWidgets"),
    ("jax", "import jax"),
    ("vtk", "import vtk"),
    ("torch", "import torch"),
];

/// Makes a virtual environment with wheels, which is kept for the next run with the same ones.
const VENV: &str = r#"
test "$(cat wheels.txt 2>&1)" != "$*" || exit 0
rm -rf venv
python3 -m venv venv
venv/bin/pip install --quiet --no-cache-dir --only-binary :all: "$@"
echo "$*" >wheels.txt
"#;

/// Runs the trial. Returns false if anything differs or too many misses remain.
///
/// # Errors
/// Returns an error if the environment or the index cannot be made, or tracing is not possible.
pub fn run(options: &Options) -> Result<bool> {
    let (more, others): (&[Wheel], &[Wheel]) =
        if options.full { (&FULL, &QUICK) } else { (&QUICK, &FULL) };
    let wheels = [&WHEELS, more].concat();
    let began = Instant::now();
    let folder = folder(options.full)?;
    let names: Vec<&str> = wheels.iter().map(|wheel| wheel.0).collect();
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    succeed(Command::new("sh").args(["-euc", VENV, "sh"]).args(&names).current_dir(&folder))?;
    let venv = folder.join("venv");
    println!("{} with {} in {} s", venv.display(), names.join(", "), began.elapsed().as_secs());
    let python = Python::new(&options.becalm, &venv, &folder)?;
    println!("{:<24}{:>7}{:>9}{:>11}{:>9}{:>7}", "", "start", "dlopen", "not found", "left", "run");
    let mut clean = true;
    for wheel in &wheels {
        clean &= attempt(&python, wheel)?;
    }
    let names: Vec<&str> = others.iter().map(|wheel| wheel.0).collect();
    println!("left out: {} (--full takes them)", names.join(", "));
    Ok(clean)
}

/// Returns the folder of the environment, which is kept for the next run: in the user's cache, one for each
/// set of wheels.
fn folder(full: bool) -> Result<PathBuf> {
    let named =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    let cache = cache.context("no home directory")?;
    Ok(cache.join(if full { "becalm/wheels-full" } else { "becalm/wheels" }))
}

/// Runs one statement. Returns true if the same files are loaded and few enough misses remain.
fn attempt(python: &Python, wheel: &Wheel) -> Result<bool> {
    let (name, statement) = *wheel;
    let before = python.counted(statement, &[])?;
    let after = python.counted(statement, &["run", "--index", text(&python.index)?, "--"])?;
    let by_run = python.counted(statement, RUN)?;
    println!(
        "{name:<24}{:>7}{:>9}{:>11}{:>9}{:>7}",
        before.start,
        before.dlopen,
        before.not_found,
        after.found(),
        by_run.found()
    );
    let mut clean = is_same(name, "index", &before, &after);
    clean &= is_same(name, "becalm run", &before, &by_run);
    for (index, after) in [("the index", &after), ("becalm run", &by_run)] {
        if 100 * after.found() > AT_MOST * before.found() {
            clean = false;
            println!("  {index} leaves more than {AT_MOST} % (becalm trace names the worst)");
        }
    }
    for name in &before.missing {
        println!("  nothing answers {name}");
    }
    Ok(clean)
}

/// Returns true if the same files are mapped and the same names are missing.
fn is_same(name: &str, index: &str, before: &Counted, after: &Counted) -> bool {
    if before.mapped != after.mapped {
        let lost: Vec<_> = before.mapped.difference(&after.mapped).collect();
        let gained: Vec<_> = after.mapped.difference(&before.mapped).collect();
        println!("  {name} by {index}: other files are mapped: lost {lost:?}, gained {gained:?}");
    }
    if before.missing != after.missing {
        println!("  {name} by {index}: other names are missing: {:?}", after.missing);
    }
    before.mapped == after.mapped && before.missing == after.missing
}

/// Returns a path as an argument.
fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| anyhow::anyhow!("{}: no text", path.display()))
}
