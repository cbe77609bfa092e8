//! The start of a program whose audit modules include an index: finds and reads the index, and
//! predicts the start with its answers.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_core::closure::Closure;
use becalm_core::fs::FileSystem;
use becalm_core::index::Target;
use becalm_core::index::answers::answers;
use becalm_core::index::bound::Bound;
use becalm_core::loader::Environment;
use becalm_core::loader::load::Role;
use becalm_core::strategy::real_path;
use becalm_host::Session;
use becalm_host::index_store::OsFingerprints;
use bstr::{BStr, BString};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::assume::Assumptions;
use crate::fix::loader::loader;
use crate::index::error::no_name;
use crate::index::file;
use crate::json::lossy;
use crate::path::at;

/// Returns the index that a start loads as an audit module, and the environment in which its
/// answers count. `None` if there is none, or if it is switched off.
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
    let (path, read) = modules
        .map(|module| real_path(session, module.path.as_ref()))
        .filter_map(|path| Some((path.clone(), assumed.indexes.read(&path)?)))
        .find(|(_, read)| read.0 == target)?;
    let fingerprints = OsFingerprints::default();
    let loader = loader(plain).unwrap_or_default();
    let holds = |condition: &_| fingerprints.hold_for(condition, loader);
    let environment = &assumed.environment;
    let audit_answers = answers(&read.1, (session, plain), environment, &holds);
    Some((path, Environment { audit_answers, ..environment.clone() }))
}

/// Symbol bindings of a start that an index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedBindings {
    /// Relocations with a symbol whose result is in the index.
    pub bound: u32,
    /// All relocations with a symbol.
    pub relocations: u32,
}

/// The effect of an index on one start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IndexedStart {
    /// The lookups that it answers.
    pub answers: Vec<IndexedAnswer>,
    /// The lookups that it leaves to the loader.
    pub unanswered: Vec<IndexedLookup>,
    /// The bindings that it applies.
    pub bindings: Option<IndexedBindings>,
    /// The reason why it applies none.
    pub not_applied: Option<String>,
}

/// A lookup and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IndexedAnswer {
    /// The lookup.
    #[serde(flatten)]
    pub lookup: IndexedLookup,
    /// The path of the answer.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
}

/// A lookup that an index may answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IndexedLookup {
    /// The object that needs a library.
    #[serde(serialize_with = "lossy")]
    pub needed_by: BString,
    /// The needed string.
    #[serde(serialize_with = "lossy")]
    pub needed: BString,
}

/// Returns the effect of the index that a start loads; `None` if the start loads none.
pub fn indexed_start(
    assumed: &Assumptions,
    session: &Session<'_>,
    closure: &Closure,
) -> Option<IndexedStart> {
    let (index, environment) = by_index(assumed, session, closure)?;
    let (mut answers, mut unanswered) = (Vec::new(), Vec::new());
    let mut seen: FxHashSet<(&BStr, &BStr)> = FxHashSet::default();
    for resolution in &closure.load.resolutions {
        let asking = &closure.load.objects[resolution.needed_by];
        let needed_by: &BStr = asking.path.as_ref();
        let needed: &BStr = resolution.needed.as_ref();
        let is_path = needed.contains(&b'/');
        if asking.namespace != 0 || is_path || !seen.insert((needed_by, needed)) {
            continue;
        }
        let lookup = IndexedLookup { needed_by: needed_by.to_owned(), needed: needed.to_owned() };
        match environment.audit_answers.get(needed_by, needed) {
            Some(path) => answers.push(IndexedAnswer { lookup, path: path.to_owned() }),
            None => unanswered.push(lookup),
        }
    }
    let applied = applied(assumed, session, &index, closure);
    let not_applied = applied.as_ref().err().cloned();
    Some(IndexedStart { answers, unanswered, bindings: applied.ok(), not_applied })
}

/// Returns the bindings that the module of an index applies to a start. Checks that the objects are those that were
/// indexed, in the same order, and that each file is unchanged: otherwise the module applies none.
///
/// # Errors
/// Returns the reason why it leaves them to the loader.
pub fn applied(
    assumed: &Assumptions,
    session: &Session<'_>,
    index: &BString,
    closure: &Closure,
) -> Result<IndexedBindings, String> {
    if assumed.bindings_are_off {
        return Err("BECALM=nobind".to_owned());
    }
    let not_indexed = "the index has none of this program";
    let read = assumed.indexes.read(index).ok_or(not_indexed)?;
    let Bound { programs, objects, .. } = &read.1.bound;
    let real = session.canonicalize(closure.subject.path.as_ref());
    let real = real.map_err(|_| not_indexed)?;
    let mut starts = programs.iter().filter(|program| program.path == real).peekable();
    starts.peek().ok_or(not_indexed)?;
    // An audit module and its libraries have a namespace of their own (ld.so(8), "LD_AUDIT").
    let loaded = closure.load.objects.iter().skip(1);
    let loaded = loaded.filter(|object| object.role != Role::Audit && object.namespace == 0);
    let loaded: Vec<&BString> = loaded.map(|object| &object.path).collect();
    // The same file under another name is the same object.
    let is_same = |known: &BString, path: &BString| {
        known == path
            || matches!(
                (session.canonicalize(known.as_ref()), session.canonicalize(path.as_ref())),
                (Ok(known), Ok(path)) if known == path)
    };
    let program = starts.find(|program| {
        // The first object is the program, which was found by its path.
        let wanted = program.members.iter().skip(1).filter_map(|m| objects.get(m.object as usize));
        let mut pairs = wanted.zip(&loaded);
        program.members.len() == loaded.len() + 1
            && pairs.all(|(object, path)| is_same(&object.path, path))
    });
    let program = program.ok_or("the start loads other objects than were indexed")?;
    let fingerprints = OsFingerprints::default();
    for object in program.members.iter().filter_map(|m| objects.get(m.object as usize)) {
        if !fingerprints.hold(&object.condition) {
            return Err(format!("{} is not as it was indexed", object.path));
        }
    }
    let (bound, relocations) = (program.bindings, program.relocations);
    Ok(IndexedBindings { bound, relocations })
}

/// Returns the value of `LD_AUDIT` with which a start loads this index and no other module.
///
/// # Errors
/// Returns an error if the file is not an index, or if `LD_AUDIT` cannot name it.
pub fn audit_list(index: &Path) -> Result<OsString> {
    file::read(index)?;
    let path = index.canonicalize().with_context(at(index))?;
    if !file::can_be_named(&path) {
        return Err(no_name(&path));
    }
    Ok(path.into())
}
