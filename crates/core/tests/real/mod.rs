//! Functions of all tests against the real loader.

use std::path::Path;
use std::process::Command;

use becalm_core::loader::{LoaderFacts, facts};
use becalm_testing::skip;
use bstr::ByteSlice;

/// Returns the path of the loader: `BECALM_TEST_LOADER`, or that of this machine.
pub(crate) fn loader() -> String {
    std::env::var("BECALM_TEST_LOADER").unwrap_or("/lib64/ld-linux-x86-64.so.2".to_owned())
}

/// Reads the loader's diagnostics. Prints the reason and returns `None` if there is no loader.
pub(crate) fn facts_of_this_machine() -> Option<LoaderFacts> {
    let Ok(output) = Command::new(loader()).arg("--list-diagnostics").output() else {
        skip("no x86-64 glibc loader that runs here");
        return None;
    };
    let found = facts::from_diagnostics(&output.stdout.to_str_lossy());
    if found.is_none() {
        skip("the loader does not know --list-diagnostics");
    }
    found
}

/// Runs the loader with `LD_DEBUG=libs` without starting a program, and returns its lines without their
/// process ids. With `cache` it runs in a mount namespace with that file as `/etc/ld.so.cache`. Returns
/// `None` if such a namespace cannot be made.
pub(crate) fn debug_lines(cache: Option<&Path>, args: &[&str]) -> Option<Vec<String>> {
    // `env` sets the variables, because the shell before it would obey them as well.
    let env = ["env", "-u", "LD_LIBRARY_PATH", "LD_DEBUG=libs", "LD_TRACE_LOADED_OBJECTS=1"];
    let output = match cache {
        None => Command::new(env[0]).args(&env[1..]).arg(loader()).args(args).output(),
        Some(cache) => {
            let script = "mount --bind \"$0\" /etc/ld.so.cache && exec \"$@\"";
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", script]).arg(cache);
            command.args(env).arg(loader()).args(args).output()
        }
    };
    let stderr = output.ok()?.stderr;
    let text = stderr.to_str_lossy().into_owned();
    let line = |line: &str| line.split_once(":\t").map(|(_, rest)| rest.trim().to_owned());
    let lines: Vec<String> = text.lines().filter_map(line).collect();
    (!lines.is_empty()).then_some(lines)
}
