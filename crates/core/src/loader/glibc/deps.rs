//! The walk over the needed strings, breadth first: `_dl_map_object_deps` of glibc's
//! `elf/dl-deps.c`.

use bstr::BString;
use rustc_hash::FxHashMap;

use super::map_object::Request;
use super::{Ended, Process};
use crate::elf::{Dependency, DependencyKind};
use crate::fs::Errno;
use crate::loader::load::{Answer, Reason, Refusal, Role, Stop};
use crate::search::dst;

/// The objects whose dependencies are followed, in order (`struct list`). It is a linked list
/// because an auxiliary object is inserted before the object that names it.
#[derive(Default)]
struct Queue {
    nodes: Vec<Node>,
    last: Option<usize>,
    /// The node of each object in the list. glibc marks these objects with `l_reserved`.
    of_object: FxHashMap<usize, usize>,
}

struct Node {
    object: usize,
    done: bool,
    /// True if the node is the current one or stands before it.
    before: bool,
    previous: Option<usize>,
    next: Option<usize>,
}

impl Queue {
    fn new(objects: &[usize]) -> Self {
        let mut queue = Self::default();
        for &object in objects {
            queue.append(object);
        }
        queue
    }

    fn node(&mut self, object: usize) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Node { object, done: false, before: false, previous: None, next: None });
        self.of_object.insert(object, index);
        index
    }

    /// Appends an object, unless it is in the list already.
    fn append(&mut self, object: usize) {
        if self.of_object.contains_key(&object) {
            return;
        }
        let index = self.node(object);
        self.nodes[index].previous = self.last;
        if let Some(last) = self.last {
            self.nodes[last].next = Some(index);
        }
        self.last = Some(index);
    }

    /// Inserts `object` before the node `at` and returns its node. An object behind `at` moves
    /// up and is followed again. Returns `None` if the object stands before `at` already; it
    /// stays there.
    fn insert_before(&mut self, at: usize, object: usize) -> Option<usize> {
        let index = match self.of_object.get(&object) {
            // The symbols of an object before `at` are found early enough already.
            Some(&known) if self.nodes[known].before => return None,
            // Its symbols must be found before those of the object that names it.
            Some(&known) => {
                self.unlink(known);
                self.nodes[known].done = false;
                known
            }
            None => self.node(object),
        };
        let previous = self.nodes[at].previous.replace(index);
        if let Some(previous) = previous {
            self.nodes[previous].next = Some(index);
        }
        let node = &mut self.nodes[index];
        (node.previous, node.next, node.before) = (previous, Some(at), true);
        Some(index)
    }

    fn unlink(&mut self, index: usize) {
        let Node { previous, next, .. } = self.nodes[index];
        if let Some(previous) = previous {
            self.nodes[previous].next = next;
        }
        match next {
            Some(next) => self.nodes[next].previous = previous,
            None => self.last = previous,
        }
    }

    /// Returns the objects in the order of the list.
    fn order(&self) -> Vec<usize> {
        let mut first = (!self.nodes.is_empty()).then_some(0);
        // Node 0 is the first root, but an auxiliary object of the program is inserted before it.
        while let Some(previous) = first.and_then(|index| self.nodes[index].previous) {
            first = Some(previous);
        }
        let next = |index: &usize| self.nodes[*index].next;
        std::iter::successors(first, next).map(|index| self.nodes[index].object).collect()
    }

    /// Returns the node to follow after `at`: the first of the auxiliary objects `inserted`
    /// before it, or else the next node that is not done.
    fn after(&mut self, at: usize, inserted: &[usize]) -> Option<usize> {
        // The walk moves back to the inserted nodes, so these are no longer before it.
        for &index in inserted {
            self.nodes[index].before = false;
        }
        if let Some(&first) = inserted.first() {
            self.nodes[at].before = false;
            return Some(first);
        }
        let mut next = self.nodes[at].next;
        while let Some(index) = next.filter(|&index| self.nodes[index].done) {
            self.nodes[index].before = true;
            next = self.nodes[index].next;
        }
        next
    }
}

impl Process<'_> {
    /// Loads the dependencies of `roots` and of every object loaded on the way.
    pub(super) fn map_object_deps(&mut self, roots: &[usize]) -> Result<(), Ended> {
        // `_dl_map_object_deps` saves `errno` and clears it.
        self.errno = Errno(0);
        let mut queue = Queue::new(roots);
        let mut current = (!roots.is_empty()).then_some(0);
        while let Some(at) = current {
            let node = &mut queue.nodes[at];
            (node.done, node.before) = (true, true);
            let inserted = self.follow(&mut queue, at)?;
            current = queue.after(at, &inserted);
        }
        // Only the program's list is the global scope; an audit module has a list of its own.
        if roots.first() == Some(&0) {
            self.load.scope = queue.order();
        }
        Ok(())
    }

    /// Follows the dependency entries of one object in the order of its dynamic section, and
    /// returns the nodes inserted before its own.
    fn follow(&mut self, queue: &mut Queue, at: usize) -> Result<Vec<usize>, Ended> {
        let object = queue.nodes[at].object;
        let view = self.load.objects[object].view.clone();
        let mut inserted = Vec::new();
        for dependency in view.dependencies() {
            // `openaux` maps the object before the next entry is read. The order of the entries is
            // therefore the order of the probes.
            let Some(dep) = self.follow_one(object, dependency)? else { continue };
            if dependency.kind == DependencyKind::Needed {
                queue.append(dep);
            } else {
                // The symbols of a filtee must be found before those of the filter that names it.
                inserted.extend(queue.insert_before(at, dep));
            }
        }
        Ok(inserted)
    }

    /// Follows one dependency entry. Returns `None` if the loader continues without an object.
    fn follow_one(
        &mut self,
        object: usize,
        dependency: &Dependency,
    ) -> Result<Option<usize>, Ended> {
        // The resolution is added before the search, so that its probes can name it.
        let reason = Reason::Dependency(dependency.kind);
        let resolution = self.begin(object, dependency.name.as_ref(), reason)?;
        let answer = match self.expand_dependency(object, dependency) {
            Ok(name) => {
                let (role, namespace) = self.place_of_dependency(object);
                let request = Request { resolution, needed_by: object, role, namespace };
                self.map_object(name.as_ref(), request)?
            }
            Err(answer) => answer,
        };
        let found = answer.object();
        // The errors of a `DT_AUXILIARY` entry are dropped, those of `DT_FILTER` are not.
        let fatal =
            matches!(answer, Answer::Refused(_)) && dependency.kind != DependencyKind::Auxiliary;
        self.load.resolutions[resolution].answer = answer;
        if fatal {
            return Err(self.end(resolution));
        }
        Ok(found)
    }

    /// Returns the role and the list of link maps for the dependencies of an object.
    fn place_of_dependency(&self, object: usize) -> (Role, usize) {
        let requester = &self.load.objects[object];
        // A dependency goes to the list of its requester (`l_ns`). The dependency of a preload is
        // an ordinary library, because only the preload itself is a root.
        let role = if requester.namespace == 0 { Role::Library } else { Role::Audit };
        (role, requester.namespace)
    }

    /// `expand_dst` of `elf/dl-deps.c`. The loader skips an entry if a DST has no value. In an
    /// auxiliary entry it raises an error instead, which it then drops.
    pub(super) fn expand_dependency(
        &self,
        object: usize,
        dependency: &Dependency,
    ) -> Result<BString, Answer> {
        if !dst::has_token(&dependency.name) {
            return Ok(dependency.name.clone());
        }
        // `expand_dst` rejects every DST here. `_dl_dst_substitute` rejects only some uses of
        // `$ORIGIN`.
        if self.environment.secure {
            return Err(Answer::Refused(Refusal::DstInSecureMode));
        }
        match dst::expand(dependency.name.as_ref(), &self.tokens(object)) {
            Some(name) if !name.is_empty() => Ok(name),
            _ if dependency.kind == DependencyKind::Auxiliary => {
                Err(Answer::Refused(Refusal::EmptyDst))
            }
            _ => Err(Answer::Skipped),
        }
    }

    /// Ends the start at a resolution with a fatal answer.
    pub(super) fn end(&mut self, resolution: usize) -> Ended {
        self.load.stop = Some(Stop::Refused(resolution));
        Ended
    }
}
