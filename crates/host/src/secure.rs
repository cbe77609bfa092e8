//! Checks whether the kernel would start a program in secure-execution mode (`AT_SECURE`).
//!
//! The rule is that of Linux `cap_bprm_creds_from_file` (security/commoncap.c): the program changes
//! the user or the group, or gives capabilities to a user who is not root. Mount options (`nosuid`)
//! and `no_new_privs`, which take these privileges away, are ignored.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::getegid;

use crate::trust::user;

/// `S_ISUID`.
const SET_UID: u32 = 0o4000;
/// `S_ISGID`, which has an effect on a program only with the group's execute permission.
const SET_GID: u32 = 0o2010;

/// True if starting the file at `path` gives it more privileges than its caller has. `mode` is its
/// `st_mode`; other facts are read only if they matter.
#[must_use]
pub fn is_started_secure(path: &Path, mode: u32) -> bool {
    (is_set_id(mode) && path.metadata().is_ok_and(|file| changes_id(&file)))
        || (user() != 0 && has_capabilities(path))
}

/// As [`is_started_secure`], for any caller.
#[must_use]
pub fn gives_privileges(path: &Path, mode: u32) -> bool {
    is_set_id(mode) || has_capabilities(path)
}

/// True if a program of this mode changes its user or group, whoever starts it.
#[must_use]
pub fn is_set_id(mode: u32) -> bool {
    mode & SET_UID != 0 || mode & SET_GID == SET_GID
}

fn changes_id(file: &Metadata) -> bool {
    (file.mode() & SET_UID != 0 && file.uid() != user())
        || (file.mode() & SET_GID == SET_GID && file.gid() != getegid().as_raw())
}

fn has_capabilities(path: &Path) -> bool {
    // `struct vfs_ns_cap_data` has 24 bytes. With an empty buffer the returned length is that of
    // the data written to it, 0.
    let mut capabilities = [0_u8; 64];
    rustix::fs::getxattr(path, "security.capability", &mut capabilities[..])
        .is_ok_and(|length| length > 0)
}
