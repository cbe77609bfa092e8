//! The kinds of edit for each file, and the check that a file has the result of its edits.

use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf;
use bstr::{BStr, BString, ByteSlice};
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

/// Returns the kinds that are possible for a file. A needed string is replaced by the path that the
/// loader found for it.
pub(super) fn of(original: &[u8], found: &dyn Fn(&[u8]) -> Option<BString>) -> Vec<Kind> {
    let kind = |name, edits| Kind { name, edits, same_set: true };
    let note = Edit::ResolutionNote(Some(descriptor()));
    let mut kinds = vec![kind("note", vec![note.clone()])];
    let Ok(view) = elf::parse(original) else { return kinds };
    let Some(dynamic) = &view.dynamic else { return kinds };
    let old = dynamic.run_path();
    let run_path = |kind| {
        let old = old.map(|old| format!("{old}:")).unwrap_or_default();
        let value = format!("{old}/becalm/trial/of/a/run/path:/becalm/trial/of/another");
        Edit::RunPath { kind, value: Some(value.into()) }
    };
    let replace: Vec<Edit> = view
        .needed()
        .filter(|name| !name.is_empty() && !name.contains(&b'/'))
        // Under another name the loader would load itself again.
        .filter(|name| !name.starts_with(b"ld-linux") && !name.starts_with(b"ld."))
        .filter(|name| !name.starts_with(b"ld64."))
        .map(|name| Edit::ReplaceNeeded { from: name.to_owned(), to: path_of(name, found) })
        .collect();
    kinds.push(kind("run-path", vec![run_path(RunPathKind::Keep)]));
    let rpath = kind("rpath", vec![run_path(RunPathKind::Rpath)]);
    kinds.push(Kind { same_set: dynamic.runpath.is_none(), ..rpath });
    if old.is_some() {
        let none = Edit::RunPath { kind: RunPathKind::Keep, value: None };
        kinds.push(Kind { name: "no-run-path", edits: vec![none], same_set: false });
    }
    kinds.push(kind("needed", replace.clone()));
    let added = Edit::AddNeeded("libtrial-of-becalm.so.1".into());
    kinds.push(Kind { name: "add-needed", edits: vec![added], same_set: false });
    if let Some(first) = view.needed().next() {
        let removed = Edit::RemoveNeeded(first.to_owned());
        kinds.push(Kind { name: "remove-needed", edits: vec![removed], same_set: false });
    }
    kinds.push(kind("audit", vec![Edit::Audit(Some("/becalm/trial/audit.so".into()))]));
    kinds.push(kind("soname", vec![Edit::Soname("libbecalm-trial.so.0".into())]));
    // Both numbers are valid: System V and Linux.
    let os_abi = if view.ident.os_abi == 0 { 3 } else { 0 };
    kinds.push(kind("fields", vec![Edit::OsAbi(os_abi), Edit::DebugTag]));
    if let Some(interpreter) = &view.interpreter {
        let longer = format!("/becalm-trial/..{interpreter}");
        kinds.push(kind("interpreter", vec![Edit::Interpreter(longer.into())]));
    }
    let mut all = vec![note, run_path(RunPathKind::Keep)];
    all.extend(replace);
    kinds.push(kind("everything", all));
    kinds
}

fn path_of(name: &[u8], found: &dyn Fn(&[u8]) -> Option<BString>) -> BString {
    found(name).unwrap_or_else(|| format!("/becalm/trial/{}", BStr::new(name)).into())
}

/// Returns a note's descriptor as the note strategy writes it.
fn descriptor() -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..12 {
        bytes.extend(format!("libtrial{index}.so.1\0").as_bytes());
        bytes.extend(format!("=/becalm/store/trial-{index}/lib/libtrial{index}.so.1\0").as_bytes());
    }
    bytes.push(0);
    bytes
}
