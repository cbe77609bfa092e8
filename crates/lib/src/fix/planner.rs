//! The context of a plan: the options, the assumptions and the places of files.

use std::path::PathBuf;

use becalm_core::facts::{Environment, Libc, Readers};
use becalm_core::fs::{FileKind, FileSystem, MappedFs};
use becalm_core::strategy::row::Row;
use becalm_core::strategy::settings::{Settings, kept_short};
use becalm_host::HostError;
use bstr::{BStr, BString, ByteSlice};

use crate::assume::Assumptions;
use crate::fix::options::Options;
use crate::path::{bytes, path_of};
use crate::problem::NoPlace;
use crate::progress::Progress;

/// The settings of every file's plan.
pub struct Planner<'a> {
    /// The strategy, and how it is planned.
    pub options: &'a Options,
    /// The display of the progress.
    pub progress: &'a dyn Progress,
    /// Assumptions about the machine.
    pub assumed: &'a Assumptions,
    /// True for advice on one program: the caches of packages are planned without the objects that are not
    /// targets.
    pub is_forecast: bool,
    pub(super) settings: Settings,
}

impl<'a> Planner<'a> {
    /// Returns a planner that shows its progress on `progress`.
    #[must_use]
    pub fn new(options: &'a Options, assumed: &'a Assumptions, progress: &'a dyn Progress) -> Self {
        let keep = options.keep.iter().map(|name| BString::from(name.as_str()));
        let keep = kept_short().into_iter().chain(keep).collect();
        let stores = assumed.stores.clone();
        let glibc_minor = match assumed.choice.libc {
            Some(Libc::Glibc(version)) => Some(version.minor),
            _ => None,
        };
        let dlopen = options.dlopen.iter().map(|name| BString::from(name.as_str())).collect();
        let session = assumed.fs.session();
        let mapped = MappedFs::new(&session, options.prefix_map.clone());
        let folder = |path: &PathBuf| {
            let real = session.canonicalize(assumed.fs.inside(path).as_ref()).ok()?;
            (session.stat(real.as_ref()) == Ok(FileKind::Directory))
                .then(|| mapped.planned(real.as_ref()))
        };
        let folders = options.paths.iter().filter_map(folder).collect();
        let settings = Settings { stores, folders, keep, dlopen, glibc_minor };
        Self { options, progress, assumed, is_forecast: false, settings }
    }

    /// Returns the environment of programs as far as a plan depends on it: no variable of the
    /// current environment, only the list of `--library-path`. With `reads`, the loader reads the
    /// format that the strategy writes.
    pub fn environment(&self, reads: bool) -> Environment {
        let library_path = self.options.assume.library_path.as_ref().map(bytes);
        let library_path = library_path.filter(|list| !list.is_empty());
        let format = self.row().format.filter(|_| reads);
        let reads = Readers::of(format.as_slice(), &self.settings.stores.to_vec());
        Environment { library_path, reads, ..Environment::default() }
    }

    /// Returns the files under their final names.
    pub fn mapped<'f>(&self, fs: &'f dyn FileSystem) -> MappedFs<'f> {
        MappedFs::new(fs, self.options.prefix_map.clone())
    }

    /// The place of a file of a plan on this machine.
    ///
    /// # Errors
    /// Returns an error if the assumed root has no such place.
    pub fn host_path(&self, path: &BStr) -> Result<PathBuf, NoPlace> {
        let session = self.assumed.fs.session();
        let here = self.mapped(&session).real(path);
        let os = &self.assumed.fs;
        let place = os.host_path(here.as_ref()).or_else(|error| {
            // A planned file does not exist yet, but its directory does.
            let at = here.rfind_byte(b'/').ok_or(error)?;
            let dir = os.host_path(here[..at.max(1)].as_bstr())?;
            Ok(dir.join(path_of(&here[at + 1..])))
        });
        place.map_err(|error: HostError| error.into())
    }

    /// Returns the strategy.
    pub(super) fn row(&self) -> &'static Row {
        self.options.with.row()
    }
}
