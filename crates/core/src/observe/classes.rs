//! Classifies the lookups of a running program by the rules in `classes.json`. The first matching rule
//! decides the class.
//!
//! A rule matches if all of its parts match: the caller (code of the loader or of the program), the
//! kind of call, and one pattern of each list for the program's file name, the path, its file name and
//! its directory. In a pattern `*` matches any bytes and `?` one byte. A pattern that ends in `/*`
//! therefore matches all paths below a directory.

use std::sync::OnceLock;

use bstr::{BStr, BString, ByteSlice};
use serde::{Deserialize, Serialize};

use super::{Kind, Lookup};
use crate::path;

/// The cause of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The loader's search for a `dlopen`.
    Dlopen,
    /// Python's imports, along `sys.path`.
    Python,
    /// Perl's `@INC`.
    Perl,
    /// Guile's load path and compiled load path.
    Guile,
    /// OCaml's load path.
    Ocaml,
    /// Ruby's `$LOAD_PATH`.
    Ruby,
    /// Node's module resolution.
    Node,
    /// R's libraries of packages.
    R,
    /// Emacs's `load-path`.
    Emacs,
    /// Character set converters of gconv and iconv.
    Gconv,
    /// Locale archives, categories and message catalogues.
    Locale,
    /// Name services: `nsswitch.conf`, `hosts`, `passwd` and their libraries.
    Nss,
    /// fontconfig's configuration, caches and fonts.
    Fontconfig,
    /// Icons, themes, desktop files and settings of the XDG data directories.
    Xdg,
    /// Plugins of Qt.
    QtPlugins,
    /// Type libraries of GObject introspection.
    GiTypelibs,
    /// The terminal description.
    Terminfo,
    /// A search for a command along `PATH`.
    PathLookup,
    /// Any other cause.
    Other,
}

impl Class {
    /// True for the searches of interpreters for their modules.
    #[must_use]
    pub fn is_of_modules(self) -> bool {
        use Class::{Emacs, Guile, Node, Ocaml, Perl, Python, R, Ruby};
        matches!(self, Python | Perl | Guile | Ocaml | Ruby | Node | R | Emacs)
    }

    /// Returns the name for the screen.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Class::Dlopen => "dlopen",
            Class::Python => "Python imports",
            Class::Perl => "Perl @INC",
            Class::Guile => "Guile load path",
            Class::Ocaml => "OCaml load path",
            Class::Ruby => "Ruby $LOAD_PATH",
            Class::Node => "Node modules",
            Class::R => "R packages",
            Class::Emacs => "Emacs load-path",
            Class::Gconv => "gconv/iconv",
            Class::Locale => "locale",
            Class::Nss => "name services",
            Class::Fontconfig => "fontconfig",
            Class::Xdg => "XDG data",
            Class::QtPlugins => "Qt plugins",
            Class::GiTypelibs => "GI typelibs",
            Class::Terminfo => "terminfo",
            Class::PathLookup => "PATH lookups",
            Class::Other => "other",
        }
    }
}

/// The program that makes a lookup.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The file name of the program without directories (`python3.11`).
    pub program: &'a BStr,
    /// The variables of its environment that a rule uses ([`is_used`]), with their values.
    pub variables: &'a [(BString, BString)],
}

impl<'a> Caller<'a> {
    fn value(&self, name: &str) -> &'a BStr {
        let variable = self.variables.iter().find(|(key, _)| key == name);
        variable.map_or(BStr::new(b""), |(_, value)| value.as_bstr())
    }
}

/// Returns the class of a lookup that a program made after its entry point.
#[must_use]
pub fn class_of(lookup: &Lookup, caller: Caller<'_>) -> Class {
    let matching = rules().iter().find(|rule| rule.matches(lookup, caller));
    matching.map_or(Class::Other, |rule| rule.class)
}

/// Returns true for an environment variable that a rule uses.
#[must_use]
pub fn is_used(name: &[u8]) -> bool {
    let variables = |rule: &'static Rule| {
        [&rule.in_variable, &rule.below_variable, &rule.above_variable].into_iter().flatten()
    };
    rules().iter().flat_map(variables).any(|used| used.as_bytes() == name)
}

/// One rule of the table. An empty list matches everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Rule {
    class: Class,
    by_loader: Option<bool>,
    #[serde(default)]
    calls: Vec<Kind>,
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    dirs: Vec<String>,
    /// The variable that has the directory of the path as an element.
    in_variable: Option<String>,
    /// The variable that has the path, or a directory above it, as an element.
    below_variable: Option<String>,
    /// The variable that has an element below the path.
    above_variable: Option<String>,
}

impl Rule {
    fn matches(&self, lookup: &Lookup, caller: Caller<'_>) -> bool {
        let path = lookup.path.as_bstr();
        let (dir, name) = (path::dir(path), path::name(path));
        self.by_loader.is_none_or(|by_loader| by_loader == lookup.by_loader)
            && (self.calls.is_empty() || self.calls.contains(&lookup.kind))
            && one_fits(&self.programs, caller.program)
            && one_fits(&self.paths, path)
            && one_fits(&self.names, name)
            && one_fits(&self.dirs, dir)
            && self.in_variable.iter().all(|name| is_element(dir, caller.value(name)))
            && self.below_variable.iter().all(|name| is_below(path, caller.value(name)))
            && self.above_variable.iter().all(|name| is_above(path, caller.value(name)))
    }
}

fn one_fits(patterns: &[String], text: &BStr) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern.as_bytes(), text))
}

/// Returns the elements of a search path without their last slash. Empty elements, which mean the
/// current directory, are left out.
fn elements(value: &BStr) -> impl Iterator<Item = &[u8]> {
    let trimmed = |element: &'_ [u8]| element.strip_suffix(b"/").unwrap_or(element).len();
    value
        .split(|byte| *byte == b':')
        .map(move |element| &element[..trimmed(element)])
        .filter(|element| !element.is_empty())
}

fn is_element(dir: &BStr, value: &BStr) -> bool {
    elements(value).any(|element| element == dir.as_bytes())
}

fn is_below(path: &BStr, value: &BStr) -> bool {
    let below = |rest: &[u8]| rest.is_empty() || rest.starts_with(b"/");
    elements(value).any(|element| path.strip_prefix(element).is_some_and(below))
}

fn is_above(path: &BStr, value: &BStr) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let above = |element: &[u8]| element.strip_prefix(path).is_some_and(|r| r.starts_with(b"/"));
    elements(value).any(above)
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    path::matches(pattern, text, |pattern, byte| pattern == b'?' || pattern == byte)
}

/// Returns the table, which is parsed once. A test checks that it can be parsed. An invalid table would
/// make every class [`Class::Other`].
fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| parse().unwrap_or_default())
}

fn parse() -> Result<Vec<Rule>, serde_json::Error> {
    serde_json::from_str(include_str!("classes.json"))
}

#[cfg(test)]
mod tests;
