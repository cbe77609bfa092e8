//! Which directories cannot change: those of a package under a store prefix.
//!
//! A package is the first component under a prefix (`/nix/store/<hash>-<name>`): it comes and
//! goes as a whole, and while it is there nothing in it changes. So a directory in it that
//! does not answer today may be skipped for good; a package that is not there at all may come.

use bstr::{BStr, BString, ByteSlice};

use crate::fs::FileSystem;

/// The prefixes under which packages lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stores(Vec<BString>);

impl Stores {
    /// A `:`-separated list of absolute prefixes; others are left out.
    #[must_use]
    pub fn parse(list: &BStr) -> Self {
        Self(list.split(|&byte| byte == b':').filter_map(prefix).collect())
    }

    /// The prefixes.
    pub fn iter(&self) -> impl Iterator<Item = &BStr> {
        self.0.iter().map(|prefix| prefix.as_bstr())
    }

    /// The package that a path lies in, by its letters: a prefix and the component below it.
    /// `None` for a path outside the stores, and for a prefix itself. Without `..` in the path,
    /// or it may lie elsewhere.
    #[must_use]
    pub fn package_of<'p>(&self, path: &'p BStr) -> Option<&'p BStr> {
        let below = |prefix: &BString| path.strip_prefix(prefix.as_slice())?.strip_prefix(b"/");
        self.0.iter().find_map(|prefix| {
            let rest = below(prefix)?;
            let name = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            (name > 0).then(|| path[..prefix.len() + 1 + name].as_bstr())
        })
    }

    /// The package that a directory lies in, links followed, and which is there. A directory
    /// that is absent counts where the part of its path that exists lies in a package.
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
}

/// A prefix without slashes at its end.
fn prefix(element: &[u8]) -> Option<BString> {
    let end = element.iter().rposition(|&byte| byte != b'/')? + 1;
    element.starts_with(b"/").then(|| element[..end].into())
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
        Stores::parse("/nix/store/:/gnu/store:relative:".into())
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
