//! Creates the records of programs: the libraries of a start and its static TLS.

use std::iter;

use becalm_core::closure::{FoundBefore, Starts, Subject, SubjectKind};
use becalm_core::facts::Environment;
use becalm_core::index::tls;
use becalm_core::index::{Program, Start, load_order};
use becalm_core::loader::load::{Load, Reason};
use bstr::{BStr, BString};
use rayon::prelude::*;

use super::{CHUNK, Work};

impl Work<'_> {
    /// Returns the programs at these paths. A program is left out if its start in an empty
    /// environment cannot be predicted. Its need of static TLS is the largest of its starts, because
    /// libraries that an environment preloads have static TLS too.
    pub(super) fn programs(&self, paths: &[BString]) -> Vec<Program> {
        let empty = Environment::default();
        let others = self.options.bind.map_or(&[][..], |bind| bind.environments);
        let others = others.iter().filter(|other| **other != empty);
        let environments: Vec<_> =
            iter::once(&empty).chain(others).map(|it| (it, FoundBefore::default())).collect();
        let of_some = |paths: &[BString]| {
            let session = self.os.session();
            let starts = self.starts(&session, &environments);
            let program = |path: &BString| self.program(&starts, path.as_ref());
            paths.iter().filter_map(program).collect::<Vec<_>>()
        };
        paths.par_chunks(CHUNK).flat_map_iter(of_some).collect()
    }

    fn program(&self, starts: &[Starts<'_>], path: &BStr) -> Option<Program> {
        let seen = self.settled(path).map_or(0, |fingerprint| fingerprint.digest());
        let subject = Subject::open(starts.first()?.fs, path).ok()?;
        // A library may name a loader as well (`libc.so.6`).
        if subject.kind != SubjectKind::Program || subject.view.is_library() {
            return None;
        }
        let interpreter = subject.interpreter.clone()?;
        let mut known =
            starts.iter().map(|starts| self.start(starts, &subject, interpreter.as_ref()));
        let (needs, load_order) = known.next()??;
        let needs = known.flatten().fold(needs, |all, (needs, _)| all.max(needs));
        Some(Program { path: path.to_owned(), interpreter, needs, load_order, seen })
    }

    /// Returns the need and the hash of a start.
    fn start(
        &self,
        starts: &Starts<'_>,
        subject: &Subject,
        interpreter: &BStr,
    ) -> Option<(Start, u64)> {
        let closure = starts.resolve(subject.clone(), interpreter).ok()?;
        Some((tls::of_closure(&closure, &self.os.symbols()).0, order_of(&closure.load)))
    }
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
