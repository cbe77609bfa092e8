//! A reader of the table for tests, which answers as `crates/audit/module/paths.c` does.

use super::{KIND, Kind, Package, PackageTable, Paths, is_odd, place, print, root_state, step};

/// The table's answer for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel must resolve the path.
    Unknown,
    /// It does not exist.
    Absent,
    /// It probably exists and is a directory, reached through no link.
    Directory,
    /// It probably exists and is a regular file, reached through no link.
    File,
}

impl Kind {
    fn of(slot: u32) -> Self {
        match slot & KIND {
            1 => Self::Directory,
            2 => Self::File,
            3 => Self::Link,
            _ => Self::Other,
        }
    }
}

impl PackageTable {
    /// Returns the kind of path at a state; `None` if there is no path.
    #[must_use]
    pub fn kind(&self, state: u64) -> Option<Kind> {
        let slots = self.blocks.first()?.len();
        let (block, mut at) = place(state, self.blocks.len(), slots);
        let slots = &self.blocks[block];
        loop {
            match slots[at] {
                0 => return None,
                slot if slot & !KIND == print(state) => return Some(Kind::of(slot)),
                _ => at = if at + 1 == slots.len() { 0 } else { at + 1 },
            }
        }
    }
}

impl Paths {
    /// Returns the package with a state, unless it was left out.
    #[must_use]
    pub fn package(&self, state: u64) -> Option<&Package> {
        let at = self.packages.binary_search_by_key(&state, |package| package.state).ok()?;
        self.packages.get(at).filter(|package| package.is_read())
    }

    /// Returns the table's answer for a path if every package is unchanged, as `paths_ask` of
    /// `crates/audit/module/paths.c` does.
    #[must_use]
    pub fn ask(&self, path: &[u8]) -> Answer {
        self.look(path).unwrap_or(Answer::Unknown)
    }

    /// Returns `None` for a path that the kernel must resolve.
    fn look(&self, path: &[u8]) -> Option<Answer> {
        const LONGEST_NAME: usize = 255;
        const LONGEST_PATH: usize = 4095;
        if path.len() > LONGEST_PATH || path.ends_with(b"/") || path.contains(&0) {
            return None;
        }
        let (root, rest) = self.roots.iter().find_map(|root| {
            let rest = path.strip_prefix(&root.path[..])?;
            rest.starts_with(b"/").then_some((root, rest))
        })?;
        let names = rest.split(|&byte| byte == b'/');
        let mut names = names.filter(|name| !name.is_empty() && *name != b".");
        let mut package = self.package(step(root_state(root.path.as_ref()), names.next()?))?;
        let (mut state, mut kind, mut is_indirect) = (package.state, Kind::Directory, false);
        for name in names {
            if kind != Kind::Directory || name == b".." || name.len() > LONGEST_NAME || is_odd(name)
            {
                return None;
            }
            state = step(state, name);
            kind = match package.table.kind(state) {
                None => return Some(Answer::Absent),
                Some(Kind::Link) => {
                    (package, state) = self.follow(package, state)?;
                    is_indirect = true;
                    Kind::Directory
                }
                Some(kind) => kind,
            };
        }
        match kind {
            _ if is_indirect => None,
            Kind::Directory => Some(Answer::Directory),
            Kind::File => Some(Answer::File),
            Kind::Link | Kind::Other => None,
        }
    }

    /// Returns the directory that a link leads to.
    fn follow(&self, package: &Package, state: u64) -> Option<(&Package, u64)> {
        let links = &package.table.links;
        let link = links[links.binary_search_by_key(&state, |link| link.state).ok()?];
        let target = self.package(link.package)?;
        let is_directory =
            link.target == link.package || target.table.kind(link.target) == Some(Kind::Directory);
        is_directory.then_some((target, link.target))
    }
}
