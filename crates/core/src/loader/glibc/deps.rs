//! The needed strings, breadth first: `_dl_map_object_deps` of glibc's `elf/dl-deps.c`.

use bstr::BString;

use super::map_object::Asked;
use super::{Ended, Process};
use crate::elf::{Dependency, DependencyKind};
use crate::loader::load::{Answer, Reason, Refusal, Role, Stop};
use crate::search::dst;

/// The list of objects whose dependencies are followed, in order. An auxiliary object
/// comes before the one that names it, which is why this is a linked list.
struct Queue {
    nodes: Vec<Node>,
    tail: usize,
}

struct Node {
    object: usize,
    done: bool,
    next: Option<usize>,
}

impl Queue {
    fn new(objects: &[usize]) -> Self {
        let mut queue = Self { nodes: Vec::new(), tail: 0 };
        for &object in objects {
            queue.append(object);
        }
        queue
    }

    fn append(&mut self, object: usize) {
        let index = self.nodes.len();
        self.nodes.push(Node { object, done: false, next: None });
        if index > 0 {
            self.nodes[self.tail].next = Some(index);
        }
        self.tail = index;
    }

    fn holds(&self, object: usize) -> bool {
        let mut next = (!self.nodes.is_empty()).then_some(0);
        while let Some(at) = next {
            if self.nodes[at].object == object {
                return true;
            }
            next = self.nodes[at].next;
        }
        false
    }

    /// Puts `object` before the entry `at` by making that entry its own and a new one
    /// behind it the old; gives the index of the old one's new place. An object further
    /// down moves up; one already passed stays where it is (`None`).
    fn insert_before(&mut self, at: usize, object: usize) -> Option<usize> {
        let moved = self.nodes.len();
        if self.holds(object) && !self.unlink_behind(at, object) {
            return None;
        }
        let old = &self.nodes[at];
        let copy = Node { object: old.object, done: old.done, next: old.next };
        self.nodes.push(copy);
        self.nodes[at] = Node { object, done: false, next: Some(moved) };
        if self.tail == at {
            self.tail = moved;
        }
        Some(moved)
    }

    /// Takes `object` out of the list behind entry `at`; false where it is not there.
    fn unlink_behind(&mut self, at: usize, object: usize) -> bool {
        let mut before = at;
        while let Some(next) = self.nodes[before].next {
            if self.nodes[next].object == object {
                self.nodes[before].next = self.nodes[next].next;
                if self.tail == next {
                    self.tail = before;
                }
                return true;
            }
            before = next;
        }
        false
    }
}

impl Process<'_> {
    /// Loads what `roots` need, and what that needs, in order.
    pub(super) fn map_object_deps(&mut self, roots: &[usize]) -> Result<(), Ended> {
        self.clear_errno();
        let mut queue = Queue::new(roots);
        let mut current = Some(0);
        while let Some(at) = current {
            queue.nodes[at].done = true;
            self.follow(&mut queue, at)?;
            // Auxiliary objects put before this one are not done and come next.
            current = Some(at);
            while let Some(next) = current.filter(|&next| queue.nodes[next].done) {
                current = queue.nodes[next].next;
            }
        }
        Ok(())
    }

    /// The dependency entries of one object, in the order of its dynamic section.
    fn follow(&mut self, queue: &mut Queue, at: usize) -> Result<(), Ended> {
        let object = queue.nodes[at].object;
        let view = self.load.objects[object].view.clone();
        let Some(dynamic) = &view.dynamic else { return Ok(()) };
        let mut at = at;
        for dependency in &dynamic.dependencies {
            let Some(dep) = self.follow_one(object, dependency)? else { continue };
            if dependency.kind == DependencyKind::Needed {
                if !queue.holds(dep) {
                    queue.append(dep);
                }
            } else if let Some(moved) = queue.insert_before(at, dep) {
                at = moved;
            }
        }
        Ok(())
    }

    /// One dependency entry: the object that answers, or `None` where the loader goes on
    /// without one.
    fn follow_one(
        &mut self,
        object: usize,
        dependency: &Dependency,
    ) -> Result<Option<usize>, Ended> {
        let reason = Reason::Dependency(dependency.kind);
        let question = self.ask(object, dependency.name.as_ref(), reason);
        let answer = match self.expand_dependency(object, dependency) {
            Ok(name) => {
                let (role, namespace) = self.place_of_dependency(object);
                let asked = Asked { question, needed_by: object, role, namespace };
                self.map_object(name.as_ref(), asked)?
            }
            Err(answer) => answer,
        };
        let found = answer.object();
        let fatal =
            matches!(answer, Answer::Refused(_)) && dependency.kind != DependencyKind::Auxiliary;
        self.load.resolutions[question].answer = answer;
        if fatal {
            return Err(self.end(question));
        }
        Ok(found)
    }

    /// The role and list of link maps that an object's dependencies get.
    fn place_of_dependency(&self, object: usize) -> (Role, usize) {
        let asking = &self.load.objects[object];
        let role = if asking.namespace == 0 { Role::Library } else { Role::Audit };
        (role, asking.namespace)
    }

    /// `expand_dst` of `elf/dl-deps.c`: a token without a value is passed over, except in
    /// an auxiliary entry, where the loader raises (and then forgets) an error.
    fn expand_dependency(&self, object: usize, dependency: &Dependency) -> Result<BString, Answer> {
        if !dst::has_token(&dependency.name) {
            return Ok(dependency.name.clone());
        }
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

    /// Ends the start at a question that got a fatal answer.
    pub(super) fn end(&mut self, question: usize) -> Ended {
        self.load.stop = Some(Stop::Refused(question));
        Ended
    }
}
