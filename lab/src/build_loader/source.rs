//! Debian's `glibc-source` of a suite as a source tree; Debian's patches are already applied.
//!
//! apt runs with its own configuration, lists and cache, so that this machine's package state does
//! not change. Mirror and keys are those of the machine: its first source that has a component
//! `main`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build_loader::steps::Steps;
use crate::stored::entries;

/// A mirror, as the start of a one-line source of apt.
#[derive(Debug, PartialEq, Eq)]
struct Mirror {
    uri: String,
    signed_by: Option<String>,
}

/// The suites that a version of a package goes through. A newer one takes its place in each.
const STAGES: [&str; 3] = ["experimental", "sid", "testing"];

/// Downloads the package into `folder` and returns the file.
pub(crate) fn fetch(steps: &Steps, version: &str, suite: &str, folder: &Path) -> Result<PathBuf> {
    if let Some(deb) = package_in(folder, version) {
        return Ok(deb);
    }
    let mirror = mirror_of_machine(Path::new("/etc/apt"))
        .context("/etc/apt has no source with the component main")?;
    let mut first_error = None;
    for suite in suites_from(suite) {
        match fetch_from(steps, &mirror, suite, version, folder) {
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

/// Downloads a version of the package from a suite.
fn fetch_from(
    steps: &Steps,
    mirror: &Mirror,
    suite: &str,
    version: &str,
    folder: &Path,
) -> Result<()> {
    for below in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(folder.join(below))?;
    }
    let signed_by = mirror.signed_by.as_ref();
    let signed = signed_by.map(|key| format!(" [signed-by={key}]")).unwrap_or_default();
    let line = format!("deb{signed} {} {suite} main\n", mirror.uri);
    fs::write(folder.join("sources.list"), line)?;
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        for (name, value) in [
            ("Dir::Etc::SourceList", folder.join("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::State::Lists", folder.join("lists")),
            ("Dir::State::Status", "/dev/null".into()),
            ("Dir::Cache", folder.to_path_buf()),
        ] {
            command.arg("-o").arg(format!("{name}={}", value.display()));
        }
        command.args(["-o", "APT::Sandbox::User=root"]).args(args).current_dir(folder);
        command
    };
    steps.now(format!("fetching the package list of {suite}"));
    steps.run(&mut apt(&["update"]))?;
    steps.now("fetching glibc-source");
    let fetched = steps.run(&mut apt(&["download", &format!("glibc-source={version}-*")]));
    // They are larger than the package, and another package would fetch them again.
    for done in ["lists", "archives"] {
        fs::remove_dir_all(folder.join(done))?;
    }
    fetched
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
/// the first one. Other sources (of vendors, of security updates) have the component too.
fn mirror_of_machine(etc: &Path) -> Option<Mirror> {
    let mut mirrors = mirrors(etc);
    let of_debian = mirrors
        .iter()
        .position(|mirror| mirror.uri.trim_end_matches('/').rsplit('/').next() == Some("debian"));
    (!mirrors.is_empty()).then(|| mirrors.swap_remove(of_debian.unwrap_or(0)))
}

/// Returns all mirrors with a component `main`.
fn mirrors(etc: &Path) -> Vec<Mirror> {
    let mut files = vec![etc.join("sources.list")];
    files.extend(entries(&etc.join("sources.list.d")).unwrap_or_default());
    let mut mirrors = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|end| end.to_str()) {
            Some("sources") => mirrors.extend(text.split("\n\n").filter_map(deb822)),
            Some("list") => mirrors.extend(text.lines().filter_map(one_line)),
            _ => {}
        }
    }
    mirrors
}

/// Parses a paragraph of a `.sources` file.
fn deb822(paragraph: &str) -> Option<Mirror> {
    let field = |name: &str| {
        paragraph.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    let has = |name: &str, word: &str| {
        field(name).is_some_and(|value| value.split_whitespace().any(|other| other == word))
    };
    if !has("Types", "deb") || !has("Components", "main") || has("Enabled", "no") {
        return None;
    }
    Some(Mirror {
        uri: field("URIs")?.split_whitespace().next()?.to_owned(),
        signed_by: field("Signed-By").filter(|key| key.starts_with('/')).map(str::to_owned),
    })
}

/// Parses a line of a `.list` file.
fn one_line(line: &str) -> Option<Mirror> {
    let rest = line.split('#').next()?.trim().strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let uri = words.next()?.to_owned();
    words.skip(1).find(|&component| component == "main")?;
    let signed_by = options.split_whitespace().find_map(|o| o.strip_prefix("signed-by="));
    Some(Mirror { uri, signed_by: signed_by.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn debian_s_mirror_is_taken_and_not_a_vendor_s_that_is_named_first() {
        let etc = tempfile::tempdir().expect("a folder");
        let parts = etc.path().join("sources.list.d");
        fs::create_dir(&parts).expect("a folder");
        fs::write(parts.join("a.list"), "deb http://vendor/apt x main\n").expect("a file");
        fs::write(parts.join("b.list"), "deb http://m/debian-security x main\n").expect("a file");
        let uri = || mirror_of_machine(etc.path()).map(|mirror| mirror.uri);
        assert_eq!(uri().as_deref(), Some("http://vendor/apt"));
        fs::write(parts.join("c.list"), "deb http://m/debian/ x main\n").expect("a file");
        assert_eq!(uri().as_deref(), Some("http://m/debian/"));
    }

    #[test]
    fn both_forms_of_a_source_give_the_mirror_and_its_key() {
        let mirror = |key: Option<&str>| {
            Some(Mirror { uri: "http://m/debian".into(), signed_by: key.map(str::to_owned) })
        };
        let text = "Types: deb\nURIs: http://m/debian\nSuites: x\nComponents: main contrib\n\
            Signed-By: /k.gpg\n";
        assert_eq!(deb822(text), mirror(Some("/k.gpg")));
        assert_eq!(deb822(&text.replace("main", "universe")), None);
        assert_eq!(one_line("deb http://m/debian x main"), mirror(None));
        assert_eq!(
            one_line("deb [arch=a signed-by=/k] http://m/debian x main"),
            mirror(Some("/k"))
        );
        assert_eq!(one_line("# deb http://m/debian x main"), None);
        assert_eq!(one_line("deb-src http://m/debian x main"), None);
    }
}
