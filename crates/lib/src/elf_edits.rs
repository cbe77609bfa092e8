//! Single edits of an object, named as in `patchelf`: turns the requested changes into edits of
//! `becalm-rewrite`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf::{self, ET_DYN, ObjectView};
use becalm_core::fs::FileSystem;
use becalm_core::strategy::patchelf;
use becalm_core::strategy::planned::apply as apply_to;
use becalm_host::OsFs;
use becalm_host::write::WriteOptions;
use becalm_rewrite::RewriteError;
use bstr::{BStr, BString, ByteSlice};

use crate::progress::Progress;
use crate::words::errno_words;
use crate::writing::{Changed, Editor, edit};

/// The changes of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The edits that do not depend on the object, in order. The soname is changed in a library only.
    pub edits: Vec<Edit>,
    /// Keep only the directories of the run path that have a needed library.
    pub shrink_run_path: bool,
    /// A shrunk run path keeps directories that begin with one of these; if the list is empty, any.
    pub allowed_prefixes: Vec<BString>,
    /// Remove the run path.
    pub remove_run_path: bool,
    /// The run path.
    pub run_path: Option<BString>,
    /// Directories to add at the end of the run path.
    pub added_run_path: Option<BString>,
    /// Write `DT_RPATH` instead of `DT_RUNPATH`.
    pub force_rpath: bool,
    /// Write the resolution note that `patchelf --build-resolution-cache` would write.
    pub resolution_note: bool,
}

impl Changes {
    /// Returns the edits that make the changes in an object, and remarks for the user.
    ///
    /// A note that the object has is removed if the changes may make its answers wrong.
    fn edits(&self, fs: &dyn FileSystem, view: &ObjectView) -> (Vec<Edit>, Vec<String>) {
        let mut edits = self.edits.clone();
        edits.retain(|edit| match edit {
            Edit::Soname(_) => view.ident.e_type == ET_DYN,
            edit => !is_of_search(edit) || view.dynamic.is_some(),
        });
        let is_first =
            |edit: &Edit| matches!(edit, Edit::OsAbi(_) | Edit::Interpreter(_) | Edit::Soname(_));
        let at = edits.iter().take_while(|edit| is_first(edit)).count();
        edits.splice(at..at, self.run_path_edit(fs, view));
        let mut after = view.clone();
        edits.iter().filter(|edit| is_of_search(edit)).for_each(|edit| apply_to(&mut after, edit));

        let mut remarks = Vec::new();
        if self.resolution_note {
            let note = patchelf::descriptor(fs, &after);
            if after.needed().next().is_none() || run_path(&after).is_none() {
                remarks.push("no DT_NEEDED entries or run path, so it gets no note".into());
            }
            edits.push(Edit::ResolutionNote(note));
        } else if after != *view && view.notes.resolution.is_some() {
            edits.push(Edit::ResolutionNote(None));
        }
        (edits, remarks)
    }

    /// Returns the edit of the run path.
    fn run_path_edit(&self, fs: &dyn FileSystem, view: &ObjectView) -> Option<Edit> {
        let changes_run_path = self.shrink_run_path
            || self.remove_run_path
            || self.run_path.is_some()
            || self.added_run_path.is_some()
            || self.force_rpath;
        if view.dynamic.is_none() || !changes_run_path {
            return None;
        }
        let value = self.wanted_run_path(fs, view);
        let kind = if self.force_rpath { RunPathKind::Rpath } else { RunPathKind::Runpath };
        // A run path that is absent cannot be converted.
        let is_there = value.is_some() || run_path(view).is_some();
        is_there.then_some(Edit::RunPath { kind, value })
    }

    /// Returns the run path after the changes.
    fn wanted_run_path(&self, fs: &dyn FileSystem, view: &ObjectView) -> Option<BString> {
        let mut value = run_path(view).map(BStr::to_owned);
        if self.shrink_run_path {
            value = value.map(|list| self.shrunk(fs, view, list.as_ref()));
        }
        if self.remove_run_path {
            value = None;
        }
        if let Some(list) = &self.run_path {
            value = Some(list.clone());
        }
        // The loader ignores an empty run path.
        value = value.filter(|list| !list.is_empty());
        if let Some(added) = &self.added_run_path {
            value = Some(match value {
                Some(list) => [list.as_slice(), b":", added].concat().into(),
                None => added.clone(),
            });
        }
        value
    }

    /// Returns the directories that have a needed library that no earlier one has. Relative
    /// directories are kept.
    fn shrunk(&self, fs: &dyn FileSystem, view: &ObjectView, list: &BStr) -> BString {
        let has_library = |dir: &[u8], name: &BStr| {
            let opened = fs.open([dir, b"/", name.as_bytes()].concat().as_bstr());
            let ident = opened.ok().and_then(|opened| elf::ident(opened.head.as_ref().ok()?));
            ident.is_some_and(|ident| ident.machine == view.ident.machine)
        };
        let mut missing: Vec<&BStr> = view.needed().collect();
        let mut kept: Vec<&[u8]> = Vec::new();
        for dir in list.split_str(":") {
            let is_allowed = self.allowed_prefixes.is_empty()
                || self.allowed_prefixes.iter().any(|prefix| dir.starts_with(prefix));
            let before = missing.len();
            if dir.starts_with(b"/") && is_allowed {
                missing.retain(|name| !has_library(dir, name));
            }
            if !dir.starts_with(b"/") || missing.len() < before {
                kept.push(dir);
            }
        }
        kept.join(&b":"[..]).into()
    }
}

/// Returns true for an edit of the run path or the needed strings.
fn is_of_search(edit: &Edit) -> bool {
    use Edit::{AddNeeded, RemoveNeeded, ReplaceNeeded, RunPath};
    matches!(edit, RunPath { .. } | ReplaceNeeded { .. } | AddNeeded(_) | RemoveNeeded(_))
}

/// Reads an object.
///
/// # Errors
/// Returns an error if the file cannot be opened or is not a valid ELF file.
pub fn open(fs: &OsFs, file: &Path) -> anyhow::Result<Arc<ObjectView>> {
    let path = fs.inside(file);
    let opened =
        fs.session().open(path.as_ref()).map_err(|errno| anyhow::anyhow!(errno_words(errno)))?;
    Ok(opened.object.clone()?)
}

/// Makes the changes in the files. An error of a single file is in its result.
#[must_use]
pub fn apply(
    changes: &Changes,
    files: &[PathBuf],
    fs: &OsFs,
    writing: WriteOptions,
    progress: &dyn Progress,
) -> Vec<Changed> {
    let editor = Editor::new(writing, progress);
    editor.change(files, |_, reader| {
        // Read under the lock: another run may have edited the file since it was printed.
        let view = elf::parse(reader).map_err(|_| RewriteError::Malformed("not an ELF file"))?;
        let (edits, mut remarks) = changes.edits(&fs.session(), &view);
        let (patch, warnings) = edit(reader, &edits, writing)?;
        remarks.extend(warnings);
        Ok((patch, remarks))
    })
}

/// Returns the run path of an object.
#[must_use]
pub fn run_path(view: &ObjectView) -> Option<&BStr> {
    view.dynamic.as_ref()?.run_path().map(|list| list.as_ref())
}
