//! A store built for the trials and restored for each strategy, and starts of its programs.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::record::audit_log::{self, Bindings};
use bstr::ByteSlice;

use crate::child;
use crate::compare::apply::{GRAIN, last_line, plain};
use crate::compare::tree::copy_tree;
use crate::compare::trials::sources::{OBJECTS, OUTSIDE, Object, SHOW};
use crate::stored::entries;
use crate::words::naming;
use becalm_lib::relocations;
use becalm_lib::words::words_of_chain;

/// The owner of the set-id program: the user `nobody`.
const NOBODY: u32 = 65_534;

/// A store for trials.
#[derive(Debug)]
pub(super) struct Lab {
    /// The directory for all files outside the store.
    place: PathBuf,
    /// The store, by the path that the programs use.
    pub(super) store: PathBuf,
    /// The last hwcaps subdirectory that this machine's loader searches.
    pub(super) hwcap: Option<String>,
    /// The interpreter of the programs; `None` for the compiler's default.
    loader: Option<PathBuf>,
}

/// Results of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    /// The number that the program printed; -1 if it printed none.
    pub value: i64,
    /// True if the program ran in secure-execution mode.
    pub secure: bool,
    /// The files of its objects.
    pub objects: Vec<String>,
    /// Paths that the loader tried, in order (`LD_DEBUG=libs`).
    pub tried: Vec<String>,
    /// Relocations with a symbol whose result came from an index.
    pub bound: u32,
    /// All relocations with a symbol, if some came from an index.
    pub symbols: u32,
}

impl Ran {
    /// Returns the number of tried paths with this file name.
    pub(super) fn tries(&self, soname: &str) -> i64 {
        let is_it = |path: &&String| path.ends_with(&format!("/{soname}"));
        self.tried.iter().filter(is_it).count() as i64
    }
}

impl Lab {
    /// Builds the store in `store`, an existing empty directory, and the files outside the store
    /// below `place`.
    ///
    /// # Errors
    /// Returns an error if there is no C compiler, or if it fails.
    pub(super) fn build(
        place: &Path,
        store: &Path,
        hwcap: Option<&str>,
        loader: Option<&Path>,
    ) -> Result<Self> {
        let lab = Self {
            place: place.to_owned(),
            store: store.to_owned(),
            hwcap: hwcap.map(str::to_owned),
            loader: loader.map(Path::to_owned),
        };
        // A package without objects, in which every probe is a miss.
        let empty = lab.package("none").join("lib");
        for dir in [lab.outside("later"), lab.outside("golden"), empty] {
            fs::create_dir_all(&dir).with_context(naming(&dir))?;
        }
        for object in OBJECTS {
            lab.compile(object)?;
        }
        for (dir, file, source) in OUTSIDE {
            let path = lab.outside(dir).join(file);
            lab.cc(&path, source, &["-shared".into(), "-fPIC".into(), soname(&path)])?;
        }
        let golden = lab.outside("golden");
        fs::remove_dir(&golden).with_context(naming(&golden))?;
        copy_tree(&lab.store, &golden)?;
        Ok(lab)
    }

    /// Restores the store as it was built.
    ///
    /// # Errors
    /// Returns an error if files cannot be removed or copied.
    pub(super) fn renew(&self) -> Result<()> {
        for package in entries(&self.store)? {
            fs::remove_dir_all(&package).with_context(naming(&package))?;
        }
        let _ = fs::remove_file(self.outside("later").join("libone.so.1"));
        for package in entries(&self.outside("golden"))? {
            copy_tree(&package, &self.store.join(package.file_name().unwrap_or_default()))?;
        }
        self.give_away()?;
        // An index does not trust files that have changed within the grain of the clock.
        std::thread::sleep(GRAIN);
        Ok(())
    }

    /// Sets owner and mode of the set-id program, if the process may change owners.
    fn give_away(&self) -> Result<()> {
        if rustix::process::geteuid().is_root() {
            let suid = self.program("suid");
            if std::os::unix::fs::chown(&suid, Some(NOBODY), None).is_ok() {
                // Set after the owner, because `chown` clears the set-id bits (chown(2)).
                let mode = fs::Permissions::from_mode(0o4755);
                fs::set_permissions(&suid, mode).with_context(naming(&suid))?;
            }
        }
        Ok(())
    }

    /// Returns the path of a file or directory outside the store.
    pub(super) fn outside(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Returns the path of a program in the store.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.package(&format!("app-{name}")).join("bin").join(name)
    }

    pub(super) fn objects(&self) -> Vec<PathBuf> {
        self.files(|_| true)
    }

    pub(super) fn files(&self, which: impl Fn(&Object) -> bool) -> Vec<PathBuf> {
        let all = OBJECTS.iter().filter(|object| which(object));
        all.filter_map(|object| self.path(object.path)).collect()
    }

    /// Returns the file for a path of [`OBJECTS`]; `None` for a variant that this machine lacks.
    fn path(&self, path: &str) -> Option<PathBuf> {
        let (package, rest) = path.split_once('/').unwrap_or((path, ""));
        let rest = match &self.hwcap {
            Some(hwcap) => rest.replace("HWCAP", hwcap),
            None if rest.contains("HWCAP") => return None,
            None => rest.to_owned(),
        };
        Some(self.package(package).join(rest))
    }

    /// Returns the directory of a package, named as in the stores of Nix and Guix.
    pub(super) fn package(&self, name: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        self.store.join(format!("{0:016x}{0:016x}-{name}-1", hasher.finish()))
    }

    /// Links each program again, statically, with the sources of all objects that it needs. Returns
    /// the programs that cannot be linked, with the error.
    ///
    /// # Errors
    /// Returns an error if there is no static C library, or no compiler.
    pub(super) fn link_statically(&self) -> Result<Vec<(PathBuf, String)>> {
        // If this program cannot be linked, there is no static C library at all.
        let trial = self.outside("static-trial");
        let source = "int main(void) { return 0; }";
        let linked = self.cc(&trial, source, &["-static".into()]);
        linked.map_err(|_| anyhow!("no static C library"))?;
        let mut failed = Vec::new();
        for object in OBJECTS.iter().filter(|object| object.path.contains("/bin/")) {
            let Some(out) = self.path(object.path) else { continue };
            let mut arguments: Vec<OsString> = vec!["-static".into()];
            for (at, needed) in closure(object).into_iter().enumerate() {
                let file = self.outside(&format!("part-{at}.c"));
                fs::write(&file, needed.source).with_context(naming(&file))?;
                arguments.push(file.into());
            }
            // The output keeps the mode and owner of the dynamic program.
            if let Err(error) = self.cc(&out, &self.source(object), &arguments) {
                failed.push((out, words_of_chain(error.as_ref())));
            }
        }
        self.give_away()?;
        Ok(failed)
    }

    /// Returns the source of a program, after the common code of all programs.
    fn source(&self, object: &Object) -> String {
        let Some((before, rest)) = object.source.split_once('@') else {
            return format!("{SHOW}{}", object.source);
        };
        let (package, rest) = rest.split_once('/').unwrap_or((rest, ""));
        format!("{SHOW}{before}{}/{rest}", self.package(package).display())
    }

    /// Compiles an object, and replaces its file.
    ///
    /// # Errors
    /// Returns an error if there is no C compiler, or if it fails.
    pub(super) fn compile(&self, object: &Object) -> Result<()> {
        let Some(out) = self.path(object.path) else { return Ok(()) };
        let is_program = object.path.contains("/bin/");
        let source = if is_program { self.source(object) } else { object.source.to_owned() };
        let mut arguments: Vec<OsString> = Vec::new();
        if is_program {
            let named = self.loader.iter().map(|loader| option("-Wl,--dynamic-linker=", loader));
            arguments.extend(named);
        } else {
            arguments.extend(["-shared".into(), "-fPIC".into(), soname(&out)]);
        }
        arguments.extend(object.needs.iter().filter_map(|path| self.path(path)).map(Into::into));
        let dirs = object.run_path.iter().map(|dir| match dir.strip_prefix('/') {
            Some(outside) => self.outside(outside),
            None => self.package(dir).join("lib"),
        });
        let dirs: Vec<String> = dirs.map(|dir| dir.display().to_string()).collect();
        if !dirs.is_empty() {
            // Some toolchains write `DT_RPATH` without the option.
            arguments.push(format!("-Wl,--enable-new-dtags,-rpath,{}", dirs.join(":")).into());
        }
        arguments.extend(object.flags.iter().map(OsString::from));
        if !object.versions.is_empty() {
            let file = self.outside("versions.map");
            fs::write(&file, object.versions).with_context(naming(&file))?;
            arguments.push(option("-Wl,--version-script=", &file));
        }
        self.cc(&out, &source, &arguments)
    }

    fn cc(&self, out: &Path, source: &str, arguments: &[OsString]) -> Result<()> {
        let file = self.place.join("source.c");
        let dir = out.parent().unwrap_or(out);
        fs::create_dir_all(dir).with_context(naming(dir))?;
        fs::write(&file, source).with_context(naming(&file))?;
        let mut command = Command::new("cc");
        plain(&mut command);
        // Some toolchains omit libraries to which no symbol refers, unless `--no-as-needed` is
        // given.
        command.args(["-w", "-O1", "-Wl,--no-as-needed", "-o"]).arg(out).arg(&file).args(arguments);
        let ran = command.output().map_err(|_| anyhow!("no C compiler (cc)"))?;
        if ran.stderr.contains_str("multiple definition") {
            bail!("two libraries define the same symbol");
        }
        if !ran.status.success() {
            bail!("cc: {}", last_line(&ran.stderr));
        }
        Ok(())
    }

    /// Starts a program with the loader's log of tried paths.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started, or does not end.
    pub(super) fn start(&self, mut command: Command) -> Result<Ran> {
        let log = tempfile::tempdir_in(&self.place).with_context(naming(&self.place))?;
        command.env("LD_DEBUG", "libs").env("LD_DEBUG_OUTPUT", log.path().join("log"));
        let ran = Self::run(command)?;
        Ok(Ran { tried: tried(log.path())?, ..ran })
    }

    /// Starts a program with the index's log of applied symbol bindings. An index applies none
    /// under `LD_DEBUG=libs`.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started, or does not end.
    pub(super) fn start_bound(&self, mut command: Command) -> Result<Ran> {
        let dir = tempfile::tempdir_in(&self.place).with_context(naming(&self.place))?;
        let log = dir.path().join("log");
        let set = command.get_envs().filter_map(|(name, value)| Some((name.into(), value?.into())));
        let (name, switches) = relocations::logged(&set.collect::<Vec<_>>(), &log);
        command.env(name, switches);
        let ran = Self::run(command)?;
        let (bound, symbols) = match audit_log::bindings(&fs::read(&log).unwrap_or_default()) {
            Some(Bindings::Applied { bound, relocations }) => (bound, relocations),
            _ => (0, 0),
        };
        Ok(Ran { bound, symbols, ..ran })
    }

    fn run(mut command: Command) -> Result<Ran> {
        let text = child::finish(&mut command)?.stdout;
        let after =
            |word: &'static str| text.lines().filter_map(move |line| line.strip_prefix(word));
        let value = after("value ").next().and_then(|number| number.parse().ok());
        Ok(Ran {
            value: value.unwrap_or(-1),
            secure: after("secure ").next() == Some("1"),
            objects: after("object ").map(str::to_owned).collect(),
            ..Ran::default()
        })
    }
}

/// Returns all objects that an object needs, each once.
fn closure(object: &Object) -> Vec<&'static Object> {
    let mut all: Vec<&Object> = Vec::new();
    let mut left: Vec<&str> = object.needs.to_vec();
    while let Some(path) = left.pop() {
        let Some(needed) = OBJECTS.iter().find(|other| other.path == path) else { continue };
        if !all.iter().any(|known| known.path == path) {
            all.push(needed);
            left.extend(needed.needs);
        }
    }
    all
}

/// Returns the paths that loaders wrote into a folder of logs.
fn tried(logs: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for file in entries(logs)? {
        let text = fs::read_to_string(&file).with_context(naming(&file))?;
        let paths = text.lines().filter_map(|line| line.split_once("trying file="));
        all.extend(paths.map(|(_, path)| path.to_owned()));
    }
    Ok(all)
}

fn soname(path: &Path) -> OsString {
    option("-Wl,-soname,", Path::new(path.file_name().unwrap_or_default()))
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}
