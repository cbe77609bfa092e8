//! Index files: read with suspicion, written beside and renamed.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::index::{Index, Table, Target, module_is_whole, split};
use becalm_host::write::{WriteOptions, Writer};
use bstr::BString;
use rustix::process::geteuid;

use super::module::Sealed;
use super::platforms;
use crate::output::words;

/// What is needed of an index to start programs with it.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// Its absolute path.
    pub path: PathBuf,
    /// The machine.
    pub target: Target,
    /// The stores.
    pub roots: Vec<BString>,
    /// What `glibc.rtld.optional_static_tls` must be for the most demanding of its programs;
    /// 0: the default does.
    pub static_tls: u32,
    /// Programs that start under no audit module.
    pub no_start: Vec<BString>,
}

/// Opens an index that programs are to be started with.
///
/// # Errors
/// Where it is not there, is no whole index, or belongs to somebody whom one would not let
/// choose one's libraries.
pub(crate) fn open(path: &Path) -> Result<Opened> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let shown = path.display().to_string();
    // The loader splits LD_AUDIT at colons and replaces tokens in it.
    if shown.contains([':', '$']) {
        bail!("{shown}: LD_AUDIT cannot name a path with a colon or a dollar sign");
    }
    let facts = path.metadata().map_err(|error| anyhow!("{shown}: {}", words(&error)))?;
    let own = facts.uid() == geteuid().as_raw() || facts.uid() == 0;
    if !own || facts.mode() & 0o002 != 0 {
        bail!("{shown}: not used: others than you and root may write it");
    }
    let bytes = fs::read(&path).map_err(|error| anyhow!("{shown}: {}", words(&error)))?;
    let read = || -> Result<Opened> {
        let (table, _) = table_of(&bytes)?;
        Ok(Opened {
            path: path.clone(),
            target: table.target(),
            roots: table.roots()?,
            static_tls: table.static_tls()?,
            no_start: table.no_start()?,
        })
    };
    read().with_context(|| shown.clone())
}

/// The table of a whole index, and its bytes.
fn table_of(file: &[u8]) -> Result<(Table<'_>, &[u8])> {
    let (_, bytes) = split(file)?;
    let table = Table::read(bytes)?;
    if !module_is_whole(file)? {
        bail!("the index is damaged: its module's check does not fit");
    }
    Ok((table, bytes))
}

/// All that an index file holds.
pub(crate) struct Whole {
    /// The machine.
    pub target: Target,
    /// What it says.
    pub index: Index,
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// The table alone.
    pub table: Vec<u8>,
}

/// Reads an index file.
///
/// # Errors
/// Where it is not there or is no whole index.
pub(crate) fn read(path: &Path) -> Result<Whole> {
    let bytes = fs::read(path).map_err(|error| anyhow!("{}: {}", path.display(), words(&error)))?;
    let read = || -> Result<(Target, Index, Vec<u8>)> {
        let (table, bytes) = table_of(&bytes)?;
        Ok((table.target(), table.index()?, bytes.to_vec()))
    };
    let (target, index, table) = read().with_context(|| path.display().to_string())?;
    Ok(Whole { target, index, bytes, table })
}

/// True where the file is an index, whole or not.
pub(crate) fn is_index(path: &Path) -> bool {
    path.is_file() && fs::read(path).is_ok_and(|bytes| split(&bytes).is_ok())
}

/// That an index can be written there: before the work, not after it.
///
/// # Errors
/// Where it cannot, or something else is there.
pub(crate) fn check_place(path: &Path) -> Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| anyhow!("{}: {}", dir.display(), words(&errno.into())))?;
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(anyhow!("{}: {}", path.display(), words(&error))),
        Ok(_) if is_index(path) => Ok(()),
        Ok(_) => {
            bail!("{}: there is something else than an index; not overwritten", path.display())
        }
    }
}

/// Writes an index beside its place and renames it, so that processes keep the one they have,
/// with the directory for `LD_AUDIT` beside it.
///
/// # Errors
/// Where that cannot be done; then the old one is still there.
pub(crate) fn write(path: &Path, sealed: &Sealed) -> Result<()> {
    // A link to an index stays one.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let writer = Writer::new(WriteOptions::default());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    writer.write_new(&new, &sealed.file, 0o644, |_| true)?;
    if let Err(error) = fs::rename(&new, &path) {
        let _ = fs::remove_file(&new);
        bail!("{}: {}", path.display(), words(&error));
    }
    platforms::make(&writer, &path, sealed.machine.target)
}
