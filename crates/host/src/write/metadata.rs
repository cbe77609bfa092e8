//! Copies a file's metadata to the file that replaces it.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;

use super::error::WriteError;
use super::file::FileUnderEdit;
use super::sys::{self, Sys};
use super::temporary::Temporary;

/// Attributes that the kernel computes from the content; a copy would be wrong.
const COMPUTED: [&[u8]; 2] = [b"security.ima", b"security.evm"];
/// The attribute with the file's capabilities.
const CAPABILITY: &CStr = c"security.capability";

/// Gives `new` the owner, mode and attributes of `old` and, if `times` is true, its times.
///
/// The owner is set first, because a change of owner removes set-id bits and capabilities. The mode
/// is set last, because setting an access control list changes it.
pub(super) fn copy(
    sys: &Sys,
    old: &FileUnderEdit,
    new: &Temporary,
    times: bool,
) -> Result<(), WriteError> {
    let failed = |what| {
        move |errno| WriteError::Failed { path: old.path.clone(), what, source: sys::error(errno) }
    };
    let fingerprint = &old.facts.fingerprint;
    let made = sys.stat(&new.path, &new.fd).map_err(failed("be inspected"))?.fingerprint;
    if (made.uid, made.gid) != (fingerprint.uid, fingerprint.gid) {
        sys.set_owner(&new.path, &new.fd, (fingerprint.uid, fingerprint.gid)).map_err(|_| {
            WriteError::Owner { path: old.path.clone(), uid: fingerprint.uid, gid: fingerprint.gid }
        })?;
    }
    copy_attributes(sys, old, new)?;
    sys.set_mode(&new.path, &new.fd, fingerprint.mode).map_err(failed("have its mode kept"))?;
    if times {
        let times = old.facts.times();
        sys.set_times(&new.path, &new.fd, &times).map_err(failed("have its times kept"))?;
    }
    let made = sys.stat(&new.path, &new.fd).map_err(failed("be inspected"))?.fingerprint;
    if (made.uid, made.gid, made.mode) != (fingerprint.uid, fingerprint.gid, fingerprint.mode) {
        // The file has a set-gid bit and the user is not in the group, or the file system has one
        // owner for all files.
        return Err(WriteError::Owner {
            path: old.path.clone(),
            uid: fingerprint.uid,
            gid: fingerprint.gid,
        });
    }
    Ok(())
}

/// Sets the attributes of `old`, and removes those that `new` got from its directory (a default
/// access control list, a label) and `old` does not have.
fn copy_attributes(sys: &Sys, old: &FileUnderEdit, new: &Temporary) -> Result<(), WriteError> {
    let kept = |name: &CStr, errno| WriteError::Attribute {
        path: old.path.clone(),
        name: name.to_string_lossy().into_owned(),
        source: sys::error(errno),
    };
    let from = &*old.reader.file;
    let wanted = names(sys, &old.path, from).map_err(|errno| kept(c"list", errno))?;
    let there = names(sys, &new.path, &new.fd).map_err(|errno| kept(c"list", errno))?;
    for name in there.iter().filter(|&name| !wanted.contains(name)) {
        sys.remove_attribute(&new.path, &new.fd, name).map_err(|errno| kept(name, errno))?;
    }
    for name in &wanted {
        let value = sys.attribute(&old.path, from, name).map_err(|errno| kept(name, errno))?;
        let same =
            there.contains(name) && sys.attribute(&new.path, &new.fd, name).as_ref() == Ok(&value);
        if !same {
            // Only a different value is set: SELinux requires additional rights to set a label.
            let set = sys.set_attribute(&new.path, &new.fd, name, &value);
            set.map_err(|errno| kept(name, errno))?;
        }
    }
    Ok(())
}

/// Returns true if the file has capabilities or they cannot be read.
pub(super) fn has_capabilities(sys: &Sys, path: &Path, file: &OwnedFd) -> bool {
    let value = sys.attribute(path, file, CAPABILITY);
    !matches!(value, Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Returns the names of a file's attributes without the computed ones.
fn names(sys: &Sys, path: &Path, file: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut list = match sys.attributes(path, file) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        list => list?,
    };
    // The list has NUL-terminated names.
    list.truncate(list.iter().rposition(|&b| b == 0).map_or(0, |end| end + 1));
    let each = list.split_inclusive(|&b| b == 0);
    let each = each.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    Ok(each.filter(|name| !COMPUTED.contains(&name.to_bytes())).map(CStr::to_owned).collect())
}
