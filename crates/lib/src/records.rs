//! Records of what the starts of a command used: files of JSON lines, each with a lock.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{BufReader, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use becalm_host::trust::{self, Untrusted};
use becalm_host::write::WriteError;
use rustc_hash::FxHasher;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::index::places::{cache_writer as writer, cached_name, files_ending};

/// The path of a command's record.
#[derive(Clone, Debug)]
pub struct Place(pub(crate) PathBuf);

impl Place {
    /// Returns the place in a folder. `ending` is that of the names of such records.
    pub(crate) fn of(folder: &Path, command: &Path, ending: &str) -> Self {
        let mut hasher = FxHasher::default();
        command.hash(&mut hasher);
        Self(folder.join(cached_name(command, hasher.finish(), ending)))
    }

    /// Returns the places of all such records in a folder.
    pub(crate) fn all(folder: &Path, ending: &str) -> impl Iterator<Item = Self> {
        files_ending(folder, ending).map(Self)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(&self.0)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Opens the record; `None` if it does not exist. It is an error if another user may have put it there.
    pub(crate) fn open(&self) -> Result<Option<File>, Untrusted> {
        match trust::open(&self.0) {
            Ok(file) => Ok(Some(file.file)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the lock of learning; `None` if another process has it.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, WriteError> {
        let ending = self.0.extension().unwrap_or_default().display();
        Lock::take(self.0.with_extension(format!("{ending}-lock")))
    }

    pub(crate) fn write(&self, text: &[u8], mode: u32) -> Result<(), WriteError> {
        writer().replace(&self.0, text, mode)
    }
}

/// A lock that is held. Its name is removed at the end.
pub(crate) struct Lock {
    path: PathBuf,
    _file: OwnedFd,
}

impl Lock {
    /// Takes a lock; `None` if another process has it.
    pub(crate) fn take(path: PathBuf) -> Result<Option<Self>, WriteError> {
        Ok(writer().lock(&path)?.map(|file| Self { path, _file: file }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = writer().remove(&self.path);
    }
}

/// Reads the first value of a record; `None` if it is damaged, or ends behind the first `most` bytes.
pub(crate) fn first<T: DeserializeOwned>(file: &mut File, most: u64) -> Option<T> {
    let bytes = BufReader::new(file.take(most));
    serde_json::Deserializer::from_reader(bytes).into_iter().next()?.ok()
}

/// Returns a whole record, whose header was read, or not; `None` if it has more bytes than `most`.
pub(crate) fn whole(mut file: File, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind().ok()?;
    let length = file.take(most + 1).read_to_end(&mut bytes).ok()?;
    (length as u64 <= most).then_some(bytes)
}

/// Adds a line to the text of a record.
pub(crate) fn add_line(text: &mut Vec<u8>, value: &impl Serialize) {
    text.extend(serde_json::to_vec(value).unwrap_or_default());
    text.push(b'\n');
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}
