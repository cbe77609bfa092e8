//! Compares other programs' output for an edited file with their output for the original:
//! `readelf`, the loader, and tools that rewrite files.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};
use becalm_core::elf;
use bstr::BString;

use super::check::Done;
use super::debugger::{self, Stop};
use super::files::File;
use super::kind::{Kind, missing};
use crate::root::{self, Loader};

/// A broken rule and the evidence.
pub(super) type Complaint = (&'static str, String);

/// Tools that rewrite files; all are called as `tool arguments… input output`.
const REWRITERS: [(&str, &[&str]); 4] = [
    ("strip", &["strip", "-o", "OUT", "IN"]),
    ("objcopy", &["objcopy", "IN", "OUT"]),
    ("eu-strip", &["eu-strip", "-o", "OUT", "IN"]),
    ("llvm-strip", &["llvm-strip", "-o", "OUT", "IN"]),
];

/// The original and the output of all tools for it.
pub(super) struct Bench {
    dir: PathBuf,
    name: PathBuf,
    loader: Option<Loader>,
    warnings: BTreeSet<String>,
    /// The objects that the loader lists for the original; `None` if it cannot be run.
    listed: Option<Listing>,
    /// The state of the original in gdb, if gdb runs here and is requested.
    stop: Option<Stop>,
    slow: bool,
    /// The tools, each once for an edited file on which it was run.
    pub(super) runs: Vec<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listing {
    /// Loaded paths, and names that were not found.
    objects: BTreeSet<String>,
    by_name: Vec<(String, String)>,
    crashed: bool,
}

impl Bench {
    pub(super) fn new(file: &File, original: &[u8], dir: &Path, slow: bool) -> Result<Self> {
        let name = PathBuf::from(file.path.file_name().context("a file without a name")?);
        let of_file = |view| root::loader(&file.path, &view, None).ok().flatten();
        let mut bench = Self {
            dir: dir.to_owned(),
            name,
            loader: elf::parse(original).ok().and_then(of_file),
            warnings: BTreeSet::new(),
            listed: None,
            stop: None,
            slow,
            runs: Vec::new(),
        };
        let control = bench.put("control", original)?;
        bench.warnings = warnings(&control, slow)?;
        bench.listed = bench.list(&control)?.filter(|listing| !listing.objects.is_empty());
        let is_program = elf::parse(original).is_ok_and(|view| view.interpreter.is_some());
        if slow && is_program {
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

    /// Returns the path at which the loader found a needed string of the original.
    pub(super) fn path_of(&self, name: &[u8]) -> Option<BString> {
        let listed = self.listed.as_ref()?;
        let (_, path) = listed.by_name.iter().find(|(it, _)| it.as_bytes() == name)?;
        path.starts_with('/').then(|| path.as_str().into())
    }

    fn list(&self, path: &Path) -> Result<Option<Listing>> {
        let Some(loader) = &self.loader else { return Ok(None) };
        let output = loader.list(path)?;
        Ok(Some(Listing::read(&output, path.parent().unwrap_or(Path::new("/")))))
    }

    /// Returns all complaints about the edited file that the original does not have.
    pub(super) fn complaints(&mut self, done: &Done, kind: &Kind) -> Result<Vec<Complaint>> {
        let edited = self.put("edited", &done.image)?;
        let mut found = Vec::new();
        if let Some(new) = warnings(&edited, self.slow)?.difference(&self.warnings).next() {
            found.push(("readelf", new.clone()));
        }
        self.runs.push("readelf");
        found.extend(self.loads(&edited, kind)?.map(|what| ("loader", what)));
        if self.slow {
            found.extend(self.debugged(&edited, kind).map(|what| ("gdb", what)));
            if !done.table_moved {
                self.rewriters(&edited, kind, &mut found)?;
            }
            // eu-elflint requires that the file of every version is needed, which this edit
            // removes.
            if kind.name != "remove-needed" {
                found.extend(self.lint(&edited)?.map(|what| ("eu-elflint", what)));
            }
        }
        Ok(found)
    }

    /// Returns how gdb's state differs from that of the original.
    fn debugged(&mut self, edited: &Path, kind: &Kind) -> Option<String> {
        // gdb passes a path to the loader at which the kernel does not find the interpreter.
        let before = self.stop.clone().filter(|_| kind.same_set && kind.name != "interpreter")?;
        self.runs.push("gdb");
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
        self.runs.push("loader");
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

    /// Checks that the edited file still loads and has the requested values after each tool.
    fn rewriters(&mut self, edited: &Path, kind: &Kind, found: &mut Vec<Complaint>) -> Result<()> {
        let control = self.dir.join("control").join(&self.name);
        for (tool, words) in REWRITERS {
            let folder = self.dir.join(tool);
            fs::create_dir_all(&folder)?;
            let out = folder.join(&self.name);
            let run = |input: &Path| {
                // If the tool fails, the output of the previous run must not be left.
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
            self.runs.push(tool);
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
        self.runs.push("eu-elflint");
        // eu-elflint does not know a note of that owner, and expects an address in DT_AUDIT.
        let known = ["No errors", "owner name 'NixOS'", "AUDIT value must point"];
        let fine = |line: &str| known.iter().any(|known| line.contains(known));
        Ok(lines(edited)?.difference(&before).find(|line| !fine(line)).cloned())
    }
}

/// Returns true for a line of the loader's list that names a file. An object that the kernel maps
/// has only an address there, or a name that shows it.
fn is_object(line: &str) -> bool {
    !line.contains("vdso") && !line.starts_with("(0x")
}

/// Returns a complaint without the index of its dynamic entry or program header, which an edit
/// shifts.
fn without_number(line: &str) -> String {
    let mut words = line.to_owned();
    for prefix in ["entry ", "phdr[", "loadable segment ["] {
        if let Some(at) = words.find(prefix).map(|at| at + prefix.len()) {
            let digits = words[at..].bytes().take_while(u8::is_ascii_digit).count();
            words.replace_range(at..at + digits, "");
        }
    }
    words
}

/// Returns the tools that are not installed on this machine.
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

/// Returns the warnings of `readelf` without the file's own name. With `slow` it also reads
/// relocations and symbols, which no edit changes and which take ten times as long as the rest.
fn warnings(path: &Path, slow: bool) -> Result<BTreeSet<String>> {
    let mut command = Command::new("readelf");
    command.arg(if slow { "-aW" } else { "-hlSdVAnW" }).arg(path).stdout(Stdio::null());
    let output = quiet(&mut command)?;
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
                format!(
                    "loadable segment [{number}] is writable but contains no writable sections"
                ),
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
