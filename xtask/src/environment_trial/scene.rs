//! Makes the tree in which programs are started: libraries, and other files that a search may meet.

use std::fs;
use std::os::unix::fs::PermissionsExt;
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
}

impl Scene {
    /// Makes the tree.
    ///
    /// # Errors
    /// Returns an error if there is no C compiler or the tree cannot be written.
    pub(super) fn new() -> Result<Self> {
        let out = tempfile::tempdir()?;
        mode(out.path(), 0o755)?;
        succeed(Command::new("sh").args(["-euc", TREE]).current_dir(out.path()))?;
        let program = fs::read(out.path().join("bin/program"))?;
        Ok(Self { out, program })
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

/// Makes the libraries, a program that needs three of them and libc, and the other files, in the current directory.
/// `library` has a file, a needed string and a run path.
const TREE: &str = r#"
umask 022
library() {
  mkdir -p "${1%/*}"
  cc -shared -nostdlib -fPIC -Wl,-soname,"${1##*/}" -o "$1" library.c \
    ${2:+-Wl,--no-as-needed -Lstubs -l:$2} ${3:+-Wl,-rpath,$3}
}
echo 'int f(void) { return 1; }' >library.c
echo 'int main(void) { return 0; }' >program.c
# Stubs against which the other objects are linked.
for stub in one two three; do library stubs/lib$stub.so; done
library a/libone.so libtwo.so
library a/glibc-hwcaps/x86-64-v2/libtwo.so
library b/libtwo.so libthree.so '$ORIGIN/../c:relative'
library b/libone.so libtwo.so '$ORIGIN'
for file in c/libthree.so c/libtwo.so c/x86_64/libthree.so closed/libone.so unreadable/libone.so \
    lib/x86_64-linux-gnu/libone.so x86_64/libtwo.so; do
  library $file
done
library searchable/libtwo.so libone.so
mkdir -p bin empty junk odd/libone.so haswell c/glibc-hwcaps/x86-64-v1
cc -o bin/program program.c -Wl,--no-as-needed -Lstubs -lone -ltwo -lthree
echo 'no directory' >file
echo 'no library' >junk/libone.so
: >junk/libjunk.so
ln -s "$PWD/b" link
ln -s "$PWD/loop" loop
ln -s "$PWD/nowhere" dangling
chmod 0 unreadable/libone.so
chmod 711 searchable
chmod 700 closed
"#;

fn mode(path: &Path, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}
