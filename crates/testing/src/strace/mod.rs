//! Runs real loaders under `strace`, and parses its output into system calls and attempts.
//!
//! The options are `strace -f -qq -xx -o FILE -e trace=…`. With `-xx` every byte of a string is
//! `\xHH`, so that no file name looks like syntax. The C escapes that `strace` writes without it are
//! decoded as well. The two parts of an interrupted call (`<unfinished ...>`,
//! `<... openat resumed>`) are joined.

#[cfg(feature = "strace")]
mod run;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use becalm_core::fs::Errno;
use becalm_core::probe::{Attempt, Call, Outcome};
use bstr::{BString, ByteSlice};

#[cfg(feature = "strace")]
pub use run::{Strace, strace};

/// The calls for `strace -e trace=`: all that open or check a path by name, on any architecture. The
/// leading `?` makes `strace` ignore names that the kernel lacks.
pub const TRACED_CALLS: &str =
    "?open,?openat,?openat2,?stat,?stat64,?newfstatat,?fstatat64,?statx,?execve";

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// The process or thread, or 0 if the line has no number.
    pub pid: u32,
    /// The name of the call.
    pub name: BString,
    /// The first string of the arguments, which is the path in all calls of [`TRACED_CALLS`].
    pub path: Option<BString>,
    /// True if the call has no directory descriptor, so that a relative path starts at the current
    /// directory.
    pub at_cwd: bool,
    /// The arguments after the path, such as flags and mode, not parsed.
    pub rest: BString,
    /// The result.
    pub result: CallResult,
}

/// The result of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// A value of zero or more.
    Ok(i64),
    /// An error. The number is 0 for an unknown name.
    Err(Errno),
    /// `?`: the call did not return.
    None,
}

/// Parses a record. Lines that are not a system call (signals, exits, noise) are skipped.
#[must_use]
pub fn parse(record: &[u8]) -> Vec<Syscall> {
    let mut unfinished: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut calls = Vec::new();
    for line in record.lines() {
        let (pid, text) = split_pid(line);
        if let Some(start) = text.strip_suffix(b" <unfinished ...>") {
            unfinished.insert(pid, start.to_vec());
        } else if let Some(rest) = text.strip_prefix(b"<... ") {
            let Some((_, end)) = rest.split_once_str(b" resumed>") else { continue };
            // A record that starts in the middle has a second part without a first.
            let Some(mut whole) = unfinished.remove(&pid) else { continue };
            whole.extend_from_slice(end);
            calls.extend(syscall(pid, &whole));
        } else {
            calls.extend(syscall(pid, text));
        }
    }
    calls
}

/// Returns the attempts among the calls, in order: opens for reading and stats by name. Calls with a
/// directory descriptor, or with a descriptor only, are left out.
#[must_use]
pub fn attempts(calls: &[Syscall]) -> Vec<Attempt> {
    calls.iter().filter_map(attempt).collect()
}

fn attempt(syscall: &Syscall) -> Option<Attempt> {
    let call = match syscall.name.as_slice() {
        b"open" | b"openat" | b"openat2" => Call::Open,
        b"stat" | b"stat64" | b"newfstatat" | b"fstatat64" | b"statx" => Call::Stat,
        _ => return None,
    };
    let path = syscall.path.clone()?;
    if !syscall.at_cwd && path.first() != Some(&b'/') {
        return None;
    }
    // `fstat` in the form `newfstatat(fd, "")` is no attempt. A failed one is: for "/liba.so" the
    // loader removes the name and makes a stat of the empty path.
    if path.is_empty() && matches!(syscall.result, CallResult::Ok(_)) {
        return None;
    }
    let outcome = match syscall.result {
        CallResult::Ok(_) => Outcome::Hit,
        CallResult::Err(errno) => Outcome::from(errno),
        CallResult::None => return None,
    };
    Some(Attempt { call, path, outcome })
}

/// Splits off the process id: `PID  rest` with `-f -o FILE`, `[pid PID] rest` with `-f` only.
fn split_pid(line: &[u8]) -> (u32, &[u8]) {
    let number = |text: &[u8]| text.to_str().ok().and_then(|text| text.parse().ok());
    let bracketed = line.strip_prefix(b"[pid ").and_then(|rest| rest.split_once_str(b"] "));
    if let Some((digits, rest)) = bracketed {
        return (number(digits.trim_ascii()).unwrap_or(0), rest);
    }
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match line.get(digits) {
        Some(b' ') if digits > 0 => {
            (number(&line[..digits]).unwrap_or(0), line[digits..].trim_ascii_start())
        }
        _ => (0, line),
    }
}

/// Parses `name(arguments) = result`.
fn syscall(pid: u32, text: &[u8]) -> Option<Syscall> {
    let open = text.find_byte(b'(')?;
    let name = &text[..open];
    if name.is_empty() || !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return None;
    }
    let arguments = &text[open + 1..];
    let end = closing_parenthesis(arguments)?;
    let (arguments, after) = (&arguments[..end], &arguments[end + 1..]);
    let result = result(after.trim_ascii_start().strip_prefix(b"= ")?);
    // The argument before the path is a directory descriptor, if there is one.
    let (path, at_cwd, rest) = match arguments.find_byte(b'"') {
        Some(quote) => {
            let before = arguments[..quote].trim_ascii();
            let (path, used) = unquote(&arguments[quote + 1..]);
            let rest = &arguments[quote + 1 + used..];
            (Some(path), before.is_empty() || before.starts_with(b"AT_FDCWD"), rest)
        }
        None => (None, false, arguments),
    };
    Some(Syscall { pid, name: name.into(), path, at_cwd, rest: rest.into(), result })
}

/// Returns the index of the parenthesis that closes the argument list.
fn closing_parenthesis(text: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (index, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' => depth += 1,
            b')' if depth == 0 => return Some(index),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Decodes a string up to the closing quote. Also returns its length in `text`, quote included.
fn unquote(text: &[u8]) -> (BString, usize) {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => break,
            b'\\' => {
                let (value, used) = escape(&text[at..]);
                out.push(value);
                at += used;
            }
            other => out.push(other),
        }
    }
    (out.into(), at)
}

/// Decodes an escape. Also returns its length without the backslash.
fn escape(text: &[u8]) -> (u8, usize) {
    let digits = |radix, from: usize, most| {
        let run = text.iter().skip(from).take(most);
        let count = run.take_while(|b| (**b as char).is_digit(radix)).count();
        let number = text[from..from + count].to_str().unwrap_or_default();
        (u8::from_str_radix(number, radix).unwrap_or(b'?'), from + count)
    };
    match text.first() {
        Some(b'x') => digits(16, 1, 2),
        Some(b'0'..=b'7') => digits(8, 0, 3),
        Some(b'n') => (b'\n', 1),
        Some(b't') => (b'\t', 1),
        Some(b'r') => (b'\r', 1),
        Some(b'v') => (0x0b, 1),
        Some(b'f') => (0x0c, 1),
        Some(other) => (*other, 1),
        None => (b'\\', 0),
    }
}

fn result(text: &[u8]) -> CallResult {
    if let Some(error) = text.strip_prefix(b"-1 ") {
        let name = error.split(|byte| *byte == b' ').next().unwrap_or_default();
        return CallResult::Err(errno(name));
    }
    let end = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match text[..end].to_str().unwrap_or_default().parse() {
        Ok(value) => CallResult::Ok(value),
        Err(_) => CallResult::None,
    }
}

/// Parses the name of an errno.
fn errno(name: &[u8]) -> Errno {
    match name {
        b"EPERM" => Errno::PERM,
        b"ENOENT" => Errno::NOENT,
        b"EIO" => Errno::IO,
        b"ENXIO" => Errno::NXIO,
        b"EACCES" => Errno::ACCES,
        b"ENOTDIR" => Errno::NOTDIR,
        b"EISDIR" => Errno::ISDIR,
        b"ENAMETOOLONG" => Errno::NAMETOOLONG,
        b"ELOOP" => Errno::LOOP,
        _ => Errno(0),
    }
}

/// Parses the needed strings that a loader's list (`LD_TRACE_LOADED_OBJECTS`, `--list`) reports as not
/// found.
#[must_use]
pub fn not_found(list: &[u8]) -> Vec<BString> {
    let name =
        |line: &[u8]| line.trim_ascii_start().strip_suffix(b" => not found").map(BString::from);
    list.split(|byte| *byte == b'\n').filter_map(name).collect()
}
