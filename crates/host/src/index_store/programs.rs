//! Creates the records of programs: the libraries of a start and its static TLS.

use std::iter;
use std::sync::Arc;

use becalm_core::closure::{FoundBefore, LoadGraph, Starts, Subject, SubjectKind};
use becalm_core::facts::{Environment, LoaderFacts};
use becalm_core::index::tls::{self, StaticTls};
use becalm_core::index::{Program, Start, load_order};
use becalm_core::loader::load::{Load, Reason};
use bstr::{BStr, BString};

use super::Work;

impl Work<'_> {
    /// Returns the programs at these paths. A program is left out if its start in an empty
    /// environment cannot be predicted. Its need of static TLS is the largest of its starts, because
    /// libraries that an environment preloads have static TLS too.
    pub(super) fn programs(&self, facts: &Arc<LoaderFacts>, paths: &[BString]) -> Vec<Program> {
        let empty = Environment::default();
        let others = self.options.bind.map_or(&[][..], |bind| bind.environments);
        let others = others.iter().filter(|other| **other != empty);
        let environments: Vec<_> =
            iter::once(&empty).chain(others).map(|it| (it, FoundBefore::default())).collect();
        let program = |starts: &[Starts<'_>], graphs: &mut [LoadGraph], path: &BString| {
            self.program(starts, graphs, path.as_ref())
        };
        self.for_starts(facts, &environments, paths, program).into_iter().flatten().collect()
    }

    fn program(
        &self,
        starts: &[Starts<'_>],
        graphs: &mut [LoadGraph],
        path: &BStr,
    ) -> Option<Program> {
        let seen = self.settled(path).map_or(0, |fingerprint| fingerprint.digest());
        let subject = starts.first()?.open(path).ok()?;
        let SubjectKind::Program { interpreter } = &subject.kind else { return None };
        // A library may name a loader as well (`libc.so.6`).
        if subject.view.is_library() {
            return None;
        }
        let interpreter = interpreter.clone();
        let mut known = starts
            .iter()
            .zip(graphs)
            .map(|(starts, graph)| self.start(starts, graph, &subject, interpreter.as_ref()));
        let (need, load_order) = known.next()??;
        let needs = known.flatten().map(|(need, _)| Start::from(need));
        let Start { static_tls, no_start } = needs.fold(need.into(), Start::max);
        Some(Program { path: path.to_owned(), interpreter, static_tls, no_start, load_order, seen })
    }

    /// Returns the need and the hash of a start.
    fn start(
        &self,
        starts: &Starts<'_>,
        graph: &mut LoadGraph,
        subject: &Subject,
        interpreter: &BStr,
    ) -> Option<(StaticTls, u64)> {
        of_scope(starts, graph, subject, interpreter).or_else(|| {
            let closure = starts.resolve(subject.clone(), interpreter).ok()?;
            Some((tls::of_closure(&closure, &self.os.symbols()), order_of(&closure.load)))
        })
    }
}

/// Returns the need and the hash of a start whose scope is enough to know both.
fn of_scope(
    starts: &Starts<'_>,
    graph: &mut LoadGraph,
    subject: &Subject,
    interpreter: &BStr,
) -> Option<(StaticTls, u64)> {
    let scope = starts.scope(graph, subject, interpreter)?;
    let objects = &scope.objects[1..];
    let libraries = objects.iter().filter(|&&object| object != scope.loader);
    let views = libraries.map(|&object| graph.object(object).view.as_ref());
    let need = tls::of_views(Some(&subject.view), views)?;
    let paths = objects.iter().map(|&object| graph.object(object).path.as_ref());
    Some((need, load_order(paths)))
}

/// Returns the hash of the libraries of a start in the order of the program's scope: in the order in
/// which they are first needed, including the loader.
fn order_of(load: &Load) -> u64 {
    let mut is_seen = vec![false; load.objects.len()];
    is_seen[0] = true;
    let dependencies = load
        .resolutions
        .iter()
        .filter(|resolution| matches!(resolution.reason, Reason::Dependency(_)))
        .filter_map(|resolution| resolution.answer.object())
        .filter(|&at| !std::mem::replace(&mut is_seen[at], true));
    let objects = dependencies.map(|at| &load.objects[at]).filter(|object| object.namespace == 0);
    load_order(objects.map(|object| object.path.as_ref()))
}
