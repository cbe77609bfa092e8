//! Describes the machine of a measurement.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::child;

/// The machine's properties that affect the figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cpus: usize,
    memory: String,
    kernel: String,
    /// Type of the file system with the listed files.
    file_system: String,
    distribution: String,
    glibc: String,
}

/// Versions of the measured tools.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Versions {
    becalm: String,
    libtree: String,
    pax_utils: String,
    pyelftools: String,
    python: String,
}

impl Machine {
    /// Describes this machine.
    pub(crate) fn here(folder: &Path) -> Self {
        let folder = folder.to_string_lossy();
        Self {
            cpu: field("/proc/cpuinfo", "model name"),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory: field("/proc/meminfo", "MemTotal"),
            kernel: said("uname", &["-sr"]),
            file_system: said("findmnt", &["-n", "-o", "FSTYPE", "--target", &folder]),
            distribution: field("/etc/os-release", "PRETTY_NAME"),
            glibc: said("getconf", &["GNU_LIBC_VERSION"]),
        }
    }
}

impl Machine {
    /// Returns the type of the measured file system.
    pub(crate) fn file_system(&self) -> &str {
        // There is one line for each mount over the folder.
        self.file_system.lines().next().unwrap_or_default()
    }
}

impl Versions {
    /// Returns the versions of the installed tools.
    pub(crate) fn here(becalm: &Path) -> Self {
        let package = |name: &str| said("dpkg-query", &["-W", "-f", "${Version}", name]);
        Self {
            becalm: said(&becalm.to_string_lossy(), &["--version"]),
            libtree: package("libtree"),
            pax_utils: package("pax-utils"),
            pyelftools: package("python3-pyelftools"),
            python: said("/usr/bin/python3", &["--version"]),
        }
    }
}

/// Returns the load average of the last minute.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// Returns the date in UTC.
pub(crate) fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    said("date", &["-u", "-d", &format!("@{}", now.as_secs()), "+%F"])
}

/// Returns a command's standard output, or an empty string if it fails.
fn said(program: &str, arguments: &[&str]) -> String {
    child::succeed(child::command(program).args(arguments))
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Returns the first value of a name in a file of `name: value` or `name=value` lines.
fn field(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.map(|rest| rest.trim_start().trim_start_matches([':', '=']));
    value.unwrap_or_default().trim().trim_matches('"').to_owned()
}
