//! Creates the records of programs: the libraries of a start and its static TLS.

use std::sync::Arc;

use becalm_core::closure::{self, Subject, SubjectKind};
use becalm_core::facts::{Environment, LoaderFacts};
use becalm_core::fs::FileSystem;
use becalm_core::index::Program;
use becalm_core::index::tls::{self, StaticTls};
use becalm_core::loader::load::{Load, Reason};
use bstr::{BStr, BString};
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use super::{CHUNK, Work};

impl Work<'_> {
    /// Returns the programs at these paths with their need of static TLS. A program is left out if
    /// its start cannot be predicted.
    pub(super) fn programs(
        &self,
        facts: &Arc<LoaderFacts>,
        paths: &[BString],
    ) -> Vec<(Program, StaticTls)> {
        let chunk = |chunk: &[BString]| {
            let session = self.os.session();
            let program = |path: &BString| self.program(&session, facts, path.as_ref());
            chunk.iter().filter_map(program).collect::<Vec<_>>()
        };
        paths.par_chunks(CHUNK).flat_map_iter(chunk).collect()
    }

    fn program(
        &self,
        fs: &dyn FileSystem,
        facts: &Arc<LoaderFacts>,
        path: &BStr,
    ) -> Option<(Program, StaticTls)> {
        let seen = self.settled(path).map_or(0, |fingerprint| fingerprint.digest());
        let subject = Subject::open(fs, path).ok()?;
        let SubjectKind::Program { interpreter } = &subject.kind else { return None };
        // A library may name a loader as well (`libc.so.6`).
        if subject.view.is_library() {
            return None;
        }
        let interpreter = interpreter.clone();
        let environment = Environment::default();
        let closure =
            closure::resolve(fs, subject, interpreter.as_ref(), Arc::clone(facts), &environment);
        let closure = closure.ok()?;
        let need = tls::of_closure(&closure, &self.os.symbols());
        let program = Program {
            path: path.to_owned(),
            interpreter,
            static_tls: need.tunable().map_or(0, |value| u32::try_from(value).unwrap_or(u32::MAX)),
            no_start: need.impossible,
            load_order: load_order(&closure.load),
            seen,
        };
        Some((program, need))
    }
}

/// Returns the libraries of a start in the order of the program's scope: in the order in which they
/// are first needed, including the loader.
fn load_order(load: &Load) -> Vec<BString> {
    let mut seen: FxHashSet<usize> = std::iter::once(0).collect();
    let dependencies = load
        .resolutions
        .iter()
        .filter(|resolution| matches!(resolution.reason, Reason::Dependency(_)))
        .filter_map(|resolution| resolution.answer.object());
    let mut order = Vec::new();
    for at in dependencies {
        let object = &load.objects[at];
        if seen.insert(at) && object.namespace == 0 {
            order.push(object.path.clone());
        }
    }
    order
}
