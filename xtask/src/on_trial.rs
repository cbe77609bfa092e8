//! Starts programs plainly and switched on by `becalm on`, as the user `nobody`, and compares output,
//! exit code and the environment of their children. `becalm off` then leaves the home as it was.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use bstr::ByteSlice;
use tempfile::TempDir;

use crate::command::succeed;
use crate::trace_differential::choose;
use crate::trace_differential::run::{Ran, copy_into, open_folder, start};
use crate::trace_differential::tried::{self, NO_END, Tried};
use crate::user::{NOBODY, is_root};
use crate::walk::walk;

/// Lines that start a program which prints the environment of its children, or its own.
const CHILDREN: [&[&str]; 9] = [
    &["env"],
    &["dash", "-c", "env"],
    &["bash", "-c", "unset _; /usr/bin/env"],
    &["perl", "-e", "system 'env'"],
    &["find", ".", "-maxdepth", "0", "-exec", "env", ";"],
    &["xargs", "env"],
    &["nice", "env"],
    &["timeout", "9", "env"],
    &["git", "-c", "alias.x=!env", "x"],
];

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The becalm under trial.
    #[arg(long, value_name = "FILE")]
    becalm: PathBuf,
    /// Number of programs of /usr/bin.
    #[arg(long, value_name = "N", default_value_t = 300)]
    programs: usize,
    /// Seed of the sample.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Runs the trial. Returns false if a start differs, or if something is left after `off`.
///
/// # Errors
/// Returns an error if the trial cannot be set up.
pub fn run(options: &Options) -> Result<bool> {
    ensure!(is_root(), "only root can start programs as nobody");
    let scene = Scene::new(&options.becalm)?;
    let before = scene.files()?;
    let trials = choose::trials(&[], options.programs, options.seed)?;
    let mut lines: Vec<Vec<&str>> = CHILDREN.iter().map(|line| line.to_vec()).collect();
    for trial in &trials {
        let name = trial.program.file_name().and_then(|name| name.to_str());
        lines.extend(name.map(|name| vec![name, trial.argument]));
    }
    let on = scene.switch_on(lines.iter().map(|line| line[0]).collect())?;
    let try_line = |line: &Vec<&str>| {
        let is_on = on.contains(line[0]);
        let tried = if is_on { scene.compare(line) } else { Ok(("not switched on", None)) };
        ("system".to_owned(), line.join(" "), tried)
    };
    let (counts, is_clean) = tried::print(lines.iter().map(try_line));
    let same = counts.get("same");
    ensure!(same > options.programs, "few starts could be compared: {same}");
    succeed(&mut scene.becalm(&["off"]))?;
    ensure!(scene.files()? == before, "files are left in {}", scene.home.display());
    println!("off left nothing");
    Ok(is_clean)
}

/// A copy of the becalm under trial, and a home of the user nobody.
struct Scene {
    becalm: PathBuf,
    home: PathBuf,
    links: String,
    // Owns the directory of both.
    _dir: TempDir,
}

impl Scene {
    fn new(becalm: &Path) -> Result<Self> {
        let dir = open_folder()?;
        let (copy, home) = (copy_into(dir.path(), becalm)?, dir.path().join("home"));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        fs::create_dir(&home)?;
        chown(&home, Some(NOBODY), Some(NOBODY))?;
        let links = home.join(".local/state/becalm/on/bin").to_string_lossy().into_owned();
        Ok(Self { becalm: copy, home, links, _dir: dir })
    }

    fn becalm(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.becalm);
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.home);
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    /// Switches programs on; those that are refused by name are left out.
    fn switch_on<'a>(&self, names: BTreeSet<&'a str>) -> Result<BTreeSet<&'a str>> {
        let is_taken = |name: &&str| {
            let tried = self.becalm(&["on", "--dry-run", name]).output();
            tried.is_ok_and(|output| output.status.success())
        };
        let taken: BTreeSet<&str> = names.iter().copied().filter(is_taken).collect();
        succeed(self.becalm(&["on"]).args(&taken))?;
        println!("{} of {} programs switched on", taken.len(), names.len());
        Ok(taken)
    }

    /// Compares a line whose program is switched on with one that has the program's path: it gets
    /// that path too.
    fn compare(&self, line: &[&str]) -> Result<Tried> {
        let path = format!("/usr/bin/{}", line[0]);
        let by_path = [&[&*path], &line[1..]].concat();
        let plain = || self.start("/none/before", &by_path);
        let Some(first) = plain()? else { return Ok(NO_END) };
        let on = self.start(&self.links, line)?;
        if on.as_ref() == Some(&first) {
            return Ok(("same", None));
        }
        let text =
            |ran: &Ran| format!("{} {}{}", ran.code, ran.stdout.as_bstr(), ran.stderr.as_bstr());
        let on = on.as_ref().map_or("no end".to_owned(), text);
        // oshmem_info prints one of two texts, by chance.
        tried::differs(&first, 12, plain, || format!("{on}\nplain: {}", text(&first)))
    }

    /// Starts a line with a folder before the others in `PATH`, which the output names `BEFORE`.
    fn start(&self, before: &str, line: &[&str]) -> Result<Option<Ran>> {
        let path = format!("PATH={before}:/usr/bin:/bin");
        let mut ran = start(&[&["/usr/bin/env", &path], line].concat())?;
        for bytes in ran.iter_mut().flat_map(|ran| [&mut ran.stdout, &mut ran.stderr]) {
            *bytes = bytes.replace(before, "BEFORE");
        }
        Ok(ran)
    }

    /// Returns everything below the home, with its contents.
    fn files(&self) -> Result<Vec<(PathBuf, Option<Vec<u8>>)>> {
        let found = walk(&self.home)?.into_iter();
        Ok(found.map(|(path, _)| (path.clone(), fs::read(&path).ok())).collect())
    }
}
