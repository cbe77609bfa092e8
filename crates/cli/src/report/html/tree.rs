//! The closure as nested lists: each object below the one that made the loader load it.
//!
//! Every object is expanded where it was loaded and only named elsewhere, so the tree is as large
//! as the closure. A template cannot recurse, so it gets a list of openings and closings.

use becalm_core::probe::SearchSource;
use becalm_lib::escape::shown;
use bstr::ByteSlice;

use crate::check::tree::name_of;
use becalm_lib::report::start::{Answered, Node};

/// The number of nested levels; browsers have problems with deep ones.
const DEEPEST: usize = 40;

/// One step of drawing the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An object with needed strings, which follow.
    Begin(Item),
    /// The end of an object's needed strings.
    End,
    /// An object or a string with nothing below it.
    Leaf(Item),
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    /// The needed string; the path for the program.
    pub name: String,
    /// The file that was found.
    pub path: String,
    /// The rule that found it, or another remark.
    pub note: &'static str,
    /// Misses before it was found.
    pub misses: u64,
    /// True if no file was found.
    pub missing: bool,
}

/// Returns the steps for all objects.
pub(crate) fn steps(nodes: &[Node]) -> Vec<Step> {
    let Some(program) = nodes.first() else { return Vec::new() };
    let item = Item { name: shown(program.path.as_bstr()), ..Item::default() };
    let mut steps = vec![Step::Begin(item)];
    let mut expanded = vec![false; nodes.len()];
    expanded[0] = true;
    expand(nodes, program, 1, &mut expanded, &mut steps);
    steps
}

/// Adds the needed strings of an object, and what is below each.
fn expand(
    nodes: &[Node],
    object: &Node,
    depth: usize,
    expanded: &mut [bool],
    steps: &mut Vec<Step>,
) {
    for child in &object.children {
        let (path, note, loaded) = match child.answer {
            Answered::Loaded(at, source) => {
                (shown(nodes[at].path.as_bstr()), rule(source), Some(at))
            }
            Answered::Before(_) => (String::new(), "loaded already", None),
            Answered::Missing => (String::new(), "not found", None),
            Answered::None => (String::new(), "goes without", None),
        };
        let name = shown(child.needed.as_bstr());
        let missing = child.answer == Answered::Missing;
        let item = Item { name, path, note, misses: child.misses, missing };
        let loaded = loaded.filter(|at| !std::mem::replace(&mut expanded[*at], true));
        let below = loaded.map(|at| &nodes[at]).filter(|object| !object.children.is_empty());
        match below.filter(|_| depth < DEEPEST) {
            Some(object) => {
                steps.push(Step::Begin(item));
                expand(nodes, object, depth + 1, expanded, steps);
            }
            None => steps.push(Step::Leaf(item)),
        }
    }
    steps.push(Step::End);
}

/// Names the rule that found an object.
fn rule(source: SearchSource) -> &'static str {
    match source {
        SearchSource::Direct => "by its path",
        SearchSource::LoaderCache => "loader cache",
        SearchSource::System => "system directory",
        other => name_of(other),
    }
}
