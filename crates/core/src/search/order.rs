//! The order in which `_dl_map_object` (glibc `elf/dl-load.c`) searches for a name that no loaded
//! object has and that contains no slash.
//!
//! The model of a start, the builder of an index and the model of the audit module follow it.

use crate::elf::ObjectView;

/// One place of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The note or package cache of the requester, which only patched loaders read.
    StoredAnswers,
    /// `DT_RPATH` of the requester, then of each object that loaded the one before, then of the
    /// program.
    Rpath,
    /// `__rtld_env_path_list`: `LD_LIBRARY_PATH`, which is empty in secure-execution mode.
    LibraryPath,
    /// `l_runpath_dirs`: the `DT_RUNPATH` of the requester alone. It is not inherited.
    Runpath,
    /// `_dl_load_cache_lookup`: `ld.so.cache`. With [`Requester::no_default_dirs`] an answer in a
    /// system directory is ignored.
    LoaderCache,
    /// `__rtld_search_dirs`: the compiled-in directories.
    SystemDirs,
}

/// The properties of a requester that decide which sources are searched for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    /// It has a `DT_RPATH` that counts.
    pub(crate) has_rpath: bool,
    /// It has `DT_RUNPATH`, which may be empty.
    pub(crate) has_runpath: bool,
    /// `DF_1_NODEFLIB`.
    pub(crate) no_default_dirs: bool,
}

impl Requester {
    /// Reads the properties of an object.
    pub(crate) fn of(view: &ObjectView) -> Self {
        let dynamic = view.dynamic.as_ref();
        Self {
            has_rpath: dynamic.is_some_and(|dynamic| dynamic.rpath_that_counts().is_some()),
            has_runpath: dynamic.is_some_and(|dynamic| dynamic.runpath.is_some()),
            no_default_dirs: view.is_nodeflib(),
        }
    }

    /// Returns the sources in order. Each is searched if none before it has the file (`fd == -1`).
    /// `untrusted` is true for a preload of a set-id program.
    pub(crate) fn sources(self, untrusted: bool) -> impl Iterator<Item = Source> {
        let Self { has_rpath, has_runpath, no_default_dirs } = self;
        let order = [
            // Stored answers replace the search along the run path and have its place.
            (Source::StoredAnswers, has_rpath),
            // `loader->l_info[DT_RUNPATH] == NULL`: if the requester has DT_RUNPATH, no DT_RPATH is
            // searched for it, not even that of another object.
            (Source::Rpath, !has_runpath),
            (Source::LibraryPath, true),
            (Source::StoredAnswers, has_runpath),
            (Source::Runpath, has_runpath),
            (Source::LoaderCache, !untrusted),
            (Source::SystemDirs, !no_default_dirs),
        ];
        order.into_iter().filter_map(|(source, is_searched)| is_searched.then_some(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_path_comes_before_the_library_path_if_it_is_inherited() {
        use Source::*;
        let order = |has_rpath, has_runpath| {
            let requester = Requester { has_rpath, has_runpath, no_default_dirs: false };
            requester.sources(false).collect::<Vec<_>>()
        };
        let after = [LoaderCache, SystemDirs];
        assert_eq!(order(false, false), [&[Rpath, LibraryPath], &after[..]].concat());
        assert_eq!(order(true, false), [&[StoredAnswers, Rpath, LibraryPath], &after[..]].concat());
        let with_runpath = [&[LibraryPath, StoredAnswers, Runpath], &after[..]].concat();
        assert_eq!(order(false, true), with_runpath);
    }

    #[test]
    fn nodeflib_and_a_preload_of_a_set_id_program_leave_sources_out() {
        let requester = Requester { has_rpath: false, has_runpath: false, no_default_dirs: true };
        let left: Vec<Source> = requester.sources(true).collect();
        assert_eq!(left, [Source::Rpath, Source::LibraryPath]);
    }
}
