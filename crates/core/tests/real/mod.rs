//! What the tests against the real loader share: running it, and skipping aloud.

use std::path::Path;
use std::process::Command;

use becalm_core::loader::{LoaderFacts, facts};
use bstr::ByteSlice;

/// The loader these tests ask: `BECALM_TEST_LOADER`, or that of this machine.
pub(crate) fn loader() -> String {
    std::env::var("BECALM_TEST_LOADER").unwrap_or("/lib64/ld-linux-x86-64.so.2".to_owned())
}

/// Says why a test did nothing, which `BECALM_REQUIRE_ALL=1` makes a failure.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("BECALM_REQUIRE_ALL").is_none_or(|on| on != "1"), "skipped: {reason}");
    eprintln!("skipped: {reason}");
}

/// What the loader says of itself; `None`, with the reason printed, where there is
/// none here.
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

/// Runs the loader with `LD_DEBUG=libs`, loading nothing for good, and gives its lines
/// without their process numbers. With `cache`, in a mount namespace where that file
/// is `/etc/ld.so.cache`; `None` where no such namespace can be had.
pub(crate) fn debug_lines(cache: Option<&Path>, args: &[&str]) -> Option<Vec<String>> {
    // Set by `env` alone: the shell before it would obey them as well.
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
