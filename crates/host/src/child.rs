//! Child processes with a time limit, and their last output.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use bstr::ByteSlice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Waits for a child and returns its status. If the child still runs at the limit, kills it and its
/// descendants and returns `None`.
///
/// # Errors
/// Returns an error if waiting fails.
pub fn status_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    if ends_within(child, limit)? {
        return child.wait().map(Some);
    }
    kill_family(child);
    Ok(None)
}

/// Waits for the end of a child without reaping it. Returns false if the child still runs at the
/// limit.
///
/// # Errors
/// Returns an error if waiting fails.
pub fn ends_within(child: &mut Child, limit: Duration) -> io::Result<bool> {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return ends_within_by_polling(child, limit);
    };
    let until = Instant::now() + limit;
    loop {
        // A limit that is too large for the call is none.
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], left.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Does the same on kernels without pidfds (before Linux 5.3), by polling every tenth of a
/// millisecond.
fn ends_within_by_polling(child: &mut Child, limit: Duration) -> io::Result<bool> {
    const STEP: Duration = Duration::from_micros(100);
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(STEP);
    }
    Ok(true)
}

/// Kills a child and its descendants, as far as `/proc` lists them, and reaps the child.
pub(crate) fn kill_family(child: &mut Child) {
    kill_tree(child.id());
    let _ = child.wait();
}

/// Kills a process and its descendants, as far as `/proc` lists them, without reaping any.
pub(crate) fn kill_tree(id: u32) {
    // Listed before the first kill, because the children of a process that has ended get another
    // parent.
    kill_all(&family_of(id, usize::MAX));
}

/// Returns the last line that is not blank in the last page of a file.
pub fn last_line(output: &mut File) -> Option<Vec<u8>> {
    const PAGE: u64 = 4096;
    let length = output.seek(SeekFrom::End(0)).ok()?;
    output.seek(SeekFrom::Start(length.saturating_sub(PAGE))).ok()?;
    let mut text = Vec::new();
    output.take(PAGE).read_to_end(&mut text).ok()?;
    let line = text.lines().rfind(|line| !line.trim_ascii().is_empty())?;
    Some(line.trim_ascii().to_vec())
}

/// Kills all descendants of this process, as far as `/proc` lists them, without reaping any.
pub fn kill_descendants() {
    kill_all(&family_of(std::process::id(), usize::MAX)[1..]);
}

/// Returns a process and its descendants now, the process first, at most so many.
#[must_use]
pub fn family_of(id: u32, most: usize) -> Vec<u32> {
    let mut family = vec![id];
    let mut at = 0;
    while let Some(&parent) = family.get(at).filter(|_| family.len() < most) {
        at += 1;
        let new: Vec<u32> =
            children_of(parent).into_iter().filter(|id| !family.contains(id)).collect();
        family.extend(new);
    }
    family.truncate(most);
    family
}

fn kill_all(ids: &[u32]) {
    for &id in ids {
        if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            // If the process has ended meanwhile, it needs no signal.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns the children of all threads of a process (proc_pid_task(5)).
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
    fn the_last_line_is_found_after_much_output() {
        let mut output = tempfile::tempfile().unwrap();
        assert_eq!(last_line(&mut output), None);
        output.write_all(&b"first\n".repeat(2000)).unwrap();
        output.write_all(b"  last \n \n").unwrap();
        assert_eq!(last_line(&mut output).unwrap(), b"last");
    }
}
