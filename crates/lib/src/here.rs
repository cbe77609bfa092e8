//! Describes this machine as a measurement on it needs: in one line for a reader, and the kernel alone.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use bstr::ByteSlice;

use crate::escape::shown;
use crate::words::counted;

/// Returns the date, the processor, the kernel, the file system of a file, and becalm's version.
#[must_use]
pub fn line(file: &Path) -> String {
    let parts = [
        Some(humantime::format_rfc3339_seconds(SystemTime::now()).to_string()),
        processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        Some(kernel()),
        file_system(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(), file),
        load().and_then(|load| busy(load, processors())),
        Some(format!("becalm {}", env!("CARGO_PKG_VERSION"))),
    ];
    shown(parts.into_iter().flatten().collect::<Vec<_>>().join(", ").as_bytes().into())
}

/// Returns system, release and machine of the kernel.
#[must_use]
pub fn kernel() -> String {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| shown(part.to_bytes().as_bstr());
    [uname.sysname(), uname.release(), uname.machine()].map(text).join(" ")
}

/// Returns the load average of the last minute.
#[must_use]
pub fn load() -> Option<f64> {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next()?.parse().ok()
}

/// Returns the number of processors that becalm may use.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Describes a load that spoils measurements.
#[must_use]
pub fn busy(load: f64, processors: usize) -> Option<String> {
    let on = counted(processors as u64, "processor", "processors");
    (load > processors as f64).then(|| format!("load {load:.1} on {on}"))
}

/// Returns the model, and the name that decides on hwcaps subdirectories.
fn processor(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"))?;
    let model = line.trim_start().trim_start_matches(':').trim();
    Some(format!("{model} ({})", becalm_host::processor()))
}

/// Returns the type of the last mount over a file (proc_pid_mountinfo(5)).
fn file_system(mounts: &str, file: &Path) -> Option<String> {
    let file = crate::path::real(file);
    let mounts = mounts.lines().filter_map(|line| {
        let (place, kind) = (line.split(' ').nth(4)?, line.split_once(" - ")?.1.split(' ').next()?);
        file.starts_with(place).then(|| (place.len(), kind.to_owned()))
    });
    Some(mounts.max_by_key(|(length, _)| *length)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_deepest_mount() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw,x - proc proc rw\n";
        let of = |path: &str| file_system(mounts, Path::new(path));
        assert_eq!(of("/proc/self/status").as_deref(), Some("proc"));
        assert_eq!(of("/procedures").as_deref(), Some("ext4"));
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn a_load_counts_if_there_is_more_work_than_processors() {
        assert_eq!(busy(2.0, 2), None);
        assert_eq!(busy(7.68, 2).as_deref(), Some("load 7.7 on 2 processors"));
    }

    #[test]
    fn the_line_names_what_is_known_of_this_machine() {
        let line = line(Path::new("/"));
        assert!(line.contains(&kernel()) && line.ends_with(env!("CARGO_PKG_VERSION")), "{line}");
        assert_eq!(processor("flags: x"), None);
    }
}
