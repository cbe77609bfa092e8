//! Compares what is switched on with the files that its starts read now.

use becalm_core::index::Index;
use becalm_host::index_store::OsFingerprints;
use bstr::BStr;

use crate::index::file;
use crate::on::Program;
use crate::on::folder::Folder;
use crate::on::table::{self, Identity, Start};
use crate::path::path_bytes;

/// The list of the starter and the index.
pub(super) struct Known {
    starts: Vec<Start>,
    index: Index,
    now: OsFingerprints,
}

impl Known {
    /// Reads the list of the starter and the index. Returns `None` if the starter would not use them.
    pub(super) fn of(folder: &Folder) -> Option<Self> {
        let (of_index, starts) = table::decode(&file::trusted_bytes(&folder.starts()).ok()?)?;
        let path = folder.index();
        let is_same = Identity::at(&path)? == of_index;
        let index = file::read_trusted(&path).ok().filter(|_| is_same)?.index;
        Some(Self { starts, index, now: OsFingerprints::default() })
    }

    /// True if the starter would start a program by the index, and the program and its libraries are as
    /// they were.
    pub(super) fn is_fresh(&self, program: &Program) -> bool {
        let path = path_bytes(&program.path);
        let is_of = |start: &Start| {
            start.name == program.name.as_bytes()
                && path == start.path.as_slice()
                && Identity::at(&program.path) == Some(start.program)
        };
        let real = program.path.canonicalize();
        self.starts.iter().any(is_of)
            && real.is_ok_and(|real| self.are_objects_as_they_were(path_bytes(&real).as_ref()))
    }

    /// True if the condition of each object that is bound in a program's start holds.
    fn are_objects_as_they_were(&self, program: &BStr) -> bool {
        let bound = &self.index.bound;
        let of_program = bound.programs.iter().filter(|bound| bound.path == program);
        let mut members = of_program.flat_map(|bound| &bound.members);
        members.all(|member| {
            let object = bound.objects.get(member.object as usize);
            let condition = object.and_then(|it| self.index.conditions.get(it.condition as usize));
            condition.is_some_and(|condition| self.now.hold(condition))
        })
    }
}
