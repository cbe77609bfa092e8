//! `becalm loader check`: tests which formats a loader reads.
//!
//! The loader resolves (`--list`, which runs no code of it) a program that needs a library: once with
//! a complete note that names the second directory of its run path, while the first has the library
//! as well, and once in a package whose loader cache has a library that no search finds. The loader's
//! output is the answer. Whether musl reads notes is detected in its file.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use becalm_core::elf::resolution_note::COMPLETE;
use becalm_core::elf::{self, Ident};
use bstr::{BString, ByteSlice};
use serde::Serialize;
use tempfile::TempDir;

use crate::json::{self, lossy};
use crate::loader::fixture::{self, Object};
use crate::path::at;

const SONAME: &str = "libbecalm-fixture.so.1";

/// The formats that a loader reads, as a test showed: the JSON document of `becalm loader check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The loader.
    #[serde(serialize_with = "lossy")]
    pub loader: BString,
    /// True if it reads resolution notes.
    pub notes: bool,
    /// True if it reads loader caches of packages; none if no store was named to test one in.
    pub caches: Option<bool>,
}

json::schema!(Report, "becalm/loader/1");

/// Tests which formats a loader reads; package caches are tested below one of its store prefixes.
///
/// # Errors
/// Returns an error if the file is not a loader, or cannot be run.
pub fn check(named: &Path, store: Option<&Path>) -> Result<Report> {
    let loader = fs::canonicalize(named).with_context(at(named))?;
    let bytes = fs::read(&loader).with_context(at(&loader))?;
    let view = elf::parse(bytes.as_slice()).with_context(at(&loader))?;
    // The file will be executed, so any other file is rejected. glibc's loader has such a soname.
    let has_name_of_loader = view.soname().is_some_and(|name| name.starts_with(b"ld"));
    let is_loader = !view.is_program() && (has_name_of_loader || is_musl(named));
    if !is_loader {
        bail!("{}: not a loader", loader.display());
    }
    let trial = Trial { loader: &loader, target: view.ident };

    let scratch = folder(&std::env::temp_dir())?;
    // musl crashes on an object without a hash table, like those of the fixture. Its reader has the
    // mark of complete notes.
    let notes = match is_musl(named) {
        true => bytes.contains_str(COMPLETE),
        false => trial.reads_notes(scratch.path())?,
    };
    let caches = match store {
        Some(store) => Some(trial.reads_caches(folder(store)?.path())?),
        None => None,
    };
    Ok(Report { loader: loader.as_os_str().as_bytes().into(), notes, caches })
}

/// True for musl's loader, which is its C library by another name.
fn is_musl(named: &Path) -> bool {
    named.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl-"))
}

struct Trial<'a> {
    loader: &'a Path,
    target: Ident,
}

impl Trial<'_> {
    /// True if a note gives another answer than a plain search.
    fn reads_notes(&self, folder: &Path) -> Result<bool> {
        let (first, second) = (folder.join("first"), folder.join("second"));
        self.library(&first)?;
        let library = self.library(&second)?;
        let runpath = format!("{0}/apart:{1}/apart", first.display(), second.display());
        let list = format!("={library}");
        let program = Object {
            needed: Some(SONAME),
            runpath: Some(&runpath),
            note: Some((SONAME, &list)),
            ..Object::default()
        };
        let path = folder.join("program");
        self.write(&path, &program)?;
        self.finds(&path, &library)
    }

    /// True if the cache of a package that is made in `folder` gives the answer.
    fn reads_caches(&self, folder: &Path) -> Result<bool> {
        let library = self.library(&folder.join("lib"))?;
        let absent = folder.join("absent").display().to_string();
        let program = Object { needed: Some(SONAME), runpath: Some(&absent), ..Object::default() };
        let path = folder.join("bin/program");
        self.write(&path, &program)?;
        let cache = folder.join("etc/ld.so.cache");
        let made = fs::create_dir(folder.join("etc"));
        let bytes = fixture::cache(&self.target, SONAME, &library).context("too long a path")?;
        made.and_then(|()| fs::write(&cache, bytes)).with_context(at(&cache))?;
        self.finds(&path, &library)
    }

    fn library(&self, folder: &Path) -> Result<String> {
        let path = folder.join("apart").join(SONAME);
        self.write(&path, &Object { soname: Some(SONAME), ..Object::default() })?;
        Ok(path.display().to_string())
    }

    fn write(&self, path: &Path, object: &Object<'_>) -> Result<()> {
        let write = || -> Result<()> {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            Ok(fs::write(path, fixture::object(&self.target, object)?)?)
        };
        write().with_context(at(path))
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
            bail!("{}: does not list a program's libraries", self.loader.display());
        }
        Ok(told.contains(library))
    }
}

/// Makes a folder that is removed when it is dropped. Returns its path without links.
fn folder(inside: &Path) -> Result<TempDir> {
    let inside = fs::canonicalize(inside).with_context(at(inside))?;
    let named = tempfile::Builder::new().prefix("becalm-loader-check-").tempdir_in(&inside);
    named.with_context(at(&inside))
}
