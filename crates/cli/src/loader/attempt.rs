//! `becalm loader check`: which strategies does a loader read?
//!
//! A program that needs a library which no search would find is resolved by the loader
//! (`--list`, which runs nothing of it): once with a note that names the library, once
//! in a package whose loader cache does. What the loader prints is the answer.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use becalm_core::elf::{self, Ident};

use crate::exit_code::ExitStatus;
use crate::loader::args::TryArgs;
use crate::loader::fixture::{self, Object};
use crate::loader::text as output;
use crate::loader::text::Reads;
use crate::terminal;

const SONAME: &str = "libbecalm-fixture.so.1";

/// Tries the loader and says what it reads.
pub(crate) fn run(args: &TryArgs) -> Result<ExitStatus> {
    let reads = reads(&args.loader, args.store.as_deref())?;
    terminal::write_report(args.json, &reads, |out| output::text(out, &reads))?;
    let finds = reads.notes || reads.caches == Some(true);
    Ok(if finds { ExitStatus::Fine } else { ExitStatus::Finding })
}

/// Tries what a loader reads; package caches below one of its store prefixes.
///
/// # Errors
/// Where it is no loader, or cannot be run.
pub(crate) fn reads(named: &Path, store: Option<&Path>) -> Result<Reads> {
    let loader = fs::canonicalize(named).with_context(|| named.display().to_string())?;
    let bytes = fs::read(&loader).with_context(|| loader.display().to_string())?;
    let view = elf::parse(bytes.as_slice()).with_context(|| loader.display().to_string())?;
    // It will be run: whatever else was named is not.
    let is_loader = !view.is_program() && (has_name_of_loader(&view) || is_musl(named));
    ensure!(is_loader, "{}: not a loader", loader.display());
    let trial = Trial { loader: &loader, target: view.ident };

    let folder = Folder::new(&std::env::temp_dir())?;
    let notes = trial.reads_notes(&folder.path)?;
    let caches = match store {
        Some(store) => Some(trial.reads_caches(&Folder::new(store)?.path)?),
        None => None,
    };
    Ok(Reads { loader: loader.as_os_str().as_bytes().into(), notes, caches })
}

/// glibc's loaders are named by their sonames.
fn has_name_of_loader(view: &elf::ObjectView) -> bool {
    let soname = view.dynamic.as_ref().and_then(|dynamic| dynamic.soname.as_ref());
    soname.is_some_and(|name| name.starts_with(b"ld"))
}

/// musl's loader is its C library by another name.
fn is_musl(named: &Path) -> bool {
    named.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl-"))
}

struct Trial<'a> {
    loader: &'a Path,
    target: Ident,
}

impl Trial<'_> {
    /// Whether a note is the answer that a plain search does not have.
    fn reads_notes(&self, folder: &Path) -> Result<bool> {
        let library = self.library(folder)?;
        let note = Some((SONAME, format!("={library}")));
        let note = note.as_ref().map(|(needed, list)| (*needed, list.as_str()));
        let program = Object { needed: Some(SONAME), note, ..Object::default() };
        let path = folder.join("program");
        self.write(&path, &program)?;
        self.finds(&path, &library)
    }

    /// Whether the cache of a package that is made in `folder` is the answer.
    fn reads_caches(&self, folder: &Path) -> Result<bool> {
        let library = self.library(&folder.join("lib"))?;
        let absent = folder.join("absent").display().to_string();
        let program = Object { needed: Some(SONAME), runpath: Some(&absent), ..Object::default() };
        let path = folder.join("bin/program");
        self.write(&path, &program)?;
        fs::create_dir(folder.join("etc"))?;
        fs::write(folder.join("etc/ld.so.cache"), fixture::cache(&self.target, SONAME, &library))?;
        self.finds(&path, &library)
    }

    fn library(&self, folder: &Path) -> Result<String> {
        let path = folder.join("apart").join(SONAME);
        self.write(&path, &Object { soname: Some(SONAME), ..Object::default() })?;
        Ok(path.display().to_string())
    }

    fn write(&self, path: &Path, object: &Object<'_>) -> Result<()> {
        let write = || -> std::io::Result<()> {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, fixture::object(&self.target, object))
        };
        write().with_context(|| path.display().to_string())
    }

    fn finds(&self, program: &Path, library: &str) -> Result<bool> {
        let done = Command::new(self.loader)
            .arg("--list")
            .arg(program)
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("{}: cannot be run here", self.loader.display()))?;
        let told = String::from_utf8_lossy(&done.stdout);
        if !told.contains(SONAME) && !String::from_utf8_lossy(&done.stderr).contains(SONAME) {
            bail!("{}: does not list what a program needs", self.loader.display());
        }
        Ok(told.contains(library))
    }
}

/// A folder that is taken away again.
struct Folder {
    path: std::path::PathBuf,
}

impl Folder {
    fn new(inside: &Path) -> Result<Self> {
        let inside = fs::canonicalize(inside).with_context(|| inside.display().to_string())?;
        let path = inside.join(format!("becalm-loader-check-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about what cannot be removed.
        let _ = fs::remove_dir_all(&self.path);
    }
}
