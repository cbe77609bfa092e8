//! The image: a file system with copies of directories.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::{bind, run_tool, unmount};

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

/// Makes the image, or checks that an earlier one has the directories.
///
/// `mounted` is an empty directory, on which a new image is mounted for a while.
///
/// # Errors
/// Returns an error if the disk is full or a tool fails; no part of an image is left then.
pub(super) fn make(image: &Path, format: Format, with: &[PathBuf], mounted: &Path) -> Result<()> {
    if image.exists() {
        return Ok(());
    }
    eprintln!("lab: making {}", image.display());
    if let Some(parent) = image.parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    let part = image.with_extension("part");
    let made = match format {
        Format::Ext4 => fill(&part, &["mkfs.ext4", "-q", "-F"], with, mounted),
        Format::Xfs => fill(&part, &["mkfs.xfs", "-q"], with, mounted),
        Format::Btrfs => fill(&part, &["mkfs.btrfs", "-q"], with, mounted),
        Format::Squashfs => {
            let tool = ["mksquashfs", "FOLDER", "FILE", "-comp", "zstd", "-quiet", "-no-progress"];
            pack(&part, &tool, with, mounted)
        }
        Format::Erofs => pack(&part, &["mkfs.erofs", "-zlz4hc", "FILE", "FOLDER"], with, mounted),
    };
    if made.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&part);
    }
    made?;
    fs::rename(&part, image).with_context(|| image.display().to_string())
}

/// Makes a file system that is written to, and copies the directories.
fn fill(part: &Path, tool: &[&str], with: &[PathBuf], mounted: &Path) -> Result<()> {
    let file = File::create(part).with_context(|| part.display().to_string())?;
    // The file is sparse. Tables and the ends of blocks take some space too.
    let bytes = size(with)?;
    file.set_len(bytes + bytes / 3 + (256 << 20))?;
    drop(file);
    let args: Vec<_> = tool[1..].iter().map(OsStr::new).chain([part.as_os_str()]).collect();
    run_tool(tool[0], &args)?;
    let options = ["-o".as_ref(), "loop".as_ref(), part.as_os_str(), mounted.as_os_str()];
    run_tool("mount", &options)?;
    // GNU cp 9.1 looks for the parents below the current directory.
    let mut args =
        ["-C", "/", "cp", "-a", "-x", "--parents", "--reflink=auto"].map(str::as_ref).to_vec();
    args.extend(with.iter().map(|dir| dir.as_os_str()));
    args.push(mounted.as_os_str());
    let copied = run_tool("env", &args);
    let unmounted = unmount(mounted);
    copied.map(drop)?;
    unmounted
}

/// Makes an image of a folder in which the directories are mounted. `FOLDER` and `FILE` are the
/// tool's arguments for the two.
fn pack(part: &Path, tool: &[&str], with: &[PathBuf], folder: &Path) -> Result<()> {
    let mut covered = Vec::new();
    let bound = with.iter().try_for_each(|dir| {
        let to = inside(folder, dir);
        fs::create_dir_all(&to).with_context(|| to.display().to_string())?;
        bind(dir, &to)?;
        covered.push(to);
        Ok(())
    });
    let args: Vec<_> = tool[1..]
        .iter()
        .map(|word| match *word {
            "FOLDER" => folder.as_os_str(),
            "FILE" => part.as_os_str(),
            word => word.as_ref(),
        })
        .collect();
    let packed = bound.and_then(|()| run_tool(tool[0], &args).map(drop));
    covered.iter().rev().try_for_each(|dir| unmount(dir))?;
    packed
}

/// Returns the bytes that the directories take on disk.
fn size(with: &[PathBuf]) -> Result<u64> {
    let mut args = ["-s", "-x", "-c", "--block-size=1"].map(str::as_ref).to_vec();
    args.extend(with.iter().map(|dir| dir.as_os_str()));
    let printed = run_tool("du", &args)?;
    let total = printed.lines().last().and_then(|line| line.split_ascii_whitespace().next());
    total.and_then(|bytes| bytes.parse().ok()).context("du printed no size")
}

/// Checks that the mounted image has all directories.
///
/// # Errors
/// Returns an error with the first directory that it lacks.
pub(super) fn check(image: &Path, with: &[PathBuf], mounted: &Path) -> Result<()> {
    for dir in with {
        if !inside(mounted, dir).is_dir() {
            let (image, dir) = (image.display(), dir.display());
            bail!("{image} has no {dir}: remove the image, or name another one by --image");
        }
    }
    Ok(())
}

/// Returns the path of the copy of a directory in the mounted image.
pub(super) fn inside(mounted: &Path, dir: &Path) -> PathBuf {
    mounted.join(dir.strip_prefix("/").unwrap_or(dir))
}
