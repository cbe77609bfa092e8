//! The check of needed versions: glibc's `_dl_check_map_versions` (`elf/dl-version.c`).

use std::sync::Arc;

use bstr::ByteSlice;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::object::ObjectSymbols;
use crate::loader::load::Load;

/// A version that is needed and not defined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingVersionReport {
    /// The object that needs it.
    pub object: String,
    /// The library that does not define it.
    pub library: String,
    /// The version.
    pub version: String,
    /// True if the program starts without it.
    pub weak: bool,
}

/// Checks each object in load order. A missing library is skipped, as with
/// `LD_TRACE_LOADED_OBJECTS`. glibc does not start a program with a missing version, unless it is weak.
pub(super) fn check(
    load: &Load,
    objects: &[Option<Arc<ObjectSymbols>>],
) -> Vec<MissingVersionReport> {
    let names = names(load);
    let mut missing = Vec::new();
    for (object, symbols) in objects.iter().enumerate() {
        let Some(symbols) = symbols else { continue };
        for need in &symbols.versions.needs {
            let Some(&library) = names.get(symbols.string(need.file)) else { continue };
            let Some(definer) = &objects[library] else { continue };
            for version in &need.versions {
                let name = symbols.string(version.name);
                if !has_version(definer, version.hash, name) {
                    let [object, library] = [object, library]
                        .map(|at| load.objects[at].path.to_str_lossy().into_owned());
                    let (version, weak) = (name.to_str_lossy().into_owned(), version.weak);
                    missing.push(MissingVersionReport { object, library, version, weak });
                }
            }
        }
    }
    missing
}

/// `match_symbol`: accepts a library without `DT_VERDEF`.
fn has_version(definer: &ObjectSymbols, hash: u32, name: &[u8]) -> bool {
    // glibc takes such a library for an old build and at most prints a message.
    let Some(definitions) = &definer.versions.definitions else { return true };
    // Two names can have the same hash, so the name is compared as well.
    definitions.iter().any(|version| version.hash == hash && definer.string(version.name) == name)
}

/// `find_needed`: the first object of the base namespace with this name, which is a soname or a
/// needed string.
fn names(load: &Load) -> FxHashMap<&[u8], usize> {
    let mut names: FxHashMap<&[u8], usize> = FxHashMap::default();
    let mut add = |name, object: usize| {
        let first = names.entry(name).or_insert(object);
        *first = object.min(*first);
    };
    for (index, object) in load.objects.iter().enumerate() {
        if object.namespace != 0 {
            continue;
        }
        for name in object.view.soname().into_iter().chain([object.path.as_bstr()]) {
            add(name.as_bytes(), index);
        }
    }
    for asked in &load.resolutions {
        let Some(object) = asked.answer.object() else { continue };
        if load.objects[object].namespace == 0 {
            // `add_name_to_object`: the name in `vn_file` may be one that only another requester
            // used.
            add(asked.needed.as_bytes(), object);
        }
    }
    names
}
