//! Describes the machine of a measurement.

use std::path::Path;

use serde_json::{Value, json};

use crate::child;

/// Returns the machine's properties that affect the figures, and the type of the file system with the
/// measured files.
pub(crate) fn here(folder: &Path) -> Value {
    json!({
        "cpu": field("/proc/cpuinfo", "model name"),
        "cpus": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": said("uname", &["-sr"]),
        "file_system": file_system(folder),
        "distribution": field("/etc/os-release", "PRETTY_NAME"),
        "glibc": said("getconf", &["GNU_LIBC_VERSION"]),
    })
}

/// Returns the type of the measured file system: a line for each mount over the folder.
pub(crate) fn file_system(folder: &Path) -> String {
    said("findmnt", &["-n", "-o", "FSTYPE", "--target", &folder.to_string_lossy()])
}

/// Returns the versions of the installed tools.
pub(crate) fn versions(becalm: &Path) -> Value {
    let package = |name: &str| said("dpkg-query", &["-W", "-f", "${Version}", name]);
    json!({
        "becalm": said(&becalm.to_string_lossy(), &["--version"]),
        "libtree": package("libtree"),
        "pax_utils": package("pax-utils"),
        "pyelftools": package("python3-pyelftools"),
        "python": said("/usr/bin/python3", &["--version"]),
    })
}

/// Returns the load average of the last minute.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// Returns the date in UTC.
pub(crate) fn today() -> String {
    said("date", &["-u", "+%F"])
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
