//! Starts of programs that are switched on (`becalm on`), and of programs that are not, with the folder of links
//! first in `PATH`: beside the same starts without it, and in a session with the same index. Of the latter
//! programs the system calls are compared too. Measured as in [`super::calm`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Common;
use super::calm::{Variant, calm, measure, variant};
use crate::child;

/// Programs of /usr/bin that are switched on, with an argument that makes them end by themselves.
const ON: [(&str, &[&str]); 10] = [
    ("inkscape", &["--version"]),
    ("gimp", &["--version"]),
    ("octave-cli", &["--version"]),
    ("ffmpeg", &["-version"]),
    ("clang", &["--version"]),
    ("qemu-system-x86_64", &["--version"]),
    ("convert-im6.q16", &["--version"]),
    ("node", &["--version"]),
    ("emacs-nox", &["--version"]),
    ("gdb", &["--version"]),
];
/// Programs that are not.
const OTHERS: [(&str, &[&str]); 10] = [
    ("git", &["--version"]),
    ("bash", &["-c", ":"]),
    ("true", &[]),
    ("ls", &["/"]),
    ("make", &["--version"]),
    ("python3", &["-c", "pass"]),
    ("dash", &["-c", ":"]),
    ("sed", &["--version"]),
    ("grep", &["--version"]),
    ("perl", &["-e", "1"]),
];
const PATH: &str = "/usr/bin:/bin";

/// Measures and prints one table a program, and which programs make the same system calls.
///
/// # Errors
/// Returns an error if becalm, strace or a program cannot be run, or the raw data cannot be written.
pub(super) fn run(args: &Common) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let is_there = |name: &str| Path::new("/usr/bin").join(name).exists();
    let names: Vec<&str> = ON.map(|one| one.0).into_iter().filter(|name| is_there(name)).collect();
    ensure!(!names.is_empty(), "none of the programs is installed");
    let state = switch_on(&args.becalm, scratch.path(), &names)?;
    let (mut all, mut calls) = (Vec::new(), Vec::new());
    for (name, arguments) in ON.into_iter().chain(OTHERS).filter(|(name, _)| args.is_wanted(name)) {
        if !is_there(name) {
            println!("{name}: not installed");
            continue;
        }
        let ways = ways(name, &state);
        // Programs that exit so soon take little time for many rounds.
        let is_on = names.contains(&name);
        all.extend(measure(name, &ways, arguments, if is_on { 1 } else { 10 } * args.rounds)?);
        if !is_on {
            calls.push(compared(name, arguments, &ways, scratch.path())?);
        }
    }
    args.write(json!({ "times": all, "calls": calls }))
}

/// Switches programs on with a home directory of their own. Returns the folder of what was written.
fn switch_on(becalm: &Path, scratch: &Path, names: &[&str]) -> Result<PathBuf> {
    let home = scratch.join("home");
    fs::create_dir(&home)?;
    let mut on = Command::new(becalm);
    on.arg("on").args(names).env("PATH", PATH).env("HOME", &home);
    on.env("BECALM_CACHE", scratch.join("cache"));
    for variable in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"] {
        on.env_remove(variable);
    }
    child::succeed(&mut on)?;
    Ok(home.join(".local/state/becalm/on"))
}

fn ways(name: &str, state: &Path) -> [Variant; 4] {
    let program = Path::new(name);
    let plain = || ("PATH", PATH.to_owned());
    let on = ("PATH", format!("{}:{PATH}", state.join("bin").display()));
    let session = [vec![plain()], calm(&state.join("index.so"))].concat();
    [
        variant("plain", program, &[plain()]),
        variant("plain again", program, &[plain()]),
        variant("on", program, &[on]),
        variant("in a session", program, &session),
    ]
}

/// Compares the system calls of a plain start with those of one with the folder in `PATH`.
fn compared(name: &str, arguments: &[&str], ways: &[Variant], scratch: &Path) -> Result<Value> {
    let of = |way: &Variant| -> Result<Vec<String>> {
        let out = scratch.join("calls");
        let mut strace = child::command("strace");
        strace.args(["-f", "-o"]).arg(&out).arg(name).args(arguments).envs(way.environment());
        child::succeed(&mut strace)?;
        let text = fs::read_to_string(&out).context("strace writes a file")?;
        Ok(text.lines().map(without_numbers_of_a_run).collect())
    };
    let (plain, on) = (of(&ways[0])?, of(&ways[2])?);
    let is_same = plain == on;
    println!(
        "  system calls: {} and {}, {}",
        plain.len(),
        on.len(),
        if is_same { "the same" } else { "others" }
    );
    let other = plain.iter().zip(&on).find(|(plain, on)| plain != on);
    if let Some((plain, on)) = other {
        println!("  {plain}\n  {on}");
    }
    Ok(json!({ "program": name, "plain": plain.len(), "on": on.len(), "same": is_same }))
}

/// Returns a line of strace without addresses, random bytes and numbers of processes.
fn without_numbers_of_a_run(line: &str) -> String {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let call = line.split('(').next().unwrap_or_default();
    if ["getrandom", "getpid", "getppid", "gettid", "set_tid_address"].contains(&call) {
        return call.to_owned();
    }
    // What is read may be addresses (/proc/self/maps) or random.
    let is_read = line.starts_with("read(") && !line.contains("ELF");
    let line = if is_read { line.rsplit(", ").next().unwrap_or_default() } else { line };
    let mut words = line.split("0x");
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        text += "0x";
        text += word.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    // strace aligns what a call returns.
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_a_call_give_one_line() {
        let of = without_numbers_of_a_run;
        let one = of("12 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0x1000) = 0x7f00aa1000");
        assert_eq!(one, of("345 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0x2000) = 0x7fbb000"));
        assert_ne!(
            one,
            of("12 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0x1000) = 0x7f00aa1000")
        );
        assert_eq!(
            of("1 read(3, \"5602-5603 r--p\"..., 8192) = 9"),
            of("1 read(3, \"1\", 8192)      = 9")
        );
        assert_eq!(of("1 getrandom(\"\\x01\", 8, 0) = 8"), of("2 getrandom(\"\\x02\", 8, 0) = 8"));
    }
}
