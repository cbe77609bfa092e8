//! Counts the objects that each tool resolved, to check that the tools did the same work.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

/// One tool's result for the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Resolved {
    /// Number of files that it resolved.
    pub(crate) files: usize,
    /// Number of objects in the closures of all files, without the file itself, the loader and
    /// missing objects. A file counts once per closure, whatever its paths.
    pub(crate) libraries: usize,
}

/// Parses the JSON of `becalm check`, whose `objects` include the file and the loader.
pub(super) fn of_becalm(json: &str) -> Result<Resolved> {
    let all: serde_json::Value = serde_json::from_str(json).context("becalm's JSON")?;
    let programs = all["programs"].as_array().context("no programs")?;
    let objects = |program: &serde_json::Value| program["storm"]["objects"].as_u64().unwrap_or(0);
    let libraries: u64 = programs.iter().map(|program| objects(program).saturating_sub(2)).sum();
    Ok(Resolved { files: programs.len(), libraries: usize::try_from(libraries)? })
}

/// Parses the tree of each file; the root's path is at the beginning of a line. A missing library
/// is followed by a list of searched directories, marked with `┊`.
pub(super) fn of_libtree(text: &str) -> Result<Resolved> {
    Ok(trees(text, |line| {
        if line.contains('┊') {
            return (false, None);
        }
        let name = line.trim_start_matches(['│', '├', '└', '─', ' ', '\u{a0}']);
        let is_root = name.len() == line.len();
        // `path [source]`; the source of a missing library is "not found".
        let name = name.split(" [").next().unwrap_or(name);
        (is_root, (!line.contains("not found")).then_some(name))
    }))
}

/// Parses lines of `name => path`, indented by depth below `path (interpreter => …)`.
pub(super) fn of_lddtree(text: &str) -> Result<Resolved> {
    Ok(trees(text, |line| {
        let is_root = !line.starts_with(' ');
        let path = line.split(" => ").nth(1).filter(|path| *path != "None");
        (is_root, path)
    }))
}

/// Adds up the distinct libraries below each root. `read` returns true for the line of a root, and
/// the library that a line names.
fn trees<'t>(text: &'t str, read: impl Fn(&'t str) -> (bool, Option<&'t str>)) -> Resolved {
    let mut resolved = Resolved::default();
    let mut names = BTreeSet::new();
    let mut files: HashMap<&str, PathBuf> = HashMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match read(line) {
            (true, _) => {
                resolved.files += 1;
                resolved.libraries += names.len();
                names.clear();
            }
            (false, Some(name)) if !is_loader(name) => {
                let real = || Path::new(name).canonicalize().unwrap_or_else(|_| name.into());
                names.insert(files.entry(name).or_insert_with(real).clone());
            }
            (false, _) => {}
        }
    }
    resolved.libraries += names.len();
    resolved
}

fn is_loader(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("ld-linux"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn becalms_objects_are_counted_without_the_file_and_its_loader() {
        let json = r#"{"programs":[{"storm":{"objects":5}},{"storm":{"objects":2}}]}"#;
        assert_eq!(of_becalm(json).unwrap(), Resolved { files: 2, libraries: 3 });
    }

    #[test]
    fn a_library_met_twice_in_a_tree_counts_once() {
        let text = "/bin/a \n├── /lib/x.so [ld.so.conf]\n│   └── /lib/c.so [ld.so.conf]\n\
                    └── /lib/c.so [ld.so.conf]\n/bin/b \n└── y.so not found\n    ┊ Paths considered in this order:\n    ┊    /lib\n";
        assert_eq!(of_libtree(text).unwrap(), Resolved { files: 2, libraries: 2 });
    }

    #[test]
    fn lddtrees_loader_and_what_it_lacks_do_not_count() {
        let text = "/bin/a (interpreter => /lib64/ld-linux-x86-64.so.2)\n    x.so => /lib/x.so\n        \
                    ld-linux-x86-64.so.2 => /lib64/ld-linux-x86-64.so.2\n    y.so => None\n";
        assert_eq!(of_lddtree(text).unwrap(), Resolved { files: 1, libraries: 1 });
    }
}
