//! `lab survey`: time and memory of `becalm check --ndjson` over very many files.
//!
//! The files are copies of one small program, ten to a package. Each searches eight packages and
//! finds its library in the last one. They are made once and kept.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};

use crate::child;

/// Programs of a package.
pub(crate) const OF_A_PACKAGE: usize = 10;
/// Packages that each program searches.
const SEARCHED: usize = 8;

/// Options of the survey.
#[derive(Args)]
pub(crate) struct Survey {
    /// The becalm to measure, as scripts/build prints it
    #[arg(long)]
    becalm: PathBuf,
    /// Number of programs
    #[arg(long, default_value_t = 100_000)]
    files: usize,
    /// Folder in which they are made
    #[arg(long, default_value = "target/lab/survey")]
    folder: PathBuf,
    /// Number of surveys; the first warms the caches
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Makes the files, surveys them, and prints a line a round.
pub(crate) fn run(survey: &Survey) -> Result<()> {
    let store = make(&survey.folder, survey.files)?;
    for round in 1..=survey.rounds {
        let lines = survey.folder.join("lines.ndjson");
        let began = Instant::now();
        let status = Command::new(&survey.becalm)
            .args(["check", "--ndjson", "--store"])
            .args([&store, &store])
            .stdout(File::create(&lines)?)
            .status()?;
        let seconds = began.elapsed().as_secs_f64();
        if !status.success() {
            bail!("{}: {status}", survey.becalm.display());
        }
        // The largest of all children so far: the rounds are alike.
        let peak = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
        let written = fs::read(&lines)?.iter().filter(|byte| **byte == b'\n').count();
        println!(
            "round {round}: {written} lines in {seconds:.2} s, {} MB at the peak",
            peak / 1000
        );
    }
    Ok(())
}

/// Makes the programs that are not there yet; returns their store.
pub(crate) fn make(folder: &Path, files: usize) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let store = folder.join("store");
    let (program, library) = (folder.join("app"), folder.join("libone.so"));
    let flags = "-s -nostdlib -fPIC -Wl,-z,noseparate-code -shared -Wl,-soname,libone.so";
    let flags: Vec<&str> = flags.split(' ').collect();
    child::compile(&library, "int one(void) { return 1; }", &flags)?;
    let dirs: Vec<String> =
        (0..SEARCHED).map(|number| format!("$ORIGIN/../../p{number}/lib")).collect();
    let run_path = format!("-Wl,--enable-new-dtags,-rpath,{}", dirs.join(":"));
    let own: [&OsStr; 3] = ["-pie".as_ref(), run_path.as_ref(), library.as_ref()];
    let flags: Vec<&OsStr> = flags[..4].iter().map(AsRef::as_ref).chain(own).collect();
    let source = "int one(void); void _start(void) { one(); for (;;) ; }";
    child::compile(&program, source, &flags)?;
    let (program, library) = (fs::read(program)?, fs::read(library)?);
    for number in 0..files {
        let package = store.join(format!("p{}", number / OF_A_PACKAGE));
        let file = package.join(format!("bin/a{}", number % OF_A_PACKAGE));
        if number % OF_A_PACKAGE == 0 {
            fs::create_dir_all(package.join("bin"))?;
        }
        if !file.exists() {
            fs::write(&file, &program)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        }
    }
    let last = store.join(format!("p{}/lib", SEARCHED - 1));
    fs::create_dir_all(&last)?;
    fs::write(last.join("libone.so"), library)?;
    Ok(store)
}
