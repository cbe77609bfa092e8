//! Generates the loader patches of each glibc release from the shared files and the release's own
//! changes.
//!
//! Each release has two patches: the reader of notes (0001), and on top of it the reader of package
//! caches (0002). `glibc/common/000N/` has the files that a patch adds to every release,
//! `000N.message` its commit message, and `VERSION/000N-hooks.diff` the changed lines of a release.
//! The output folder gets `VERSION-000N.patch`, and `VERSION-README.md` from `README.in`.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

fn main() -> Result<()> {
    let glibc = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("glibc");
    println!("cargo::rerun-if-changed={}", glibc.display());
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for entry in fs::read_dir(&glibc)? {
        let release = entry?;
        if release.file_name().as_encoded_bytes().starts_with(b"2.") {
            generate(&glibc, &release.file_name().to_string_lossy(), &out)?;
        }
    }
    Ok(())
}

fn generate(glibc: &Path, version: &str, out: &Path) -> Result<()> {
    let mut readme = read(&glibc.join("README.in"))?.replace("@VERSION@", version);
    for number in ["0001", "0002"] {
        let hooks = read(&glibc.join(version).join(format!("{number}-hooks.diff")))?;
        let mut patch = read(&glibc.join(format!("{number}.message")))?;
        patch.push_str("---\n");
        patch.push_str(&hooks);
        for (name, text) in new_files(&glibc.join("common").join(number))? {
            patch.push_str(&addition(&name, &text)?);
        }
        let touched = hooks.lines().filter(|line| is_change(line)).count();
        readme = readme.replace(&format!("@TOUCHED-{number}@"), &touched.to_string());
        fs::write(out.join(format!("{version}-{number}.patch")), patch)?;
    }
    fs::write(out.join(format!("{version}-README.md")), readme)?;
    Ok(())
}

/// Returns true if a line of a unified diff adds or removes a line.
fn is_change(line: &str) -> bool {
    (line.starts_with('+') && !line.starts_with("+++"))
        || (line.starts_with('-') && !line.starts_with("---"))
}

/// Returns the files below `common` by their names in glibc's tree, sorted.
fn new_files(common: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(common).with_context(|| common.display().to_string())? {
        let folder = entry?.path();
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.strip_prefix(common)?.to_string_lossy().into_owned();
            files.push((name, read(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// Returns a unified diff that adds a file.
fn addition(name: &str, text: &str) -> Result<String> {
    ensure!(text.ends_with('\n'), "{name} does not end with a newline");
    let mut diff = format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{} @@\n", text.lines().count());
    for line in text.lines() {
        writeln!(diff, "+{line}")?;
    }
    Ok(diff)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
