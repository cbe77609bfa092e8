//! The wanted strings and note of a file: those of the original with the edits applied one by one.
//!
//! The image is built from the goal only. Independent edits therefore give the same file in any order,
//! and a repeated edit changes nothing.

use becalm_core::edit::Edit;
use bstr::BString;
use object::elf::DynamicTag;
use object::elf::{DT_AUDIT, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME};

use crate::fields::{self, Fields};
use crate::image::{ET_DYN, Image, STRING_MAX, is_static_pie};
use crate::notes::{self, NOTE_NAME};
use crate::{Result, RewriteError};

/// The limit on the dynamic strings of one file. The entries of a hostile file could all name the same
/// long string.
const STRINGS_MAX: usize = 16 << 20;

/// The wanted changes. `None` keeps the original's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Goal {
    /// The descriptor of the resolution note. The inner `None` removes the note.
    pub(crate) note: Option<Option<Vec<u8>>>,
    pub(crate) interpreter: Option<BString>,
    pub(crate) names: Option<Names>,
    pub(crate) fields: Fields,
}

/// The strings of the dynamic section that edits can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) needed: Vec<Needed>,
    pub(crate) rpath: Option<BString>,
    pub(crate) runpath: Option<BString>,
    pub(crate) audit: Option<BString>,
    pub(crate) soname: Option<BString>,
}

/// One `DT_NEEDED`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The index among the original's `DT_NEEDED`. `None` for an added one.
    pub(crate) from: Option<usize>,
    pub(crate) name: BString,
}

impl Names {
    /// Reads the original's strings.
    pub(crate) fn of(image: &Image) -> Result<Self> {
        let dynamic = image.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
        let mut budget = STRINGS_MAX;
        let mut string = |offset| {
            let string = image.string_at(offset)?;
            budget = budget
                .checked_sub(string.len() + 1)
                .ok_or(RewriteError::Malformed("its dynamic strings exceed 16 MiB"))?;
            Ok::<_, RewriteError>(string.to_owned())
        };
        let mut needed = Vec::new();
        for entry in dynamic.entries.iter().filter(|entry| entry.tag == DT_NEEDED) {
            needed.push(Needed { from: Some(needed.len()), name: string(entry.value)? });
        }
        let mut one = |tag: DynamicTag| dynamic.value(tag).map(&mut string).transpose();
        Ok(Self {
            needed,
            rpath: one(DT_RPATH)?,
            runpath: one(DT_RUNPATH)?,
            audit: one(DT_AUDIT)?,
            soname: one(DT_SONAME)?,
        })
    }

    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::RunPath { kind, value } => {
                kind.set(value.clone(), &mut self.rpath, &mut self.runpath);
            }
            Edit::ReplaceNeeded { from, to } => {
                for needed in self.needed.iter_mut().filter(|needed| needed.name == *from) {
                    needed.name.clone_from(to);
                }
            }
            // A repeated edit must not add the name twice.
            Edit::AddNeeded(name) if self.needed.iter().all(|needed| needed.name != *name) => {
                self.needed.insert(0, Needed { from: None, name: name.clone() });
            }
            Edit::RemoveNeeded(name) => self.needed.retain(|needed| needed.name != *name),
            Edit::Audit(value) => self.audit.clone_from(value),
            Edit::Soname(name) => self.soname = Some(name.clone()),
            // The others change no string of the dynamic section.
            _ => {}
        }
    }
}

impl Goal {
    /// Applies one edit.
    ///
    /// # Errors
    /// Returns [`RewriteError`] if the edit is not possible in this file.
    pub(crate) fn apply(&mut self, edit: &Edit, image: &Image) -> Result<()> {
        check_string(edit)?;
        match edit {
            Edit::ResolutionNote(descriptor) => {
                let is_named = |section| image.section_name(section) == NOTE_NAME;
                if image.sections.iter().any(is_named) && notes::resolution(image).is_empty() {
                    return Err(RewriteError::UnreadableNote);
                }
                self.note = Some(descriptor.clone());
            }
            Edit::Interpreter(path) => {
                image.interpreter().ok_or(RewriteError::NoInterpreter)?;
                self.interpreter = Some(path.clone());
            }
            Edit::OsAbi(abi) => self.fields.os_abi = Some(*abi),
            Edit::ExecutableStack(wanted) => {
                fields::stack(image).ok_or(RewriteError::NoStackHeader)?;
                self.fields.executable_stack = Some(*wanted);
            }
            _ => {
                image.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
                // Its own code reads the dynamic section at a fixed address.
                if is_static_pie(image) {
                    return Err(RewriteError::StaticPie);
                }
                self.apply_to_dynamic(edit, image)?;
            }
        }
        Ok(())
    }

    fn apply_to_dynamic(&mut self, edit: &Edit, image: &Image) -> Result<()> {
        let fields = &mut self.fields;
        match edit {
            Edit::NoDefaultLibraries => fields.no_default_libraries = true,
            Edit::DebugTag => fields.debug_tag = true,
            Edit::ClearSymbolVersion(name) => {
                if let Err(at) = fields.unversioned.binary_search(name) {
                    fields.unversioned.insert(at, name.clone());
                }
            }
            // The strings are read at the first edit that needs them.
            _ => match &mut self.names {
                Some(names) => names.apply(edit),
                names => names.insert(Names::of(image)?).apply(edit),
            },
        }
        Ok(())
    }

    /// Removes changes that equal the original, so that equal goals compare equal.
    ///
    /// # Errors
    /// Returns [`RewriteError`] if the original cannot be read.
    pub(crate) fn settle(&mut self, image: &Image) -> Result<()> {
        if let Some(note) = &self.note {
            let found = notes::resolution(image);
            // Two notes are not the original's state of one note, even if the first is equal.
            let same = match found.as_slice() {
                [] => note.is_none(),
                [one] => note.as_deref() == Some(one.descriptor),
                _ => false,
            };
            if same {
                self.note = None;
            }
        }
        if let (Some(path), Some(segment)) = (&self.interpreter, image.interpreter()) {
            let old = image.bytes_at(segment.offset, segment.filesz).unwrap_or_default();
            if old.strip_suffix(b"\0").is_some_and(|old| old == path.as_slice()) {
                self.interpreter = None;
            }
        }
        if self.names.is_some() && self.names == Some(Names::of(image)?) {
            self.names = None;
        }
        self.fields.settle(image)
    }
}

/// Returns an error for a string that an ELF file cannot contain.
fn check_string(edit: &Edit) -> Result<()> {
    let (string, may_be_empty) = match edit {
        Edit::RunPath { value, .. } | Edit::Audit(value) => (value.as_ref(), true),
        // The file may have an empty needed string, which can be replaced and removed.
        Edit::ReplaceNeeded { to: name, .. }
        | Edit::AddNeeded(name)
        | Edit::Interpreter(name)
        | Edit::Soname(name) => (Some(name), false),
        // These write no string.
        _ => (None, true),
    };
    let Some(string) = string else { return Ok(()) };
    let is_path = matches!(edit, Edit::Interpreter(_));
    let faults = [
        (string.contains(&0), "it contains a NUL"),
        (string.is_empty() && !may_be_empty, "it is empty"),
        (string.len() as u64 >= STRING_MAX, "it is longer than 1 MiB"),
        (is_path && string.len() >= 4096, "the kernel rejects an interpreter of 4096 bytes"),
    ];
    match faults.into_iter().find(|(is_fault, _)| *is_fault) {
        Some((_, why)) => Err(RewriteError::BadString(why)),
        None => Ok(()),
    }
}

/// Returns true for a dynamic loader.
pub(crate) fn is_loader(image: &Image) -> bool {
    // A loader reads its own headers before it can relocate itself, so it is never edited.
    if image.interpreter().is_some() || image.header.kind != ET_DYN {
        return false;
    }
    let soname = image.dynamic.as_ref().and_then(|dynamic| dynamic.value(DT_SONAME));
    let Some(soname) = soname.and_then(|at| image.string_at(at).ok()) else {
        return false;
    };
    let starts =
        [&b"ld-linux"[..], b"ld.so.", b"ld64.so.", b"ld-musl-", b"ld-uClibc", b"libc.musl-"];
    starts.iter().any(|start| soname.starts_with(start)) || soname == "libc.so"
}
