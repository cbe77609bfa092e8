//! Structs and enums of the sources, as serde writes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The definitions below a folder, read as they are needed.
pub(crate) struct Definitions {
    root: PathBuf,
}

/// A field of a JSON document: its place and its meaning.
pub(crate) type Field = (String, String);

/// The definitions of one file.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) items: BTreeMap<String, syn::Item>,
    /// The paths that its `use` items bring in, by name.
    imported: BTreeMap<String, Vec<String>>,
}

/// The serde attributes of an item, a variant or a field.
#[derive(Default)]
pub(crate) struct Serde {
    pub(crate) rename: Option<String>,
    pub(crate) tag: Option<String>,
    /// The function of `serialize_with`, without its module.
    pub(crate) with: Option<String>,
    pub(crate) kebab: bool,
    pub(crate) flatten: bool,
    pub(crate) skip: bool,
    pub(crate) may_be_absent: bool,
}

impl Definitions {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The fields of a struct, those of the structs in it included.
    pub(crate) fn fields(&self, file: &str, name: &str) -> Vec<Field> {
        let file = self.file(file);
        let mut fields = Vec::new();
        let item = file.items.get(name).unwrap_or_else(|| panic!("{name} is not in {file:?}"));
        self.add(&file, item, "", &mut fields);
        fields
    }

    pub(crate) fn file(&self, path: &str) -> File {
        File::read(self.root.join(path))
    }

    fn add(&self, file: &File, item: &syn::Item, prefix: &str, fields: &mut Vec<Field>) {
        match item {
            syn::Item::Struct(item) => {
                for field in item.fields.iter().filter(|field| field.ident.is_some()) {
                    self.add_field(file, field, prefix, fields);
                }
            }
            syn::Item::Enum(item) => self.add_tagged(file, item, prefix, fields),
            _ => {}
        }
    }

    fn add_field(&self, file: &File, field: &syn::Field, prefix: &str, fields: &mut Vec<Field>) {
        let serde = Serde::of(&field.attrs);
        if serde.skip {
            return;
        }
        let ident = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
        let (inner, is_list) = inner(&field.ty);
        let found = inner.as_ref().and_then(|name| self.resolve(file, name));
        if let (true, Some((there, item))) = (serde.flatten, &found) {
            return self.add(there, item, prefix, fields);
        }
        let list = if is_list { "[]" } else { "" };
        let place = format!("{prefix}{}{list}", serde.rename.unwrap_or(ident));
        let mut meaning = doc(&field.attrs);
        if inner.as_deref() == Some("SearchCost") {
            meaning.push_str(" A [storm](#storm).");
        } else if inner.as_deref() == Some("Probe") {
            meaning.push_str(" As a [probe](#probe).");
        } else if let Some((_, syn::Item::Enum(item))) = &found {
            meaning.push_str(&values(item));
        }
        if serde.may_be_absent {
            meaning.push_str(" Absent if there is none.");
        }
        fields.push((place.clone(), meaning));
        if let Some((there, item @ syn::Item::Struct(_))) = &found {
            self.add(there, item, &format!("{place}."), fields);
        }
    }

    /// The tag of an enum and the fields of its variants, those of one name together.
    fn add_tagged(&self, file: &File, item: &syn::ItemEnum, prefix: &str, fields: &mut Vec<Field>) {
        let serde = Serde::of(&item.attrs);
        let tag = serde.tag.expect("a flattened enum has a tag");
        fields.push((format!("{prefix}{tag}"), doc(&item.attrs) + &values(item)));
        let begin = fields.len();
        for variant in &item.variants {
            let name = name_of(&variant.ident, serde.kebab);
            let mut of_variant = Vec::new();
            for field in &variant.fields {
                self.add_field(file, field, prefix, &mut of_variant);
            }
            for (place, meaning) in of_variant {
                let meaning = format!("If `{name}`: {meaning}");
                match fields[begin..].iter_mut().find(|(known, _)| *known == place) {
                    Some((_, known)) => *known = format!("{known} {meaning}"),
                    None => fields.push((place, meaning)),
                }
            }
        }
    }

    /// The definition of a name in a file, if it has no part of the page.
    fn resolve(&self, file: &File, name: &str) -> Option<(File, syn::Item)> {
        if matches!(name, "SearchCost" | "Probe") { None } else { self.find(file, name) }
    }

    /// The definition of a name in a file, if serde writes it by its fields or variants.
    pub(crate) fn find(&self, file: &File, name: &str) -> Option<(File, syn::Item)> {
        if let Some(item) = file.items.get(name) {
            return Some((File::read(file.path.clone()), item.clone()));
        }
        let (name, modules) = file.imported.get(name)?.split_last()?;
        let (first, modules) = modules.split_first()?;
        let source = match first.as_str() {
            "crate" => {
                let src = file.path.ancestors().find(|dir| dir.ends_with("src"))?;
                src.to_owned()
            }
            "self" if file.path.ends_with("mod.rs") => file.path.parent()?.to_owned(),
            "super" if !file.path.ends_with("mod.rs") => file.path.parent()?.to_owned(),
            "becalm_lib" => self.root.join("crates/lib/src"),
            "becalm_core" => self.root.join("crates/core/src"),
            "becalm_host" => self.root.join("crates/host/src"),
            module if file.path.ends_with("mod.rs") => file.path.parent()?.join(module),
            _ => return None,
        };
        let path = modules.iter().fold(source, |path, module| path.join(module));
        let there = [path.with_extension("rs"), path.join("mod.rs")];
        let file = File::read(there.into_iter().find(|path| path.is_file())?);
        match file.items.get(name).cloned() {
            Some(item) => Some((file, item)),
            None => self.find(&file, name),
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}", self.path.display())
    }
}

impl File {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let tree = syn::parse_file(&text).expect("a Rust source");
        let mut file = Self { path, items: BTreeMap::new(), imported: BTreeMap::new() };
        for item in tree.items {
            match &item {
                syn::Item::Struct(it) => drop(file.items.insert(it.ident.to_string(), item)),
                syn::Item::Enum(it) => drop(file.items.insert(it.ident.to_string(), item)),
                // A row of a table is a variant.
                syn::Item::Macro(it) if it.mac.path.is_ident("strategies") => {
                    let rows = &it.mac.tokens;
                    let item: syn::ItemEnum = syn::parse_quote! {
                        #[derive(Serialize)]
                        #[serde(rename_all = "kebab-case")]
                        enum Strategy { #rows }
                    };
                    file.items.insert(item.ident.to_string(), syn::Item::Enum(item));
                }
                syn::Item::Use(it) => bring_in(&it.tree, &mut Vec::new(), &mut file.imported),
                _ => {}
            }
        }
        file
    }
}

fn bring_in(
    tree: &syn::UseTree,
    above: &mut Vec<String>,
    imported: &mut BTreeMap<String, Vec<String>>,
) {
    match tree {
        syn::UseTree::Path(path) => {
            above.push(path.ident.to_string());
            bring_in(&path.tree, above, imported);
            above.pop();
        }
        syn::UseTree::Name(name) => {
            let path = above.iter().cloned().chain([name.ident.to_string()]).collect();
            imported.insert(name.ident.to_string(), path);
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| bring_in(tree, above, imported));
        }
        _ => {}
    }
}

/// The name of a type without `Option`, `Vec`, `Box` or the brackets of an array around it, and
/// whether it is a list.
fn inner(ty: &syn::Type) -> (Option<String>, bool) {
    match ty {
        syn::Type::Array(array) => (inner(&array.elem).0, true),
        syn::Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return (None, false) };
            let argument = match &last.arguments {
                syn::PathArguments::AngleBracketed(arguments) => arguments.args.first(),
                _ => None,
            };
            match (last.ident.to_string().as_str(), argument) {
                ("Vec", Some(syn::GenericArgument::Type(ty))) => (inner(ty).0, true),
                ("Option" | "Box", Some(syn::GenericArgument::Type(ty))) => inner(ty),
                (name, _) => (Some(name.to_owned()), false),
            }
        }
        _ => (None, false),
    }
}

/// The values of an enum that serde writes as strings, with their meanings.
fn values(item: &syn::ItemEnum) -> String {
    if !is_written(&item.attrs) {
        return String::new();
    }
    let kebab = Serde::of(&item.attrs).kebab;
    let value = |variant: &syn::Variant| {
        let name = Serde::of(&variant.attrs).rename;
        let name = name.unwrap_or_else(|| name_of(&variant.ident, kebab));
        format!(" `{name}`: {}", doc(&variant.attrs))
    };
    let written = item.variants.iter().filter(|variant| !Serde::of(&variant.attrs).skip);
    written.map(value).collect()
}

/// True if serde writes an item by its fields or variants.
pub(crate) fn is_written(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut has = false;
        if attribute.path().is_ident("derive") {
            let _ = attribute.parse_nested_meta(|meta| {
                has |= meta.path.is_ident("Serialize");
                Ok(())
            });
        }
        has
    })
}

pub(crate) fn name_of(ident: &syn::Ident, kebab: bool) -> String {
    let mut name = String::new();
    for c in ident.to_string().chars() {
        if kebab && c.is_uppercase() {
            name.extend((!name.is_empty()).then_some('-'));
            name.extend(c.to_lowercase());
        } else {
            name.push(c);
        }
    }
    name
}

/// The first paragraph of a doc comment.
pub(crate) fn doc(attributes: &[syn::Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let syn::Meta::NameValue(meta) = &attribute.meta
            && let syn::Expr::Lit(expression) = &meta.value
            && let syn::Lit::Str(text) = &expression.lit
        {
            lines.push(text.value().trim().to_owned());
        }
    }
    let paragraph: Vec<String> = lines.into_iter().take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ").replace('|', "\\|")
}

impl Serde {
    pub(crate) fn of(attributes: &[syn::Attribute]) -> Self {
        let mut serde = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            let _ = attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                serde.flatten |= name == "flatten";
                serde.skip |= name == "skip";
                serde.may_be_absent |= name == "skip_serializing_if";
                if let Ok(value) = meta.value() {
                    let text: syn::LitStr = value.parse()?;
                    match name.as_str() {
                        "serialize_with" => {
                            serde.with = text.value().rsplit("::").next().map(str::to_owned);
                        }
                        "rename" => serde.rename = Some(text.value()),
                        "tag" => serde.tag = Some(text.value()),
                        "rename_all" => serde.kebab = text.value() == "kebab-case",
                        _ => {}
                    }
                }
                Ok(())
            });
        }
        serde
    }
}
