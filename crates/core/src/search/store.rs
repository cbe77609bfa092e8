//! The stores: prefixes below which directories cannot change.
//!
//! This is the one definition of "inside a store". Everything below a prefix is inside, the
//! prefix itself is not: its entries come and go.
//!
//! A package is the first component under a prefix (`/nix/store/<hash>-<name>`): it comes and
//! goes as a whole, and while it is there nothing in it changes. So a directory in it that
//! does not answer today may be skipped for good; a package that is not there at all may come.

use bstr::{BStr, BString, ByteSlice};

use crate::fs::FileSystem;

/// The prefixes of stores: absolute, without trailing slashes, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stores(Vec<BString>);

impl Stores {
    /// Parses a `:`-separated list of absolute prefixes; other elements are left out.
    #[must_use]
    pub fn parse(list: &BStr) -> Self {
        Self::of(list.split(|&byte| byte == b':'))
    }

    /// Takes absolute prefixes; others are left out.
    #[must_use]
    pub fn of<P: AsRef<[u8]>>(prefixes: impl IntoIterator<Item = P>) -> Self {
        let mut stores = Self::default();
        for element in prefixes {
            stores.add(element.as_ref());
        }
        stores
    }

    /// The same prefixes, and for each that has links in its path also the directory it leads
    /// to: paths are found in either spelling.
    #[must_use]
    pub fn resolved(mut self, fs: &dyn FileSystem) -> Self {
        for at in 0..self.0.len() {
            if let Ok(real) = fs.canonicalize(self.0[at].as_ref()) {
                self.add(&real);
            }
        }
        self
    }

    /// The prefixes: those named in the order given, then the directories they lead to.
    pub fn iter(&self) -> impl Iterator<Item = &BStr> {
        self.0.iter().map(|prefix| prefix.as_bstr())
    }

    /// The prefixes as a list.
    #[must_use]
    pub fn to_vec(&self) -> Vec<BString> {
        self.0.clone()
    }

    /// The prefix that a path is inside of and what follows it and a slash, by the letters of
    /// the path.
    #[must_use]
    pub fn split<'p>(&self, path: &'p [u8]) -> Option<(&BStr, &'p [u8])> {
        self.iter().find_map(|prefix| Some((prefix, below(path, prefix)?)))
    }

    /// Whether a path is inside a store, by the letters of the path.
    #[must_use]
    pub fn contain(&self, path: &[u8]) -> bool {
        self.split(path).is_some()
    }

    /// Whether the file that a path leads to is inside a store; by the letters of a path that
    /// leads nowhere.
    #[must_use]
    pub fn contain_file(&self, fs: &dyn FileSystem, path: &BStr) -> bool {
        match fs.canonicalize(path) {
            Ok(real) => self.contain(&real),
            Err(_) => self.contain(path),
        }
    }

    /// The package of a path, by its letters: a prefix and the component below it. `None` for a
    /// path outside the stores, and for a prefix itself. A path with `..` in it must be resolved
    /// first.
    #[must_use]
    pub fn package_of<'p>(&self, path: &'p BStr) -> Option<&'p BStr> {
        let (prefix, rest) = self.split(path)?;
        let name = rest.find_byte(b'/').unwrap_or(rest.len());
        (name > 0).then(|| path[..prefix.len() + 1 + name].as_bstr())
    }

    /// The package of a directory, links followed. A directory that is absent counts if the part
    /// of its path that exists is in a package.
    #[must_use]
    pub fn package_of_dir(&self, fs: &dyn FileSystem, dir: &BStr) -> Option<BString> {
        let mut existing = dir;
        loop {
            if let Ok(real) = fs.canonicalize(existing) {
                return self.package_of(real.as_ref()).map(ToOwned::to_owned);
            }
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

/// What follows a directory's path and a slash; `None` for a path that is not below it.
#[must_use]
pub fn below<'p>(path: &'p [u8], dir: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(dir)?.strip_prefix(b"/")
}

/// The path without its last component; `None` at the root and for a lone name. A path whose
/// last component is `..` has no parent by its letters.
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
    fn a_list_has_absolute_prefixes_without_slashes_each_once() {
        assert_eq!(stores().iter().collect::<Vec<_>>(), ["/nix/store", "/gnu/store"]);
    }

    #[test]
    fn a_path_is_inside_below_a_prefix_and_not_beside_it() {
        assert!(stores().contain(b"/nix/store/a"));
        assert!(!stores().contain(b"/nix/store"));
        assert!(!stores().contain(b"/nix/storeroom/x"));
    }

    #[test]
    fn a_prefix_with_a_link_counts_in_both_spellings() {
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
    fn a_directory_counts_where_it_really_lies() {
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
        assert_eq!(of("/nix/store/absent/lib"), None, "the package may come");
        assert_eq!(of("/nix/store/a/none/../lib"), None);
    }
}
