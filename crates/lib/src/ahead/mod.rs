//! Reading ahead: the pages that starts of a program used are recorded, and requested at once before
//! the next start if they are not in memory, or beside one that waits for them ([`mod@begin`]).
//!
//! [`record`] is the file, [`learn`] the process that makes it while the program runs, or adds files that a traced
//! program has opened, and [`warm`] reads ahead without starting a program.

pub mod begin;
pub mod learn;
pub mod record;
#[cfg(test)]
mod tests;
pub mod warm;

use std::fs;
use std::path::Path;

use becalm_host::pages::ahead::Limits;

/// Maximum number of bytes that are read ahead for a start, whatever the memory.
const MOST: u64 = 512 << 20;

/// Returns the limit of the bytes that are read ahead: a quarter of the memory that this process may
/// use without swapping.
fn limits() -> Limits {
    let memory = available().into_iter().chain(group_limit(Path::new("/"))).min();
    let bytes = memory.map_or(MOST / 8, |memory| (memory / 4).min(MOST));
    Limits { bytes, wait: false, until: None }
}

/// Returns the bytes of memory that are available without swapping (proc_meminfo(5)).
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the smallest memory limit of this process's control group and those above it
/// (cgroups(7), of both versions). `root` is the directory of `/proc` and `/sys`.
fn group_limit(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = text.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(":/")?;
        let (hierarchy, name) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            "memory" => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        let hierarchy = root.join(hierarchy);
        let group = hierarchy.join(path);
        let groups = group.ancestors().take_while(|group| group.starts_with(&hierarchy));
        let limit = |group: &Path| fs::read_to_string(group.join(name)).ok()?.trim().parse().ok();
        groups.filter_map(limit).min()
    });
    limits.min()
}
