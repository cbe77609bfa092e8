//! Finds the programs with too few relocations to bind, from the scopes of their starts alone.

use std::sync::{Arc, Mutex, PoisonError};

use becalm_core::closure::{FoundBefore, LoadGraph, Starts};
use becalm_core::facts::{Environment, LoaderFacts};
use bstr::BString;
use rayon::prelude::*;

use super::bound::{BindThreshold, Files, starts};
use super::{CHUNK, Work};

/// Graphs between the chunks of work: as many as there were threads at once.
#[derive(Default)]
pub(super) struct Graphs<T>(Mutex<Vec<T>>);

impl<T: Default> Graphs<T> {
    /// Lends a graph that no other thread uses.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = lock().pop();
        let mut graph = taken.unwrap_or_default();
        let result = work(&mut graph);
        lock().push(graph);
        result
    }
}

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
    /// Returns for each program whether all its starts certainly have too few relocations.
    pub(super) fn few(
        &self,
        files: &Files,
        facts: &Arc<LoaderFacts>,
        environments: &[(&Environment, FoundBefore)],
        threshold: BindThreshold,
        paths: &[BString],
    ) -> Vec<bool> {
        let graphs = Graphs::<Vec<Counted>>::default();
        let of_some = |paths: &[BString]| {
            let session = self.os.session();
            let starts = starts(&session, facts, environments);
            graphs.with(|graphs| {
                graphs.resize_with(starts.len(), Counted::default);
                let mut is_few = |path: &BString| {
                    let mut starts = graphs.iter_mut().zip(&starts);
                    starts.all(|(graph, starts)| {
                        graph.is_few(files, starts, path, threshold) == Some(true)
                    })
                };
                paths.iter().map(&mut is_few).collect::<Vec<bool>>()
            })
        };
        paths.par_chunks(CHUNK).flat_map_iter(of_some).collect()
    }
}
