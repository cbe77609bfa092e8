//! Child processes with a time limit, and what they said last.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use bstr::ByteSlice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// How a child ended; `None` where it still ran when the limit was over and was killed, with
/// what it started.
///
/// # Errors
/// It cannot be waited for.
pub fn status_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    if ends_within(child, limit)? {
        return child.wait().map(Some);
    }
    kill_family(child);
    Ok(None)
}

/// Waits for the end of a child without taking its status; false where it still runs when
/// the limit is over.
///
/// # Errors
/// It cannot be waited for.
pub fn ends_within(child: &mut Child, limit: Duration) -> io::Result<bool> {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return ends_within_looking(child, limit);
    };
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The same where the kernel has no pidfds (before Linux 5.3): to a tenth of a
/// millisecond.
fn ends_within_looking(child: &mut Child, limit: Duration) -> io::Result<bool> {
    const LOOK: Duration = Duration::from_micros(100);
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
    Ok(true)
}

/// Kills a child and what it started, as far as `/proc` tells, and takes its status.
pub fn kill_family(child: &mut Child) {
    kill_all(&family_of(child.id()));
    let _ = child.wait();
}

/// The last line that says something in the last page of a file that children wrote to.
pub fn last_line(said: &mut File) -> Option<Vec<u8>> {
    const PAGE: u64 = 4096;
    let length = said.seek(SeekFrom::End(0)).ok()?;
    said.seek(SeekFrom::Start(length.saturating_sub(PAGE))).ok()?;
    let mut text = Vec::new();
    said.take(PAGE).read_to_end(&mut text).ok()?;
    let line = text.lines().rfind(|line| !line.trim_ascii().is_empty())?;
    Some(line.trim_ascii().to_vec())
}

/// Kills all that this process started, and what that started, as far as `/proc` tells.
/// Nobody's status is taken.
pub fn kill_descendants() {
    kill_all(&family_of(std::process::id())[1..]);
}

/// A process and its descendants, itself first.
fn family_of(id: u32) -> Vec<u32> {
    let mut family = vec![id];
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        at += 1;
        let new: Vec<u32> =
            children_of(parent).into_iter().filter(|id| !family.contains(id)).collect();
        family.extend(new);
    }
    family
}

fn kill_all(ids: &[u32]) {
    for &id in ids {
        if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            // What has ended meanwhile needs no signal.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The children of a process, of all its threads (proc_pid_task(5)).
fn children_of(parent: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = tasks.flatten().map(|task| task.path().join("children"));
    let text: String =
        lists.filter_map(|list| std::fs::read_to_string(list).ok()).collect::<Vec<_>>().join(" ");
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_line_is_that_of_the_end_however_much_was_said_before() {
        let mut said = tempfile::tempfile().unwrap();
        assert_eq!(last_line(&mut said), None);
        said.write_all(&b"first\n".repeat(2000)).unwrap();
        said.write_all(b"  last \n \n").unwrap();
        assert_eq!(last_line(&mut said).unwrap(), b"last");
    }
}
