//! Other programs' view of an edited file beside their view of the original: `readelf`,
//! the loader, and what takes files apart and puts them together again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};
use becalm_core::elf;
use bstr::{BString, ByteSlice};

use super::check::Done;
use super::debugger::{self, Stop};
use super::files::File;
use super::kinds::{Kind, missing};
use crate::root;

/// A broken rule and what was seen.
pub(super) type Complaint = (&'static str, String);

/// What rewrites files; all are called as `tool arguments… input output`.
const REWRITERS: [(&str, &[&str]); 4] = [
    ("strip", &["strip", "-o", "OUT", "IN"]),
    ("objcopy", &["objcopy", "IN", "OUT"]),
    ("eu-strip", &["eu-strip", "-o", "OUT", "IN"]),
    ("llvm-strip", &["llvm-strip", "-o", "OUT", "IN"]),
];

/// The original, and all that was said of it.
pub(super) struct Bench {
    dir: PathBuf,
    name: PathBuf,
    loader: Option<Loader>,
    warnings: BTreeSet<String>,
    /// What the loader lists for the original; `None` where it cannot be asked.
    listed: Option<Listing>,
    /// What gdb tells of the original, where it runs here and is to be asked.
    stop: Option<Stop>,
    slow: bool,
    /// How often each tool was asked about an edited file.
    pub(super) asked: BTreeMap<&'static str, usize>,
}

/// A loader that can be run here.
struct Loader {
    command: Vec<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listing {
    /// Paths that are loaded; names that are not found.
    objects: BTreeSet<String>,
    by_name: Vec<(String, String)>,
    crashed: bool,
}

impl Bench {
    pub(super) fn new(file: &File, original: &[u8], dir: &Path, slow: bool) -> Result<Self> {
        let name = PathBuf::from(file.path.file_name().context("a file without a name")?);
        let mut bench = Self {
            dir: dir.to_owned(),
            name,
            loader: Loader::find(file, original),
            warnings: BTreeSet::new(),
            listed: None,
            stop: None,
            slow,
            asked: BTreeMap::new(),
        };
        let control = bench.put("control", original)?;
        bench.warnings = warnings(&control, slow)?;
        bench.listed = bench.list(&control)?.filter(|listing| !listing.objects.is_empty());
        let is_program = elf::parse(original).is_ok_and(|view| view.interpreter.is_some());
        if slow && is_program && file.root.is_none() {
            bench.stop = debugger::stop(&control);
        }
        Ok(bench)
    }

    fn put(&self, folder: &str, image: &[u8]) -> Result<PathBuf> {
        let folder = self.dir.join(folder);
        fs::create_dir_all(&folder)?;
        let path = folder.join(&self.name);
        fs::write(&path, image)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Where the loader found a needed string of the original.
    pub(super) fn path_of(&self, name: &[u8]) -> Option<BString> {
        let listed = self.listed.as_ref()?;
        let (_, path) = listed.by_name.iter().find(|(it, _)| it.as_bytes() == name)?;
        path.starts_with('/').then(|| path.as_str().into())
    }

    fn list(&self, path: &Path) -> Result<Option<Listing>> {
        let Some(loader) = &self.loader else { return Ok(None) };
        let mut command = Command::new(&loader.command[0]);
        command.args(&loader.command[1..]).arg("--list").arg(path).env_remove("LD_LIBRARY_PATH");
        let output = quiet(&mut command)?;
        Ok(Some(Listing::read(&output, path.parent().unwrap_or(Path::new("/")))))
    }

    /// Everything that is said of the edited file and was not said of the original.
    pub(super) fn complaints(&mut self, done: &Done, kind: &Kind) -> Result<Vec<Complaint>> {
        let edited = self.put("edited", &done.image)?;
        let mut found = Vec::new();
        if let Some(new) = warnings(&edited, self.slow)?.difference(&self.warnings).next() {
            found.push(("readelf", new.clone()));
        }
        self.count("readelf");
        found.extend(self.loads(&edited, kind)?.map(|what| ("loader", what)));
        if self.slow {
            found.extend(self.debugged(&edited, kind).map(|what| ("gdb", what)));
            if !done.table_moved {
                self.rewriters(&edited, kind, &mut found)?;
            }
            // It asks every version's file to be a needed one, which a removal ends.
            if kind.name != "remove-needed" {
                found.extend(self.lint(&edited)?.map(|what| ("eu-elflint", what)));
            }
        }
        Ok(found)
    }

    fn count(&mut self, tool: &'static str) {
        *self.asked.entry(tool).or_default() += 1;
    }

    /// What gdb tells otherwise than of the original.
    fn debugged(&mut self, edited: &Path, kind: &Kind) -> Option<String> {
        // The kernel does not find the interpreter by the path that the trial gives it.
        let before = self.stop.clone().filter(|_| kind.same_set && kind.name != "interpreter")?;
        self.count("gdb");
        match debugger::stop(edited) {
            Some(after) if after == before => None,
            after => Some(format!("{before:?} before, {after:?} after")),
        }
    }

    fn loads(&mut self, edited: &Path, kind: &Kind) -> Result<Option<String>> {
        let (Some(before), Some(after)) = (&self.listed, self.list(edited)?) else {
            return Ok(None);
        };
        let before = before.clone();
        self.count("loader");
        if after.crashed && !before.crashed {
            return Ok(Some("the loader crashed".to_owned()));
        }
        if !kind.same_set || before.objects == after.objects {
            return Ok(None);
        }
        let gone = before.objects.difference(&after.objects);
        let come = after.objects.difference(&before.objects);
        Ok(Some(format!(
            "gone {:?}, come {:?}",
            gone.take(3).collect::<Vec<_>>(),
            come.take(3).collect::<Vec<_>>()
        )))
    }

    /// The edited file after each tool still loads and says what was asked.
    fn rewriters(&mut self, edited: &Path, kind: &Kind, found: &mut Vec<Complaint>) -> Result<()> {
        let control = self.dir.join("control").join(&self.name);
        for (tool, words) in REWRITERS {
            let folder = self.dir.join(tool);
            fs::create_dir_all(&folder)?;
            let out = folder.join(&self.name);
            let run = |input: &Path| {
                // Where the tool fails nothing may be left of its run before.
                let _ = fs::remove_file(&out);
                let mut command = Command::new(words[0]);
                command.args(words[1..].iter().map(|word| match *word {
                    "IN" => input,
                    "OUT" => &out,
                    word => Path::new(word),
                }));
                quiet(&mut command)
            };
            let Ok(before) = run(&control) else { continue };
            let said_before = fs::read(&out).ok().filter(|_| before.status.success());
            let Some(said_before) = said_before else { continue };
            let listed = self.list(&out)?.map(|listing| listing.objects);
            let after = run(edited)?;
            self.count(tool);
            if !after.status.success() {
                found.push((tool, last_line(&after)));
                continue;
            }
            let image = fs::read(&out)?;
            if elf::parse(said_before.as_slice()).is_err() {
                continue;
            }
            match elf::parse(image.as_slice()) {
                Err(error) => found.push((tool, format!("its output: {error}"))),
                Ok(view) => {
                    found.extend(missing(&view, &kind.edits).map(|what| (tool, what)));
                }
            }
            let now = self.list(&out)?.map(|listing| listing.objects);
            if listed != now && kind.same_set {
                found.push((tool, "its output loads something else".to_owned()));
            }
        }
        Ok(())
    }

    fn lint(&mut self, edited: &Path) -> Result<Option<String>> {
        let control = self.dir.join("control").join(&self.name);
        let lines = |path: &Path| -> Result<BTreeSet<String>> {
            let Ok(output) = quiet(Command::new("eu-elflint").arg("--gnu-ld").arg(path)) else {
                return Ok(BTreeSet::new());
            };
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            Ok(text.lines().map(without_number).collect())
        };
        let before = lines(&control)?;
        self.count("eu-elflint");
        // It knows no note of that owner, and takes DT_AUDIT for an address. Of libX11 and libbpf
        // it says that a relocation changes our segment (elfutils 0.188), though the relocations
        // are those of the original, and our segment lies behind all that they can reach.
        let known = [
            "No errors",
            "owner name 'NixOS'",
            "AUDIT value must point",
            "read-only section modified but text relocation flag not set",
        ];
        let fine = |line: &str| known.iter().any(|known| line.contains(known));
        Ok(lines(edited)?.difference(&before).find(|line| !fine(line)).cloned())
    }
}

/// True for a line of the loader's list that names a file: what the kernel maps has an
/// address alone there, or a name that says so.
fn is_object(line: &str) -> bool {
    !line.contains("vdso") && !line.starts_with("(0x")
}

/// A complaint without the number of the dynamic entry or program header that it is about,
/// which an edit shifts.
fn without_number(line: &str) -> String {
    let mut words = line.to_owned();
    for mark in ["entry ", "phdr["] {
        if let Some(at) = words.find(mark).map(|at| at + mark.len()) {
            let digits = words[at..].bytes().take_while(u8::is_ascii_digit).count();
            words.replace_range(at..at + digits, "");
        }
    }
    words
}

/// Of the tools that are asked, those that this machine does not have.
pub(super) fn absent() -> Vec<&'static str> {
    let names = REWRITERS.iter().map(|(name, _)| *name).chain(["readelf", "eu-elflint", "gdb"]);
    names.filter(|name| quiet(Command::new(name).arg("--version")).is_err()).collect()
}

fn quiet(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    command.output().with_context(|| format!("{command:?}"))
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().last().unwrap_or("failed").to_owned()
}

/// What `readelf` warns of, the file's own name left out. Relocations and symbols, which no
/// edit touches and which take it ten times as long as the rest, are asked for with `slow`.
fn warnings(path: &Path, slow: bool) -> Result<BTreeSet<String>> {
    let mut command = Command::new("readelf");
    command
        .arg(if slow { "-aW" } else { "-hlSdVAnW" })
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    let output = command.spawn()?.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let fine = |line: &&str| !line.trim().is_empty();
    let path = path.display().to_string();
    Ok(text.lines().filter(fine).map(|line| line.replace(&path, "FILE")).collect())
}

impl Listing {
    fn read(output: &Output, folder: &Path) -> Self {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let folder = folder.display().to_string();
        let mut listing = Self { crashed: output.status.signal().is_some(), ..Self::default() };
        // A shell-like code is what an emulator leaves of a signal.
        listing.crashed |= output.status.code().is_some_and(|code| code > 128);
        for line in text.lines().map(str::trim).filter(|line| is_object(line)) {
            let line = line.split(" (0x").next().unwrap_or_default().replace(&folder, "DIR");
            let (name, path) = match line.split_once(" => ") {
                Some((name, path)) => (name.to_owned(), path.to_owned()),
                None => (line.clone(), line),
            };
            let base = name.rsplit('/').next().unwrap_or_default().to_owned();
            let object = if path == "not found" { format!("{base}: {path}") } else { path.clone() };
            listing.objects.insert(object);
            listing.by_name.push((name, path));
        }
        listing
    }
}

impl Loader {
    /// The loader of the file's machine: the one it names, or that of its root, under the
    /// emulator where the machine is another.
    fn find(file: &File, original: &[u8]) -> Option<Self> {
        let view = elf::parse(original).ok().filter(|view| view.dynamic.is_some())?;
        let machine = view.ident.machine_name();
        let Some(root) = &file.root else {
            let own = view.interpreter.map(|it| PathBuf::from(it.to_string()));
            let usual = match machine {
                "x86_64" => "/lib64/ld-linux-x86-64.so.2",
                "i386" => "/lib/ld-linux.so.2",
                _ => return None,
            };
            let loader = own.unwrap_or_else(|| usual.into());
            return loader.is_file().then(|| Self { command: vec![loader] });
        };
        let (folder, loader) = loader_above(&file.path, root, &view.ident)?;
        if machine == "x86_64" {
            let dirs = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];
            let path = dirs.map(|dir| folder.join(dir).display().to_string()).join(":");
            return Some(Self { command: vec![loader, "--library-path".into(), path.into()] });
        }
        let emulator = root::emulator(machine).ok()?;
        Some(Self { command: vec![emulator, "-L".into(), folder, loader] })
    }
}

/// The nearest folder above a file that has a loader of its kind.
fn loader_above(path: &Path, top: &Path, ident: &elf::Ident) -> Option<(PathBuf, PathBuf)> {
    for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(top)) {
        for lib in ["lib", "lib64", "lib32", "libx32", "libo32"] {
            let Ok(entries) = fs::read_dir(folder.join(lib)) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.as_encoded_bytes();
                if !name.starts_with(b"ld") || !name.contains_str(".so.") {
                    continue;
                }
                let head = fs::read(entry.path()).unwrap_or_default();
                let same = elf::ident(&head).is_some_and(|it| {
                    (it.machine, it.class, it.endian) == (ident.machine, ident.class, ident.endian)
                        && it.flags == ident.flags
                });
                if same {
                    return Some((folder.to_owned(), entry.path()));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_entry_is_the_same_complaint() {
        let lines = |number| {
            [
                format!("section [ 5] '.dynamic': entry {number}: unknown tag"),
                format!(
                    "program header entry {number}: unknown program header entry type 0x65041580"
                ),
                format!("phdr[{number}]: unknown object file note type 4"),
            ]
            .map(|line| without_number(&line))
        };
        assert_eq!(lines(18), lines(7));
        assert_ne!(without_number("section [ 5]: entry 1: a"), without_number("section [ 5]: b"));
        assert_ne!(without_number("section [ 5]: a"), without_number("section [ 6]: a"));
    }

    #[test]
    fn an_address_alone_is_no_object() {
        assert!(!is_object("(0x3f7f8000)"));
        assert!(is_object("libc.so.6 => /lib/libc.so.6 (0x3f7f8000)"));
    }
}
