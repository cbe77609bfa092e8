//! No circle of imports: at each level of a crate's tree of modules its modules import each
//! other in one direction.
//!
//! A module and what is below it may name each other: `mod.rs` gathers its files, and these use
//! what stands above them. Between siblings (two files of a folder, two folders of a crate) a
//! name counts where it is defined, also if a module above re-exports it.
//!
//! A C file and its header are one unit. Units include each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::{is_test, root, rust_files};

const CRATES: [&str; 7] = [
    "crates/core/src",
    "crates/host/src",
    "crates/rewrite/src",
    "crates/lib/src",
    "crates/cli/src",
    "lab/src",
    "xtask/src",
];

/// The names of the modules from a crate's root to an item.
type Names = Vec<String>;

/// The module paths and items of one file.
#[derive(Default)]
struct File {
    /// The paths that its code names, from the crate's root.
    named: BTreeSet<Names>,
    /// The names that its `use` items import, and their origins.
    imported: BTreeMap<String, Names>,
    /// The modules all of whose names it brings in.
    globs: Vec<Names>,
    /// The items that are defined in it.
    defined: BTreeSet<String>,
}

/// The imports at one level: by importer, the imported and an example.
type Level = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn modules_import_in_no_circle() {
    let circles: Vec<String> = CRATES.iter().flat_map(|krate| circles_of(krate)).collect();
    assert!(circles.is_empty(), "{} circles of imports:\n{}", circles.len(), circles.join("\n"));
}

#[test]
fn the_audit_module_includes_in_no_circle() {
    let units = includes_of(&root().join("crates/audit/module"));
    assert!(!units.is_empty(), "the audit module has C sources");
    assert_eq!(circle(&units), None, "a circle of includes");
}

/// Returns which unit includes which header in quotation marks, among the units of a folder.
fn includes_of(folder: &Path) -> Level {
    let mut units = Level::new();
    for entry in fs::read_dir(folder).expect("a folder of C sources").flatten() {
        let path = entry.path();
        if !path.extension().is_some_and(|ending| ending == "c" || ending == "h") {
            continue;
        }
        let stem = |path: &Path| path.with_extension("").to_string_lossy().into_owned();
        let unit = stem(path.strip_prefix(folder).expect("in the folder"));
        let text = fs::read_to_string(&path).expect("a C source");
        for line in text.lines() {
            let directive = line.trim_start().strip_prefix('#').unwrap_or_default().trim_start();
            let header = directive.strip_prefix("include").unwrap_or_default().trim_start();
            let Some(header) = header.strip_prefix('"').and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            let included = stem(Path::new(header));
            if included != unit {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let example = format!("{name} includes {header}");
                units.entry(unit.clone()).or_default().entry(included).or_insert(example);
            }
        }
    }
    units
}

/// The circles of a crate, at most one a level.
fn circles_of(krate: &str) -> Vec<String> {
    let levels = levels_of(&root().join(krate));
    let found = levels.iter().filter_map(|(above, level)| {
        circle(level).map(|circle| format!("{krate} {}: {circle}", above.join("::")))
    });
    found.collect()
}

/// Returns the imports, by the module above both importer and imported.
fn levels_of(src: &Path) -> BTreeMap<Names, Level> {
    let files = files_of(src);
    let mut levels: BTreeMap<Names, Level> = BTreeMap::new();
    for (module, file) in &files {
        for path in &file.named {
            let target = resolve(&files, path, 8);
            let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                let example = format!("{} names {}", module.join("::"), path.join("::"));
                let level = levels.entry(module[..shared].to_vec()).or_default();
                level.entry(from.clone()).or_default().insert(to.clone(), example);
            }
        }
    }
    levels
}

/// The module in which a path's item is defined.
fn resolve(files: &BTreeMap<Names, File>, path: &[String], patience: usize) -> Names {
    let mut length = path.len();
    while length > 0 && !files.contains_key(&path[..length]) {
        length -= 1;
    }
    let module = path[..length].to_vec();
    let (Some(name), Some(file)) = (path.get(length), files.get(&module)) else { return module };
    if patience == 0 || file.defined.contains(name) {
        return module;
    }
    if let Some(from) = file.imported.get(name) {
        let whole = [&from[..], &path[length + 1..]].concat();
        return resolve(files, &whole, patience - 1);
    }
    let by_glob = file.globs.iter().map(|glob| [&glob[..], &path[length..]].concat());
    let mut found = by_glob.map(|whole| (resolve(files, &whole, patience - 1), whole));
    let defines = |(at, whole): &(Names, Names)| {
        files
            .get(at)
            .is_some_and(|file| whole.get(at.len()).is_some_and(|n| file.defined.contains(n)))
    };
    found.find(defines).map_or(module, |(at, _)| at)
}

/// Describes the first circle of a level.
fn circle(level: &Level) -> Option<String> {
    fn walk<'a>(
        level: &'a Level,
        at: &'a str,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<String> {
        if let Some(begin) = way.iter().position(|name| *name == at) {
            let circle: Vec<&str> = way[begin..].iter().copied().chain([at]).collect();
            let steps = circle.windows(2).map(|pair| &level[pair[0]][pair[1]]);
            let steps: Vec<&str> = steps.map(String::as_str).collect();
            return Some(format!("{}\n    {}", circle.join(" → "), steps.join("\n    ")));
        }
        if !done.insert(at) {
            return None;
        }
        way.push(at);
        let next = level.get(at).into_iter().flat_map(BTreeMap::keys);
        let found = next.into_iter().find_map(|next| walk(level, next, way, done));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    level.keys().find_map(|name| walk(level, name, &mut Vec::new(), &mut done))
}

fn files_of(src: &Path) -> BTreeMap<Names, File> {
    let mut paths: Vec<PathBuf> = Vec::new();
    rust_files(src, &mut paths);
    let inside = |path: &PathBuf| path.strip_prefix(src).expect("below the crate").to_owned();
    paths.retain(|path| !is_test(&inside(path)));
    let modules: BTreeSet<Names> = paths.iter().map(|path| module_of(&inside(path))).collect();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a source");
        let tree =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let module = module_of(&inside(path));
        let mut reader = Reader { modules: &modules, at: module.clone(), file: File::default() };
        reader.visit_file(&tree);
        (module, reader.file)
    };
    paths.iter().map(read).collect()
}

fn module_of(inside: &Path) -> Names {
    let mut names: Names = inside
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// Reads one file.
struct Reader<'m> {
    modules: &'m BTreeSet<Names>,
    /// The module, inline ones included.
    at: Names,
    file: File,
}

impl Reader<'_> {
    /// A path from the crate's root; `None` if it leads out of the crate or to a local name.
    fn absolute(&self, path: &[String]) -> Option<Names> {
        let mut base = match path.first()?.as_str() {
            "crate" => Names::new(),
            "self" | "super" => self.at.clone(),
            first => {
                let child = [&self.at[..], &[first.to_owned()]].concat();
                return self.modules.contains(&child).then(|| [&self.at[..], path].concat());
            }
        };
        let mut rest = path;
        while let Some(name) =
            rest.first().filter(|n| matches!(n.as_str(), "crate" | "self" | "super"))
        {
            if name == "super" {
                base.pop();
            }
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    fn read_use(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.read_use(&path.tree, &with(&path.ident)),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.read_use(tree, before))
            }
            syn::UseTree::Name(name) => self.bring_in(&with(&name.ident), None),
            syn::UseTree::Rename(name) => {
                self.bring_in(&with(&name.ident), Some(name.rename.to_string()))
            }
            syn::UseTree::Glob(_) => {
                if let Some(path) = self.absolute(before) {
                    self.file.named.insert(path.clone());
                    self.file.globs.push(path);
                }
            }
            #[allow(unreachable_patterns, reason = "the crate may add kinds")]
            _ => {}
        }
    }

    fn bring_in(&mut self, path: &[String], renamed: Option<String>) {
        let Some(mut path) = self.absolute(path) else { return };
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(name) = renamed.or_else(|| path.last().cloned()) {
            self.file.imported.insert(name, path.clone());
        }
        self.file.named.insert(path);
    }

    /// Returns the paths in the argument of a macro.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path = Names::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == ':' => {}
                token => {
                    self.name(&std::mem::take(&mut path));
                    if let TokenTree::Group(group) = token {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.name(&path);
    }

    fn name(&mut self, path: &[String]) {
        if matches!(path.first().map(String::as_str), Some("crate" | "super" | "self"))
            && path.len() > 1
            && let Some(path) = self.absolute(path)
        {
            self.file.named.insert(path);
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Const(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Fn(item) => Some(&item.sig.ident),
            syn::Item::Static(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        self.file.defined.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() || is_for_tests(&item.attrs) {
            return;
        }
        self.at.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.at.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.read_use(&item.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.name(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.read_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

#[test]
fn a_circle_between_siblings_is_found_and_one_with_the_module_above_is_none() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    write("lib.rs", "mod a;\nmod b;\npub use a::f;\n");
    write("a/mod.rs", "mod deep;\npub fn f() { deep::g() }\n");
    write("a/deep.rs", "use super::f;\npub fn g() { f() }\n");
    write("b.rs", "use crate::f;\npub fn h() { f() }\n");
    assert_eq!(first_circle(dir.path()), None);
    write("a/deep.rs", "pub fn g() { println!(\"{:?}\", crate::b::h()) }\n");
    let circle = first_circle(dir.path()).expect("through a re-export and a macro");
    assert!(circle.starts_with("a → b → a"), "{circle}");
}

#[test]
fn a_circle_through_a_source_and_a_header_is_found() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    write("a.h", "#include <stddef.h>\n");
    write("a.c", "#include \"a.h\"\n# include \"b.h\"\n");
    write("b.h", "int b (void);\n");
    assert_eq!(circle(&includes_of(dir.path())), None);
    write("b.c", "#include \"b.h\"\n#include \"a.h\"\n");
    let circle = circle(&includes_of(dir.path())).expect("a.c → b.h, b.c → a.h");
    assert!(circle.starts_with("a → b → a"), "{circle}");
}

fn first_circle(src: &Path) -> Option<String> {
    levels_of(src).values().find_map(circle)
}
