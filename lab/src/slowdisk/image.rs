//! The image: a file system with a copy of a directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::{USR, bind, run_tool, unmount};

/// The file system of an image.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(super) enum Format {
    #[default]
    Ext4,
    Xfs,
    Btrfs,
    /// Compressed with zstd
    Squashfs,
    /// Compressed with LZ4
    Erofs,
}

impl Format {
    /// Returns the name that mount(8) knows.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Makes the image, if there is none.
///
/// `mounted` is an empty directory, on which a new image is mounted for a while.
///
/// # Errors
/// Returns an error if the disk is full or a tool fails; no part of an image is left then.
pub(super) fn make(image: &Path, format: Format, mounted: &Path) -> Result<()> {
    if image.exists() {
        return Ok(());
    }
    eprintln!("lab: making {}", image.display());
    if let Some(parent) = image.parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    let part = image.with_extension("part");
    let made = match format {
        Format::Ext4 => fill(&part, &["mkfs.ext4", "-q", "-F"], mounted),
        Format::Xfs => fill(&part, &["mkfs.xfs", "-q"], mounted),
        Format::Btrfs => fill(&part, &["mkfs.btrfs", "-q"], mounted),
        Format::Squashfs => {
            let tool = ["mksquashfs", "FOLDER", "FILE", "-comp", "zstd", "-quiet", "-no-progress"];
            pack(&part, &tool, mounted)
        }
        Format::Erofs => pack(&part, &["mkfs.erofs", "-zlz4hc", "FILE", "FOLDER"], mounted),
    };
    if made.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&part);
    }
    made?;
    fs::rename(&part, image).with_context(|| image.display().to_string())
}

/// Makes a file system that is written to, and copies the directory.
fn fill(part: &Path, tool: &[&str], mounted: &Path) -> Result<()> {
    let file = File::create(part).with_context(|| part.display().to_string())?;
    // The file is sparse. Tables and the ends of blocks take some space too.
    let bytes = size()?;
    file.set_len(bytes + bytes / 3 + (256 << 20))?;
    drop(file);
    let args: Vec<_> = tool[1..].iter().map(OsStr::new).chain([part.as_os_str()]).collect();
    run_tool(tool[0], &args)?;
    let options = ["-o".as_ref(), "loop".as_ref(), part.as_os_str(), mounted.as_os_str()];
    run_tool("mount", &options)?;
    let args = ["-a", "-x", "--reflink=auto", USR].map(OsStr::new);
    let copied = run_tool("cp", &[&args[..], &[mounted.as_os_str()]].concat());
    let unmounted = unmount(mounted);
    copied.map(drop)?;
    unmounted
}

/// Makes an image of a folder in which the directory is mounted. `FOLDER` and `FILE` are the
/// tool's arguments for the two.
fn pack(part: &Path, tool: &[&str], folder: &Path) -> Result<()> {
    let to = folder.join("usr");
    fs::create_dir_all(&to).with_context(|| to.display().to_string())?;
    bind(Path::new(USR), &to)?;
    let args: Vec<_> = tool[1..]
        .iter()
        .map(|word| match *word {
            "FOLDER" => folder.as_os_str(),
            "FILE" => part.as_os_str(),
            word => word.as_ref(),
        })
        .collect();
    let packed = run_tool(tool[0], &args).map(drop);
    unmount(&to)?;
    packed
}

/// Returns the bytes that the directory takes on disk.
fn size() -> Result<u64> {
    let printed = run_tool("du", &["-s", "-x", "--block-size=1", USR].map(OsStr::new))?;
    let total = printed.split_ascii_whitespace().next();
    total.and_then(|bytes| bytes.parse().ok()).context("du printed no size")
}
