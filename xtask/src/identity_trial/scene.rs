//! The tree, its images and its mounts.

use std::cell::RefCell;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bstr::ByteSlice;
use tempfile::TempDir;

use super::text;
use crate::command::{is_done_within, output, succeed};

/// The package with the library.
pub(super) const FLAT: &str = "store/0123456789abcdfghijklmnpqrsvwxyz-x";
/// The package that is searched before it.
pub(super) const OTHER: &str = "store/0123456789abcdfghijklmnpqrsvwxyy-o";
/// The package of the program.
const PROGRAM: &str = "store/0123456789abcdfghijklmnpqrsvwxyx-p";

/// The result of `x`; the function is elsewhere if `SHIFTED` is defined.
const LIBRARY: &str = "#ifdef SHIFTED
    int before(int n) { return n * n + 7; } int other = 5; int *moved = &other;
    #endif
    int x(void) { return VALUE; } int own = 3; int *pointer = &own;";
/// Prints what the library returns, or whether a file exists.
const SOURCE: &str = "#include <stdio.h>
    #include <sys/stat.h>
    int x(void); extern int own, *pointer;
    int main(int n, char **a) { struct stat s;
      if (n > 1) printf(\"%d\\n\", stat(a[1], &s) == 0);
      else printf(\"%d\\n\", x() + (*pointer != own)); }";

/// Makes an image $2 of the kind $1 of the tree $3. $4 is an empty directory.
const IMAGE: &str = r#"
case $1 in
  ext4) mke2fs -q -t ext4 -O filetype -d "$3" "$2" 32M ;;
  # Its directories do not have the types of files.
  ext4-without-types) mke2fs -q -t ext4 -O ^filetype -d "$3" "$2" 32M ;;
  squashfs) mksquashfs "$3" "$2" -all-time 0 -mkfs-time 0 -noappend ;;
  erofs) mkfs.erofs -T0 -U 11111111-2222-3333-4444-555555555555 "$2" "$3" ;;
  xfs) truncate -s 320M "$2"; mkfs.xfs -q "$2"; mount -o loop "$2" "$4"; cp -a "$3/." "$4"; umount "$4" ;;
esac"#;

/// A folder with a mount point, in which everything is unmounted in the end.
pub(super) struct Scene {
    dir: TempDir,
    becalm: PathBuf,
    lab: PathBuf,
    mounts: RefCell<Vec<PathBuf>>,
    devices: RefCell<Vec<String>>,
}

/// A FUSE file system that is served until this is dropped.
pub(super) struct Fuse<'a>(Child, &'a Scene);

impl Drop for Fuse<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &text(&self.1.at("mount"))]).status();
        let _ = self.0.wait();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for mount in self.mounts.take().iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(mount).status();
        }
        for device in self.devices.take() {
            let _ = Command::new("losetup").args(["-d", &device]).stderr(Stdio::null()).status();
        }
    }
}

impl Scene {
    pub(super) fn new(becalm: &Path, lab: &Path) -> Result<Self> {
        // Below the target folder: a file system that is known to change times. The scene's own parent
        // is not below a store.
        let dir = tempfile::Builder::new().prefix("identity-").tempdir_in("/var/tmp")?;
        let (becalm, lab) = (becalm.canonicalize()?, lab.canonicalize()?);
        for folder in ["mount", "staging", "home"] {
            fs::create_dir(dir.path().join(folder))?;
        }
        let (mounts, devices) = (RefCell::default(), RefCell::default());
        Ok(Self { dir, becalm, lab, mounts, devices })
    }

    /// Returns the path of something in the folder: the `mount` point, or the `staging` tree.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn store(&self) -> String {
        text(&self.at("mount").join("store"))
    }

    pub(super) fn program(&self) -> String {
        text(&self.at("mount").join(PROGRAM).join("bin/p"))
    }

    pub(super) fn library(&self) -> String {
        text(&self.at("mount").join(FLAT).join("lib/libx.so"))
    }

    /// Makes the tree below `at`, with run paths below the mount point.
    pub(super) fn tree(&self, at: &Path, arguments: &[&str]) -> Result<()> {
        let packages = [FLAT, OTHER].map(|package| package.to_owned() + "/lib");
        let folders = packages.iter().map(String::as_str).chain(["dirs"]);
        for folder in folders {
            fs::create_dir_all(at.join(folder))?;
        }
        let library = at.join(FLAT).join("lib/libx.so");
        self.make_library(&library, 1, arguments)?;
        // Another name of the same length as that of the library.
        fs::write(at.join(OTHER).join("lib/libz.so"), "")?;
        let [own, before] = [FLAT, OTHER].map(|package| self.at("mount").join(package));
        let rpath = format!("-Wl,-rpath,{}/lib:{}/lib", text(&before), text(&own));
        let program = at.join(PROGRAM).join("bin/p");
        fs::create_dir_all(program.parent().context("a folder")?)?;
        let source = self.at("program.c");
        fs::write(&source, SOURCE)?;
        let mut cc = Command::new("cc");
        cc.args(["-w", "-o"]).args([&program, &source, &library]).arg(rpath).args(arguments);
        succeed(&mut cc)
    }

    pub(super) fn make_library(&self, at: &Path, value: i32, arguments: &[&str]) -> Result<()> {
        let source = self.at("library.c");
        fs::write(&source, LIBRARY)?;
        let mut cc = Command::new("cc");
        cc.args(["-w", "-shared", "-fPIC", "-Wl,-soname,libx.so", "-o"]).args([at, &source]);
        succeed(cc.arg(format!("-DVALUE={value}")).args(arguments))
    }

    /// Makes an image of the staged tree.
    pub(super) fn image(&self, kind: &str, name: &str) -> Result<PathBuf> {
        let image = self.at(name);
        let mut shell = Command::new("sh");
        shell.args(["-euc", IMAGE, "sh", kind]).args([
            &image,
            &self.at("staging"),
            &self.at("mount"),
        ]);
        succeed(&mut shell)?;
        Ok(image)
    }

    /// Attaches an image to a loop device, which is a free one if none is given, and mounts it.
    pub(super) fn attach(&self, image: &Path, device: Option<&str>) -> Result<String> {
        let device = match device {
            Some(device) => {
                succeed(Command::new("losetup").arg(device).arg(image))?;
                device.to_owned()
            }
            None => {
                let free = output(Command::new("losetup").args(["-f", "--show"]).arg(image))?;
                free.stdout.trim_ascii().to_str_lossy().into_owned()
            }
        };
        self.devices.borrow_mut().push(device.clone());
        self.mount(&[&device, &text(&self.at("mount"))])?;
        Ok(device)
    }

    /// Attaches it to a free one while `first` stays in use by another file.
    pub(super) fn attach_to_another(&self, image: &Path, first: &str) -> Result<String> {
        let other = self.at("other");
        fs::write(&other, vec![0; 1 << 20])?;
        // A device that was detached is free after its last use, which may be that of another process.
        let mut attach = Command::new("losetup");
        attach.args([first, &text(&other)]).stderr(Stdio::null());
        let attach = RefCell::new(attach);
        let is_attached = || attach.borrow_mut().status().is_ok_and(|status| status.success());
        ensure!(is_done_within(Duration::from_secs(10), is_attached), "{first} stays in use");
        self.devices.borrow_mut().push(first.to_owned());
        self.attach(image, None)
    }

    /// Unmounts the image and frees its device.
    pub(super) fn detach(&self) -> Result<()> {
        let mount = self.mounts.borrow_mut().pop().context("a mount")?;
        succeed(Command::new("umount").arg(mount))?;
        let device = self.devices.borrow_mut().pop().context("a device")?;
        succeed(Command::new("losetup").args(["-d", &device]))
    }

    pub(super) fn mount(&self, arguments: &[&str]) -> Result<()> {
        succeed(Command::new("mount").args(arguments))?;
        let at = arguments.last().context("a mount point")?;
        self.mounts.borrow_mut().push(at.into());
        Ok(())
    }

    /// Shows the staged tree at the mount point, with directories whose times never change.
    pub(super) fn fuse(&self) -> Result<Fuse<'_>> {
        let mut command = Command::new(&self.lab);
        command.args(["slowfs", "--delay-us", "0", "--forgetful", "--still-times"]);
        let child = command.args([self.at("staging"), self.at("mount")]).spawn()?;
        let fuse = Fuse(child, self);
        let is_there = || Path::new(&self.program()).exists();
        let in_time = is_done_within(Duration::from_secs(20), is_there);
        ensure!(in_time, "the FUSE file system is not there");
        Ok(fuse)
    }

    /// Makes an index; returns what becalm says.
    pub(super) fn index(&self, arguments: &[&str]) -> Result<String> {
        let _ = fs::remove_file(self.at("index.so"));
        // Older than the grain of the clock, because newer files are not trusted.
        sleep(Duration::from_millis(2200));
        self.becalm(arguments)
    }

    pub(super) fn update(&self, arguments: &[&str]) -> Result<String> {
        self.becalm(&[arguments, &["--update"]].concat())
    }

    fn becalm(&self, arguments: &[&str]) -> Result<String> {
        let index = self.at("index.so");
        let mut becalm = Command::new(&self.becalm);
        becalm.env("HOME", self.at("home")).arg("index").args(arguments);
        let said = output(becalm.args(["--bind-threshold", "0,0", "-o"]).arg(index))?;
        Ok([said.stdout, said.stderr].concat().to_str_lossy().into_owned())
    }

    /// Starts the program with the index; returns its number and the module's log.
    fn start(&self, arguments: &[&Path]) -> Result<(i32, String)> {
        let log = self.at("log");
        let _ = fs::remove_file(&log);
        let mut program = Command::new(self.program());
        program.args(arguments).env("LD_AUDIT", self.at("index.so"));
        let number = number_of(program.env("BECALM", format!("paths,log:{}", text(&log))))?;
        Ok((number, fs::read_to_string(log).unwrap_or_default()))
    }

    /// Checks that a start with the index does what a plain one does.
    pub(super) fn expect(&self, wanted: i32) -> Result<()> {
        let plain = number_of(&mut Command::new(self.program()))?;
        ensure!(plain == wanted, "a plain start prints {plain} for {wanted}");
        let (number, log) = self.start(&[])?;
        ensure!(number == wanted, "a start with the index prints {number} for {wanted}\n{log}");
        Ok(())
    }

    /// Checks that it is also answered and bound.
    pub(super) fn expect_answered(&self, wanted: i32) -> Result<()> {
        self.expect(wanted)?;
        let (_, log) = self.start(&[])?;
        let is_answered =
            log.lines().any(|line| line.contains("\tsearch\t") && line.ends_with("/libx.so"));
        ensure!(is_answered, "libx.so is not answered\n{log}");
        ensure!(log.contains("\tbindings\t0\tapplied"), "the program is not bound\n{log}");
        Ok(())
    }

    /// Checks what a start says of a file.
    pub(super) fn expect_file(&self, path: &Path, is_there: bool) -> Result<()> {
        let (number, log) = self.start(&[path])?;
        ensure!(path.exists() == is_there, "the file");
        ensure!((number == 1) == is_there, "a start says {number} of {}\n{log}", path.display());
        Ok(())
    }

    /// Returns the number of lookups of a path in a start with the index, by strace.
    pub(super) fn lookups(&self, path: &Path) -> Result<usize> {
        let index = format!("LD_AUDIT={}", text(&self.at("index.so")));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", "trace=%file", "-E", &index, "-E", "BECALM=paths"]);
        let output = strace.arg(self.program()).arg(path).output()?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let wanted = format!("\"{}\"", text(path));
        // The path is also an argument of the program.
        let lines = log.lines().filter(|line| !line.starts_with("execve"));
        Ok(lines.filter(|line| line.contains(&wanted)).count())
    }

    /// Starts the program by `becalm run`, after its index was made; returns its number.
    pub(super) fn run(&self) -> Result<i32> {
        let mut becalm = Command::new(&self.becalm);
        becalm.args(["run", "--strict", "--"]).arg(self.program());
        number_of(becalm.env("HOME", self.at("home")).env_remove("XDG_CACHE_HOME"))
    }
}

fn number_of(command: &mut Command) -> Result<i32> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if let Some(signal) = output.status.signal() {
        bail!("{command:?} died of signal {signal}");
    }
    said.parse()
        .with_context(|| format!("{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr)))
}
