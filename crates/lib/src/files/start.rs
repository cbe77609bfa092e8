//! The files of all programs and scripts that are executed on the way to a program.

use becalm_core::closure::Closure;
use becalm_host::Session;
use bstr::BString;

use crate::assume::Assumptions;
use crate::files::{FileList, FileUse, StartFile};
use crate::follow::{Followed, follow};
use crate::launch::{Launch, Step};
use crate::path::path_of;
use crate::targets::Target;

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
