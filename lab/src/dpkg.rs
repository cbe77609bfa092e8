//! Finds the Debian packages of files, with one call for all files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::child;
use crate::words::hash;

/// A Debian package, or a substitute for a file without a package.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// Its name without the architecture.
    pub(crate) name: String,
    /// Debian's name of its architecture; `none` for a substitute.
    pub(crate) architecture: String,
    /// Its full version with epoch; `0` for a substitute.
    pub(crate) version: String,
}

impl Package {
    /// Returns the substitute package of a file without a package.
    pub(crate) fn local(path: &Path) -> Self {
        let base = path.file_name().unwrap_or_default().to_string_lossy();
        Self { name: format!("local-{base}"), architecture: "none".into(), version: "0".into() }
    }

    /// Returns the package's directory in a store: 32 hex digits of a hash over name, architecture
    /// and version, then name and version. The epoch is left out, because a colon would end the
    /// element of a search path.
    pub(crate) fn directory(&self) -> String {
        let identity = format!("{}:{}={}", self.name, self.architecture, self.version);
        let version = self.version.split_once(':').map_or(&*self.version, |(_, rest)| rest);
        format!("{}-{}-{version}", hash(&identity), self.name)
    }
}

/// Returns the packages of `paths` (real paths, with links resolved), including substitutes.
///
/// # Errors
/// Returns an error if dpkg is missing or its output cannot be parsed.
pub(crate) fn owners<'p>(
    paths: impl Iterator<Item = &'p PathBuf> + Clone,
) -> Result<BTreeMap<PathBuf, Package>> {
    let diversions = diversions()?;
    let names = paths.clone().flat_map(|path| names_of(path, &diversions)).collect();
    let owner_by_name = search(&names)?;
    let packages = versions()?;
    let owner = |path: &PathBuf| {
        names_of(path, &diversions)
            .iter()
            .find_map(|name| packages.get(owner_by_name.get(name)?).cloned())
            .unwrap_or_else(|| Package::local(path))
    };
    Ok(paths.map(|path| (path.clone(), owner(path))).collect())
}

/// Returns the files of an installed package, or none if it is not installed.
///
/// # Errors
/// Returns an error if dpkg cannot be run.
pub(crate) fn files_of(package: &str) -> Result<Vec<PathBuf>> {
    let run = child::finish(child::command("dpkg-query").arg("-L").arg(package))?;
    if !run.status.success() {
        return Ok(Vec::new());
    }
    Ok(run.stdout.lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect())
}

/// Returns the names that dpkg may have for a file: its path, its path before the merge of `/` into
/// `/usr`, and its path before a diversion.
fn names_of(path: &Path, diversions: &HashMap<String, String>) -> Vec<String> {
    let path = path.to_string_lossy().into_owned();
    let mut names = vec![path.clone()];
    if let Some(rest) = path.strip_prefix("/usr/") {
        let merged = ["bin/", "sbin/", "lib/", "lib32/", "lib64/", "libx32/"];
        if merged.iter().any(|dir| rest.starts_with(dir)) {
            names.push(format!("/{rest}"));
        }
    }
    let diverted: Vec<String> =
        names.iter().filter_map(|name| diversions.get(name).cloned()).collect();
    names.extend(diverted);
    names
}

/// Returns a map from a diverted file's current path to its path in its package.
fn diversions() -> Result<HashMap<String, String>> {
    let text = child::succeed(child::command("dpkg-divert").arg("--list"))?;
    let parse = |line: &str| {
        let rest = line.split_once("diversion of ")?.1;
        let (from, rest) = rest.split_once(" to ")?;
        let to = rest.split(" by ").next()?;
        Some((to.to_owned(), from.to_owned()))
    };
    Ok(text.lines().filter_map(parse).collect())
}

/// Queries dpkg for the package of every name. The result has `package` or `package:architecture`;
/// names without a package are absent.
fn search(names: &BTreeSet<String>) -> Result<HashMap<String, String>> {
    // A status of 1 only means that some name has no package.
    let text = child::finish(child::command("dpkg-query").arg("-S").args(names))?.stdout;
    let mut owners = HashMap::new();
    for line in text.lines().filter(|line| !line.starts_with("diversion by ")) {
        if let Some((packages, path)) = line.split_once(": /") {
            let first = packages.split(", ").next().unwrap_or(packages);
            owners.entry(format!("/{path}")).or_insert_with(|| first.to_owned());
        }
    }
    Ok(owners)
}

/// Returns names and versions of installed packages, with the keys of [`search`].
fn versions() -> Result<HashMap<String, Package>> {
    let format = "${binary:Package}\\t${Package}\\t${Architecture}\\t${Version}\\n";
    let text = child::succeed(child::command("dpkg-query").args(["-W", "-f", format]))?;
    let parse = |line: &str| {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let [key, name, architecture, version] =
            fields.try_into().ok().with_context(|| format!("dpkg-query: {line:?}"))?;
        Ok((key, Package { name, architecture, version }))
    };
    text.lines().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_directory_holds_no_colon_although_the_version_has_an_epoch() {
        let package = Package {
            name: "git".into(),
            architecture: "amd64".into(),
            version: "1:2.39.5-0+deb12u3".into(),
        };
        let directory = package.directory();
        assert!(directory.ends_with("-git-2.39.5-0+deb12u3"), "{directory}");
        assert_eq!(directory.split('-').next().map(str::len), Some(32));
        assert!(!directory.contains(':'));
    }

    #[test]
    fn two_epochs_of_one_version_have_different_directories() {
        let with = |version: &str| Package {
            name: "p".into(),
            architecture: "amd64".into(),
            version: version.into(),
        };
        assert_ne!(with("1:2").directory(), with("2:2").directory());
    }

    #[test]
    fn a_merged_and_diverted_file_is_asked_for_under_its_packages_name() {
        let diversions = HashMap::from([("/lib/a.so.distrib".to_owned(), "/lib/a.so".to_owned())]);
        let names = names_of(Path::new("/usr/lib/a.so.distrib"), &diversions);
        assert_eq!(names, ["/usr/lib/a.so.distrib", "/lib/a.so.distrib", "/lib/a.so"]);
    }
}
