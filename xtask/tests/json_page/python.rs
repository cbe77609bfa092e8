//! The dataclasses of `packaging/python/becalm/_reports.py`, from the definitions of the reports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::definitions::{Definitions, File, Serde, doc, is_written, name_of};

/// The documents that the package decodes: the class, and the definitions that it has the fields of.
const DOCUMENTS: [(&str, &[(&str, &str)]); 12] = [
    ("Check", &[("check.rs", "Report")]),
    ("Advise", &[("advise.rs", "Report")]),
    ("Trace", &[("trace/report.rs", "Report"), ("trace/log.rs", "Report")]),
    ("Index", &[("index/report.rs", "Report")]),
    ("Verify", &[("verify/mod.rs", "Report")]),
    ("Fix", &[("fix/report.rs", "Report")]),
    ("Undo", &[("undo.rs", "Report")]),
    ("Bench", &[("bench.rs", "Report")]),
    ("Doctor", &[("doctor/mod.rs", "Report")]),
    ("Cache", &[("cache.rs", "CacheReport")]),
    ("Pack", &[("trees/pack.rs", "PackReport")]),
    ("SurveyLine", &[("survey/mod.rs", "Surveyed"), ("survey/mod.rs", "Unchecked")]),
];

/// Classes with another name than their definitions.
const RENAMED: [(&str, &str); 8] = [
    ("SearchCost", "Storm"),
    ("Problem", "Failed"),
    ("Seen", "Image"),
    ("AuditedProcess", "Image"),
    ("Missed", "Misses"),
    ("SyscallRow", "Syscall"),
    ("PlannedAnswer", "Answer"),
    ("Offenders", "Worst"),
];

const HEAD: &str = r#""""The reports of becalm's commands, written by `BECALM_BLESS=1 cargo nextest run -p xtask --test json_page`.

A field with a default may be absent from the JSON. docs/json.md has the meaning of each field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from ._decode import Record
"#;

const MISSES: &str = r#"
    @property
    def misses(self) -> int:
        """Failed opens and stats."""
        return self.missed_opens + self.missed_stats
"#;

/// Words of Python that a field may be named.
const KEYWORDS: [&str; 4] = ["class", "from", "is", "import"];

struct Class {
    name: String,
    doc: String,
    fields: Vec<Field>,
    is_document: bool,
}

#[derive(Clone)]
struct Field {
    json: String,
    kind: String,
    may_be_absent: bool,
}

struct Module<'d> {
    definitions: &'d Definitions,
    classes: Vec<Class>,
    /// The classes of definitions, by file and name.
    names: BTreeMap<(PathBuf, String), String>,
    /// The document whose classes are added.
    document: &'static str,
}

/// The text of the module.
pub(crate) fn module(definitions: &Definitions) -> String {
    let (classes, names) = (Vec::new(), BTreeMap::new());
    let mut module = Module { definitions, classes, names, document: "" };
    for (document, of) in DOCUMENTS {
        module.document = document;
        let mut parts = of.iter().map(|(path, name)| {
            let file = definitions.file(&format!("crates/lib/src/{path}"));
            let item = file.items[*name].clone();
            (doc(attributes(&item)), module.fields(&file, &item))
        });
        let (doc, mut fields) = parts.next().expect("a definition");
        parts.for_each(|(_, more)| merge(&mut fields, more));
        module.classes.push(Class { name: document.to_owned(), doc, fields, is_document: true });
    }
    module.text()
}

impl Module<'_> {
    fn text(&self) -> String {
        let mut names: Vec<&str> = self.classes.iter().map(|class| class.name.as_str()).collect();
        names.sort_unstable();
        let mut text = HEAD.to_owned();
        text.push_str("\n__all__ = [\n");
        names.iter().for_each(|name| _ = writeln!(text, "    \"{name}\","));
        text.push_str("]\n");
        for class in &self.classes {
            let _ = write!(text, "\n\n@dataclass\nclass {}(Record):\n", class.name);
            let _ = writeln!(text, "    \"\"\"{}\"\"\"\n", class.doc);
            if class.is_document {
                text.push_str("    schema: str\n");
            }
            let (last, first): (Vec<&Field>, _) =
                class.fields.iter().partition(|field| field.may_be_absent);
            first.into_iter().chain(last).for_each(|field| text.push_str(&field.line()));
            if class.is_document {
                text.push_str(
                    "    exit_status: int = field(default=0, metadata={\"json\": \"\"})\n",
                );
            }
            if class.name == "Storm" {
                text.push_str(MISSES);
            }
        }
        text
    }

    /// The fields of a struct or an enum as serde writes it.
    fn fields(&mut self, file: &File, item: &syn::Item) -> Vec<Field> {
        let mut fields = Vec::new();
        match item {
            syn::Item::Struct(item) => {
                item.fields.iter().for_each(|field| self.add(file, field, &mut fields));
            }
            syn::Item::Enum(item) => {
                let serde = Serde::of(&item.attrs);
                let tag = |json| Field { json, kind: "str".to_owned(), may_be_absent: false };
                fields.extend(serde.tag.clone().map(tag));
                for variant in &item.variants {
                    let mut more = Vec::new();
                    for field in &variant.fields {
                        self.add(file, field, &mut more);
                        if serde.tag.is_none() {
                            // The only field of a variant has the name of the variant.
                            more.iter_mut().for_each(|field| {
                                field.json = name_of(&variant.ident, serde.kebab);
                            });
                        }
                    }
                    more.iter_mut().for_each(|field| field.may_be_absent = true);
                    for field in more {
                        if !fields.iter().any(|known| known.json == field.json) {
                            fields.push(field);
                        }
                    }
                }
            }
            _ => {}
        }
        fields
    }

    fn add(&mut self, file: &File, field: &syn::Field, fields: &mut Vec<Field>) {
        let serde = Serde::of(&field.attrs);
        if serde.skip {
            return;
        }
        if serde.flatten {
            let (inner, is_optional) = without_option(&field.ty);
            let (there, item) = self.find(file, inner).expect("a definition to flatten");
            let mut more = self.fields(&there, &item);
            more.iter_mut().for_each(|field| field.may_be_absent |= is_optional);
            return fields.extend(more);
        }
        let ident = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
        let (inner, is_optional) = without_option(&field.ty);
        let kind = match serde.with.as_deref() {
            Some("lossy_list" | "lossy_list_option" | "needed_strings") => "List[str]".to_owned(),
            Some("length") => "int".to_owned(),
            // It writes a part of the list.
            Some("first") | None => self.kind(file, inner),
            Some(_) => "str".to_owned(),
        };
        let kind = if is_optional { format!("Optional[{kind}]") } else { kind };
        let json = serde.rename.unwrap_or(ident);
        fields.push(Field { json, kind, may_be_absent: serde.may_be_absent || is_optional });
    }

    /// The type hint of a type.
    fn kind(&mut self, file: &File, ty: &syn::Type) -> String {
        let (ty, is_optional) = without_option(ty);
        if is_optional {
            return format!("Optional[{}]", self.kind(file, ty));
        }
        match ty {
            syn::Type::Array(array) => format!("List[{}]", self.kind(file, &array.elem)),
            syn::Type::Slice(slice) => format!("List[{}]", self.kind(file, &slice.elem)),
            syn::Type::Path(path) => {
                let last = path.path.segments.last().expect("a name");
                let arguments = arguments(last);
                match (last.ident.to_string().as_str(), arguments.as_slice()) {
                    ("Vec", [item]) => format!("List[{}]", self.kind(file, item)),
                    ("BTreeMap", [_, item]) => format!("Dict[str, {}]", self.kind(file, item)),
                    ("bool", _) => "bool".to_owned(),
                    ("f32" | "f64", _) => "float".to_owned(),
                    (name, _) if is_number(name) => "int".to_owned(),
                    _ => self.class(file, ty).unwrap_or_else(|| "str".to_owned()),
                }
            }
            _ => "str".to_owned(),
        }
    }

    /// The class of a definition, or the hint of what serde writes in its place; none for a string.
    fn class(&mut self, file: &File, ty: &syn::Type) -> Option<String> {
        let (there, item) = self.find(file, ty)?;
        let is_string = match &item {
            syn::Item::Enum(item) => {
                Serde::of(&item.attrs).tag.is_none()
                    && item.variants.iter().all(|variant| variant.fields.is_empty())
            }
            _ => false,
        };
        if is_string || !is_written(attributes(&item)) {
            return None;
        }
        if let syn::Item::Struct(syn::ItemStruct { fields: syn::Fields::Unnamed(fields), .. }) =
            &item
        {
            return Some(self.kind(&there, &fields.unnamed.first()?.ty));
        }
        let rust = name_in(&item);
        let key = (there.path.clone(), rust.clone());
        if let Some(name) = self.names.get(&key) {
            return Some(name.clone());
        }
        let renamed = RENAMED.iter().find(|(from, _)| *from == rust);
        let name = renamed.map_or(rust, |(_, to)| (*to).to_owned());
        let is_taken = |name: &str| {
            DOCUMENTS.iter().any(|(document, _)| *document == name)
                || self.classes.iter().any(|class| class.name == name)
        };
        let is_merged = name == "Image";
        let name = match is_taken(&name) && !is_merged {
            true => format!("{}{name}", self.document),
            false => name,
        };
        self.names.insert(key, name.clone());
        let fields = self.fields(&there, &item);
        match self.classes.iter_mut().find(|class| class.name == name) {
            Some(class) if is_merged => merge(&mut class.fields, fields),
            Some(_) => panic!("two classes {name}"),
            None => {
                let doc = doc(attributes(&item));
                self.classes.push(Class { name: name.clone(), doc, fields, is_document: false });
            }
        }
        Some(name)
    }

    fn find(&self, file: &File, ty: &syn::Type) -> Option<(File, syn::Item)> {
        let syn::Type::Path(path) = ty else { return None };
        self.definitions.find(file, &path.path.segments.last()?.ident.to_string())
    }
}

impl Field {
    fn line(&self) -> String {
        let Self { json, kind, .. } = self;
        let default = match kind.as_str() {
            kind if kind.starts_with("List") => "list",
            kind if kind.starts_with("Dict") => "dict",
            _ => "",
        };
        let mut name = json.replace('-', "_");
        let mut parts = Vec::new();
        let mut kind = kind.clone();
        if self.may_be_absent && !default.is_empty() {
            parts.push(format!("default_factory={default}"));
        } else if self.may_be_absent {
            if !kind.starts_with("Optional") {
                kind = format!("Optional[{kind}]");
            }
            parts.push("default=None".to_owned());
        }
        if KEYWORDS.contains(&name.as_str()) {
            name.push('_');
        }
        if name != *json {
            parts.push(format!("metadata={{\"json\": \"{json}\"}}"));
        }
        match parts.as_slice() {
            [] => format!("    {name}: {kind}\n"),
            [one] if one == "default=None" => format!("    {name}: {kind} = None\n"),
            parts => format!("    {name}: {kind} = field({})\n", parts.join(", ")),
        }
    }
}

/// Adds the fields of another form of a document: those that one form lacks may be absent.
fn merge(fields: &mut Vec<Field>, more: Vec<Field>) {
    for field in fields.iter_mut() {
        field.may_be_absent |= !more.iter().any(|other| other.json == field.json);
    }
    for field in more {
        match fields.iter_mut().find(|known| known.json == field.json) {
            Some(known) => known.may_be_absent |= field.may_be_absent,
            None => fields.push(Field { may_be_absent: true, ..field }),
        }
    }
}

/// A type without references, `Box` and `Option` around it, and whether there was an `Option`.
fn without_option(ty: &syn::Type) -> (&syn::Type, bool) {
    match ty {
        syn::Type::Reference(reference) => without_option(&reference.elem),
        syn::Type::Path(path) => {
            let last = path.path.segments.last().expect("a name");
            match (last.ident.to_string().as_str(), arguments(last).as_slice()) {
                ("Option", [inner]) => (without_option(inner).0, true),
                ("Box" | "Arc", [inner]) => without_option(inner),
                _ => (ty, false),
            }
        }
        _ => (ty, false),
    }
}

fn arguments(segment: &syn::PathSegment) -> Vec<&syn::Type> {
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        syn::GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
}

fn is_number(name: &str) -> bool {
    let (kind, bits) = name.split_at(name.len().min(1));
    matches!(kind, "u" | "i") && (bits == "size" || bits.parse::<u8>().is_ok())
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        _ => &[],
    }
}

fn name_in(item: &syn::Item) -> String {
    match item {
        syn::Item::Struct(item) => item.ident.to_string(),
        syn::Item::Enum(item) => item.ident.to_string(),
        _ => String::new(),
    }
}
