//! Objects grouped by the machine that they are for.

use std::collections::BTreeMap;

use becalm_core::closure::{Subject, SubjectKind};
use becalm_core::elf::Ident;
use becalm_core::fs::FileSystem;
use bstr::{BStr, BString};
use rayon::prelude::*;

use super::CHUNK;
use crate::OsFs;

/// The objects of one machine.
pub(super) struct Group {
    pub(super) ident: Ident,
    /// The loader that most programs name.
    pub(super) interpreter: BString,
    /// All loaders that a program names or that are usual for a library.
    pub(super) interpreters: Vec<BString>,
    pub(super) paths: Vec<BString>,
    /// The paths that name an interpreter.
    pub(super) programs: Vec<BString>,
}

/// `e_machine`, class and byte order, as integers that can be ordered.
pub(super) type MachineKey = (u16, u8, u8);

/// The ELF header of an object, its loader, and true if it names that itself. A library has the usual loader of
/// its machine.
type Kind = (Ident, Option<BString>, bool);

/// Groups the objects at these paths by machine.
pub(super) fn by_machine(os: &OsFs, paths: &[BString]) -> BTreeMap<MachineKey, Group> {
    let looked: Vec<Option<Kind>> = paths
        .par_chunks(CHUNK)
        .flat_map_iter(|chunk| {
            let session = os.session();
            chunk.iter().map(|path| kind_of(&session, path.as_ref())).collect::<Vec<_>>()
        })
        .collect();
    type Votes = BTreeMap<BString, usize>;
    let mut groups: BTreeMap<MachineKey, (Group, Votes)> = BTreeMap::new();
    for (path, looked) in paths.iter().zip(looked) {
        let Some((ident, interpreter, is_named)) = looked else { continue };
        let key = (ident.machine, ident.class as u8, ident.endian as u8);
        let (group, votes) = groups.entry(key).or_insert_with(|| {
            let interpreter = BString::default();
            let (interpreters, paths, programs) = (Vec::new(), Vec::new(), Vec::new());
            (Group { ident, interpreter, interpreters, paths, programs }, BTreeMap::new())
        });
        group.paths.push(path.clone());
        if is_named {
            group.programs.push(path.clone());
        }
        // A program names its loader. A library only has the usual one of its machine, so it counts
        // less.
        let vote = if is_named { 1 << 20 } else { 1 };
        *votes.entry(interpreter.unwrap_or_default()).or_default() += vote;
    }
    groups
        .into_iter()
        .filter_map(|(key, (mut group, mut votes))| {
            votes.remove(BStr::new(""));
            group.interpreters = votes.keys().cloned().collect();
            group.interpreter = votes.into_iter().max_by_key(|&(_, count)| count)?.0;
            Some((key, group))
        })
        .collect()
}

/// Returns the kind of an object that a loader can load. Returns `None` for a
/// static program.
pub(super) fn kind_of(fs: &dyn FileSystem, path: &BStr) -> Option<Kind> {
    let subject = Subject::open(fs, path).ok()?;
    let is_named = subject.kind == SubjectKind::Program;
    let is_loaded = subject.kind != SubjectKind::Static;
    is_loaded.then_some((subject.view.ident, subject.interpreter, is_named))
}
