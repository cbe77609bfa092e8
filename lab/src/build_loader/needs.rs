//! Requirements of a glibc build on this machine, checked before anything is fetched.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// Tools to run, each found on the search path, and the Debian package of each.
const TOOLS: [(&str, &str); 11] = [
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("patch", "patch"),
    ("make", "make"),
    ("gcc", "gcc"),
    ("as", "binutils"),
    ("gawk", "gawk"),
    ("bison", "bison"),
    ("python3", "python3"),
    ("perl", "perl"),
];

/// Headers of the running C library and of the kernel, and the package of both.
const HEADERS: &str = "#include <stdio.h>\n#include <linux/version.h>\n";
const HEADERS_PACKAGE: &str = "libc6-dev";

/// Returns an error that says what to install if a requirement is missing.
pub(crate) fn check(fetches: bool) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let mut tools = TOOLS.to_vec();
    if fetches {
        tools.push(("apt-get", "apt"));
    }
    let mut packages = lacking(&tools, |tool| folders.iter().any(|dir| dir.join(tool).is_file()));
    if !packages.contains(&"gcc") && !has_headers() {
        packages.push(HEADERS_PACKAGE);
    }
    if packages.is_empty() {
        return Ok(());
    }
    let packages = packages.join(" ");
    bail!("packages for a build of glibc are missing: apt-get install {packages}")
}

/// Returns the packages of the missing tools.
fn lacking(tools: &[(&str, &'static str)], is_there: impl Fn(&Path) -> bool) -> Vec<&'static str> {
    let absent = tools.iter().filter(|(tool, _)| !is_there(Path::new(tool)));
    absent.map(|&(_, package)| package).collect()
}

/// True if the compiler finds the headers.
fn has_headers() -> bool {
    let mut gcc = Command::new("gcc");
    gcc.args(["-fsyntax-only", "-x", "c", "-"]).stdin(Stdio::piped());
    gcc.stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = gcc.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A compiler that does not read its input says so by its status.
        let _ = std::io::Write::write_all(&mut input, HEADERS.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_told_by_the_name_of_its_package() {
        let there = |tool: &Path| tool != Path::new("xz") && tool != Path::new("gawk");
        assert_eq!(lacking(&TOOLS, there), ["xz-utils", "gawk"]);
        assert!(lacking(&TOOLS, |_| true).is_empty());
    }
}
