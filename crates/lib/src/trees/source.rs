//! Files of a pack, which are read from a tar file or a squashfs image.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Error, Result, anyhow};
use becalm_host::open_regular;
use tar::Archive;
use tempfile::TempDir;

use crate::words::words;

/// The first file of a pack.
pub(super) const MANIFEST: &str = ".becalm/pack.json";
/// The content of [`MANIFEST`].
pub(super) const MARK: &[u8] = b"{\"schema\":\"becalm/pack/1\"}\n";
/// First bytes of a squashfs image.
const SQUASHFS: &[u8] = b"hsqs";

/// Returns the error of a file that cannot be read or written.
pub(super) fn of_file(path: &Path) -> impl FnOnce(io::Error) -> Error {
    |error| anyhow!("{}: {}", path.display(), words(&error))
}

/// Returns the error of another file.
pub(super) fn not_a_pack(pack: &Path) -> Error {
    anyhow!("{}: not a pack of becalm", pack.display())
}

/// A pack that is read.
pub(super) enum Source {
    /// A tar file, with place and length of each of its files.
    Tar(File, BTreeMap<String, (u64, u64)>),
    /// The files of an image.
    Folder(TempDir),
}

impl Source {
    /// Opens a pack. An image, or only a file of it, is unpacked into a scratch folder in `folder`.
    pub(super) fn open(pack: &Path, folder: &Path, only: Option<&str>) -> Result<Self> {
        let open = || -> io::Result<Self> {
            let mut file = open_regular(pack)?;
            let mut first = Vec::new();
            Read::by_ref(&mut file).take(SQUASHFS.len() as u64).read_to_end(&mut first)?;
            if first == SQUASHFS {
                return Self::of_image(pack, folder, only);
            }
            file.rewind()?;
            let mut places = BTreeMap::new();
            for entry in Archive::new(&file).entries_with_seek()? {
                let entry = entry?;
                let is_file = entry.header().entry_type().is_file();
                if let Ok(path) = String::from_utf8(entry.path_bytes().into_owned())
                    && is_file
                {
                    places.insert(path, (entry.raw_file_position(), entry.size()));
                }
            }
            Ok(Self::Tar(file, places))
        };
        let mut source = open().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => of_file(pack)(error),
            _ => not_a_pack(pack),
        })?;
        let is_ours = source.read(MANIFEST, 4096).is_some_and(|mark| mark == MARK);
        is_ours.then_some(source).ok_or_else(|| not_a_pack(pack))
    }

    fn of_image(pack: &Path, folder: &Path, only: Option<&str>) -> io::Result<Self> {
        let scratch = tempfile::tempdir_in(folder)?;
        let mut tool = Command::new("unsquashfs");
        tool.args(["-quiet", "-no-progress", "-no-xattrs", "-force", "-dest"]);
        let status = tool.arg(scratch.path()).arg(pack).args(only).stdout(Stdio::null()).status();
        let of_tool =
            |error: io::Error| io::Error::new(error.kind(), format!("unsquashfs: {error}"));
        let status = status.map_err(of_tool)?;
        status.success().then_some(Self::Folder(scratch)).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Returns the names in a folder of the pack, with that of the folder.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let inside = format!("{folder}/");
        match self {
            Self::Tar(_, places) => {
                places.keys().filter(|name| name.starts_with(&inside)).cloned().collect()
            }
            Self::Folder(scratch) => {
                let found = scratch.path().join(folder).read_dir().into_iter().flatten().flatten();
                found.map(|it| format!("{inside}{}", it.file_name().display())).collect()
            }
        }
    }

    /// Opens a file with its length.
    pub(super) fn file(&mut self, path: &str) -> Option<(File, u64)> {
        match self {
            Self::Tar(file, places) => {
                let &(place, length) = places.get(path)?;
                file.seek(SeekFrom::Start(place)).ok()?;
                Some((file.try_clone().ok()?, length))
            }
            Self::Folder(scratch) => {
                // The image is not ours: no link leads out of it.
                let root = scratch.path().canonicalize().ok()?;
                let real =
                    root.join(path).canonicalize().ok().filter(|it| it.starts_with(&root))?;
                let file = File::open(real).ok()?;
                let facts = file.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((file, facts.len()))
            }
        }
    }

    pub(super) fn read(&mut self, path: &str, most: u64) -> Option<Vec<u8>> {
        let (file, length) = self.file(path).filter(|it| it.1 <= most)?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// True if a file is a pack.
pub(super) fn is_pack(file: &Path, folder: &Path) -> bool {
    Source::open(file, folder, Some(MANIFEST)).is_ok()
}
