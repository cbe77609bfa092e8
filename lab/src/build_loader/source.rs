//! Debian's `glibc-source` of a suite as a source tree; Debian's patches are already applied.
//!
//! apt runs with its own configuration, lists and cache, so that this machine's package state does
//! not change. The mirror is that of the machine: its first source that has a component `main`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build_loader::steps::Steps;
use crate::child;
use crate::stored::entries;

/// Downloads the package of a version $3 into the current directory, from the suite $2 of the mirror $1. Lists and
/// archives are larger than the package, and another package would fetch them again.
const FETCH: &str = r#"
mkdir -p lists/partial archives/partial
trap 'rm -rf lists archives' EXIT
# The keys of Debian's releases. Without the file, apt has its own default.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
test ! -e $keyring || keys="[signed-by=$keyring]"
echo "deb ${keys-} $1 $2 main" >sources.list
for command in update "download glibc-source=$3-*"; do
  apt-get -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$PWD/lists" -o Dir::State::Status=/dev/null -o Dir::Cache="$PWD" \
    -o APT::Sandbox::User=root $command
done"#;

/// The suites that a version of a package goes through. A newer one takes its place in each.
const STAGES: [&str; 3] = ["experimental", "sid", "testing"];

/// Downloads the package into `folder` and returns the file.
pub(crate) fn fetch(steps: &Steps, version: &str, suite: &str, folder: &Path) -> Result<PathBuf> {
    if let Some(deb) = package_in(folder, version) {
        return Ok(deb);
    }
    let mirror = mirror_of_machine(Path::new("/etc/apt"))?;
    let mut first_error = None;
    for suite in suites_from(suite) {
        steps.now(format!("fetching glibc-source of {suite}"));
        let mut shell = Command::new("sh");
        shell.args(["-efuc", FETCH, "sh", &mirror, suite, version]).current_dir(folder);
        match steps.run(&mut shell) {
            Ok(()) => break,
            // The first suite is the one that this version is expected in.
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match (package_in(folder, version), first_error) {
        (Some(deb), _) => Ok(deb),
        (None, Some(error)) => Err(error),
        (None, None) => bail!("apt-get download left no package"),
    }
}

/// Returns a suite and those to which its packages move.
fn suites_from(first: &str) -> Vec<&str> {
    let stage = STAGES.iter().position(|&stage| stage == first);
    stage.map_or_else(|| vec![first], |stage| STAGES[stage..].to_vec())
}

/// Returns the package of a version in a folder.
fn package_in(folder: &Path, version: &str) -> Option<PathBuf> {
    let start = format!("glibc-source_{version}-");
    entries(folder).ok()?.into_iter().find(|path| {
        path.extension().is_some_and(|end| end == "deb")
            && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start))
    })
}

/// Unpacks the package in `folder` and returns the tree.
pub(crate) fn unpack(steps: &Steps, version: &str, deb: &Path, folder: &Path) -> Result<PathBuf> {
    steps.now("unpacking");
    steps.run(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(folder.join("package")))?;
    let archive = folder.join(format!("package/usr/src/glibc/glibc-{version}.tar.xz"));
    if !archive.is_file() {
        bail!("{}: not the source of glibc {version}", deb.display());
    }
    steps.run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder))?;
    Ok(folder.join(format!("glibc-{version}")))
}

/// Returns a mirror of apt's configuration in `etc`: the first one whose path is Debian's, or else
/// the first one. Other sources (of vendors, of security updates) have the component `main` too.
fn mirror_of_machine(etc: &Path) -> Result<String> {
    let mut apt = child::command("apt-get");
    apt.arg("-o")
        .arg(format!("Dir::Etc={}", etc.display()))
        .args(["indextargets", "--no-release-info"]);
    let targets =
        child::whole(apt.args(["--format", "$(COMPONENT) $(REPO_URI)", "Created-By: Packages"]))?;
    let mirrors = || targets.lines().filter_map(|line| line.strip_prefix("main "));
    let of_debian = mirrors().find(|uri| uri.trim_end_matches('/').ends_with("/debian"));
    let mirror = of_debian.or_else(|| mirrors().next());
    mirror.map(str::to_owned).with_context(|| format!("{}: no source with main", etc.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_package_of_another_release_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["glibc-source_2.4-1_all.deb", "glibc-source_2.44-1_all.deb.part"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(package_in(folder.path(), "2.44"), None);
        let deb = folder.path().join("glibc-source_2.44-3_all.deb");
        fs::write(&deb, "").expect("a file");
        assert_eq!(package_in(folder.path(), "2.44"), Some(deb));
    }

    #[test]
    fn a_release_that_left_experimental_is_looked_for_where_it_went() {
        assert_eq!(suites_from("experimental"), ["experimental", "sid", "testing"]);
        assert_eq!(suites_from("sid"), ["sid", "testing"]);
        assert_eq!(suites_from("bookworm"), ["bookworm"]);
    }

    /// Returns the mirror of a configuration with these files.
    fn mirror(files: &[(&str, &str)]) -> Option<String> {
        let etc = tempfile::tempdir().expect("a folder");
        let parts = etc.path().join("sources.list.d");
        fs::create_dir(&parts).expect("a folder");
        for (name, text) in files {
            fs::write(parts.join(name), text).expect("a file");
        }
        mirror_of_machine(etc.path()).ok()
    }

    fn has_apt() -> bool {
        Path::new("/usr/bin/apt-get").exists() || !becalm_testing::skipped("no apt-get")
    }

    #[test]
    fn debian_s_mirror_is_taken_and_not_a_vendor_s_that_is_named_first() {
        if !has_apt() {
            return;
        }
        let vendor = ("a.list", "deb http://vendor/apt x main\n");
        let security = ("b.list", "deb http://m/debian-security x main\n");
        assert_eq!(mirror(&[vendor, security]).as_deref(), Some("http://vendor/apt/"));
        let debian = ("c.list", "deb http://m/debian/ x main\n");
        assert_eq!(mirror(&[vendor, security, debian]).as_deref(), Some("http://m/debian/"));
    }

    #[test]
    fn both_forms_of_a_source_give_the_mirror() {
        if !has_apt() {
            return;
        }
        let text = "Types: deb\nURIs: http://m/debian\nSuites: x\nComponents: main contrib\n";
        assert_eq!(mirror(&[("a.sources", text)]).as_deref(), Some("http://m/debian/"));
        assert_eq!(mirror(&[("a.sources", &text.replace("main", "universe"))]), None);
        let line = |line: &str| mirror(&[("a.list", line)]);
        assert_eq!(line("deb http://m/debian x main\n").as_deref(), Some("http://m/debian/"));
        assert_eq!(line("# deb http://m/debian x main\n"), None);
        assert_eq!(line("deb-src http://m/debian x main\n"), None);
    }
}
