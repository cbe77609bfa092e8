//! Plans the place and the run path of each object in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::graph::{Kind, Source, Sources};
use super::manifest::{Manifest, Object, ProgramEntry};
use crate::dpkg::{self, Package};
use crate::programs::Program;

/// A directory that a program searches for relative to itself and without which it does not start:
/// its package and the directory's name. It is linked and not copied, because files opened at
/// run time are not part of a closure.
const DATA: (&str, &str) = ("emacs-nox", "native-lisp");

/// Gives every object its place below `store`. `loader` is one of them, and `owners` has the package of each.
///
/// # Errors
/// Returns an error if two files would get the same place.
pub(crate) fn plan(
    store: &Path,
    (loader, sources): &(PathBuf, Sources),
    programs: &[Program],
    owners: &BTreeMap<PathBuf, Package>,
    rpath: bool,
) -> Result<Manifest> {
    let of_system = |original: &PathBuf| rpath && owners[original].name == owners[loader].name;
    let mut places: BTreeMap<&PathBuf, PathBuf> = BTreeMap::new();
    for (original, source) in sources {
        let place = match of_system(original) {
            true => original.clone(),
            false => place(&store.join(owners[original].directory()), original, source),
        };
        if let Some((other, _)) = places.iter().find(|(_, taken)| **taken == place) {
            let (other, own) = (other.display(), original.display());
            bail!("{other} and {own} both want {}", place.display());
        }
        places.insert(original, place);
    }
    let loader = places.get(loader).context("no loader in the closure")?.clone();
    let mut manifest = Manifest { store: store.to_owned(), loader, rpath, ..Manifest::default() };
    manifest.programs.extend(programs.iter().map(|(name, original)| ProgramEntry {
        name: name.clone(),
        path: places[original].clone(),
        original: original.clone(),
    }));
    for original in sources.keys().filter(|original| !of_system(original)) {
        let mut object = object(&manifest, original, sources, &places);
        object.package = owners[original].directory();
        manifest.objects.push(object);
    }
    manifest.objects.sort_by(|a, b| a.path.cmp(&b.path));
    manifest.data = data(store, owners)?;
    Ok(manifest)
}

/// Returns the place of an object in the directory of its package.
fn place(directory: &Path, original: &Path, source: &Source) -> PathBuf {
    let base = original.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match (source.kind, &source.dynamic.soname) {
        (Kind::Program, _) => directory.join("bin").join(base),
        (_, Some(soname)) if !soname.contains('/') => directory.join("lib").join(soname),
        _ => directory.join("lib").join(base),
    }
}

/// Returns the links of [`DATA`], each in its place below `/usr`, and their targets.
fn data(store: &Path, owners: &BTreeMap<PathBuf, Package>) -> Result<Vec<(PathBuf, PathBuf)>> {
    let (name, folder) = DATA;
    let Some(package) = owners.values().find(|package| package.name == name) else {
        return Ok(Vec::new());
    };
    let targets = dpkg::files_of(name)?.into_iter().filter(|target| target.ends_with(folder));
    let link = |target: PathBuf| {
        let place = target.strip_prefix("/usr").ok()?;
        Some((store.join(package.directory()).join(place), target))
    };
    Ok(targets.filter_map(link).collect())
}

/// Plans an object without its package.
fn object(
    manifest: &Manifest,
    original: &PathBuf,
    sources: &Sources,
    places: &BTreeMap<&PathBuf, PathBuf>,
) -> Object {
    let (source, path) = (&sources[original], places[original].clone());
    let needs = source.needs.iter().map(|(needed, file)| (needed.clone(), places[file].clone()));
    let needs: Vec<(String, PathBuf)> = needs.collect();
    let fixed =
        source.kind == Kind::Loader || source.dynamic.soname.as_deref() == Some("libc.so.6");
    let mut run_path = if fixed { Vec::new() } else { run_path(&path, &needs) };
    let is_program = source.kind == Kind::Program;
    let had_run_path = source.dynamic.rpath.is_some() || source.dynamic.runpath.is_some();
    let untouched = fixed || (run_path.is_empty() && !had_run_path && !is_program);
    if manifest.rpath {
        run_path.retain(|dir| dir.starts_with(&manifest.store));
    }
    // Needed strings that differ from the name of the file.
    let needed = sources.values().flat_map(|source| &source.needs);
    let links = needed.filter(|(needed, file)| file == original && !path.ends_with(needed));
    Object {
        original: original.clone(),
        kind: source.kind,
        links: links.map(|(needed, _)| needed.clone()).collect::<BTreeSet<_>>(),
        interpreter: (is_program && !manifest.rpath).then(|| manifest.loader.clone()),
        package: String::new(),
        made: String::new(),
        untouched,
        path,
        needs,
        run_path,
    }
}

/// Returns one directory for each package of the needed strings: first the object's own, then the
/// others in order of need.
fn run_path(path: &Path, needs: &[(String, PathBuf)]) -> Vec<PathBuf> {
    let own = path.parent().and_then(Path::parent).map(|package| package.join("lib"));
    let mut dirs: Vec<PathBuf> = Vec::new();
    for dir in needs.iter().filter_map(|(_, file)| file.parent()) {
        if dirs.iter().any(|known| known == dir) {
            continue;
        }
        let at = if own.as_deref() == Some(dir) { 0 } else { dirs.len() };
        dirs.insert(at, dir.to_owned());
    }
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_path_has_one_directory_a_package_own_first_then_in_order_of_need() {
        let need = |file: &str| (String::new(), PathBuf::from(file));
        let needs = [
            need("/s/b/lib/libb.so"),
            need("/s/c/lib/libc.so"),
            need("/s/a/lib/libown.so"),
            need("/s/b/lib/libb2.so"),
        ];
        let dirs = run_path(Path::new("/s/a/bin/program"), &needs);
        assert_eq!(dirs, ["/s/a/lib", "/s/b/lib", "/s/c/lib"].map(PathBuf::from));
    }

    #[test]
    fn an_own_package_that_answers_nothing_is_no_search_dir() {
        let needs = [(String::new(), PathBuf::from("/s/b/lib/libb.so"))];
        let dirs = run_path(Path::new("/s/a/lib/liba.so"), &needs);
        assert_eq!(dirs, [PathBuf::from("/s/b/lib")]);
    }
}
