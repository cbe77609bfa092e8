//! A start whose libraries the audit module has the loader map below a chosen address
//! (`crates/audit/module/pages.c`). The process stops before any code of the program runs, and is read.

#![allow(unsafe_code, reason = "an inherited descriptor has no safe form")]

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::child::kill_family;
use crate::pages::maps::mappings;

/// Time between two looks at the process.
const PAUSE: Duration = Duration::from_millis(2);
/// Bytes of a relocation (`Elf64_Rela`).
pub const RELA: usize = 24;

/// An object of the start, in the order of the program's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The load address.
    pub address: u64,
    /// The relocations that the loader was given; `None` if it used the object's own.
    pub lent: Option<Vec<[u8; RELA]>>,
}

/// A start that has stopped. Dropping it kills the process.
#[derive(Debug)]
pub struct Steered {
    _process: Killed,
    memory: File,
    maps: Vec<u8>,
    /// The check of the members of the program's record.
    pub members_check: u32,
    /// The objects.
    pub places: Vec<Place>,
}

impl Steered {
    /// Starts a command with the highest library below `top`. The command's environment has the index;
    /// this adds the switches. `None` if the process cannot be started or read, ends by itself, or does not stop
    /// within the limit.
    #[must_use]
    pub fn start(mut command: Command, top: u64, holes: u32, limit: Duration) -> Option<Self> {
        let report: OwnedFd = memfd_create("becalm-pages", MemfdFlags::CLOEXEC).ok()?;
        let number = report.as_raw_fd();
        // Whatever else happens, `stop` keeps the program from running.
        command.env("BECALM", format!("stop,steer:{number}/{top}/{holes}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: both may be called between `fork` and `execve`; the descriptor is open until then.
        unsafe {
            command.pre_exec(move || {
                // A process that has stopped would stay for ever.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                match libc::fcntl(number, libc::F_SETFD, 0) {
                    -1 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                }
            });
        }
        let process = Killed(command.spawn().ok()?);
        stops_within(&process.0, limit).then_some(())?;
        let (mut report, mut told) = (File::from(report), Vec::new());
        report.rewind().ok()?;
        report.read_to_end(&mut told).ok()?;
        let (members_check, places) = parse(&told)?;
        let memory = File::open(format!("/proc/{}/mem", process.0.id())).ok()?;
        let maps = fs::read(format!("/proc/{}/maps", process.0.id())).ok()?;
        Some(Self { _process: process, memory, maps, members_check, places })
    }

    /// Reads memory of the process.
    ///
    /// # Errors
    /// Returns an error if nothing is mapped there.
    pub fn memory(&self, from: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.memory.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }

    /// Returns the file whose beginning is mapped at an address.
    #[must_use]
    pub fn file_at(&self, address: u64) -> Option<PathBuf> {
        let found = mappings(&self.maps).find(|it| it.from == address && it.offset == 0);
        found.map(|it| Path::to_owned(it.path))
    }
}

/// A process that is killed when it is dropped.
#[derive(Debug)]
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        kill_family(&mut self.0);
    }
}

fn stops_within(child: &Child, limit: Duration) -> bool {
    let began = Instant::now();
    let flags = WaitOptions::UNTRACED | WaitOptions::NOHANG;
    while began.elapsed() < limit {
        // A stop does not reap the child.
        if let Ok(Some((_, status))) = waitpid(Some(Pid::from_child(child)), flags) {
            return status.stopped();
        }
        std::thread::sleep(PAUSE);
    }
    false
}

/// Reads what the module tells: the check and number of the members, then each of them.
fn parse(mut told: &[u8]) -> Option<(u32, Vec<Place>)> {
    let [check, count] = [take(&mut told)?, take(&mut told)?].map(u32::from_ne_bytes);
    let mut places = Vec::new();
    for _ in 0..count {
        let [address, count] = [take(&mut told)?, take(&mut told)?].map(u64::from_ne_bytes);
        let lent = match count {
            u64::MAX => None,
            count => Some((0..count).map(|_| take(&mut told)).collect::<Option<_>>()?),
        };
        places.push(Place { address, lent });
    }
    told.is_empty().then_some((check, places))
}

fn take<const N: usize>(told: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = told.split_first_chunk()?;
    *told = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_to_its_end_or_not_at_all() {
        let mut told = [7u32.to_ne_bytes(), 2u32.to_ne_bytes()].concat();
        told.extend(0x1000u64.to_ne_bytes());
        told.extend(u64::MAX.to_ne_bytes());
        told.extend(0x2000u64.to_ne_bytes());
        told.extend(1u64.to_ne_bytes());
        told.extend([9; RELA]);
        let places = vec![
            Place { address: 0x1000, lent: None },
            Place { address: 0x2000, lent: Some(vec![[9; RELA]]) },
        ];
        assert_eq!(parse(&told), Some((7, places)));
        for length in 0..told.len() {
            assert_eq!(parse(&told[..length]), None);
        }
        told.push(0);
        assert_eq!(parse(&told), None);
    }

    #[test]
    fn a_process_that_ends_or_runs_on_is_none() {
        let limit = Duration::from_millis(200);
        assert!(Steered::start(Command::new("true"), 1 << 40, 4, limit).is_none());
        let mut sleep = Command::new("sleep");
        sleep.arg("60");
        assert!(Steered::start(sleep, 1 << 40, 4, limit).is_none());
    }
}
