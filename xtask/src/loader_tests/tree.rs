//! Builds one tree of glibc, patched or plain, and runs its tests.
//!
//! The output of builds and runs goes to logs in the folder of the objects. `make` determines the
//! remaining work, so an interrupted run continues. Another patch starts from the beginning.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use loader_patches::Release;

use super::outcome::{NONE, Results, failed, read};
use crate::command::{output, succeed};

/// Makefile rule that prints the names of all tests, and those of tests with a rule of their own as
/// files. No target of glibc has a name with this prefix.
const NAMES: &str = "becalm-names: ; @echo $(sort $(tests) $(tests-internal) $(tests-container) \
                     $(tests-special))";

/// Kind of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Debian's source.
    Plain,
    /// With the loader patches.
    Patched,
    /// Debian's source, with the tests' programs linked so that they start without naming the
    /// loader.
    Direct,
}

impl Kind {
    /// Returns the kind's name.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A source tree and its objects.
pub(crate) struct Tree {
    folder: PathBuf,
    pub(crate) source: PathBuf,
    pub(crate) objects: PathBuf,
    kind: Kind,
}

impl Tree {
    /// Finds or creates the folder of this release and kind.
    pub(crate) fn prepare(base: &Path, release: Release, from: &Path, kind: Kind) -> Result<Self> {
        let folder = base.join(format!("{}-{}", release.version, kind.name()));
        let objects = folder.join("objects");
        if kind != Kind::Patched {
            fs::create_dir_all(&folder)?;
            return Ok(Self { folder, source: from.to_owned(), objects, kind });
        }
        let text = release.patches.concat();
        let (source, fingerprint) = (folder.join("source"), folder.join("series.patch"));
        if fs::read_to_string(&fingerprint).ok().as_ref() != Some(&text) {
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(&folder)?;
            succeed(Command::new("cp").arg("-a").arg(from).arg(&source))?;
            for patch in release.patches {
                succeed(loader_patches::apply(patch, &source)?.arg("--silent"))?;
            }
            // Written last, because it marks the tree as complete.
            fs::write(&fingerprint, text)?;
        }
        Ok(Self { folder, source, objects, kind })
    }

    /// Configures the tree if necessary, and builds everything.
    pub(crate) fn build(&self) -> Result<()> {
        if !self.objects.join("config.status").exists() {
            fs::create_dir_all(&self.objects)?;
            let mut configure = Command::new(self.source.join("configure"));
            configure.args(["--prefix=/usr", "--disable-werror", "--disable-nscd"]);
            configure.args(["--disable-mathvec", "--disable-timezone-tools", "CFLAGS=-O2"]);
            if self.kind == Kind::Direct {
                configure.arg("--enable-hardcoded-path-in-tests");
            }
            if self.kind == Kind::Patched {
                let parameters = self.objects.join("configparms");
                fs::write(parameters, "store-prefixes = /nix/store:/gnu/store\n")?;
            }
            self.logged(configure.current_dir(&self.objects), "configure.log")?;
        }
        let mut make = Command::new("make");
        make.arg(jobs());
        self.logged(make.current_dir(&self.objects), "make.log")?;
        self.install_for_tests()
    }

    /// Installs into the root in which some tests run. No target in `elf/` depends on its
    /// timestamp.
    fn install_for_tests(&self) -> Result<()> {
        for root in ["testroot.pristine", "testroot.root"] {
            let path = self.objects.join(root);
            if path.exists() {
                fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
            }
        }
        let mut make = Command::new("make");
        make.arg("-r").arg("-C").arg(&self.source);
        make.arg(format!("objdir={}", self.objects.display()));
        // Debian's source has no manual to install.
        make.arg("MAKEINFO=:");
        make.arg(self.objects.join("testroot.pristine/install.stamp"));
        self.logged(&mut make, "testroot.log")
    }

    /// Runs tests again and reads the result of each: `starts` has prefixes of their names, with blanks between
    /// them, and `variables` those of the makefile, each as NAME=VALUE. The logs are named by the label.
    pub(crate) fn test(&self, starts: &str, variables: &[String], label: &str) -> Result<Results> {
        let elf = self.objects.join("elf");
        let names = self.names(starts)?;
        ensure!(!names.is_empty(), "{}: has none of the tests", self.source.display());
        self.make_modules(&names)?;
        let done = self.run_tests(&names, variables, label);
        let results = read(&elf, &names);
        if results.values().all(|word| word == NONE) {
            done?;
        }
        // Some tests need files that another test's rule makes. `make check` makes all of them
        // before it runs any test.
        let failed = failed(&results);
        if failed.is_empty() {
            return Ok(results);
        }
        let _ = self.run_tests(&failed, variables, &format!("{label}-again"));
        Ok(read(&elf, &names))
    }

    /// Makes the modules that the tests' scripts copy into the installed root. `make check` makes
    /// these too.
    fn make_modules(&self, names: &[String]) -> Result<()> {
        let script = |name: &String| self.source.join("elf").join(format!("{name}.script"));
        let scripts = names.iter().filter_map(|name| fs::read_to_string(script(name)).ok());
        let modules: BTreeSet<_> = scripts.flat_map(|text| copied(&text)).collect();
        if modules.is_empty() {
            return Ok(());
        }
        let mut make = self.make_in_elf();
        make.arg(jobs()).args(modules.iter().map(|name| self.objects.join(name)));
        self.logged(&mut make, "modules.log")
    }

    /// Runs tests, whatever their earlier results. A test that cannot be built fails the run and
    /// has no result.
    fn run_tests(&self, names: &[String], variables: &[String], label: &str) -> Result<()> {
        let elf = self.objects.join("elf");
        for name in names {
            for end in ["out", "test-result"] {
                // Most of these files do not exist.
                let _ = fs::remove_file(elf.join(format!("{name}.{end}")));
            }
        }
        let mut make = self.make_in_elf();
        make.args(["--keep-going", &jobs()]).args(variables);
        make.args(names.iter().map(|name| elf.join(format!("{name}.out"))));
        self.logged(&mut make, &format!("{label}.log"))
    }

    /// Returns the names of this release's tests that have one of the prefixes.
    fn names(&self, starts: &str) -> Result<Vec<String>> {
        let mut make = self.make_in_elf();
        make.args(["--silent", "--eval", NAMES, "becalm-names"]).stdin(Stdio::null());
        Ok(ours(&String::from_utf8_lossy(&output(&mut make)?.stdout), starts))
    }

    fn make_in_elf(&self) -> Command {
        let mut make = Command::new("make");
        make.arg("-C").arg(self.source.join("elf"));
        make.arg(format!("objdir={}", self.objects.display()));
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        make
    }

    fn logged(&self, command: &mut Command, log: &str) -> Result<()> {
        let log = self.folder.join(log);
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        command.env("LC_ALL", "C").env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
        succeed(command.stdout(file.try_clone()?).stderr(file))
            .with_context(|| format!("{} has what was said", log.display()))
    }
}

/// Returns the argument of `make` for as many compilers as there are CPUs.
fn jobs() -> String {
    format!("-j{}", std::thread::available_parallelism().map_or(1, usize::from))
}

/// Returns the modules below the objects' folder, `$B`, that a script of glibc's test-container
/// copies.
fn copied(script: &str) -> Vec<String> {
    let lines = script.lines().filter_map(|line| line.strip_prefix("cp $B/"));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| name.ends_with(".so")).map(str::to_owned).collect()
}

/// Returns the tests of a makefile whose names begin with one of `starts`.
fn ours(all: &str, starts: &str) -> Vec<String> {
    let name = |word: &str| {
        let file = word.rsplit('/').next().unwrap_or(word);
        file.strip_suffix(".out").unwrap_or(file).to_owned()
    };
    let names = all.split_whitespace().map(name);
    let mut names: Vec<_> = names
        .filter(|name| starts.split_whitespace().any(|start| name.starts_with(start)))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use loader_patches::RELEASES;

    use super::*;

    const STARTS: &str = "dblload list-tunables order tst-audit tst-rtld";

    #[test]
    fn tests_with_rules_of_their_own_count_by_the_names_of_their_files() {
        let all = "/o/elf/order-cmp.out order tst-tls1 /o/elf/list-tunables.out tst-audit1 order\n";
        assert_eq!(ours(all, STARTS), ["list-tunables", "order", "order-cmp", "tst-audit1"]);
    }

    #[test]
    fn modules_are_what_a_script_copies_from_the_objects() {
        let script = "# cp $B/elf/no.so $L\ncp $B/elf/a-1.so $L/a.so\nmkdirp 0770 $L\n\
            cp $B/elf/prog $L\n";
        assert_eq!(copied(script), ["elf/a-1.so"]);
    }

    #[test]
    fn another_patch_begins_anew_and_the_same_one_goes_on() {
        let base = tempfile::tempdir().unwrap();
        let release = RELEASES[0];
        let folder = base.path().join(format!("{}-patched", release.version));
        fs::create_dir_all(folder.join("objects")).unwrap();
        fs::write(folder.join("series.patch"), release.patches.concat()).unwrap();
        let none = base.path().join("none");
        assert!(Tree::prepare(base.path(), release, &none, Kind::Patched).is_ok());
        assert!(folder.join("objects").exists());
        fs::write(folder.join("series.patch"), "another").unwrap();
        assert!(Tree::prepare(base.path(), release, &none, Kind::Patched).is_err());
        assert!(!folder.join("objects").exists());
    }

    /// A small part of glibc's makefiles: `order` passes, `tst-audit1` fails without an installed
    /// root, `dblload` fails without the files that `order` makes and without the module that its
    /// script copies, and `tst-rtld-x` cannot be built.
    fn fake_glibc(source: &Path) {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(source.join("elf")).unwrap();
        let configure = "#!/bin/sh\n: > config.status\nmkdir elf\n\
            printf 'all:\\n\\ttouch built\\n' > Makefile\n";
        fs::write(source.join("configure"), configure).unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(source.join("configure"), mode).unwrap();
        let root = "$(objdir)/testroot.pristine/install.stamp: $(objdir)/built\n\
            \tmkdir $(@D)\n\ttouch $@\n";
        fs::write(source.join("Makefile"), root).unwrap();
        let elf = "tests = dblload order tst-tls1 tst-rtld-x\ntests-container = tst-audit1\n\
            o = $(objdir)/elf\n\
            $o/mod.so:\n\ttouch $@\n\
            $o/dblload.out:\n\ttest -e $o/mod.so\n\
            \techo 'FAIL: elf/dblload' > $o/dblload.test-result\n\
            \ttest ! -e $o/order.test-result || echo 'PASS: x' > $o/dblload.test-result\n\
            $o/order.out:\n\techo 'PASS: elf/order' > $o/order.test-result\n\
            $o/tst-audit1.out:\n\ttest -e $(objdir)/testroot.pristine/install.stamp \\\n\
            \t&& echo 'PASS: elf/x' > $o/tst-audit1.test-result\n\
            $o/tst-rtld-x.out:\n\tfalse\n";
        fs::write(source.join("elf/Makefile"), elf).unwrap();
        fs::write(source.join("elf/dblload.script"), "cp $B/elf/mod.so $L/mod.so\n").unwrap();
    }

    #[test]
    fn a_tree_is_built_once_its_root_installed_and_the_tests_of_loading_run_each_time() {
        let base = tempfile::tempdir().unwrap();
        let source = base.path().join("glibc");
        fake_glibc(&source);
        for _ in 0..2 {
            let tree = Tree::prepare(base.path(), RELEASES[1], &source, Kind::Plain).unwrap();
            tree.build().unwrap();
            let expected = [
                ("dblload", "PASS"),
                ("order", "PASS"),
                ("tst-audit1", "PASS"),
                ("tst-rtld-x", "no result"),
            ];
            let expected = expected.map(|(name, word)| (name.to_owned(), word.to_owned()));
            assert_eq!(tree.test(STARTS, &[], "tests").unwrap(), expected.into());
        }
        fs::remove_dir_all(base.path().join("2.41-plain/objects/elf")).unwrap();
        let tree = Tree::prepare(base.path(), RELEASES[1], &source, Kind::Plain).unwrap();
        assert!(tree.test(STARTS, &[], "tests").is_err(), "no test has a result");
    }
}
