//! Work that waits for the disk or a server, in more threads than there are processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `work` with the numbers below `count`, in order, in up to `most` threads with stacks of this size, this one
/// among them. A thread for which it returns false takes no further number.
pub fn in_threads(count: usize, most: usize, stack: usize, work: impl Fn(usize) -> bool + Sync) {
    let next = AtomicUsize::new(0);
    let is_going_on = |at| at < count && work(at);
    let run = || while is_going_on(next.fetch_add(1, Ordering::Relaxed)) {};
    thread::scope(|scope| {
        for _ in 1..most {
            // With fewer threads it takes longer.
            if thread::Builder::new().stack_size(stack).spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
}
