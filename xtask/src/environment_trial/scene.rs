//! Makes the tree in which programs are started: libraries, and other files that a search may meet.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use becalm_core::edit::Edit;
use tempfile::TempDir;

use super::random::Random;
use crate::command::succeed;

/// The tree, which is removed when it is dropped.
pub(super) struct Scene {
    out: TempDir,
    program: Vec<u8>,
    /// True if programs can be started as another user.
    pub(super) is_root: bool,
}

impl Scene {
    /// Makes the tree.
    ///
    /// # Errors
    /// Returns an error if there is no C compiler or the tree cannot be written.
    pub(super) fn new() -> Result<Self> {
        let out = tempfile::tempdir()?;
        mode(out.path(), 0o755)?;
        let at = |name: &str| out.path().join(name);
        let hwcaps = "c/glibc-hwcaps/x86-64-v1";
        for dir in ["bin", "empty", "junk", "odd/libone.so", "haswell", hwcaps] {
            fs::create_dir_all(at(dir))?;
        }
        fs::write(at("file"), "no directory\n")?;
        fs::write(at("junk/libone.so"), "no library\n")?;
        fs::write(at("junk/libjunk.so"), "")?;
        symlink(at("b"), at("link"))?;
        symlink(at("loop"), at("loop"))?;
        symlink(at("nowhere"), at("dangling"))?;
        compile(out.path())?;
        mode(&at("unreadable/libone.so"), 0)?;
        mode(&at("searchable"), 0o711)?;
        mode(&at("closed"), 0o700)?;
        let program = fs::read(at("bin/program"))?;
        let is_root = fs::metadata("/proc/self")?.uid() == 0;
        if !is_root {
            eprintln!("only root can start programs as nobody: all are started as this user");
        }
        Ok(Self { out, program, is_root })
    }

    /// Returns a path in the tree.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.out.path().join(name)
    }

    /// Replaces `{out}` in a text by the tree's path.
    pub(super) fn expand(&self, text: &str) -> String {
        text.replace("{out}", &self.out.path().to_string_lossy())
    }

    /// Writes the program of a start, with its run path and needed strings.
    ///
    /// # Errors
    /// Returns an error if it cannot be edited or written.
    pub(super) fn program(&self, random: &Random) -> Result<PathBuf> {
        let mut edits = vec![Edit::RunPath {
            kind: random.run_path_kind,
            value: random.run_path.as_ref().map(|path| self.expand(path).into()),
        }];
        let needed = random.needed.iter();
        edits.extend(needed.map(|name| Edit::AddNeeded(self.expand(name).into())));
        let edited = becalm_rewrite::edit(self.program.as_slice(), &edits)?;
        let bytes = edited.patch.map(|patch| patch.applied_to(&self.program));
        let path = self.at(&format!("bin/program-{}", random.number));
        fs::write(&path, bytes.as_deref().unwrap_or(&self.program))?;
        mode(&path, 0o755)?;
        Ok(path)
    }
}

/// The libraries: file, needed strings and run path.
const LIBRARIES: &[(&str, &str, &str)] = &[
    ("a/libone.so", "libtwo.so", ""),
    ("a/glibc-hwcaps/x86-64-v2/libtwo.so", "", ""),
    ("b/libtwo.so", "libthree.so", "$ORIGIN/../c:relative"),
    ("b/libone.so", "libtwo.so", "$ORIGIN"),
    ("c/libthree.so", "", ""),
    ("c/libtwo.so", "", ""),
    ("c/x86_64/libthree.so", "", ""),
    ("closed/libone.so", "", ""),
    ("searchable/libtwo.so", "libone.so", ""),
    ("unreadable/libone.so", "", ""),
    ("lib/x86_64-linux-gnu/libone.so", "", ""),
    ("x86_64/libtwo.so", "", ""),
];

/// Compiles the libraries, and a program that needs three of them and libc.
fn compile(out: &Path) -> Result<()> {
    let cc = |line: &[&str]| succeed(Command::new("cc").args(line).current_dir(out));
    fs::write(out.join("library.c"), "int f(void) { return 1; }\n")?;
    fs::write(out.join("program.c"), "int main(void) { return 0; }\n")?;
    // Stubs against which the other objects are linked.
    fs::create_dir(out.join("stubs"))?;
    for stub in ["one", "two", "three"] {
        let soname = format!("-Wl,-soname,lib{stub}.so");
        let file = format!("stubs/lib{stub}.so");
        cc(&["-shared", "-nostdlib", "-fPIC", &soname, "-o", &file, "library.c"])?;
    }
    for (file, needed, run_path) in LIBRARIES {
        fs::create_dir_all(out.join(file).parent().unwrap_or(out))?;
        let name = file.rsplit('/').next().unwrap_or_default();
        let soname = format!("-Wl,-soname,{name}");
        let needed = format!("-l:{needed}");
        let run_path = format!("-Wl,-rpath,{run_path}");
        let mut line = vec!["-shared", "-nostdlib", "-fPIC", &soname, "-o", file, "library.c"];
        if needed != "-l:" {
            line.extend(["-Wl,--no-as-needed", "-Lstubs", &needed]);
        }
        if run_path != "-Wl,-rpath," {
            line.push(&run_path);
        }
        cc(&line)?;
    }
    let libraries = ["-Wl,--no-as-needed", "-Lstubs", "-lone", "-ltwo", "-lthree"];
    cc(&[&["-o", "bin/program", "program.c"], &libraries[..]].concat())
}

fn mode(path: &Path, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}
