//! `--with audit`: a `DT_AUDIT` entry in a program, and an index of its start beside it.
//!
//! The loader reads the entry from glibc 2.32 on (`elf/rtld.c` `dl_main`,
//! `audit_list_add_dynamic_tag`) and uses its strings unchanged: `$ORIGIN` there would be the
//! loader's own directory, so the path is absolute. Nothing can set a tunable for the program, so a
//! program whose libraries need more than the default static TLS is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::cost::SearchCost;
use becalm_core::edit::Edit;
use becalm_core::facts::{Environment, GlibcVersion, Libc};
use becalm_core::fs::Added;
use becalm_core::index::answers::answers as answers_of_module;
use becalm_core::index::{Index, tls};
use becalm_core::probe::LoggedProbe;
use becalm_core::strategy::{Created, FilePlan, Plan, PlannedAnswer};
use becalm_host::OsFs;
use becalm_host::index_store::{Binding, IndexOptions, index_stores};
use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashSet;

use crate::index::module::{Modules, Sealed};
use crate::index::programs::files_of;
use crate::path::{path_bytes, path_of, real};
use crate::words::{words, words_of_chain};

/// The first release whose loader reads `DT_AUDIT` of a program.
const FIRST_GLIBC: GlibcVersion = GlibcVersion { major: 2, minor: 32 };

/// Suffix of the name of a program's index beside it.
pub(crate) const SUFFIX: &[u8] = b".becalm.so";

/// Returns the path of the index of a program.
#[must_use]
pub fn index_beside(program: &Path) -> PathBuf {
    let mut path = path_bytes(program);
    path.extend_from_slice(SUFFIX);
    path_of(path.as_ref())
}

/// Plans the entry and the index of a program. `prefixes` are immutable.
///
/// # Errors
/// Returns the reason why the program is refused.
pub fn plan_audit(os: &OsFs, closure: &Closure, prefixes: &[PathBuf]) -> Result<Plan> {
    check(os, closure)?;
    let program = path_of(closure.subject.path.as_ref());
    let program = program.canonicalize().map_err(|error| anyhow!(words(&error)))?;
    let place = index_beside(&program);
    let element = path_bytes(&place);
    if element.find_byteset(b":$").is_some() {
        bail!("its path has a colon or a dollar sign, which DT_AUDIT cannot name");
    }
    let edits = edits(closure, element.as_ref());
    // Bindings are valid for the current file only. They are planned again once it has its entry.
    let only = [program.clone()];
    let bind = Binding { only: Some(&only), ..Binding::default() };
    let bind = Some(bind).filter(|_| edits.is_empty());
    let sealed = seal(os, closure, IndexOptions { prefixes, bind, ..IndexOptions::default() })?;
    let alone = (closure, &Environment::default());
    let mut files = answers(os, alone, &sealed.machine.index);
    let path = path_bytes(&program);
    match files.iter_mut().find(|file| file.path == path) {
        Some(file) => file.edits = edits,
        None => files.push(FilePlan { path, edits, answers: Vec::new() }),
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let creations =
        vec![Created { path: element, kind: Added::File { bytes: sealed.file.into() } }];
    Ok(Plan { files, creations, findings: Vec::new() })
}

/// Makes the index of all objects of a start.
fn seal(os: &OsFs, closure: &Closure, options: IndexOptions<'_>) -> Result<Sealed> {
    let options = IndexOptions { files: &files_of(closure), ..options };
    let sealed = Modules::new(None).and_then(|modules| modules.seal(index_stores(os, options)));
    sealed.map_err(|error| anyhow!(words_of_chain(error.as_ref())))
}

/// Returns the search cost that an index of the start's own objects would leave in the start's
/// environment. Nothing is written.
///
/// # Errors
/// Returns an error if there can be no such index.
pub fn left_by_index(
    os: &OsFs,
    (closure, environment): (&Closure, &Environment),
    options: IndexOptions<'_>,
) -> Result<SearchCost> {
    check_root(os)?;
    if tls::of_closure(closure, &os.symbols()).0.no_start {
        bail!("its libraries need more static TLS than an audited start can have");
    }
    let sealed = seal(os, closure, options)?;
    let files = answers(os, (closure, environment), &sealed.machine.index);
    Ok(Answered::of(&files).storm_left(closure))
}

fn check_root(os: &OsFs) -> Result<()> {
    ensure!(os.is_real_root(), "an index is made on the machine it is for, not with --sysroot");
    Ok(())
}

fn check(os: &OsFs, closure: &Closure) -> Result<()> {
    check_root(os)?;
    if closure.subject.kind == SubjectKind::Library {
        bail!("no program: the loader reads DT_AUDIT of programs alone");
    }
    match closure.facts.as_ref().map(|facts| facts.libc) {
        None => bail!("a static program: no loader reads its DT_AUDIT"),
        Some(Libc::Glibc(version)) if version >= FIRST_GLIBC => {}
        Some(libc) => bail!("{libc} does not support DT_AUDIT; it needs glibc-2.32"),
    }
    let (needs, bytes) = tls::of_closure(closure, &os.symbols());
    if needs.is_any() {
        bail!(
            "its libraries need {bytes} bytes of static TLS, more than there are under an audit module; \
             becalm run can raise that, DT_AUDIT cannot"
        );
    }
    Ok(())
}

/// Returns the edit for the entry: the program's own modules, then the index; none if the entry
/// exists.
fn edits(closure: &Closure, element: &BStr) -> Vec<Edit> {
    let dynamic = closure.subject.view.dynamic.as_ref();
    let mut list = dynamic.and_then(|dynamic| dynamic.audit.clone()).unwrap_or_default();
    if list.split_str(":").any(|known| known == element.as_bytes()) {
        return Vec::new();
    }
    if !list.is_empty() {
        list.push(b':');
    }
    list.extend_from_slice(element);
    vec![Edit::Audit(Some(list))]
}

/// Returns the answers that the module of the index gives in this start, by object of the closure;
/// the program by its real path. Its conditions hold: it was made just now.
fn answers(
    os: &OsFs,
    (closure, environment): (&Closure, &Environment),
    index: &Index,
) -> Vec<FilePlan> {
    let session = os.session();
    let given = answers_of_module(index, (&session, closure), environment, &|_| true);
    let program = real_program(closure);
    let answer = |(needed, path)| PlannedAnswer { needed, exact: Some(path), hints: Vec::new() };
    let file = |(path, answers): (BString, BTreeMap<BString, BString>)| FilePlan {
        path: if path == closure.subject.path { program.clone() } else { path },
        edits: Vec::new(),
        answers: answers.into_iter().map(answer).collect(),
    };
    given.0.into_iter().map(file).collect()
}

/// Returns the program's path as an index has it: absolute and without links.
pub(crate) fn real_program(closure: &Closure) -> BString {
    path_bytes(&real(&path_of(&closure.subject.path)))
}

/// The lookups that the indexes of a plan answer: requester and needed string.
pub struct Answered<'p>(FxHashSet<(&'p BStr, &'p BStr)>);

impl<'p> Answered<'p> {
    /// Returns those of a plan's files, for all programs.
    pub fn of(files: &'p [FilePlan]) -> Self {
        let questions = files.iter().flat_map(|file| {
            let path: &BStr = file.path.as_ref();
            file.answers.iter().map(move |answer| (path, answer.needed.as_ref()))
        });
        Self(questions.collect())
    }

    /// Returns the search cost that is left of a start: that of the lookups that no index answers.
    pub fn storm_left(&self, closure: &Closure) -> SearchCost {
        let load = &closure.load;
        let program = real_program(closure);
        let is_left = |probe: &&LoggedProbe| {
            let resolution = &load.resolutions[probe.resolution];
            let by: &BString = &load.objects[resolution.needed_by].path;
            let by = if *by == closure.subject.path { &program } else { by };
            let question: (&BStr, &BStr) = (by.as_ref(), resolution.needed.as_ref());
            !probe.outcome.is_failed_call() || !self.0.contains(&question)
        };
        let search_dirs = SearchCost::of(load).search_dirs;
        let left = SearchCost::count(load.objects.len(), load.probes.iter().filter(is_left));
        SearchCost { search_dirs, ..left }
    }
}
