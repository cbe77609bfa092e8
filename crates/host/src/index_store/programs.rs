//! Creates the records of programs: the libraries of a start and its static TLS.

use std::sync::Arc;

use becalm_core::closure::{self, FoundBefore, LoadGraph, Starts, Subject, SubjectKind};
use becalm_core::facts::{Environment, LoaderFacts};
use becalm_core::index::tls::{self, StaticTls};
use becalm_core::index::{Program, load_order};
use becalm_core::loader::load::{Load, Reason};
use bstr::{BStr, BString};
use rayon::prelude::*;

use super::graphs::Graphs;
use super::{CHUNK, Work};

impl Work<'_> {
    /// Returns the programs at these paths with their need of static TLS. A program is left out if
    /// its start cannot be predicted.
    pub(super) fn programs(
        &self,
        facts: &Arc<LoaderFacts>,
        paths: &[BString],
    ) -> Vec<(Program, StaticTls)> {
        let (found, graphs) = (FoundBefore::default(), Graphs::<LoadGraph>::new());
        let chunk = |chunk: &[BString]| {
            let (session, environment) = (self.os.session(), Environment::default());
            let starts = Starts::new(&session, facts, &environment, &found);
            graphs.with(|graph| {
                let mut program =
                    |path: &BString| self.program(&starts, graph, facts, path.as_ref());
                chunk.iter().filter_map(&mut program).collect::<Vec<_>>()
            })
        };
        paths.par_chunks(CHUNK).flat_map_iter(chunk).collect()
    }

    fn program(
        &self,
        starts: &Starts<'_>,
        graph: &mut LoadGraph,
        facts: &Arc<LoaderFacts>,
        path: &BStr,
    ) -> Option<(Program, StaticTls)> {
        let seen = self.settled(path).map_or(0, |fingerprint| fingerprint.digest());
        let subject = starts.open(path).ok()?;
        let SubjectKind::Program { interpreter } = &subject.kind else { return None };
        // A library may name a loader as well (`libc.so.6`).
        if subject.view.is_library() {
            return None;
        }
        let interpreter = interpreter.clone();
        let under = self.need_under_environments(path, interpreter.as_ref(), facts);
        let (need, load_order) = match of_scope(starts, graph, &subject, interpreter.as_ref()) {
            Some(known) => known,
            None => {
                let closure = starts.resolve(subject, interpreter.as_ref()).ok()?;
                (tls::of_closure(&closure, &self.os.symbols()), order_of(&closure.load))
            }
        };
        let program =
            Program { path: path.to_owned(), interpreter, load_order, seen, ..Program::default() };
        Some(with_need(program, need.max(under)))
    }

    /// Returns the largest need of a program's starts in the environments of the bindings: a library
    /// that is preloaded has static TLS too.
    pub(super) fn need_under_environments(
        &self,
        path: &BStr,
        interpreter: &BStr,
        facts: &Arc<LoaderFacts>,
    ) -> StaticTls {
        let environments = self.options.bind.map_or(&[][..], |bind| bind.environments);
        let session = self.os.session();
        let need = |environment| {
            let subject = Subject::open(&session, path).ok()?;
            let facts = Arc::clone(facts);
            let closure =
                closure::resolve(&session, subject, interpreter, facts, environment).ok()?;
            Some(tls::of_closure(&closure, &self.os.symbols()))
        };
        environments.iter().filter_map(need).fold(StaticTls::default(), StaticTls::max)
    }
}

/// Returns a program and its need, which is also part of it.
pub(super) fn with_need(program: Program, need: StaticTls) -> (Program, StaticTls) {
    let static_tls = need.tunable().map_or(0, |value| u32::try_from(value).unwrap_or(u32::MAX));
    (Program { static_tls, no_start: need.impossible, ..program }, need)
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
