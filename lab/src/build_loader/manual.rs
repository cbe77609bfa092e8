//! The manual of glibc, which Debian's `glibc-source` does not contain. `xtask` includes this file too.

/// Returns a patch without its changes of glibc's manual.
#[must_use]
pub(crate) fn without_manual(patch: &str) -> String {
    let mut is_manual = false;
    let keeps = |line: &&str| {
        if line.starts_with("--- a/") || line.starts_with("--- /dev/null") {
            is_manual = line.starts_with("--- a/manual/");
        }
        !is_manual
    };
    patch.split_inclusive('\n').filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_manual_is_left_out_of_a_patch() {
        let patch = "Subject\n--- a/a\n+++ b/a\n+1\n--- a/manual/b\n+++ b/manual/b\n+2\n\
                     --- /dev/null\n+++ b/c\n+3\n";
        let rest = "Subject\n--- a/a\n+++ b/a\n+1\n--- /dev/null\n+++ b/c\n+3\n";
        assert_eq!(without_manual(patch), rest);
    }
}
