//! The start of a program whose audit modules include an index: the index by its file, and the
//! start with its answers.

use becalm_core::closure::Closure;
use becalm_core::fs::FileSystem;
use becalm_core::index::Target;
use becalm_core::index::answers::answers;
use becalm_core::index::bound::{Bound, Member};
use becalm_core::loader::Environment;
use becalm_core::loader::load::Role;
use becalm_host::Session;
use becalm_host::index_store::OsFingerprints;
use bstr::{BStr, BString};
use serde::Serialize;

use crate::assume::Assumptions;

/// The index that a start loads as an audit module, and the environment in which its answers
/// count. `None` if there is none, or if it is switched off.
pub fn by_index(
    assumed: &Assumptions,
    session: &Session<'_>,
    plain: &Closure,
) -> Option<(BString, Environment)> {
    if assumed.module_is_off || !assumed.fs.is_real_root() {
        return None;
    }
    let modules = plain.load.objects.iter().filter(|object| object.role == Role::Audit);
    let target = Target::of(&plain.subject.view.ident);
    // LD_AUDIT names an index through a link for each platform.
    let file =
        |path: &BString| session.canonicalize(path.as_ref()).unwrap_or_else(|_| path.clone());
    let (path, read) = modules
        .map(|module| file(&module.path))
        .filter_map(|path| Some((path.clone(), assumed.indexes.read(&path)?)))
        .find(|(_, read)| read.target == target)?;
    let fingerprints = OsFingerprints::default();
    let loader = plain.load.objects.iter().find(|object| object.role == Role::Loader);
    let loader: &BStr = loader.map(|loader| loader.path.as_ref()).unwrap_or_default();
    let holds = |condition: &_| fingerprints.hold_for(condition, loader);
    let environment = &assumed.environment;
    let audit_answers = answers(&read.index, (session, plain), environment, &holds);
    Some((path, Environment { audit_answers, ..environment.clone() }))
}

/// Symbol bindings of a start that an index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IndexedBindings {
    /// Relocations with a symbol whose result is in the index.
    pub bound: u32,
    /// All relocations with a symbol.
    pub relocations: u32,
}

/// The bindings that the module of an index applies to a start: the objects are those that were
/// indexed, in their order, and each file is as it was. `None` if it leaves them to the loader.
pub fn bindings(
    assumed: &Assumptions,
    session: &Session<'_>,
    index: &BString,
    closure: &Closure,
) -> Option<IndexedBindings> {
    let read = assumed.indexes.read(index).filter(|_| !assumed.bindings_are_off)?;
    let Bound { programs, objects, .. } = &read.index.bound;
    let real = session.canonicalize(closure.subject.path.as_ref()).ok()?;
    let program = programs.iter().find(|program| program.path == real)?;
    let wanted = program.members.iter().skip(1).filter_map(|m| objects.get(m.object as usize));
    let loaded = closure.load.objects.iter().skip(1).filter(|object| object.role != Role::Audit);
    let loaded = loaded.filter(|object| object.namespace == 0);
    if !wanted.map(|object| &object.path).eq(loaded.map(|object| &object.path)) {
        return None;
    }
    let fingerprints = OsFingerprints::default();
    let holds = |member: &Member| {
        let object = objects.get(member.object as usize);
        let condition = object.and_then(|o| read.index.conditions.get(o.condition as usize));
        condition.is_some_and(|condition| fingerprints.hold(condition))
    };
    let (bound, relocations) = (program.bindings, program.relocations);
    program.members.iter().all(holds).then_some(IndexedBindings { bound, relocations })
}
