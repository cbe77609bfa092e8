//! Compares what two starts of the program printed.

use bstr::ByteSlice;

/// Paths that are printed of one start.
const PRINTED: usize = 10;

/// A line that differs: its path, and its number, the call and both results.
pub(super) type Difference = (String, String);

/// Compares the lines of a start by becalm with those of a plain one. Returns the number of lines
/// compared, and those that differ.
pub(super) fn differences(plain: &[u8], by_becalm: &[u8]) -> (usize, Vec<Difference>) {
    let mut count = 0;
    let mut found = Vec::new();
    let mut lines = [plain.lines(), by_becalm.lines()];
    loop {
        let [plain, by_becalm] = lines.each_mut().map(Iterator::next);
        if plain.is_none() && by_becalm.is_none() {
            return (count, found);
        }
        count += 1;
        if plain != by_becalm {
            found.push(difference(count, plain.unwrap_or(b""), by_becalm.unwrap_or(b"")));
        }
    }
}

/// Describes a line that differs. Lines are a path, a call and a result, with tabs between them.
fn difference(number: usize, plain: &[u8], by_becalm: &[u8]) -> Difference {
    let [plain, by_becalm] = [plain, by_becalm].map(|line| line.to_str_lossy().into_owned());
    let mut parts = plain.splitn(3, '\t');
    let (path, call) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let result = parts.next().unwrap_or_default();
    let same_call = format!("{path}\t{call}\t");
    let other = by_becalm.strip_prefix(&same_call).unwrap_or(&by_becalm);
    let text = format!("{call} (line {number})\n  plain:  {result}\n  becalm: {other}");
    (path.to_owned(), text)
}

/// Prints the differences of a start: the first call of each path.
pub(super) fn print(what: &str, differences: &[Difference]) {
    let paths: Vec<&[Difference]> = differences.chunk_by(|a, b| a.0 == b.0).collect();
    println!("{what}: {} lines of {} paths differ", differences.len(), paths.len());
    for of_path in paths.iter().take(PRINTED) {
        let (path, first) = &of_path[0];
        println!("{path}, first of {}: {first}", of_path.len());
    }
    if paths.len() > PRINTED {
        println!("and {} more paths", paths.len() - PRINTED);
    }
}

/// Returns the number of calls with a path below `below` that a program made itself, by the log of
/// `strace -f -o`. Calls before the program's start, of processes that start it, are left out.
pub(super) fn own_calls(log: &str, program: &str, below: &str) -> usize {
    let started = format!("execve(\"{program}\"");
    let argument = format!("\"{below}/");
    let mut own = Vec::new();
    let mut count = 0;
    for line in log.lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if call.starts_with(&started) && !call.contains("= -1") {
            own.push(process);
        } else if own.contains(&process) && call.contains(&argument) {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_answer_is_described_by_its_path_and_both_values() {
        let plain = b"/a\tstat\tsize 1\n/a\tread\t1 bytes\n";
        let stale = b"/a\tstat\tsize 2\n/a\tread\t1 bytes\n";
        assert_eq!(differences(plain, plain), (2, vec![]));
        let (count, found) = differences(plain, stale);
        assert_eq!(count, 2);
        let text = "stat (line 1)\n  plain:  size 1\n  becalm: size 2".to_owned();
        assert_eq!(found, [("/a".to_owned(), text)]);
    }

    #[test]
    fn output_that_ends_early_differs() {
        let (count, found) = differences(b"/a\tstat\tsize 1\n/b\tstat\terrno 2\n", b"");
        assert_eq!((count, found.len()), (2, 2));
    }

    #[test]
    fn only_the_programs_own_calls_below_the_mount_are_counted() {
        let log = "1 execve(\"/becalm\", [\"becalm\"], 0x1) = 0\n\
                   1 openat(AT_FDCWD, \"/m/a\", O_RDONLY) = 3\n\
                   1 execve(\"/m/look\", [\"look\"], 0x1) = 0\n\
                   1 openat(AT_FDCWD, \"/m/a\", O_RDONLY) = 3\n\
                   2 openat(AT_FDCWD, \"/m/a\", O_RDONLY) = 3\n\
                   1 openat(AT_FDCWD, \"/lib/libc.so.6\", O_RDONLY) = 3\n\
                   1 readlink(\"/m/b\", 0x1, 10 <unfinished ...>\n\
                   1 <... readlink resumed>) = 3\n";
        assert_eq!(own_calls(log, "/m/look", "/m"), 2);
    }
}
