//! `cargo xtask paths-trial`: makes millions of lookups of paths of a store. Each is made by a
//! function of the C library in a program with an index, and by a system call. Meanwhile packages
//! are added, removed, replaced by a repaired one or by a link, and mounted over. An answer that
//! differs from the kernel's for more than two seconds is wrong (docs/paths.md).
//!
//! After each round the index is brought up to date and compared with the files. With `--machine` the
//! program and the module are those of another machine, under an emulator.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::audit_trial::make;
use crate::command::succeed;
use crate::root;
use crate::user::is_root;

/// Set in the process that has a mount namespace of its own.
const INSIDE: &str = "BECALM_PATHS_TRIAL_INSIDE";
/// Packages of the store at first.
const PACKAGES: usize = 60;
/// Packages of a round that are changed, each once.
const CHANGED: usize = 40;

/// Paths of each package that are looked up, besides the package itself and its modules.
const LISTED: &str = "\
    /bin /lib /lib/python/pkg /lib/python/pkg/sub /python/pkg/m3.py /share/other/data \
    /share/other/data/d /share/other/no /twice/pkg /dangling /file /new /new/deep /lib/new.py \
    /lib/empty";

/// Options of the trial.
#[derive(Args)]
pub struct Options {
    /// The becalm to try, as scripts/build prints it
    #[arg(long)]
    becalm: PathBuf,
    /// Number of questions of all rounds
    #[arg(long, default_value_t = 10_000_000)]
    questions: u64,
    /// Number of threads that ask
    #[arg(long, default_value_t = 8)]
    threads: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 8)]
    rounds: u64,
    /// Seed of the questions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The machine: this one's, or aarch64 under an emulator, with its cross compiler and C library
    /// (Debian: gcc-aarch64-linux-gnu)
    #[arg(long, default_value = std::env::consts::ARCH)]
    machine: String,
    /// The emulator, instead of qemu-user's. One without a vDSO (QEMU before 8.2) gets a module that
    /// takes its time from the kernel.
    #[arg(long)]
    emulator: Option<PathBuf>,
}

/// The counts that the program prints: paths that were asked for, that are absent, late answers, wrong ones.
type Counts = [u64; 4];

/// Runs the trial. As root it gives itself a mount namespace, to mount over packages.
///
/// # Errors
/// Returns an error if becalm, the compiler or a mount fails.
pub fn run(options: &Options) -> Result<bool> {
    if is_root() && std::env::var_os(INSIDE).is_none() {
        let mut inside = Command::new("unshare");
        inside.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe()?);
        inside.args(std::env::args_os().skip(1)).env(INSIDE, "1");
        bail!("unshare: {}", inside.exec());
    }
    let becalm = options.becalm.canonicalize().context("--becalm")?;
    let scratch = tempfile::Builder::new().prefix("paths-trial").tempdir()?;
    let folder = scratch.path().canonicalize()?;
    let foreign = Foreign::of(options, &folder)?;
    let trial = Trial { becalm, folder, foreign };
    let mut all = Counts::default();
    trial.prepare()?;
    for round in 0..options.rounds {
        let counts = trial.round(options, round)?;
        let [asked, absent, late, wrong] = counts;
        println!(
            "round {round}: {asked} questions, {absent} absent, {late} answered late, {wrong} wrong"
        );
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    let [asked, absent, late, wrong] = all;
    println!("{asked} questions, {absent} absent, {late} late, {wrong} wrong");
    Ok(wrong == 0)
}

struct Trial {
    becalm: PathBuf,
    folder: PathBuf,
    foreign: Option<Foreign>,
}

/// Another machine.
struct Foreign {
    name: String,
    emulator: PathBuf,
    module: PathBuf,
}

impl Foreign {
    /// The machine of the options; `None` for this one.
    fn of(options: &Options, folder: &Path) -> Result<Option<Self>> {
        let name = options.machine.clone();
        if name == std::env::consts::ARCH {
            return Ok(None);
        }
        let emulator = options.emulator.clone().map_or_else(|| root::emulator(&name), Ok)?;
        let compiler = format!("{} -DCLOCK_BY_CALL", make::compiler(&name));
        let module = make::module(&compiler, folder)?;
        Ok(Some(Self { name, emulator, module }))
    }

    /// The arguments by which a program of the machine starts here, with the libraries of the cross
    /// compiler.
    fn linked(&self) -> [String; 2] {
        let lib = format!("/usr/{}-linux-gnu/lib", self.name);
        let loader = format!("-Wl,--dynamic-linker={lib}/ld-linux-{}.so.1", self.name);
        [loader, format!("-Wl,-rpath,{lib}")]
    }
}

impl Trial {
    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    fn package(&self, number: usize) -> PathBuf {
        self.store().join(format!("{number:08}abcdfghijklmnpqrsvwxyz01-p{number}"))
    }

    /// Makes the program, the store, and the first index.
    fn prepare(&self) -> Result<()> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/audit/module/tests/paths.c");
        let machine = self.foreign.as_ref().map_or(std::env::consts::ARCH, |it| &it.name);
        let mut cc = Command::new(make::compiler(machine));
        cc.args(["-O1", "-pthread", "-o"]).arg(self.folder.join("ask")).arg(source);
        succeed(cc.args(self.foreign.iter().flat_map(Foreign::linked)))?;
        for number in 0..PACKAGES {
            self.make(&self.package(number), number)?;
        }
        settle();
        self.index(&["--paths", "--program", &self.text("ask"), &self.text("store")])
    }

    fn text(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn index(&self, arguments: &[&str]) -> Result<()> {
        let mut index = Command::new(&self.becalm);
        index.arg("index").args(arguments).args(["-o", &self.text("index.so")]);
        if let Some(foreign) = &self.foreign {
            index.arg("--module").arg(&foreign.module);
        }
        succeed(&mut index)
    }

    /// A package of some hundred paths, with links to itself, to another, and to nowhere.
    fn make(&self, at: &Path, number: usize) -> Result<()> {
        for dir in ["bin", "lib/python/pkg/sub", "share/data", "lib/empty"] {
            fs::create_dir_all(at.join(dir))?;
        }
        for file in 0..150 + number % 7 * 60 {
            fs::write(at.join(format!("lib/python/pkg/m{file}.py")), "")?;
        }
        fs::write(at.join("share/data/d"), "data")?;
        let other = self.package((number + 1) % PACKAGES);
        symlink("lib/python", at.join("python"))?;
        symlink(other.join("share"), at.join("share/other"))?;
        symlink("python", at.join("twice"))?;
        symlink("nowhere", at.join("dangling"))?;
        symlink("lib/python/pkg/m1.py", at.join("file"))?;
        Ok(())
    }

    /// Writes the list of paths to look up. Some of them do not exist yet, or never do.
    fn list(&self) -> Result<()> {
        let mut list = String::new();
        for number in 0..PACKAGES + CHANGED {
            let package = self.package(number);
            let name = package.file_name().unwrap_or_default().to_string_lossy();
            for path in LISTED.split_whitespace().chain([""]) {
                list.push_str(&format!("{name}{path}\n"));
            }
            for file in 0..20 {
                list.push_str(&format!("{name}/lib/python/pkg/m{}.py\n", file * 13));
            }
        }
        Ok(fs::write(self.folder.join("list"), list)?)
    }

    fn round(&self, options: &Options, round: u64) -> Result<Counts> {
        self.list()?;
        let mut child = self.start(options, round)?;
        let mut mounted = Vec::new();
        for change in 0..CHANGED {
            if child.try_wait()?.is_some() {
                break;
            }
            mounted.extend(self.change(round as usize * CHANGED + change)?);
            std::thread::sleep(Duration::from_millis(100));
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter(|line| line.starts_with("differs")).for_each(|line| println!("{line}"));
        for path in mounted {
            succeed(Command::new("umount").arg(path))?;
        }
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        ensure!(log.contains("\tpaths\t0\tserved\t"), "the program was not served: {log}");
        self.restore()?;
        counts(&text).with_context(|| format!("the program said {text:?}"))
    }

    fn start(&self, options: &Options, round: u64) -> Result<Child> {
        let log = self.folder.join("log");
        let _ = fs::remove_file(&log);
        let questions = options.questions / options.rounds.max(1);
        let switches = format!("log:{}", log.display());
        let mut run = match &self.foreign {
            None => {
                let mut run = Command::new(&self.becalm);
                run.args(["run", "--strict", "--paths", "--index", &self.text("index.so"), "--"]);
                run.env("BECALM", switches);
                run
            }
            Some(foreign) => {
                let mut run = Command::new(&foreign.emulator);
                run.env("LD_AUDIT", self.text("index.so"));
                run.env("BECALM", format!("paths,{switches}"));
                run
            }
        };
        run.args([self.text("ask"), self.text("store"), self.text("list")]);
        run.args([options.threads as u64, questions, options.seed + round].map(|n| n.to_string()));
        run.stdout(Stdio::piped()).spawn().context("becalm run")
    }

    /// Changes one package. Returns the mount point, if something was mounted.
    fn change(&self, number: usize) -> Result<Option<PathBuf>> {
        let package = self.package(number % CHANGED);
        let aside = self.folder.join(format!("aside-{number}"));
        let new = self.folder.join(format!("new-{number}"));
        match number % 7 {
            // A package is added.
            0 | 4 => {
                self.make(&new, number)?;
                fs::rename(&new, self.package(PACKAGES + number % CHANGED))?;
            }
            // A package is removed.
            1 => fs::rename(&package, &aside)?,
            // A package is repaired: another directory with more in it.
            2 => {
                self.make(&new, number)?;
                fs::create_dir_all(new.join("new/deep"))?;
                fs::write(new.join("lib/new.py"), "")?;
                fs::rename(&package, &aside)?;
                fs::rename(&new, &package)?;
            }
            // A package becomes a link to another one.
            3 => {
                fs::rename(&package, &aside)?;
                symlink(self.package(PACKAGES - 1), &package)?;
            }
            // Something is mounted over a package, or in it.
            kind if is_root() => {
                self.make(&new, number)?;
                fs::create_dir_all(new.join("new/deep"))?;
                let place = if kind == 5 { package } else { package.join("lib/empty") };
                fs::write(new.join("no"), "")?;
                succeed(Command::new("mount").arg("--bind").args([&new, &place]))?;
                return Ok(Some(place));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Restores every changed package, and the index.
    fn restore(&self) -> Result<()> {
        for number in 0..PACKAGES + CHANGED {
            let package = self.package(number);
            if package.is_symlink() {
                fs::remove_file(&package)?;
            } else if package.exists() && number >= PACKAGES {
                fs::remove_dir_all(&package)?;
            }
            if number < PACKAGES && !package.exists() {
                self.make(&package, number)?;
            }
        }
        settle();
        self.index(&["--update"])?;
        succeed(Command::new(&self.becalm).arg("verify").arg(self.text("index.so")))
    }
}

/// Waits until all files are older than the clock's grain, because younger ones are not trusted.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}

/// Parses `asked N absent N late N wrong N`.
fn counts(text: &str) -> Option<Counts> {
    let line = text.lines().find(|line| line.starts_with("asked "))?;
    let numbers = line.split(' ').skip(1).step_by(2).map(|number| number.parse().ok());
    numbers.collect::<Option<Vec<u64>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_line_is_read() {
        let line = "differs: x\nasked 10 absent 4 late 1 wrong 0\n";
        assert_eq!(counts(line), Some([10, 4, 1, 0]));
        assert_eq!(counts("asked 10"), None);
    }
}
