//! The first moment at which a program waits: all its threads sleep, and those of its descendants.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::child::{ends_within, family_of};

/// The time for which all threads of an idle program sleep. A shorter wait is part of the start.
pub const QUIET: Duration = Duration::from_millis(500);
/// Context switches within that time of threads that only look at a clock or a socket, for each program; more if it
/// has more threads.
const WAKES: u64 = 10;
/// Looks in a row that find a thread awake which only looks.
const SHORT: u32 = 2;
/// Time between two looks.
pub(crate) const STEP: Duration = Duration::from_millis(1);

/// The end of a wait for a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It ended.
    Ended,
    /// It has been idle since this moment.
    Idle(Instant),
    /// It was neither within the limit.
    TooLong,
}

/// Waits until a child ends or is idle, without reaping it.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> io::Result<Waited> {
    let began = Instant::now();
    let mut watch = Watch::new(child.id());
    while began.elapsed() < limit {
        if ends_within(child, STEP)? {
            return Ok(Waited::Ended);
        }
        if let Some(since) = watch.look() {
            return Ok(Waited::Idle(since));
        }
    }
    Ok(Waited::TooLong)
}

/// Looks at the threads of a process and of its descendants.
#[derive(Debug)]
pub(crate) struct Watch {
    process: u32,
    /// Since when they sleep, and the threads as they were then.
    quiet: Option<(Instant, Threads)>,
    /// Looks in a row that found one awake.
    awake: u32,
}

/// The number of threads, the sum of their numbers, by which others are seen, and their context switches.
#[derive(Clone, Copy, Debug, Default)]
struct Threads {
    number: u64,
    numbers: u64,
    switches: u64,
}

impl Watch {
    pub(crate) fn new(process: u32) -> Self {
        Self { process, quiet: None, awake: 0 }
    }

    /// Looks once. Returns the moment since which all threads sleep, if that is [`QUIET`] ago.
    pub(crate) fn look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let Some(threads) = asleep(self.process) else {
            self.awake += 1;
            self.quiet = self.quiet.filter(|_| self.awake <= SHORT);
            return None;
        };
        self.awake = 0;
        let is_same = |then: Threads| {
            let wakes = threads.switches.saturating_sub(then.switches);
            let are_same = (threads.number, threads.numbers) == (then.number, then.numbers);
            are_same && wakes <= WAKES.max(threads.number)
        };
        let (since, then) = self.quiet.filter(|quiet| is_same(quiet.1)).unwrap_or((now, threads));
        self.quiet = Some((since, then));
        (now - since >= QUIET).then_some(since)
    }
}

/// Returns the threads of a process and of its descendants; `None` if one of them does not sleep. The first thread
/// that runs ends the look.
fn asleep(process: u32) -> Option<Threads> {
    let mut threads = Threads::default();
    for process in family_of(process, usize::MAX) {
        let tasks = fs::read_dir(format!("/proc/{process}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            threads.number += 1;
            threads.numbers += task.file_name().to_str().map_or(0, |it| it.parse().unwrap_or(0));
            threads.switches += switches(&task.path())?;
        }
    }
    (threads.number > 0).then_some(threads)
}

/// Returns the context switches of a thread that sleeps or has ended (proc_pid_status(5)).
fn switches(task: &Path) -> Option<u64> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
    field("State:")?.starts_with(['S', 'Z', 'X']).then_some(())?;
    let names = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"];
    Some(names.iter().filter_map(|name| field(name)?.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::child::kill_family;

    fn waited(script: &str, limit: Duration) -> Waited {
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        // Taken, since a wait would close it.
        let stdin = child.stdin.take();
        let waited = wait(&mut child, limit).unwrap();
        kill_family(&mut child);
        drop(stdin);
        waited
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_that_waits_is_idle_and_its_children_count() {
        assert!(matches!(waited("read line", LONG), Waited::Idle(_)));
        assert!(matches!(waited("(read line) & read other", LONG), Waited::Idle(_)));
        let busy = waited("(while :; do :; done) & read line", 2 * QUIET);
        assert_eq!(busy, Waited::TooLong);
    }

    #[test]
    fn a_program_that_ends_or_wakes_up_again_is_not_idle() {
        assert_eq!(waited("exit 3", LONG), Waited::Ended);
        let works = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done";
        assert_eq!(waited(works, LONG), Waited::Ended);
    }

    #[test]
    fn a_program_that_only_looks_now_and_then_is_idle() {
        let looks = "import select\nwhile True: select.select([], [], [], 0.1)";
        let mut python = Command::new("python3");
        let Ok(mut child) = python.args(["-c", looks]).spawn() else {
            return becalm_testing::skip("no python3");
        };
        let waited = wait(&mut child, LONG).unwrap();
        kill_family(&mut child);
        assert!(matches!(waited, Waited::Idle(_)), "{waited:?}");
    }
}
