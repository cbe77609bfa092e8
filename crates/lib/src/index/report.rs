//! The report of `becalm index`.

use becalm_core::elf::machine_name;
use becalm_core::index::bound::BoundProgram;
use becalm_core::index::{Index, Program, Target};
use becalm_host::index_store::MachineIndex;
use bstr::BString;
use serde::Serialize;

use crate::index::module::Sealed;
use crate::json::{self, displayed, lossy, lossy_list};
use crate::problem::Problem;

pub use becalm_core::index::bound::NotBound;
pub use becalm_core::index::build::Deferred;

/// An index that was made or found up to date: the JSON document of `becalm index`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub index: BString,
    /// True if it was written; false if it was up to date.
    pub written: bool,
    /// The machine it is for.
    pub machine: &'static str,
    /// The stores, as they were walked.
    #[serde(serialize_with = "json::lossy_list_option", skip_serializing_if = "Option::is_none")]
    pub stores: Option<Vec<BString>>,
    /// The number of objects with lookups.
    pub objects: usize,
    /// The number of objects whose answers were reused; 0 if all objects were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<usize>,
    /// The number of answers.
    pub edges: usize,
    /// The length of the file in bytes.
    pub bytes: usize,
    /// The length of the table in it.
    pub table_bytes: usize,
    /// The content of an index that was written.
    #[serde(flatten)]
    pub content: Option<Content>,
    /// Files and folders that could not be read.
    #[serde(rename = "errors")]
    pub problems: Vec<Problem>,
}

/// The content of an index.
#[derive(Clone, Debug, Serialize)]
pub struct Content {
    /// The directories that it depends on.
    pub directories: Directories,
    /// Lookups that are left to the loader.
    #[serde(rename = "left")]
    pub deferred: Vec<Left>,
    /// Programs that need more static TLS than there is by default.
    pub static_tls: Vec<ProgramTls>,
    /// The symbol bindings.
    pub bindings: Bindings,
    /// The paths below packages, if they are indexed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathTable>,
    /// Objects in the stores for other machines, which are not in the index.
    pub other_machines: Vec<OtherMachine>,
}

/// The directories of an index.
#[derive(Clone, Debug, Serialize)]
pub struct Directories {
    /// The number of those that are checked when the index is updated.
    pub watched: usize,
    /// The number of those whose file names are kept, for `LD_LIBRARY_PATH`.
    pub snapshotted: usize,
    /// Directories whose file names could not be kept: they changed a moment ago, have hwcaps
    /// subdirectories, or are empty elements or relative paths.
    #[serde(serialize_with = "lossy_list")]
    pub not_snapshotted: Vec<BString>,
    /// Lines of module files that give `LD_LIBRARY_PATH` a value that is not understood, as
    /// `FILE:LINE`.
    #[serde(serialize_with = "lossy_list", skip_serializing_if = "Vec::is_empty")]
    pub modules_not_understood: Vec<BString>,
}

/// Lookups that are left to the loader for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct Left {
    /// The reason.
    pub reason: Deferred,
    /// Their number.
    pub questions: usize,
}

/// A program that needs more static TLS than there is by default.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramTls {
    /// The program.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The value of `glibc.rtld.optional_static_tls` with which it starts; none if it starts with
    /// no value.
    pub optional_static_tls: Option<u64>,
}

/// The symbol bindings of an index.
#[derive(Clone, Debug, Serialize)]
pub struct Bindings {
    /// The number of programs that are bound.
    pub programs: usize,
    /// The number of their relocations with a symbol.
    pub relocations: u64,
    /// The number of those that the index binds.
    pub bound: u64,
    /// Their length in the table in bytes.
    pub bytes: usize,
    /// Programs that are not bound.
    pub not_bound: Vec<Unbound>,
}

/// A program that is not bound.
#[derive(Clone, Debug, Serialize)]
pub struct Unbound {
    /// The program.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The reason.
    #[serde(serialize_with = "displayed")]
    pub reason: NotBound,
}

/// The paths below the packages of stores.
#[derive(Clone, Debug, Serialize)]
pub struct PathTable {
    /// The number of packages.
    pub packages: usize,
    /// The number of paths, the packages among them.
    pub paths: usize,
    /// The number of links to directories that are followed.
    pub links: usize,
    /// The number of packages that were read; the others are unchanged.
    pub read: usize,
    /// Packages whose paths are not indexed.
    pub left_out: Vec<LeftOutPackage>,
    /// Directories that the traced run searched and that are in no package, those with the most
    /// misses first; empty without `--paths-from`.
    #[serde(serialize_with = "lossy_list")]
    pub outside: Vec<BString>,
}

/// A package whose paths are not indexed.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOutPackage {
    /// The package.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The reason.
    pub reason: &'static str,
    /// True if `--update` adds the package once it has not changed for a moment.
    pub passing: bool,
}

/// Objects for another machine.
#[derive(Clone, Debug, Serialize)]
pub struct OtherMachine {
    /// The machine.
    pub machine: &'static str,
    /// Their number.
    pub objects: usize,
}

json::schema!(Report, "becalm/index/1");

impl Report {
    /// Returns the report of an index of this length, with a table of this length.
    pub(crate) fn of(
        path: BString,
        target: Target,
        index: &Index,
        bytes: usize,
        table_bytes: usize,
    ) -> Self {
        Self {
            index: path,
            machine: machine_name(target.machine),
            objects: index.objects.iter().filter(|object| !object.path.is_empty()).count(),
            edges: index.objects.iter().map(|object| object.edges.len()).sum(),
            bytes,
            table_bytes,
            ..Self::default()
        }
    }

    /// Returns the report of an index that was written.
    pub(crate) fn of_written(
        path: BString,
        sealed: &Sealed,
        (not_snapshotted, modules_not_understood): (Vec<BString>, Vec<BString>),
        paths: Option<PathTable>,
    ) -> Self {
        let machine = &sealed.machine;
        let named = machine.index.directories.iter().filter(|dir| dir.names.is_some());
        let left = |&(reason, questions): &(Deferred, usize)| Left { reason, questions };
        let in_need = machine.index.programs.iter().filter(|program| program.needs.is_any());
        let static_tls = |Program { path, needs, .. }: &Program| ProgramTls {
            path: path.clone(),
            optional_static_tls: (!needs.no_start).then_some(needs.static_tls.into()),
        };
        let other = |&(target, objects): &(Target, usize)| OtherMachine {
            machine: machine_name(target.machine),
            objects,
        };
        let content = Content {
            directories: Directories {
                watched: machine.index.folders.iter().filter(|folder| folder.walked).count(),
                snapshotted: named.count(),
                not_snapshotted,
                modules_not_understood,
            },
            deferred: machine.deferred_by.iter().map(left).collect(),
            static_tls: in_need.map(static_tls).collect(),
            bindings: Bindings::of(machine),
            paths,
            other_machines: sealed.others.iter().map(other).collect(),
        };
        let report =
            Self::of(path, machine.target, &machine.index, sealed.file.len(), sealed.table);
        Self { written: true, content: Some(content), ..report }
    }
}

impl Bindings {
    fn of(machine: &MachineIndex) -> Self {
        let bound = &machine.index.bound;
        let sum =
            |of: fn(&BoundProgram) -> u32| bound.programs.iter().map(|p| u64::from(of(p))).sum();
        let unbound = |(path, reason): (BString, NotBound)| Unbound { path, reason };
        Self {
            programs: bound.program_count(),
            relocations: sum(|program| program.relocations),
            bound: sum(|program| program.bindings),
            bytes: bound.encoded_size(),
            not_bound: machine.not_bound.iter().cloned().map(unbound).collect(),
        }
    }
}
