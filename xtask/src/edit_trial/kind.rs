//! A kind of edit, and the check that a file has the result of its edits.

use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf;
use bstr::ByteSlice;
use object::elf::DF_1_NODEFLIB;

/// A name and its edits.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) edits: Vec<Edit>,
    /// True if the loader must load the same objects as before; false if the objects may differ.
    pub(super) same_set: bool,
}

/// Returns the first edit whose result the edited file does not have.
pub(super) fn missing(view: &elf::ObjectView, edits: &[Edit]) -> Option<String> {
    let dynamic = view.dynamic.as_ref();
    edits.iter().find_map(|edit| {
        let has_result = match edit {
            Edit::ResolutionNote(note) => view.notes.resolution == *note,
            Edit::RunPath { kind, value } => dynamic.is_some_and(|dynamic| match kind {
                RunPathKind::Rpath => dynamic.rpath == *value && dynamic.runpath.is_none(),
                RunPathKind::Runpath => dynamic.runpath == *value && dynamic.rpath.is_none(),
                RunPathKind::Keep => dynamic.runpath.clone().or(dynamic.rpath.clone()) == *value,
            }),
            Edit::ReplaceNeeded { from, to } => {
                view.needed().any(|name| name == to.as_bstr())
                    && view.needed().all(|name| name != from.as_bstr())
            }
            Edit::AddNeeded(name) => view.needed().next() == Some(name.as_bstr()),
            Edit::RemoveNeeded(name) => view.needed().all(|it| it != name.as_bstr()),
            Edit::Audit(value) => dynamic.is_some_and(|dynamic| dynamic.audit == *value),
            Edit::Interpreter(path) => view.interpreter.as_ref() == Some(path),
            Edit::Soname(name) => dynamic.is_some_and(|it| it.soname.as_ref() == Some(name)),
            Edit::OsAbi(abi) => view.ident.os_abi == *abi,
            Edit::NoDefaultLibraries => dynamic.is_some_and(|it| it.flags_1 & DF_1_NODEFLIB.0 != 0),
            // The view has neither of them.
            Edit::ExecutableStack(_) | Edit::DebugTag | Edit::ClearSymbolVersion(_) => true,
        };
        (!has_result).then(|| format!("{edit:?}"))
    })
}
