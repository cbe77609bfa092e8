//! The image: an ext4 file system with copies of directories.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{run_tool, unmount};

/// Makes the image, or checks that an earlier one has the directories.
///
/// `mounted` is an empty directory, on which a new image is mounted for a while.
///
/// # Errors
/// Returns an error if the disk is full or a tool fails; no part of an image is left then.
pub(super) fn make(image: &Path, with: &[PathBuf], mounted: &Path) -> Result<()> {
    if image.exists() {
        return Ok(());
    }
    eprintln!("lab: making {}", image.display());
    if let Some(parent) = image.parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    let part = image.with_extension("part");
    let made = fill(&part, with, mounted);
    if made.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&part);
    }
    made?;
    fs::rename(&part, image).with_context(|| image.display().to_string())
}

fn fill(part: &Path, with: &[PathBuf], mounted: &Path) -> Result<()> {
    let file = File::create(part).with_context(|| part.display().to_string())?;
    // The file is sparse. The tables of ext4 and the ends of blocks take some space too.
    let bytes = size(with)?;
    file.set_len(bytes + bytes / 3 + (256 << 20))?;
    drop(file);
    run_tool("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), part.as_os_str()])?;
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
