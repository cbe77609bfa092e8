//! Copies a file's metadata to the file that replaces it.

use std::ffi::{CStr, CString};

use rustix::io::Errno;

use super::error::WriteError;
use super::file::FileUnderEdit;
use super::sys::{On, Sys};
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
    let failed = |what| move |errno| WriteError::failed(&old.path, what, errno);
    let (fingerprint, on) = (&old.facts.fingerprint, new.on());
    let (uid, gid) = (fingerprint.uid, fingerprint.gid);
    let why = format!("belongs to user {uid}, group {gid}; the new file cannot get that owner");
    let not_owned = || WriteError::refused(&old.path, why.clone());
    let made = sys.stat(on).map_err(failed("be inspected"))?.fingerprint;
    if (made.uid, made.gid) != (uid, gid) {
        sys.set_owner(on, (uid, gid)).map_err(|_| not_owned())?;
    }
    copy_attributes(sys, old, new)?;
    sys.set_mode(on, fingerprint.mode).map_err(failed("have its mode kept"))?;
    if times {
        sys.set_times(on, &old.facts.times()).map_err(failed("have its times kept"))?;
    }
    let made = sys.stat(on).map_err(failed("be inspected"))?.fingerprint;
    if (made.uid, made.gid, made.mode) != (uid, gid, fingerprint.mode) {
        // The file has a set-gid bit and the user is not in the group, or the file system has one
        // owner for all files.
        return Err(not_owned());
    }
    Ok(())
}

/// Sets the attributes of `old`, and removes those that `new` got from its directory (a default
/// access control list, a label) and `old` does not have.
fn copy_attributes(sys: &Sys, old: &FileUnderEdit, new: &Temporary) -> Result<(), WriteError> {
    let kept = |name: &CStr, errno: Errno| {
        let what = format!("its attribute {} cannot be preserved", name.to_string_lossy());
        WriteError::of(&old.path, what, errno)
    };
    let (from, to) = (old.on(), new.on());
    let wanted = names(sys, from).map_err(|errno| kept(c"list", errno))?;
    let there = names(sys, to).map_err(|errno| kept(c"list", errno))?;
    for name in there.iter().filter(|&name| !wanted.contains(name)) {
        sys.remove_attribute(to, name).map_err(|errno| kept(name, errno))?;
    }
    for name in &wanted {
        let value = sys.attribute(from, name).map_err(|errno| kept(name, errno))?;
        let same = there.contains(name) && sys.attribute(to, name).as_ref() == Ok(&value);
        if !same {
            // Only a different value is set: SELinux requires additional rights to set a label.
            sys.set_attribute(to, name, &value).map_err(|errno| kept(name, errno))?;
        }
    }
    Ok(())
}

/// Returns true if the file has capabilities or they cannot be read.
pub(super) fn has_capabilities(sys: &Sys, on: On<'_>) -> bool {
    let value = sys.attribute(on, CAPABILITY);
    !matches!(value, Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Returns the names of a file's attributes without the computed ones.
fn names(sys: &Sys, on: On<'_>) -> Result<Vec<CString>, Errno> {
    let mut list = match sys.attributes(on) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        list => list?,
    };
    // The list has NUL-terminated names.
    list.truncate(list.iter().rposition(|&b| b == 0).map_or(0, |end| end + 1));
    let each = list.split_inclusive(|&b| b == 0);
    let each = each.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    Ok(each.filter(|name| !COMPUTED.contains(&name.to_bytes())).map(CStr::to_owned).collect())
}
