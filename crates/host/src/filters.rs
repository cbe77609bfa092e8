//! Counts the seccomp filters of this process, as `crates/audit/module/process.c` does.

/// Returns the number of filters of this thread; before Linux 5.9, where it is not known, 1 for any.
/// Returns 0 if the kernel does not say.
pub(crate) fn filters() -> u32 {
    let files = ["/proc/thread-self/status", "/proc/self/status"];
    let status = files.iter().find_map(|file| std::fs::read_to_string(file).ok());
    status.map_or(0, |status| in_status(&status))
}

fn in_status(status: &str) -> u32 {
    let value = |name| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let mode = value("Seccomp:").unwrap_or(0);
    value("Seccomp_filters:").unwrap_or(mode.min(1))
}

#[cfg(test)]
mod tests {
    use super::in_status;

    #[test]
    fn filters_are_counted_or_count_as_one() {
        assert_eq!(in_status("NoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t3\n"), 3);
        assert_eq!(in_status("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
        assert_eq!(in_status("Seccomp:\t2\n"), 1);
        assert_eq!(in_status("Name:\tSeccomp:\t2\n"), 0);
    }
}
