//! Stores: prefixes below which directories cannot change.
//!
//! This module is the only definition of "inside a store". Every path below a prefix is inside.
//! The prefix itself is outside, because packages are added to it and removed from it.
//!
//! A package is the first component below a prefix (`/nix/store/<hash>-<name>`). It is added and
//! removed as a whole, and its content never changes. Therefore a directory in a package that
//! lacks a library today can be skipped for good. A package that is missing can still be added.

use bstr::{BStr, BString, ByteSlice};

use crate::fs::FileSystem;

/// The prefixes of stores. Each is absolute, has no trailing slash and occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stores(Vec<BString>);

impl Stores {
    /// Parses a `:`-separated list of absolute prefixes. Other elements are ignored.
    #[must_use]
    pub fn parse(list: &BStr) -> Self {
        Self::of(list.split(|&byte| byte == b':'))
    }

    /// Makes a list of absolute prefixes. Other elements are ignored.
    #[must_use]
    pub fn of<P: AsRef<[u8]>>(prefixes: impl IntoIterator<Item = P>) -> Self {
        let mut stores = Self::default();
        for element in prefixes {
            stores.add(element.as_ref());
        }
        stores
    }

    /// Adds the resolved path of each prefix that has links in its path, because paths occur in
    /// both spellings.
    #[must_use]
    pub fn resolved(mut self, fs: &dyn FileSystem) -> Self {
        // The range is evaluated once, so that added paths are not resolved again.
        for at in 0..self.0.len() {
            if let Ok(real) = fs.canonicalize(self.0[at].as_ref()) {
                self.add(&real);
            }
        }
        self
    }

    /// Returns the prefixes as given, then their resolved paths.
    pub fn iter(&self) -> impl Iterator<Item = &BStr> {
        self.0.iter().map(|prefix| prefix.as_bstr())
    }

    /// Copies the prefixes to a list.
    #[must_use]
    pub fn to_vec(&self) -> Vec<BString> {
        self.0.clone()
    }

    /// Splits a path inside a store into the prefix and the part after it, without resolving
    /// links.
    #[must_use]
    pub fn split<'p>(&self, path: &'p [u8]) -> Option<(&BStr, &'p [u8])> {
        self.iter().find_map(|prefix| Some((prefix, below(path, prefix)?)))
    }

    /// Returns true if a path is inside a store. Links are not resolved.
    #[must_use]
    pub fn contain(&self, path: &[u8]) -> bool {
        self.split(path).is_some()
    }

    /// Returns true if the file that a path leads to is inside a store. If the file does not
    /// exist, the path itself counts.
    #[must_use]
    pub fn contain_file(&self, fs: &dyn FileSystem, path: &BStr) -> bool {
        match fs.canonicalize(path) {
            Ok(real) => self.contain(&real),
            Err(_) => self.contain(path),
        }
    }

    /// Returns the package of a path: a prefix and the component below it. Links are not resolved,
    /// and the path must not contain `..`. Returns `None` for a path outside the stores and for a
    /// prefix.
    #[must_use]
    pub fn package_of<'p>(&self, path: &'p BStr) -> Option<&'p BStr> {
        let (prefix, rest) = self.split(path)?;
        let name = rest.find_byte(b'/').unwrap_or(rest.len());
        (name > 0).then(|| path[..prefix.len() + 1 + name].as_bstr())
    }

    /// Returns the package of a directory, links resolved. An absent directory is in a package if
    /// the existing part of its path is.
    pub(crate) fn package_of_dir(&self, fs: &dyn FileSystem, dir: &BStr) -> Option<BString> {
        let mut existing = dir;
        loop {
            // A link in a package can lead out of it, so the text of a path is not enough.
            if let Ok(real) = fs.canonicalize(existing) {
                return self.package_of(real.as_ref()).map(ToOwned::to_owned);
            }
            // Only a missing last component is removed; `..` after one cannot be resolved.
            existing = parent(existing)?;
        }
    }

    fn add(&mut self, element: &[u8]) {
        let Some(last) = element.rfind_not_byteset(b"/") else { return };
        let prefix = element[..=last].as_bstr();
        if prefix.starts_with(b"/") && !self.iter().any(|known| known == prefix) {
            self.0.push(prefix.to_owned());
        }
    }
}

/// Returns the part of a path after a directory and a slash, and `None` for a path that is not
/// below the directory.
#[must_use]
pub fn below<'p>(path: &'p [u8], dir: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(dir)?.strip_prefix(b"/")
}

/// Removes the last component of a path. Returns `None` at the root, for a single name, and for a
/// path that ends in `..`, whose parent depends on links.
fn parent(path: &BStr) -> Option<&BStr> {
    let trimmed = path.trim_end_with(|c| c == '/');
    let at = trimmed.iter().rposition(|&byte| byte == b'/')?;
    if &trimmed[at + 1..] == b".." {
        return None;
    }
    (at > 0).then(|| trimmed[..at].as_bstr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    fn stores() -> Stores {
        Stores::parse("/nix/store/:/gnu/store:relative::/nix/store//".into())
    }

    #[test]
    fn a_list_keeps_absolute_prefixes_without_trailing_slashes_each_once() {
        assert_eq!(stores().iter().collect::<Vec<_>>(), ["/nix/store", "/gnu/store"]);
    }

    #[test]
    fn a_path_below_a_prefix_is_inside_and_a_longer_name_is_not() {
        assert!(stores().contain(b"/nix/store/a"));
        assert!(!stores().contain(b"/nix/store"));
        assert!(!stores().contain(b"/nix/storeroom/x"));
    }

    #[test]
    fn a_prefix_with_a_link_is_known_in_both_spellings() {
        let fs = MemFs::new().dir("/big/disk/store/a").link("/store", "/big/disk/store");
        let stores = Stores::parse("/store:/absent".into()).resolved(&fs);
        assert_eq!(stores.iter().collect::<Vec<_>>(), ["/store", "/absent", "/big/disk/store"]);
        assert_eq!(stores.package_of("/store/a/lib".into()), Some("/store/a".into()));
        let real = stores.package_of_dir(&fs, "/store/a".into());
        assert_eq!(real, Some("/big/disk/store/a".into()));
    }

    #[test]
    fn a_package_is_the_component_below_a_prefix() {
        let of = |path: &'static str| stores().package_of(path.into()).map(ToString::to_string);
        assert_eq!(of("/nix/store/abc-x/lib/a.so").as_deref(), Some("/nix/store/abc-x"));
        assert_eq!(of("/gnu/store/abc-x").as_deref(), Some("/gnu/store/abc-x"));
        assert_eq!(of("/nix/store"), None);
        assert_eq!(of("/nix/store/"), None);
        assert_eq!(of("/nix/storeroom/x"), None);
        assert_eq!(of("/usr/lib"), None);
    }

    #[test]
    fn the_package_of_a_directory_is_found_with_links_resolved() {
        let fs = MemFs::new()
            .dir("/nix/store/a/lib")
            .dir("/run/driver/lib")
            .link("/nix/store/a/out", "/run/driver")
            .link("/profile", "/nix/store/a");
        let of = |dir: &'static str| {
            stores().package_of_dir(&fs, dir.into()).map(|package| package.to_string())
        };
        assert_eq!(of("/nix/store/a/lib/").as_deref(), Some("/nix/store/a"));
        assert_eq!(of("/profile/lib").as_deref(), Some("/nix/store/a"));
        assert_eq!(of("/nix/store/a/out/lib"), None);
        assert_eq!(of("/nix/store/a/none/deeper").as_deref(), Some("/nix/store/a"));
        assert_eq!(of("/nix/store/absent/lib"), None, "the package may be added");
        assert_eq!(of("/nix/store/a/none/../lib"), None);
    }
}
