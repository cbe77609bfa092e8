//! `lab slowdisk`: a command with /usr on a disk each of whose reads takes a latency.
//!
//! `lab slowfs` shows the file of an image of /usr, each of whose reads waits. A loop device with direct I/O
//! turns it into a disk. The file system on it is mounted in the mount namespace of the command, and covers
//! /usr there. The server of the view runs from the ordinary disk, so it can serve after its pages were
//! dropped.
//!
//! The loop device detaches itself after the last use, and the mounts end with the namespace.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child;

/// Makes the image $2 of format $1, in a mount namespace of its own. $3 is an empty directory.
const MAKE: &str = r#"
trap 'rm -f "$2.part"' EXIT
case $1 in
  ext4)
    # The file is sparse. Tables and the ends of blocks take some space too.
    bytes=$(du -s -x --block-size=1 /usr | cut -f1)
    truncate -s $((bytes + bytes / 3 + (256 << 20))) "$2.part"
    mkfs.ext4 -q -F "$2.part"
    mount -o loop "$2.part" "$3"
    cp -a -x --reflink=auto /usr "$3"
    umount "$3" ;;
  *)
    mkdir -p "$3/usr"
    mount --bind /usr "$3/usr"
    case $1 in
      squashfs) mksquashfs "$3" "$2.part" -comp zstd -quiet -no-progress ;;
      erofs) mkfs.erofs -zlz4hc "$2.part" "$3" ;;
    esac ;;
esac
mv "$2.part" "$2"
"#;

/// Runs a command with the disk: $1 is its format, $2 the file, $3 an empty directory.
const RUN: &str = r#"
format=$1 file=$2 above=$3
shift 3
device=$(losetup --direct-io=on --read-only -f --show "$file")
trap 'losetup -d "$device"' EXIT
# The kernel's read-ahead, in KiB.
echo 128 >"/sys/block/${device##*/}/queue/read_ahead_kb"
mount -t "$format" -o ro "$device" "$above"
# A device in use is detached after its last use.
trap - EXIT
losetup -d "$device"
mount --bind "$above/usr" /usr
exec "$@"
"#;

/// Options of the disk.
#[derive(Args)]
pub(crate) struct SlowDisk {
    /// Latency of each read, in microseconds
    #[arg(long, default_value_t = 1000)]
    delay_us: u64,
    /// The file system on the disk; squashfs is compressed with zstd, erofs with LZ4
    #[arg(long, value_parser = ["ext4", "squashfs", "erofs"], default_value = "ext4")]
    format: String,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Makes the image, if there is none, and becomes the command.
///
/// # Errors
/// Returns an error if this is not root, or the image cannot be made.
pub(crate) fn run(args: &SlowDisk) -> Result<ExitCode> {
    if !nix::unistd::geteuid().is_root() {
        bail!("a slow disk needs root");
    }
    let format = &args.format;
    let folder = Path::new("target/lab/slowdisk");
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let image = folder.join(format);
    let disk = folder.join("mount");
    let (below, above) = (disk.join("disk"), disk.join("files"));
    fs::create_dir_all(&below)?;
    fs::create_dir_all(&above)?;
    if !image.exists() {
        eprintln!("lab: making {}", image.display());
        let mut make = Command::new("unshare");
        make.args(["--mount", "sh", "-euc", MAKE, "sh", format]).args([&image, &above]);
        child::whole(&mut make).context("no image")?;
    }
    let mut slow = Command::new(std::env::current_exe()?);
    slow.args(["slowfs", "--delay-us", "0", "--read-delay-us", &args.delay_us.to_string()]);
    slow.args([&folder, &below]).args(["--", "sh", "-euc", RUN, "sh", format]);
    Err(slow.args([&below.join(format), &above]).args(&args.command).exec().into())
}
