//! Compares what is switched on with the files that its starts read now.

use becalm_core::index::Index;
use becalm_host::index_store::OsFingerprints;
use bstr::BStr;
use rayon::prelude::*;

use crate::index::file;
use crate::on::Program;
use crate::on::folder::Folder;
use crate::on::table::{self, Identity, Start};
use crate::path::path_bytes;

/// Notes for each program whether the starter would start it by the index, and the program and its libraries
/// are as they were.
pub(super) fn examine(folder: &Folder, programs: &mut [Program]) {
    let (known, now) = (known(folder), OsFingerprints::default());
    programs.par_iter_mut().for_each(|program| {
        let is_fresh = known.as_ref().is_some_and(|(starts, index)| {
            let real = program.path.canonicalize();
            has_start(starts, program)
                && real.is_ok_and(|it| is_as_it_was(index, &now, path_bytes(&it).as_ref()))
        });
        program.fresh = Some(is_fresh);
    });
}

/// Reads the list of the starter and the index. Returns `None` if the starter would not use them.
fn known(folder: &Folder) -> Option<(Vec<Start>, Index)> {
    let (of_index, starts) = table::decode(&file::trusted_bytes(&folder.starts()).ok()?)?;
    let path = folder.index();
    let is_same = Identity::at(&path)? == of_index;
    Some((starts, file::read_trusted(&path).ok().filter(|_| is_same)?.index))
}

fn has_start(starts: &[Start], program: &Program) -> bool {
    let path = path_bytes(&program.path);
    starts.iter().any(|start| {
        start.name == program.name.as_bytes()
            && path == start.path.as_slice()
            && Identity::at(&program.path) == Some(start.program)
    })
}

/// True if the condition of each object that is bound in a program's start holds.
fn is_as_it_was(index: &Index, now: &OsFingerprints, program: &BStr) -> bool {
    let bound = &index.bound;
    let of_program = bound.programs.iter().filter(|bound| bound.path == program);
    let mut members = of_program.flat_map(|bound| &bound.members);
    members.all(|member| {
        let object = bound.objects.get(member.object as usize);
        object.is_some_and(|object| now.hold(&object.condition))
    })
}
