//! The files that a start needs: the program, its interpreter, every library, the loader's
//! configuration files, and the symbolic links that lead to each.
//!
//! [`FileList`] collects the files of predicted starts, [`bundle`] writes them as a file bundle of
//! CernVM-FS. Files that a program opens after its entry point (plugins, data) are not included.

pub mod bundle;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::fs::FileSystem;
use becalm_core::loader::Libc;
use becalm_core::loader::load::{LoadedObject, Role};
use becalm_core::loader::musl::path_file;
use becalm_core::probe::SearchSource;
use becalm_host::Session;
use bstr::{BStr, BString};
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::assume::Assumptions;
use crate::follow::{Followed, follow};
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
    files: Vec<StartFile>,
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
                Role::Program if matches!(closure.subject.kind, SubjectKind::Library { .. }) => {
                    FileUse::Library
                }
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

    /// Returns the files in the order in which they were added.
    #[must_use]
    pub fn finish(self) -> Vec<StartFile> {
        self.files
    }

    /// Adds a file, and the links that lead to it.
    pub fn add(&mut self, path: &BStr, kind: FileUse) {
        let mut walk = Walk::default();
        if !path.starts_with(b"/") {
            walk.append(self.fs.current_dir().as_ref());
        }
        walk.append(path);
        while let Some((link, target)) = walk.next_link(self.fs) {
            self.push(StartFile { path: link, kind: FileUse::Link, target: Some(target) });
        }
        let path = walk.at;
        self.push(StartFile { path, kind, target: None });
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
    let steps = launch.map(|launch| launch.steps.as_slice()).unwrap_or_default();
    for step in steps.split_last().map(|(_, before)| before).unwrap_or_default() {
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
    list.finish()
}

/// Returns the closure of a program on the way; `None` if its start cannot be followed.
fn closure_of(assumed: &Assumptions, session: &Session<'_>, path: &BString) -> Option<Closure> {
    let host = assumed.fs.host_path(path.as_ref()).unwrap_or_else(|_| path_of(path.as_ref()));
    let target = Target { shown: path.clone(), inside: path.clone(), host, named: true };
    match follow(assumed, session, &target, &assumed.environment) {
        Ok(Followed::Elf(closure, _)) => Some(*closure),
        _ => None,
    }
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

/// A walk along a path, link by link, as the kernel resolves it.
#[derive(Default)]
struct Walk {
    /// The path so far, links resolved; empty for the root.
    at: BString,
    /// The remaining components.
    way: VecDeque<BString>,
    links: usize,
}

impl Walk {
    fn append(&mut self, path: &BStr) {
        self.way.extend(components(path));
    }

    /// Advances past the next link and returns it. Returns `None` at the end of the path, or if the
    /// kernel would follow no further link.
    fn next_link(&mut self, fs: &dyn FileSystem) -> Option<(BString, BString)> {
        while let Some(name) = self.way.pop_front() {
            if name == ".." {
                let end = becalm_core::path::parent(&self.at).len();
                self.at.truncate(end);
                continue;
            }
            let here = self.at.len();
            self.at.push(b'/');
            self.at.extend_from_slice(&name);
            if self.links == MAX_LINKS {
                continue;
            }
            let Ok(target) = fs.read_link(self.at.as_ref()) else { continue };
            self.links += 1;
            let link = self.at.clone();
            self.at.truncate(if target.starts_with(b"/") { 0 } else { here });
            for name in components(target.as_ref()).rev() {
                self.way.push_front(name);
            }
            return Some((link, target));
        }
        None
    }
}

/// Returns the components of a path except `.`.
fn components(path: &BStr) -> impl DoubleEndedIterator<Item = BString> + '_ {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && name != b".");
    names.map(BString::from)
}
