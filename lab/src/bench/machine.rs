//! Describes the machine of a measurement beside its raw data.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::write_text;
use crate::child;

/// Writes raw data and the properties of the machine that affect the figures, if the options name a file:
/// among them the type of the file system with the measured files.
pub(super) fn write_raw(raw: Option<&Path>, folder: &Path, mut data: Value) -> Result<()> {
    data["machine"] = json!({
        "date": said("date", &["-u", "+%F"]),
        "cpu": field("/proc/cpuinfo", "model name"),
        "cpus": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": said("uname", &["-sr"]),
        "file_system": said("findmnt", &["-n", "-o", "FSTYPE", "--target", &folder.to_string_lossy()]),
        "distribution": field("/etc/os-release", "PRETTY_NAME"),
        "glibc": said("getconf", &["GNU_LIBC_VERSION"]),
        "load_afterwards": field("/proc/loadavg", ""),
    });
    write_text(raw, &format!("{data}\n"))
}

/// Returns the versions of the installed tools.
pub(super) fn versions(becalm: &Path) -> Value {
    let package = |name: &str| said("dpkg-query", &["-W", "-f", "${Version}", name]);
    json!({
        "becalm": said(&becalm.to_string_lossy(), &["--version"]),
        "libtree": package("libtree"),
        "pax_utils": package("pax-utils"),
        "pyelftools": package("python3-pyelftools"),
        "python": said("/usr/bin/python3", &["--version"]),
    })
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
