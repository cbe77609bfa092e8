//! Predicts the answers that the audit module gives in one start, and thus a start with an index.
//! It follows `crates/audit/module/audit.c`, `crates/audit/module/chain.c` and
//! `crates/audit/module/library_path.c`.

use std::cell::Cell;
use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use super::hash::{NameHash, run_path_digest};
use super::{Condition, Directory, Edge, Index, Object, SearchDir};
use crate::closure::Closure;
use crate::facts::{AuditAnswers, Environment};
use crate::fs::{Errno, FileSystem};
use crate::loader::glibc::run_path::RunPath;
use crate::loader::load::{LoadedObject, Role};
use crate::path;
use crate::search::hwcaps::arch::Arch;
use crate::search::order::Requester;

/// More directories of `LD_LIBRARY_PATH` that are not in the index are not looked at.
const MOST_LOOKS: usize = 16;

/// Predicts the answers to the lookups of a start. `plain` is that start without the index, and
/// `holds` returns whether a condition holds now.
///
/// The answers exclude those of resolution notes of objects that are not in the index, and those
/// that depend on a loader cache that was rewritten with the same content.
#[must_use]
pub fn answers(
    index: &Index,
    (fs, plain): (&dyn FileSystem, &Closure),
    environment: &Environment,
    holds: &dyn Fn(&Condition) -> bool,
) -> AuditAnswers {
    let by_path = index.objects.iter().map(|object| (object.path.as_bstr(), object)).collect();
    let library_path = environment.library_path.as_ref().map(|path| path.as_bstr());
    let library_path = library_path.filter(|path| !path.is_empty());
    let search_dirs = index.search_dirs.iter().map(|dir| (dir.path.as_bstr(), dir)).collect();
    let looks = Cell::default();
    let mut module = Module {
        index,
        by_path,
        search_dirs,
        fs,
        plain,
        library_path,
        looks,
        roots_hold: false,
        holds,
    };
    module.roots_hold = module.hold(&index.roots);
    let mut answers = AuditAnswers::default();
    for lookup in &plain.load.resolutions {
        let asking = &plain.load.objects[lookup.needed_by];
        // The module answers in the program's namespace only, and leaves DSTs to the loader.
        if asking.namespace != 0 || lookup.needed.contains(&b'$') {
            continue;
        }
        if let Some(path) = module.answer(asking, lookup.needed.as_ref()) {
            answers.insert(asking.path.as_ref(), lookup.needed.as_ref(), path);
        }
    }
    answers
}

/// The module in one process.
struct Module<'a> {
    index: &'a Index,
    by_path: FxHashMap<&'a BStr, &'a Object>,
    search_dirs: FxHashMap<&'a BStr, &'a SearchDir>,
    fs: &'a dyn FileSystem,
    plain: &'a Closure,
    /// `LD_LIBRARY_PATH`, if it is set and not empty.
    library_path: Option<&'a BStr>,
    /// Lookups in unlisted directories that were of use, and those that the loader had to repeat.
    looks: Cell<(usize, usize)>,
    /// No package was added to or removed from the stores.
    roots_hold: bool,
    holds: &'a dyn Fn(&Condition) -> bool,
}

impl<'a> Module<'a> {
    /// `answer`: returns the path for a needed string, if the module has one.
    fn answer(&self, asking: &'a LoadedObject, needed: &BStr) -> Option<BString> {
        if needed.contains(&b'/') || self.is_loader(needed) {
            return None;
        }
        let run_path = RunPath::of(&asking.view);
        let is_rpath = run_path.as_ref().is_some_and(RunPath::is_rpath);
        match self.identify(asking) {
            Some(object) => {
                let answer = self.answer_from_table(object, needed, is_rpath);
                if answer.is_some() || !is_rpath {
                    return answer;
                }
            }
            None if is_rpath => return None,
            None if run_path.is_some() => return self.after_library_path(needed, None),
            None => {}
        }
        self.answer_from_chain(asking, needed)
    }

    /// `answer_from_table`.
    fn answer_from_table(&self, object: &Object, needed: &BStr, is_rpath: bool) -> Option<BString> {
        let edge = self.find_edge(object, needed);
        let holds = |edge: &Edge| self.hold(&edge.conditions) && self.is_reached(object, edge);
        if is_rpath {
            let edge = edge.filter(|edge| holds(edge))?;
            if edge.before_library_path {
                return Some(edge.path.clone());
            }
            return self.after_library_path(needed, Some(&edge.path));
        }
        let first = self.after_library_path(needed, edge.map(|edge| &edge.path))?;
        // Another path is that of `LD_LIBRARY_PATH`.
        edge.is_none_or(|edge| first != edge.path || holds(edge)).then_some(first)
    }

    /// `answer_from_chain`: every `DT_RPATH` that is searched for the object, then
    /// `LD_LIBRARY_PATH`, then the common object.
    fn answer_from_chain(&self, asking: &'a LoadedObject, needed: &BStr) -> Option<BString> {
        let chain = self.chain(asking);
        // The loader goes to its cache at once then, and an answer would save nothing.
        if chain.is_empty() && self.library_path.is_none() {
            return None;
        }
        for member in chain {
            for path in self.identify(member)?.rpath.as_ref()? {
                let dir = self.search_dirs.get(path.as_bstr());
                let dir = dir.filter(|dir| self.hold(&dir.conditions))?;
                match certain(&dir.names, needed) {
                    None => {}
                    Some(true) => {
                        let path = BString::from([&dir.path[..], b"/", needed].concat());
                        return self.is_there(dir.look, &path).then_some(path);
                    }
                    Some(false) => return None,
                }
            }
        }
        let common = self.by_path.get(BStr::new(""));
        let common = common.filter(|_| !asking.view.is_nodeflib());
        let edge = common.and_then(|common| edge_of(common, needed));
        let first = self.after_library_path(needed, edge.map(|edge| &edge.path))?;
        let holds =
            |edge: &Edge| self.hold(&edge.conditions) && self.is_there(edge.look, &edge.path);
        edge.is_none_or(|edge| first != edge.path || holds(edge)).then_some(first)
    }

    /// Returns the objects whose `DT_RPATH` is searched for a requester, in order.
    fn chain(&self, asking: &'a LoadedObject) -> Vec<&'a LoadedObject> {
        if Requester::of(&asking.view).has_runpath {
            return Vec::new();
        }
        let objects = &self.plain.load.objects;
        let above = |object: &&'a LoadedObject| object.loaded_by.map(|at| &objects[at]);
        let all = std::iter::successors(Some(asking), above);
        all.filter(|it| RunPath::of(&it.view).is_some_and(|it| it.is_rpath())).collect()
    }

    fn hold(&self, conditions: &[Arc<Condition>]) -> bool {
        conditions.iter().all(|condition| {
            let is_in_place = matches!(**condition, Condition::StoreDirectory(..));
            self.roots_hold && is_in_place || (self.holds)(condition)
        })
    }

    /// `process_is_loader`.
    fn is_loader(&self, needed: &BStr) -> bool {
        let mut loaders = self.plain.load.objects.iter().filter(|it| it.role == Role::Loader);
        loaders.any(|loader| {
            loader.view.soname() == Some(needed) || path::name(&loader.path) == needed
        })
    }

    /// `identify`: returns the object of the index that matches an object of the process.
    fn identify(&self, asking: &LoadedObject) -> Option<&'a Object> {
        let run_path = RunPath::of(&asking.view)?;
        let object = self.find(asking)?;
        (object.run_path == run_path_digest(&run_path)).then_some(object)
    }

    /// `find_object` and `find_program`.
    fn find(&self, asking: &LoadedObject) -> Option<&'a Object> {
        let by_path = |path: &BString| self.by_path.get(path.as_bstr()).copied();
        if asking.role != Role::Program {
            return by_path(&asking.path).filter(|_| asking.path.starts_with(b"/"));
        }
        let named = by_path(&asking.path).filter(|object| object.canonical);
        named.or_else(|| by_path(&self.fs.canonicalize(asking.path.as_ref()).ok()?))
    }

    /// `find_edge`.
    fn find_edge<'o>(&'o self, object: &'o Object, needed: &BStr) -> Option<&'o Edge> {
        edge_of(object, needed).or_else(|| {
            let common = self.by_path.get(BStr::new("")).filter(|_| object.closed)?;
            edge_of(common, needed).filter(|edge| edge.outside)
        })
    }

    /// `is_there`.
    fn is_there(&self, look: bool, path: &BString) -> bool {
        !look && self.roots_hold || self.fs.open(path.as_ref()).is_ok()
    }

    /// `is_reached`: also checks the directories in stores up to that of the answer, if packages came
    /// or went.
    fn is_reached(&self, object: &Object, edge: &Edge) -> bool {
        let dir = path::parent(&edge.path);
        let dirs = &object.in_stores;
        let own = dirs.iter().position(|condition| condition.path() == dir);
        let dirs = own.map_or(&dirs[..], |own| &dirs[..=own]);
        (self.roots_hold || self.hold(dirs)) && self.is_there(edge.look, &edge.path)
    }

    /// `after_library_path`: returns the file in `LD_LIBRARY_PATH`, or else `next`.
    fn after_library_path(&self, needed: &BStr, next: Option<&BString>) -> Option<BString> {
        let elements = self.library_path.into_iter();
        let elements = elements.flat_map(|it| it.split(|byte| matches!(byte, b':' | b';')));
        let (mut unlisted, mut found) = (Vec::new(), None);
        for written in elements {
            let dir = path::without_end_slashes(written.as_bstr()).as_bytes();
            // A relative element depends on the current directory, and a DST on the process.
            if dir.first() != Some(&b'/') || dir.contains(&b'$') {
                return None;
            }
            let Some(names) = self.snapshot(dir.as_bstr()) else {
                unlisted.push(dir);
                continue;
            };
            match certain(names, needed) {
                None => {}
                Some(true) => {
                    found = Some(BString::from([dir, b"/", needed.as_bytes()].concat()));
                    break;
                }
                Some(false) => return None,
            }
        }
        let (won, lost) = self.looks.get();
        let may_look = next.is_some() && lost <= won && unlisted.len() <= MOST_LOOKS;
        if !unlisted.is_empty() && !may_look {
            return None;
        }
        let lacks_it = unlisted.iter().all(|dir| self.lacks(dir, needed));
        if !unlisted.is_empty() {
            self.looks.set((won + usize::from(lacks_it), lost + usize::from(!lacks_it)));
        }
        found.or_else(|| next.cloned()).filter(|_| lacks_it)
    }

    /// `look_at`: returns true if an unlisted directory certainly does not have a name.
    fn lacks(&self, dir: &[u8], needed: &BStr) -> bool {
        let absent = |name: &[u8]| {
            self.fs.stat(BString::from([dir, b"/", name].concat()).as_ref()) == Err(Errno::NOENT)
        };
        // The loader searches a subdirectory for its CPU before the directory itself.
        let legacy = Arch::of(&self.plain.subject.view.ident).legacy_names();
        let names = [needed.as_bytes(), b"glibc-hwcaps", b"tls"].into_iter();
        absent(b"") || names.chain(legacy.map(|name| name.as_bytes())).all(absent)
    }

    /// Returns the names of a directory if it is in the index and unchanged.
    fn snapshot(&self, dir: &BStr) -> Option<&[NameHash]> {
        let known = |directory: &&Directory| directory.path == dir;
        let directory = self.index.directories.iter().find(known)?;
        directory.names.as_deref().filter(|_| (self.holds)(&directory.condition))
    }
}

/// Returns true if a directory with these names is certain to answer a name; `None` if it lacks it.
fn certain(names: &[NameHash], needed: &BStr) -> Option<bool> {
    let hash = NameHash::of(needed, true);
    names.iter().find(|name| name.0 | 1 == hash.0).map(|name| *name == hash)
}

fn edge_of<'a>(object: &'a Object, needed: &BStr) -> Option<&'a Edge> {
    object.edges.iter().find(|edge| edge.needed() == needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::{Subject, resolve};
    use crate::fs::MemFs;
    use crate::fs::mem::ObjectBuilder;
    use crate::loader::facts::plain_glibc;

    const LD_SO: &str = "/lib/ld.so";

    /// A program that needs `liba.so` of `/s/a` and `libb.so` of `/s/b`, with both in its run path.
    fn tree() -> MemFs {
        let program = ObjectBuilder::program().interpreter(LD_SO).runpath("/s/a:/s/b");
        MemFs::new()
            .object(LD_SO, ObjectBuilder::library("ld.so.1"))
            .object("/bin/prog", program.needed("liba.so").needed("libb.so").needed("ld.so.1"))
            .object("/s/a/liba.so", ObjectBuilder::library("liba.so").needed("libc.so"))
            .object("/s/b/libb.so", ObjectBuilder::library("libb.so").rpath("/s/b"))
            .object("/s/b/libc.so", ObjectBuilder::library("libc.so"))
            .object("/usr/lib/libc.so", ObjectBuilder::library("libc.so"))
            .dir("/mine")
    }

    fn edge(path: &str) -> Edge {
        let conditions = vec![Arc::new(Condition::Absent("/s/a/libb.so".into()))];
        Edge { path: path.into(), look: true, conditions, ..Edge::default() }
    }

    fn object(path: &str, run_path: u32, edges: Vec<Edge>) -> Object {
        let path = path.into();
        Object { path, canonical: true, run_path, edges, ..Object::default() }
    }

    fn index() -> Index {
        let requester = Requester { has_rpath: false, has_runpath: true, no_default_dirs: false };
        let of_program = run_path_digest(&RunPath { value: "/s/a:/s/b".into(), requester });
        let edges = vec![edge("/s/a/liba.so"), edge("/s/b/libb.so"), edge("/s/b/ld.so.1")];
        let objects = vec![object("/bin/prog", of_program, edges)];
        Index { objects, ..Index::default() }
    }

    /// Returns the needed strings of the program that have an answer.
    fn answered(fs: &MemFs, index: &Index, environment: &Environment, holds: bool) -> Vec<String> {
        let subject = Subject::open(fs, "/bin/prog".into()).expect("a program");
        let plain =
            resolve(fs, subject, LD_SO.into(), plain_glibc(36), environment).expect("a start");
        let answers = answers(index, (fs, &plain), environment, &|_| holds);
        let needed = plain.load.resolutions.iter().map(|it| (it.needed_by, it.needed.clone()));
        needed
            .filter(|(by, name)| {
                let by = plain.load.objects[*by].path.as_ref();
                answers.get(by, name.as_ref()).is_some()
            })
            .map(|(_, name)| name.to_string())
            .collect()
    }

    #[test]
    fn an_object_is_answered_by_its_edges_while_their_conditions_hold() {
        let plain = Environment::default();
        assert_eq!(answered(&tree(), &index(), &plain, true), ["liba.so", "libb.so"]);
        assert!(answered(&tree(), &index(), &plain, false).is_empty());
    }

    #[test]
    fn an_object_with_another_run_path_is_not_answered() {
        let mut other = index();
        other.objects[0].run_path += 1;
        assert!(answered(&tree(), &other, &Environment::default(), true).is_empty());
    }

    #[test]
    fn a_library_path_is_searched_before_answers_that_come_after_it() {
        let in_front =
            |path: &str| Environment { library_path: Some(path.into()), ..Environment::default() };
        let both = ["liba.so", "libb.so"];
        for (path, expected) in [
            ("/mine", &both[..]),
            ("/absent/:/mine//", &both[..]),
            ("", &both[..]),
            ("mine", &[]),
            ("/$LIB", &[]),
            ("/s/a", &[]),
        ] {
            assert_eq!(answered(&tree(), &index(), &in_front(path), true), expected, "{path}");
        }
        let with_variants = tree().dir("/mine/glibc-hwcaps");
        assert!(answered(&with_variants, &index(), &in_front("/mine"), true).is_empty());
    }

    #[test]
    fn an_object_without_a_run_path_is_answered_behind_a_library_path_alone() {
        let mut with_common = index();
        with_common.objects.push(object("", 0, vec![edge("/usr/lib/libc.so")]));
        let plain = Environment::default();
        assert_eq!(answered(&tree(), &with_common, &plain, true), ["liba.so", "libb.so"]);
        let library_path = Some("/mine".into());
        let behind = Environment { library_path, ..Environment::default() };
        assert_eq!(
            answered(&tree(), &with_common, &behind, true),
            ["liba.so", "libb.so", "libc.so"]
        );
    }
}
