//! Parts of a path as it is written: no link is followed, and `..` is a name.

use bstr::{BStr, BString, ByteSlice};

/// `PATH_MAX`: the kernel's limit on a path and its NUL, in bytes.
pub(crate) const PATH_MAX: usize = 4096;

/// Returns the last component. It is empty for a path that ends in a slash.
#[must_use]
pub fn name(path: &[u8]) -> &BStr {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().as_bstr()
}

/// Returns the directory without its last slash. It is `/` for a file in the root directory, and
/// empty for a path without a slash.
#[must_use]
pub fn dir(path: &[u8]) -> &BStr {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => BStr::new(b"/"),
        Some(slash) => path[..slash].as_bstr(),
        None => BStr::new(b""),
    }
}

/// Returns the directory without its last slash. It is empty for a file in the root directory, and for
/// a path without a slash: a path that begins with a slash is its parent, a slash and its name.
#[must_use]
pub fn parent(path: &[u8]) -> &BStr {
    path[..path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)].as_bstr()
}

/// Splits a path into its directory, with its slash, and its last component.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

/// Returns the path of a name in a directory.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> BString {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name].concat().into()
}

/// Returns the path that a link leads to.
#[must_use]
pub fn of_target(link: &[u8], target: &[u8]) -> BString {
    let dir = if target.starts_with(b"/") { b"" } else { split(link).0 };
    [dir, target].concat().into()
}

/// Returns the absolute path without `.`, `..` and double slashes. As in the kernel, `..` at the root
/// stays at the root.
#[must_use]
pub fn normal(path: &[u8]) -> BString {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.iter().flat_map(|part| [b"/", *part].concat()).collect::<Vec<u8>>().into()
}

/// Returns true if a pattern matches the whole text: the parts between its stars occur in order, the
/// first and last at the ends. `fits` compares a byte of a part with one of the text. The time is at
/// worst the product of the two lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8], fits: impl Fn(u8, u8) -> bool) -> bool {
    let is_same = |part: &[u8], text: &[u8]| {
        part.len() == text.len() && part.iter().zip(text).all(|(&part, &byte)| fits(part, byte))
    };
    let Some((head, rest)) = pattern.split_once_str("*") else { return is_same(pattern, text) };
    let Some((start, mut text)) = text.split_at_checked(head.len()) else { return false };
    let mut parts: Vec<&[u8]> = rest.split_str("*").collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        // The first place is enough: a later one would leave less of the text for the other parts.
        let mut ends = part.len()..=text.len();
        let Some(end) = ends.find(|&end| is_same(part, &text[end - part.len()..end])) else {
            return false;
        };
        text = &text[end..];
    }
    let end = text.len().checked_sub(tail.len());
    is_same(head, start) && end.is_some_and(|end| is_same(tail, &text[end..]))
}

/// Returns the path without the slashes at its end. `/` stays.
#[must_use]
pub fn without_end_slashes(path: &[u8]) -> &BStr {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(1, |last| last + 1);
    path[..end.min(path.len())].as_bstr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths() {
        for (path, of_name, of_dir, above, short) in [
            ("/a/b", "b", "/a", "/a", "/a/b"),
            ("/a", "a", "/", "", "/a"),
            ("a", "a", "", "", "a"),
            ("a//b//", "", "a//b/", "a//b/", "a//b"),
            ("//", "", "/", "/", "/"),
            ("", "", "", "", ""),
        ] {
            let path = path.as_bytes();
            let parts = [name(path), dir(path), parent(path), without_end_slashes(path)];
            assert_eq!(parts, [of_name, of_dir, above, short], "{}", path.as_bstr());
        }
    }
}
