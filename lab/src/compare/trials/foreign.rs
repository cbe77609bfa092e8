//! The trial of a foreign architecture: a program of a few hundred bytes for another machine, which
//! cannot run here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use becalm_core::elf::{Class, Endian, Ident, ident};
use becalm_core::loader::{GlibcVersion, Libc};
use becalm_core::strategy::row::Unit;
use becalm_lib::assume;

use crate::compare::apply::{self, Site};
use crate::compare::kind::Kind;
use crate::compare::table::answer;
use crate::compare::trials::Bench;
use crate::words::naming;
use becalm_lib::compare::apply::plain_assumptions;
use becalm_lib::compare::comparison::{Cell, Verdict};
use becalm_lib::loader::fixture::{Object, object};
use becalm_lib::words::words_of_chain;

/// `EM_S390`, which is big-endian.
const S390: u16 = 22;
/// `EM_AARCH64`.
const AARCH64: u16 = 183;

/// Bytes that identify a loader: its release, and the directories compiled into it.
const LOADER: &[u8] =
    b"\0GNU C Library (trial) stable release version 2.36.\0/lib64/\0/usr/lib64/\0";

/// Returns the cell of a column.
pub(super) fn cell(bench: &Bench<'_>, kind: Kind) -> Cell {
    if kind.strategy().is_none() {
        return Cell { text: "–".to_owned(), ..answer(Verdict::Other, None) };
    }
    match tried(bench, kind) {
        Ok((before, after)) if after < before => answer(Verdict::Yes, None),
        Ok((before, after)) => {
            answer(Verdict::No, Some(format!("{after} misses are foreseen, {before} without")))
        }
        Err(why) => answer(Verdict::No, Some(words_of_chain(why.as_ref()))),
    }
}

/// Returns the predicted misses before and after the strategy.
fn tried(bench: &Bench<'_>, kind: Kind) -> Result<(u64, u64)> {
    let store = bench.place.join("foreign").join(kind.name());
    let package = |name: &str| store.join(format!("{:032}-{name}-1", 0));
    let target = target()?;
    let write = |path: &Path, what: &Object<'_>| {
        let made = fs::create_dir_all(path.parent().unwrap_or(path));
        let bytes = object(&target, what)?;
        made.and_then(|()| fs::write(path, bytes)).with_context(naming(path))
    };
    let loader = package("libc").join("lib/ld64.so.1");
    write(&loader, &Object { soname: Some("ld64.so.1"), ..Object::default() })?;
    let mut bytes = fs::read(&loader).with_context(naming(&loader))?;
    bytes.extend_from_slice(LOADER);
    fs::write(&loader, bytes).with_context(naming(&loader))?;
    let library = package("one").join("lib/libone.so.1");
    write(&library, &Object { soname: Some("libone.so.1"), ..Object::default() })?;
    for empty in ["two", "three"] {
        let dir = package(empty).join("lib");
        fs::create_dir_all(&dir).with_context(naming(&dir))?;
    }
    let dirs = ["two", "three", "one"].map(|name| package(name).join("lib").display().to_string());
    let runpath = dirs.join(":");
    let program = package("app").join("bin/app");
    let text = loader.display().to_string();
    let app = Object {
        needed: Some("libone.so.1"),
        runpath: Some(&runpath),
        interpreter: Some(&text),
        ..Object::default()
    };
    write(&program, &app)?;
    let site = Site {
        programs: std::slice::from_ref(&program),
        objects: std::slice::from_ref(&program),
        prefixes: std::slice::from_ref(&store),
        stores: store.as_os_str(),
        index: bench.place.join("foreign.so"),
    };
    // The strategy runs the loader, and this loader is for another machine.
    if kind == Kind::AbsoluteLoader {
        bail!("the loader cannot be asked: it does not run here");
    }
    foreseen(kind, &site, &program)
}

/// Applies the strategy, and returns the predicted misses before and after.
fn foreseen(kind: Kind, site: &Site<'_>, program: &PathBuf) -> Result<(u64, u64)> {
    let before = fs::read(program).with_context(naming(program))?;
    let libc = Some(Libc::Glibc(GlibcVersion { major: 2, minor: 36 }));
    let assumed = assume::Options { libc, cpu: Some("baseline".to_owned()), ..plain_assumptions() };
    let report = apply::put(kind, site, &assumed)?;
    if let Some(why) = report.as_ref().and_then(|report| apply::refusals(report).into_iter().next())
    {
        bail!(why);
    }
    let start = report.as_ref().and_then(|report| report.programs.first());
    let Some((was, is)) = start.and_then(|start| Some((start.before, start.after?))) else {
        bail!("the strategy reports no prediction of the start");
    };
    let (was, is) = (was.misses(), is.misses());
    let now = fs::read(program).with_context(naming(program))?;
    // A loader cache leaves the program as it is.
    if !matches!(kind.unit(), Some(Unit::Package(_))) && now == before {
        bail!("the program was left as it is");
    }
    Ok((was, is))
}

/// Returns a machine other than this one.
fn target() -> Result<Ident> {
    let file = Path::new("/proc/self/exe");
    let base = fs::read(file).with_context(naming(file))?;
    let own = ident(&base).context("this program")?;
    let machine = if own.machine == S390 { AARCH64 } else { S390 };
    let endian = if machine == S390 { Endian::Big } else { Endian::Little };
    Ok(Ident { class: Class::Elf64, endian, machine, flags: 0, ..own })
}
