//! The start of a program whose audit modules include an index: the index by its file, and the
//! start with its answers.

use becalm_core::closure::Closure;
use becalm_core::fs::FileSystem;
use becalm_core::index::Target;
use becalm_core::index::answers::answers;
use becalm_core::loader::Environment;
use becalm_core::loader::load::Role;
use becalm_host::Session;
use becalm_host::index_store::OsFingerprints;
use bstr::{BStr, BString};

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
