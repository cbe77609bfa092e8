//! Runs `gdb` on an edited program and on the original: a breakpoint in the C library is hit, the
//! libraries are the same, and the caller is in the same section of the program. So gdb found the
//! load address through the program headers.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

/// The last function before a program's `main`, in every glibc.
const PLACE: &str = "__libc_start_main";

/// The state of one start in gdb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// The section of the program that called the function.
    caller: String,
    /// The libraries that gdb found in the process.
    libraries: BTreeSet<String>,
}

/// Starts a program up to the breakpoint, before `main`. Returns `None` if gdb does not reach it.
pub(super) fn stop(program: &Path) -> Option<Stop> {
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-ex", "set startup-with-shell off"]);
    command.args(["-ex", "set debuginfod enabled off", "-ex", "set breakpoint pending on"]);
    command.args(["-ex", &format!("break {PLACE}"), "-ex", "run", "-ex", "info sharedlibrary"]);
    command.args(["-ex", "up", "-ex", "print/x $pc", "-ex", "info files", "-ex", "kill"]);
    command.arg(program).env("LC_ALL", "C").env_remove("LD_LIBRARY_PATH");
    let output = command.stdin(Stdio::null()).output().ok()?;
    let folder = program.parent()?.display().to_string();
    read(&String::from_utf8_lossy(&output.stdout).replace(&folder, "DIR"))
}

fn read(text: &str) -> Option<Stop> {
    if !text.contains("Breakpoint 1, ") {
        return None;
    }
    let pc = number(text.lines().find_map(|line| line.strip_prefix("$1 = "))?)?;
    let caller = text.lines().find_map(|line| {
        let (range, name) = section(line.trim())?;
        (range.contains(&pc) && !name.contains(" in ")).then(|| name.to_owned())
    })?;
    let libraries = text.lines().filter(|line| line.starts_with("0x"));
    let libraries = libraries.filter_map(|line| line.split_whitespace().last());
    Some(Stop { caller, libraries: libraries.map(str::to_owned).collect() })
}

/// Parses a line of `info files`: `0x1000 - 0x2000 is .text`.
fn section(line: &str) -> Option<(Range<u64>, &str)> {
    let (range, name) = line.split_once(" is ")?;
    let (start, end) = range.split_once(" - ")?;
    Some((number(start)?..number(end)?, name))
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Breakpoint 1, __libc_start_main () at libc-start.c:311\n\
        From                To                  Syms Read   Shared Object Library\n\
        0x00007ffff7f00340  0x00007ffff7f12003  Yes (*)     /lib/libz.so.1\n\
        $1 = 0x555555573121\n\
        \t0x0000555555572f90 - 0x00005555557ff7fe is .text\n\
        \t0x0000555555572f90 - 0x00005555557ff7fe is .text in /lib/libz.so.1\n";

    #[test]
    fn a_stop_names_the_callers_section_and_the_libraries() {
        let stop = read(SAID).unwrap();
        assert_eq!(stop.caller, ".text");
        assert_eq!(stop.libraries.iter().collect::<Vec<_>>(), ["/lib/libz.so.1"]);
    }

    #[test]
    fn a_caller_outside_of_the_program_is_no_stop() {
        assert_eq!(read(&SAID.replace("$1 = 0x555", "$1 = 0x666")), None);
        assert_eq!(read(&SAID.replace("Breakpoint 1, ", "")), None);
    }
}
