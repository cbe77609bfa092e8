//! Finds the programs with too few relocations to bind, from the scopes of their starts alone.

use std::sync::{Arc, Mutex, PoisonError};

use becalm_core::closure::{FoundBefore, LoadGraph, Starts};
use becalm_core::facts::{Environment, LoaderFacts};
use bstr::BString;
use rayon::prelude::*;

use super::bound::{BindThreshold, Files, starts};
use super::{CHUNK, Work};

/// A graph with the relocations of its objects.
#[derive(Default)]
struct Counted {
    graph: LoadGraph,
    /// By the number of the object, if it is counted.
    counts: Vec<Option<Counts>>,
}

/// The numbers of an object's relocations with a symbol, and of its relative ones. `None` if they
/// cannot be read.
type Counts = Option<(usize, usize)>;

impl Counted {
    fn of_object(&mut self, files: &Files, number: usize) -> Counts {
        if self.counts.len() <= number {
            self.counts.resize(number + 1, None);
        }
        let graph = &self.graph;
        *self.counts[number].get_or_insert_with(|| {
            let file = files.get(&graph.object(number).path).ok()?;
            let symbols = &file.symbols;
            symbols.machine.map(|_| (symbols.symbolic_count(), symbols.relocations.relative.len()))
        })
    }

    /// Returns true if the start certainly has too few relocations.
    fn is_few(
        &mut self,
        files: &Files,
        starts: &Starts<'_>,
        path: &BString,
        threshold: BindThreshold,
    ) -> Option<bool> {
        let subject = starts.open(path.as_ref()).ok()?;
        let interpreter = subject.interpreter()?;
        let scope = starts.scope(&mut self.graph, &subject, interpreter)?;
        let is_outside = !scope.objects.contains(&scope.loader);
        let loader = is_outside.then_some(scope.loader);
        let (mut symbolic, mut relative) = (0, 0);
        for number in scope.objects.into_iter().chain(loader) {
            let counts = self.of_object(files, number)?;
            (symbolic, relative) = (symbolic + counts.0, relative + counts.1);
        }
        Some(threshold.is_missed(starts.facts.libc, symbolic, relative))
    }
}

impl Work<'_> {
    /// Calls `each` for programs with their starts in these environments and a graph for each start. A graph
    /// serves many programs: there are as many as threads at once.
    pub(super) fn for_starts<G: Default + Send, R: Send>(
        &self,
        facts: &Arc<LoaderFacts>,
        environments: &[(&Environment, FoundBefore)],
        paths: &[BString],
        each: impl Fn(&[Starts<'_>], &mut [G], &BString) -> R + Sync,
    ) -> Vec<R> {
        let graphs: Mutex<Vec<Vec<G>>> = Mutex::default();
        let lock = || graphs.lock().unwrap_or_else(PoisonError::into_inner);
        let of_some = |paths: &[BString]| {
            let session = self.os.session();
            let starts = starts(&session, facts, environments);
            let mut own = lock().pop().unwrap_or_default();
            own.resize_with(starts.len(), G::default);
            let results: Vec<R> = paths.iter().map(|path| each(&starts, &mut own, path)).collect();
            lock().push(own);
            results
        };
        paths.par_chunks(CHUNK).flat_map_iter(of_some).collect()
    }

    /// Returns for each program whether all its starts certainly have too few relocations.
    pub(super) fn few(
        &self,
        files: &Files,
        facts: &Arc<LoaderFacts>,
        environments: &[(&Environment, FoundBefore)],
        threshold: BindThreshold,
        paths: &[BString],
    ) -> Vec<bool> {
        self.for_starts(facts, environments, paths, |starts, graphs: &mut [Counted], path| {
            let mut starts = graphs.iter_mut().zip(starts);
            starts.all(|(graph, starts)| graph.is_few(files, starts, path, threshold) == Some(true))
        })
    }
}
