//! Runs the real loader and parses its list of objects.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::child;

/// One line of the loader's list: the needed string by which the object was first requested, and the path that
/// the loader opened, or `None` for "not found".
pub(crate) type Listed = (String, Option<PathBuf>);

/// Runs `loader` and returns the closure of `object` in load order, without the kernel's own object
/// and without `object` itself. No code of the object runs.
///
/// # Errors
/// Returns an error if the loader cannot be run or rejects the object.
pub(crate) fn list(loader: &Path, object: &Path) -> Result<Vec<Listed>> {
    listed(child::command(loader).arg("--list").arg(object))
}

/// Does the same as [`list`] by starting the program itself with `LD_TRACE_LOADED_OBJECTS`, so that
/// its own interpreter runs.
///
/// # Errors
/// Returns the errors of [`list`].
pub(crate) fn trace(program: &Path) -> Result<Vec<Listed>> {
    listed(child::command(program).env("LD_TRACE_LOADED_OBJECTS", "1"))
}

fn listed(command: &mut Command) -> Result<Vec<Listed>> {
    Ok(parse(&child::succeed(command).context("the loader refuses it")?))
}

/// Parses the loader's list, which has lines of `name => path (address)`, `name => not found` and
/// `path (address)`.
fn parse(text: &str) -> Vec<Listed> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // The loader prints this for an object that needs nothing.
        if line == "statically linked" {
            continue;
        }
        let without_address = line.rsplit_once(" (0x").map_or(line, |(front, _)| front);
        let (needed, path) = match without_address.split_once(" => ") {
            Some((needed, "not found")) => (needed, None),
            Some((needed, path)) => (needed, Some(path)),
            None => (without_address, Some(without_address)),
        };
        // The kernel's own object has no file.
        if path.is_some_and(|path| !path.contains('/')) {
            continue;
        }
        all.push((needed.to_owned(), path.map(PathBuf::from)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_a_listed_line_is_understood() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tliba.so.1 => /s/liba.so.1 (0x00007f)\n\
                    \tlibb.so.2 => not found\n\t/lib64/ld.so (0x00007f)\n";
        let expected = [
            ("liba.so.1", Some("/s/liba.so.1")),
            ("libb.so.2", None),
            ("/lib64/ld.so", Some("/lib64/ld.so")),
        ];
        let expected = expected.map(|(needed, path)| (needed.to_owned(), path.map(PathBuf::from)));
        assert_eq!(parse(text), expected);
    }
}
