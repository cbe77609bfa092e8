//! Dependency tree: each object below the one that made the loader load it.
//!
//! Each object is expanded once, at the place where it was loaded, and only named elsewhere. The
//! tree is therefore no larger than the closure, even if needed strings form cycles.

use std::fmt::Write;
use std::rc::Rc;

use becalm_core::closure::Closure;
use becalm_core::elf::DependencyKind;
use becalm_core::loader::load::{Answer, Load, Reason};
use becalm_core::probe::SearchSource;
use becalm_lib::check::{Kind, Program};
use becalm_lib::escape::shown;
use becalm_lib::words::counted;

use crate::check::text;
use crate::check::view::View;
use crate::terminal::style::Look;

/// Levels that are indented; a longer chain of objects is numbered instead.
const DEEPEST: usize = 48;

/// The tree of each file.
pub(crate) struct Trees;

impl View for Trees {
    fn between(&self) -> &'static str {
        "\n"
    }

    fn program(&self, look: Look, program: &mut Program, closure: Option<&Closure>) -> Vec<u8> {
        let mut text = text::heading(look, program);
        match (program.kind, closure) {
            (Kind::MachO, _) => {
                text::slices(&mut text, program.slices.as_deref().unwrap_or_default());
            }
            (_, Some(closure)) => Tree::new(look, &closure.load).draw(&mut text),
            _ => {}
        }
        if let Some(stop) = &program.stop {
            let _ = writeln!(text, "{} {stop}", look.bad("the loader would give up at"));
        }
        text.into_bytes()
    }
}

struct Tree<'a> {
    look: Look,
    load: &'a Load,
    /// The lookups of each object, in order.
    lookups_by_object: Vec<Vec<usize>>,
    /// The misses of each lookup.
    misses: Vec<u64>,
}

impl<'a> Tree<'a> {
    fn new(look: Look, load: &'a Load) -> Self {
        let mut lookups_by_object = vec![Vec::new(); load.objects.len()];
        for (at, resolution) in load.resolutions.iter().enumerate() {
            lookups_by_object[resolution.needed_by].push(at);
        }
        let mut misses = vec![0; load.resolutions.len()];
        for probe in load.probes.iter().filter(|probe| probe.outcome.is_failed_call()) {
            misses[probe.resolution] += 1;
        }
        Self { look, load, lookups_by_object, misses }
    }

    fn draw(&self, text: &mut String) {
        let mut expanded = vec![false; self.load.objects.len()];
        // The lookups below one object, last first, each with its indentation and depth.
        let below = |object: usize, indent: Rc<str>, depth: usize| {
            let lookups = self.lookups_by_object[object].iter().rev().enumerate();
            lookups.map(move |(after, &at)| (at, after == 0, Rc::clone(&indent), depth))
        };
        expanded[0] = true;
        let mut waiting: Vec<_> = below(0, "".into(), 1).collect();
        while let Some((at, is_last, indent, depth)) = waiting.pop() {
            let branch = if is_last { "└── " } else { "├── " };
            let number = if depth > DEEPEST { format!("({depth}) ") } else { String::new() };
            let used = indent.chars().count() + 4 + number.len();
            let branch = self.look.faint(&format!("{indent}{branch}"));
            let _ = writeln!(text, "{branch}{number}{}", self.answer(at, &expanded, used));
            if let Answer::Loaded(object, _) = self.load.resolutions[at].answer
                && !std::mem::replace(&mut expanded[object], true)
            {
                let line = if is_last { "    " } else { "│   " };
                let deeper = || format!("{indent}{line}").into();
                let indent = if depth < DEEPEST { deeper() } else { indent };
                waiting.extend(below(object, indent, depth + 1));
            }
        }
    }

    /// Formats a lookup and its answer; `used` columns are taken already.
    fn answer(&self, at: usize, expanded: &[bool], used: usize) -> String {
        let (look, resolution) = (self.look, &self.load.resolutions[at]);
        let needed = shown(resolution.needed.as_ref());
        let kind = kind_of(resolution.reason);
        let cost = match self.misses[at] {
            0 => String::new(),
            misses => format!("  {}", counted(misses, "miss", "misses")),
        };
        let remark = |remark: &str| format!("{needed}{kind} {}", look.faint(remark));
        let bad = |why: &str| look.bad(&format!("{needed}{kind} {why}")) + &look.costly(&cost);
        match &resolution.answer {
            Answer::Loaded(object, source) | Answer::SameFile(object, source) => {
                let origin = format!("[{}]", name_of(*source));
                let is_same = matches!(resolution.answer, Answer::SameFile(..));
                let same = if is_same { " same file as above" } else { "" };
                let used =
                    used + needed.chars().count() + kind.len() + origin.len() + cost.len() + 5;
                let path = match shown(self.load.objects[*object].path.as_ref()) {
                    path if path == needed => String::new(),
                    path => format!(" => {}", look.fitted(&path, used)),
                };
                let (origin, cost) = (look.origin(&origin), look.costly(&cost));
                format!("{}{kind}{path} {origin}{same}{cost}", look.strong(&needed))
            }
            Answer::AlreadyLoaded(object) => {
                let pointer = match (self.lookups_by_object[*object].is_empty(), expanded[*object])
                {
                    (true, _) => "",
                    (false, true) => " ↑ shown above",
                    (false, false) => " ↓ shown below",
                };
                remark(&format!("[already loaded]{pointer}"))
            }
            Answer::Vdso => remark("[vdso]"),
            Answer::Skipped => remark("[passed over]"),
            Answer::Missing if !resolution.is_unresolved() => {
                remark("[not there]") + &look.costly(&cost)
            }
            Answer::Missing => bad("not found"),
            Answer::Refused(refusal) => bad(&refusal.to_string()),
        }
    }
}

/// Returns the label for the reason of a lookup; empty for a `DT_NEEDED` entry.
fn kind_of(reason: Reason) -> &'static str {
    match reason {
        Reason::Dependency(DependencyKind::Needed) => "",
        Reason::Dependency(DependencyKind::Filter) => " (filter)",
        Reason::Dependency(DependencyKind::Auxiliary) => " (auxiliary)",
        Reason::Preload => " (preload)",
        Reason::Audit => " (audit)",
    }
}

/// Name of a search source, as shown to the user.
pub(crate) fn name_of(source: SearchSource) -> &'static str {
    match source {
        SearchSource::Direct => "direct",
        SearchSource::Rpath => "rpath",
        SearchSource::LibraryPath => "LD_LIBRARY_PATH",
        SearchSource::Note => "note",
        SearchSource::PackageCache => "package cache",
        SearchSource::Runpath => "runpath",
        SearchSource::LoaderCache => "ld.so.cache",
        SearchSource::System => "system",
    }
}
