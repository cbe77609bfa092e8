//! The order in which glibc relocates objects: `dl_main` walks backwards through the scope as
//! sorted by `_dl_sort_maps` (`elf/dl-sort-maps.c`), with the loader last.

use crate::facts::GlibcVersion;
use crate::loader::load::{Load, Reason, Role};

/// The release whose `_dl_sort_maps` walks depth first by default.
const DEPTH_FIRST: GlibcVersion = GlibcVersion { major: 2, minor: 35 };
/// The release that relocates `libc.so` first (bug 31083).
const LIBC_FIRST: GlibcVersion = GlibcVersion { major: 2, minor: 39 };

/// Returns the objects of the base namespace in the order of relocation.
pub(super) fn of(load: &Load, version: GlibcVersion) -> Vec<usize> {
    let needs = needs(load);
    let sorted = match version >= DEPTH_FIRST {
        true => depth_first(&load.scope, &needs),
        false => original(&load.scope, &needs),
    };
    let is_loader = |object: usize| load.objects[object].role == Role::Loader;
    let mut order: Vec<usize> =
        // The order is reversed, because a COPY relocation must read the data of a library after
        // the library is relocated.
        sorted.into_iter().rev().filter(|&object| !is_loader(object)).collect();
    let soname = |object: usize| load.objects[object].view.soname();
    let is_libc = |&object: &usize| soname(object).is_some_and(|name| name == "libc.so.6");
    if version >= LIBC_FIRST
        && let Some(at) = order.iter().position(is_libc)
    {
        // The IFUNC resolvers of other objects may call functions of `libc.so`.
        order[..=at].rotate_right(1);
    }
    // The loader has relocated itself before. It does so again at the end, so that definitions in
    // other objects take precedence.
    let loader = load.objects.iter().position(|object| object.role == Role::Loader);
    order.extend(loader);
    order
}

/// Returns `l_initfini` before the sort: the dependencies of each object, in order.
fn needs(load: &Load) -> Vec<Vec<usize>> {
    let mut needs = vec![Vec::new(); load.objects.len()];
    for asked in &load.resolutions {
        if let (Reason::Dependency(_), Some(object)) = (asked.reason, asked.answer.object()) {
            needs[asked.needed_by].push(object);
        }
    }
    // The program's list is not made yet at this point.
    if let Some(program) = needs.first_mut() {
        program.clear();
    }
    needs
}

/// `_dl_sort_maps_dfs`: a reverse postorder. Each walk starts from the end of the list.
fn depth_first(scope: &[usize], needs: &[Vec<usize>]) -> Vec<usize> {
    let mut visited = vec![false; needs.len()];
    let mut postorder = Vec::with_capacity(scope.len());
    for &start in scope.iter().rev() {
        if std::mem::replace(&mut visited[start], true) {
            continue;
        }
        let mut stack = vec![(start, 0)];
        while let Some((object, next)) = stack.last_mut() {
            match needs[*object].get(*next) {
                Some(&need) => {
                    *next += 1;
                    // `dfs_traversal` does not enter the main map (`l_main_map`), which a library
                    // may need.
                    let is_program = scope.first() == Some(&need);
                    if !is_program && !std::mem::replace(&mut visited[need], true) {
                        stack.push((need, 0));
                    }
                }
                None => {
                    postorder.push(*object);
                    stack.pop();
                }
            }
        }
    }
    postorder.reverse();
    // The program moves back to the front.
    if let Some(at) = postorder.iter().position(|object| Some(object) == scope.first()) {
        postorder[..=at].rotate_right(1);
    }
    postorder
}

/// `_dl_sort_maps_original`: an object moves behind the last one that needs it, unless they need
/// each other. The first object stays.
fn original(scope: &[usize], needs: &[Vec<usize>]) -> Vec<usize> {
    let mut maps = scope.to_vec();
    let Some(rest) = maps.get_mut(1..).filter(|rest| rest.len() > 1) else { return maps };
    let count = rest.len();
    let mut seen = vec![0_usize; count];
    let mut at = 0;
    loop {
        seen[at] += 1;
        let this = rest[at];
        let last_user = (at + 1..count).rev().find(|&k| needs[rest[k]].contains(&this));
        if let Some(k) = last_user {
            rest[at..=k].rotate_left(1);
            // After too many rounds, the objects must need each other.
            if seen[at + 1] > count - at {
                at += 1;
                seen[at..].fill(0);
            } else {
                seen[at..=k].rotate_left(1);
            }
            continue;
        }
        at += 1;
        if at == count {
            return maps;
        }
        seen[at..].fill(0);
    }
}
