//! The walk over the needed strings, breadth first: `_dl_map_object_deps` of glibc's
//! `elf/dl-deps.c`.

use bstr::BString;
use rustc_hash::FxHashSet;

use super::Process;
use super::open_path::Request;
use crate::elf::{Dependency, DependencyKind};
use crate::fs::Errno;
use crate::loader::load::{Answer, Ended, Reason, Refusal, Role, Stop};
use crate::search::dst;

/// The objects whose dependencies are followed, in order (`struct list`).
#[derive(Default)]
struct Queue {
    list: Vec<usize>,
    /// The objects in the list. glibc marks them with `l_reserved`.
    listed: FxHashSet<usize>,
    /// The objects whose dependencies were followed.
    done: FxHashSet<usize>,
}

impl Queue {
    /// Appends an object, unless it is in the list already.
    fn append(&mut self, object: usize) {
        if self.listed.insert(object) {
            self.list.push(object);
        }
    }

    /// Inserts `object` before the one at a position. An object behind that one moves up and is followed
    /// again. Returns false if the object stands there or before it already; it stays there.
    fn insert_before(&mut self, at: usize, object: usize) -> bool {
        if !self.listed.insert(object) {
            let Some(behind) = self.list[at + 1..].iter().position(|&it| it == object) else {
                // The symbols of an object before `at` are found early enough already.
                return false;
            };
            // Its symbols must be found before those of the object that names it.
            self.list.remove(at + 1 + behind);
            self.done.remove(&object);
        }
        self.list.insert(at, object);
        true
    }
}

impl Process<'_> {
    /// Loads the dependencies of `roots` and of every object loaded on the way.
    pub(super) fn map_object_deps(&mut self, roots: &[usize]) -> Result<(), Ended> {
        // `_dl_map_object_deps` saves `errno` and clears it.
        self.errno = Errno(0);
        let mut queue = Queue::default();
        roots.iter().for_each(|&root| queue.append(root));
        let mut at = 0;
        while let Some(&object) = queue.list.get(at) {
            // The walk moves back to the first of the auxiliary objects that were inserted.
            if !queue.done.insert(object) || !self.follow(&mut queue, at)? {
                at += 1;
            }
        }
        // Only the program's list is the global scope; an audit module has a list of its own.
        if roots.first() == Some(&0) {
            self.load.scope = queue.list;
        }
        Ok(())
    }

    /// Follows the dependency entries of one object in the order of its dynamic section. Returns true if
    /// objects were inserted before it.
    fn follow(&mut self, queue: &mut Queue, first: usize) -> Result<bool, Ended> {
        let (object, mut at) = (queue.list[first], first);
        let view = self.load.objects[object].view.clone();
        for dependency in view.dependencies() {
            // `openaux` maps the object before the next entry is read. The order of the entries is
            // therefore the order of the probes.
            let Some(dep) = self.follow_one(object, dependency)? else { continue };
            if dependency.kind == DependencyKind::Needed {
                queue.append(dep);
            } else {
                // The symbols of a filtee must be found before those of the filter that names it.
                at += usize::from(queue.insert_before(at, dep));
            }
        }
        Ok(at > first)
    }

    /// Follows one dependency entry. Returns `None` if the loader continues without an object.
    fn follow_one(
        &mut self,
        object: usize,
        dependency: &Dependency,
    ) -> Result<Option<usize>, Ended> {
        // The resolution is added before the search, so that its probes can name it.
        let reason = Reason::Dependency(dependency.kind);
        let resolution = self.load.begin(object, dependency.name.clone(), reason)?;
        let answer = match self.expand_dependency(object, dependency) {
            Ok(name) => {
                // A dependency goes to the list of its requester (`l_ns`). The dependency of a
                // preload is an ordinary library, because only the preload itself is a root.
                let namespace = self.load.objects[object].namespace;
                let role = if namespace == 0 { Role::Library } else { Role::Audit };
                let name = name.as_ref();
                self.map_object(Request { name, resolution, needed_by: object, role, namespace })?
            }
            Err(answer) => answer,
        };
        let found = answer.object();
        // The errors of a `DT_AUXILIARY` entry are dropped, those of `DT_FILTER` are not.
        let fatal =
            matches!(answer, Answer::Refused(_)) && dependency.kind != DependencyKind::Auxiliary;
        self.load.resolutions[resolution].answer = answer;
        if fatal { Err(Stop::Refused(resolution).into()) } else { Ok(found) }
    }

    /// `expand_dst` of `elf/dl-deps.c`. The loader skips an entry if a DST has no value. In an
    /// auxiliary entry it raises an error instead, which it then drops.
    fn expand_dependency(&self, object: usize, dependency: &Dependency) -> Result<BString, Answer> {
        if !dst::has_token(&dependency.name) {
            return Ok(dependency.name.clone());
        }
        // `expand_dst` rejects every DST here. `_dl_dst_substitute` rejects only some uses of
        // `$ORIGIN`.
        if self.environment.secure {
            return Err(Answer::Refused(Refusal::DST_IN_SECURE_MODE));
        }
        match dst::expand(dependency.name.as_ref(), &self.tokens(object)) {
            Some(name) if !name.is_empty() => Ok(name),
            _ if dependency.kind == DependencyKind::Auxiliary => {
                Err(Answer::Refused(Refusal::EMPTY_DST))
            }
            _ => Err(Answer::Skipped),
        }
    }
}
