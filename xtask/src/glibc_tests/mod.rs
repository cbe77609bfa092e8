//! `cargo xtask glibc-tests`: runs glibc's own tests of loading in `elf/`, without an audit module
//! and with becalm's in addition to the audit modules of the tests.
//!
//! The tree is configured with `--enable-hardcoded-path-in-tests`: test programs then start
//! directly, not as an argument of the loader, and the module answers their searches. All objects
//! of the tree are indexed as a store. Tests run without and with `LD_LIBRARY_PATH`, because the
//! module answers `LD_LIBRARY_PATH` by another rule. The same tests run with a module that does
//! nothing: a difference that only becalm's module causes is never explained.

mod explained;
mod wrapper;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use becalm_core::record::audit_log;
use clap::Args;

use self::explained::Differing;
use self::wrapper::Added;
use crate::audit_trial::make;
use crate::command::succeed;
use crate::glibc_sources::GlibcSources;
use crate::loader_tests::outcome::{Results, count};
use crate::loader_tests::tree::{Kind, Tree};

/// Prefixes of the names of the tests.
const TESTS: &str = "\
    circleload constload dblload dblunload failobj filter firstobj global initfirst lateglobal \
    loadfail loadtest multiload neededtest next noload nodelete nodlopen order origtest \
    preloadtest reldep resolvfail restest tst-audit tst-dlopen tst-dlmopen tst-initorder tst-tls \
    unload";

/// Options of the chore.
#[derive(Args)]
pub struct Options {
    /// The sources to build.
    #[command(flatten)]
    sources: GlibcSources,
}

/// A module that does nothing, with the functions of becalm's.
const IDLE: &str = "#define _GNU_SOURCE
#include <link.h>
unsigned la_version (unsigned version) { return version; }
void la_activity (uintptr_t *cookie, unsigned flag) { (void) cookie; (void) flag; }
unsigned la_objopen (struct link_map *map, Lmid_t id, uintptr_t *cookie)
{ (void) map; (void) id; (void) cookie; return 0; }
unsigned la_objclose (uintptr_t *cookie) { (void) cookie; return 0; }
char *la_objsearch (const char *name, uintptr_t *cookie, unsigned flag)
{ (void) cookie; (void) flag; return (char *) name; }
";

/// Builds, runs and compares. Returns false if a difference is unexplained or an explained one
/// does not occur.
///
/// # Errors
/// Returns an error if a tree cannot be built or indexed, if no test was run, or if the module
/// answered no search.
pub fn run(options: &Options) -> Result<bool> {
    let folder = options.sources.folder()?;
    let mut is_clean = true;
    for source in options.sources.trees() {
        let (release, dir) = source?;
        let version = release.version;
        eprintln!("glibc {version}");
        let tree = Tree::prepare(&folder, release, &dir, Kind::Direct)?;
        tree.build()?;
        let known = explained::known(version)?;
        let (said, is_explained) = differing(&tree, version, &folder)?.checked(&known);
        print!("{said}");
        is_clean &= is_explained;
    }
    Ok(is_clean)
}

/// Runs all tests of a release without and with `LD_LIBRARY_PATH`, and prints the counts.
fn differing(tree: &Tree, version: &str, folder: &Path) -> Result<Differing> {
    let test = |label: &str, added: Added<'_>| -> Result<Results> {
        let file = folder.join(format!("wrapper-{label}"));
        let variables = [wrapper::write(&file, &tree.source.join("elf"), added)?];
        tree.test(TESTS, &variables, label)
    };
    let empty = folder.join("empty");
    fs::create_dir_all(&empty)?;
    let idle_module = idle(folder)?;
    let log = folder.join("answers.log");
    let mut found = Differing::default();
    for library_path in [None, Some(empty.as_path())] {
        let plain = test("plain", [None, library_path, None])?;
        let idle = test("idle", [Some(&idle_module), library_path, None])?;
        // The tests' programs exist only after the first run.
        let index = index(tree, version, folder, &empty)?;
        let _ = fs::remove_file(&log);
        let audited = test("audited", [Some(&index), library_path, Some(&log)])?;
        let answers = answers(&log);
        let with_path = if library_path.is_some() { ", with LD_LIBRARY_PATH" } else { "" };
        println!(
            "glibc {}{with_path}: {} tests, {} pass without a module, {} with an idle one, {} with \
                 becalm's, which answered {answers} searches",
            version,
            plain.len(),
            count(&plain, "PASS"),
            count(&idle, "PASS"),
            count(&audited, "PASS")
        );
        ensure!(answers > 0, "the module answered no search");
        found.add(&plain, &idle, &audited);
    }
    Ok(found)
}

/// Indexes the objects. `make` links two libraries of tests that are not run into a hwcaps
/// subdirectory (`sysdeps/x86_64/Makefile`), so answers from the directory above would depend
/// on the CPU: it is removed first.
fn index(tree: &Tree, version: &str, folder: &Path, library_path: &Path) -> Result<PathBuf> {
    let of_cpu = tree.objects.join("elf").join(std::env::consts::ARCH);
    if of_cpu.exists() {
        fs::remove_dir_all(&of_cpu).with_context(|| of_cpu.display().to_string())?;
    }
    let index = folder.join(format!("index-{}.so", version));
    let stores = [tree.objects.clone()];
    let module = make::module(&make::compiler(std::env::consts::ARCH), folder)?;
    make::index(&stores, &[library_path.to_owned()], &module, &index)?;
    Ok(index)
}

/// Builds the module that does nothing, without the C library.
fn idle(folder: &Path) -> Result<PathBuf> {
    let (source, out) = (folder.join("idle.c"), folder.join("idle.so"));
    fs::write(&source, IDLE).with_context(|| source.display().to_string())?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-nostdlib", "-o"]).args([&out, &source]);
    succeed(&mut cc).context("a C compiler is needed (Debian: gcc)")?;
    Ok(out)
}

/// Counts the searches that becalm's module answered, by its log; none without a log.
fn answers(log: &Path) -> usize {
    audit_log::parse(&fs::read(log).unwrap_or_default()).iter().map(|one| one.answered).sum()
}
