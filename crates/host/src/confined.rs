//! Starts of programs that the user has not named: without a terminal and, if possible, without a
//! network, in an environment of the caller's choice, for a limited time.

#![allow(unsafe_code, reason = "namespaces are entered between fork and execve")]

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::child::status_within;
use crate::trace::Command;

/// Bytes of the output that are kept.
const OUTPUT: u64 = 1 << 20;

/// The namespaces of confined starts.
#[derive(Debug)]
pub struct Confinement {
    /// A user namespace, for users who need one, and a network namespace without devices.
    namespaces: Vec<File>,
}

/// The end of a confined start.
#[derive(Debug)]
pub struct Ended {
    /// The status.
    pub status: ExitStatus,
    /// The beginning of the standard output.
    pub output: Vec<u8>,
    /// The time from before the fork to the end.
    pub wall: Duration,
}

impl Confinement {
    /// Makes the namespaces. If the kernel allows none, starts are confined without them.
    #[must_use]
    pub fn make() -> Self {
        Self {
            namespaces: namespaces(&["net"])
                .or_else(|| namespaces(&["user", "net"]))
                .unwrap_or_default(),
        }
    }

    /// True if the starts have no network.
    #[must_use]
    pub fn has_no_network(&self) -> bool {
        !self.namespaces.is_empty()
    }

    /// Starts a command from a file and waits for its end; `None` if it was killed at the limit, with
    /// its descendants.
    ///
    /// # Errors
    /// Returns an error if it cannot be started or waited for.
    pub fn run(
        &self,
        command: &Command,
        file: &Path,
        limit: Duration,
    ) -> io::Result<Option<Ended>> {
        let mut output = tempfile::tempfile()?;
        let mut command = command.of_std(file);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(Stdio::null());
        let namespaces: Vec<i32> = self.namespaces.iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: the function makes system calls alone.
        unsafe {
            command.pre_exec(move || {
                libc::setsid();
                match namespaces.iter().all(|&fd| libc::setns(fd, 0) == 0) {
                    true => Ok(()),
                    false => Err(io::Error::last_os_error()),
                }
            });
        }
        let began = Instant::now();
        let mut child = command.spawn()?;
        let status = status_within(&mut child, limit)?;
        let wall = began.elapsed();
        let Some(status) = status else { return Ok(None) };
        let mut bytes = Vec::new();
        output.rewind()?;
        output.take(OUTPUT).read_to_end(&mut bytes)?;
        Ok(Some(Ended { status, output: bytes, wall }))
    }
}

/// Returns new namespaces, which a process that has ended leaves to those who have them open.
fn namespaces(kinds: &[&str]) -> Option<Vec<File>> {
    let with_user = kinds.contains(&"user");
    let flags = libc::CLONE_NEWNET | if with_user { libc::CLONE_NEWUSER } else { 0 };
    // It waits for the end of its standard input.
    let mut command = process::Command::new("/bin/cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the function makes a system call alone.
    unsafe {
        command.pre_exec(move || match libc::unshare(flags) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn().ok()?;
    let of_child = PathBuf::from(format!("/proc/{}", child.id()));
    let opened = || -> io::Result<Vec<File>> {
        if with_user {
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            fs::write(of_child.join("setgroups"), "deny")?;
            fs::write(of_child.join("uid_map"), format!("{0} {0} 1", user.as_raw()))?;
            fs::write(of_child.join("gid_map"), format!("{0} {0} 1", group.as_raw()))?;
        }
        kinds.iter().map(|kind| File::open(of_child.join("ns").join(kind))).collect()
    };
    let opened = opened();
    drop(child.stdin.take());
    let _ = child.wait();
    opened.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Option<Ended> {
        let command = Command {
            env: Some(vec![("HOME".into(), "/nonexistent".into())]),
            dir: Some("/".into()),
            ..Command::new("sh", ["-c".into(), script.into()])
        };
        Confinement::make().run(&command, Path::new("/bin/sh"), limit).unwrap()
    }

    #[test]
    fn a_start_has_the_given_environment_no_terminal_and_no_other_network() {
        let long = Duration::from_secs(60);
        let ended = shell("echo $HOME $USER; : < /dev/tty || exit 3", long).unwrap();
        assert_eq!(
            (ended.status.code(), ended.output.as_slice()),
            (Some(2), &b"/nonexistent\n"[..])
        );
        if Confinement::make().has_no_network() {
            let ended = shell("grep -c : /proc/self/net/dev", long).unwrap();
            assert_eq!(ended.output, b"1\n", "the loopback device alone");
        }
    }

    #[test]
    fn an_endless_start_is_killed() {
        assert!(shell("sleep 1000", Duration::from_millis(50)).is_none());
    }
}
