//! The user who runs the chore.

/// The user and group ID of nobody: a program that runs as nobody can harm nothing.
pub(crate) const NOBODY: u32 = 65534;

/// True for root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
