//! Programs with and without the audit module: the same objects, output and exit code.

pub mod make;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

/// What to try.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// A store to index and whose programs to start.
    #[arg(long, value_name = "DIR")]
    store: Vec<PathBuf>,
    /// Directories to index as of `LD_LIBRARY_PATH`.
    #[arg(long, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Write the index here and try nothing.
    #[arg(long, value_name = "FILE")]
    write_index: Option<PathBuf>,
}

/// Tries; exit code 1 where anything differs.
///
/// # Errors
/// The module or the index cannot be made.
pub fn run(options: &Options) -> Result<ExitCode> {
    let scratch = tempfile::tempdir()?;
    let module = make::module(scratch.path())?;
    let index = scratch.path().join("index.so");
    let out = options.write_index.as_ref().unwrap_or(&index);
    let indexed = make::index(&options.store, &options.dirs, &module, out)?;
    for machine in &indexed.machines {
        let edges: usize = machine.index.objects.iter().map(|object| object.edges.len()).sum();
        println!(
            "{:?}: {} objects, {edges} answers, {} questions left, {} guards, {} directories",
            machine.target,
            machine.index.objects.len(),
            machine.left,
            machine.index.guards.len(),
            machine.index.directories.len()
        );
        for (program, value) in &machine.static_tls {
            println!("  static TLS: {program}: {value:?}");
        }
    }
    for error in &indexed.errors {
        println!("{error}");
    }
    Ok(ExitCode::SUCCESS)
}
