//! The files that a start needs: the program, its interpreter, every library, the loader's
//! configuration files, and the symbolic links that lead to each.
//!
//! [`FileList`] collects the files of predicted starts, [`bundle`] writes them as a file bundle of
//! CernVM-FS. Files that a program opens after its entry point (plugins, data) are not included.

pub mod bundle;
#[cfg(test)]
mod tests;

use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::fs::FileSystem;
use becalm_core::loader::Libc;
use becalm_core::loader::load::{LoadedObject, Role};
use becalm_core::loader::musl::path_file;
use becalm_core::path::{of_target, parent};
use becalm_core::probe::SearchSource;
use becalm_host::Session;
use bstr::{BStr, BString};
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::assume::Assumptions;
use crate::follow::follow;
use crate::launch::{Launch, Step};
use crate::path::path_of;
use crate::targets::Target;

/// Links followed on the way to a file (Linux `MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// The list of preloads that glibc reads at each start.
const PRELOAD_FILE: &str = "/etc/ld.so.preload";

/// A file that a start needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartFile {
    /// Its absolute path. The links of the path are listed themselves, before the file.
    #[serde(serialize_with = "crate::json::lossy")]
    pub path: BString,
    /// The use of the file.
    pub kind: FileUse,
    /// For a link: its target, as the link has it.
    #[serde(serialize_with = "crate::json::lossy_option", skip_serializing_if = "Option::is_none")]
    pub target: Option<BString>,
}

/// The uses of a file in a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileUse {
    /// The script that the program is started by.
    Script,
    /// The program.
    Program,
    /// Its interpreter (`PT_INTERP`).
    Interpreter,
    /// A library, a preload or an audit module.
    Library,
    /// A file that the loader reads to find them: its cache, or a list of preloads or of
    /// directories.
    Configuration,
    /// A symbolic link on the way to one of these.
    Link,
    /// A file or directory that the program opened.
    Opened,
}

/// The files of one or several starts, each once. The links that lead to a file come before it.
pub struct FileList<'a> {
    fs: &'a dyn FileSystem,
    /// The files in the order in which they were added.
    pub files: Vec<StartFile>,
    seen: FxHashSet<BString>,
}

impl<'a> FileList<'a> {
    /// Makes an empty list.
    #[must_use]
    pub fn new(fs: &'a dyn FileSystem) -> Self {
        Self { fs, files: Vec::new(), seen: FxHashSet::default() }
    }

    /// Adds the files of a start: the program, its interpreter, then the others in load order.
    pub fn add_start(&mut self, closure: &Closure) {
        for object in &closure.load.objects {
            let kind = match object.role {
                Role::Program if closure.subject.kind == SubjectKind::Library => FileUse::Library,
                Role::Program => FileUse::Program,
                Role::Loader => FileUse::Interpreter,
                Role::Audit | Role::Preload | Role::Library => FileUse::Library,
            };
            self.add(object.path.as_ref(), kind);
        }
        for path in configuration(closure) {
            if self.fs.read(path.as_ref()).is_ok() {
                self.add(path.as_ref(), FileUse::Configuration);
            }
        }
    }

    /// Adds a file, and the links that lead to it.
    pub fn add(&mut self, path: &BStr, kind: FileUse) {
        let path = self.follow(self.fs.absolute(path).as_ref(), &mut 0);
        self.push(StartFile { path, kind, target: None });
    }

    /// Adds the links on the way to a file, as the kernel resolves the path, and returns the path without links. If
    /// the kernel would follow no further link, the rest of the path is left as it is.
    fn follow(&mut self, path: &BStr, links: &mut usize) -> BString {
        // Empty for the root.
        let mut at = BString::default();
        for name in path.split(|&byte| byte == b'/') {
            match name {
                b"" | b"." => continue,
                b".." => {
                    let end = parent(&at).len();
                    at.truncate(end);
                    continue;
                }
                name => at.extend_from_slice(&[b"/", name].concat()),
            }
            if *links < MAX_LINKS
                && let Ok(target) = self.fs.read_link(at.as_ref())
            {
                *links += 1;
                let whole = of_target(&at, &target);
                self.push(StartFile { path: at, kind: FileUse::Link, target: Some(target) });
                at = self.follow(whole.as_ref(), links);
            }
        }
        at
    }

    fn push(&mut self, file: StartFile) {
        if self.seen.insert(file.path.clone()) {
            self.files.push(file);
        }
    }
}

/// Lists the files of a start. If scripts lead to the program, they and the programs that are
/// executed before it (`env`, the shell of a wrapper) come first, with their own files.
#[must_use]
pub fn of_start(
    assumed: &Assumptions,
    session: &Session<'_>,
    launch: Option<&Launch>,
    closure: &Closure,
) -> Vec<StartFile> {
    let mut list = FileList::new(session);
    for step in launch.iter().flat_map(|launch| &launch.steps) {
        match step {
            Step::Script(path) => list.add(path.as_ref(), FileUse::Script),
            Step::Program(path) => {
                if let Some(closure) = closure_of(assumed, session, path) {
                    list.add_start(&closure);
                }
            }
        }
    }
    list.add_start(closure);
    list.files
}

/// Returns the closure of a program on the way; `None` if its start cannot be followed.
fn closure_of(assumed: &Assumptions, session: &Session<'_>, path: &BString) -> Option<Closure> {
    let host = assumed.fs.host_path(path.as_ref()).unwrap_or_else(|_| path_of(path.as_ref()));
    let target = Target { shown: path.clone(), inside: path.clone(), host, named: true };
    Some(follow(assumed, session, &target, &assumed.environment).ok()?.elf()?.0)
}

/// Returns the paths of the configuration files that the loader of a start reads, whether they
/// exist or not.
fn configuration(closure: &Closure) -> Vec<BString> {
    let Some(facts) = &closure.facts else { return Vec::new() };
    let load = &closure.load;
    let searches =
        |sources: &[SearchSource]| load.probes.iter().any(|probe| sources.contains(&probe.source));
    let mut paths = load.package_caches.clone();
    match facts.libc {
        Libc::Glibc(_) => {
            paths.push(PRELOAD_FILE.into());
            // The first lookup that reaches the cache opens it, and the system directories follow.
            if searches(&[SearchSource::LoaderCache, SearchSource::System]) {
                paths.extend(facts.cache_path.clone());
            }
        }
        Libc::Musl => {
            let loader = load.objects.iter().find(|object| object.role == Role::Loader);
            if searches(&[SearchSource::System]) {
                let file = |loader: &LoadedObject| path_file(&loader.path, &loader.view.ident);
                paths.extend(loader.map(file));
            }
        }
    }
    paths
}
