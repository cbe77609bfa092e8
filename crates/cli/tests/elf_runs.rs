//! `becalm elf`: each edit on a copy of a program, read back by the command and undone.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use becalm_testing::skip;

struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// Makes a library and a program that needs it and has a run path. `None` without a C compiler.
    fn new() -> Option<Self> {
        let scratch = Self { folder: tempfile::tempdir().expect("a folder") };
        for dir in ["one", "two"] {
            std::fs::create_dir(scratch.path(dir)).expect("a folder");
        }
        scratch.cc("void b(void) {}", &["-shared", "-o", "two/libb.so", "-Wl,-soname,libb.so"])?;
        let run_path = format!("{0}/one:$ORIGIN/x:{0}/two", scratch.folder.path().display());
        let rpath = format!("-Wl,--enable-new-dtags,-rpath,{run_path}");
        scratch.cc(
            "void b(void); int main(void) { b(); return 0; }",
            &["-o", "program", "two/libb.so", &rpath],
        )?;
        Some(scratch)
    }

    fn cc(&self, source: &str, arguments: &[&str]) -> Option<()> {
        std::fs::write(self.path("source.c"), source).expect("written");
        let mut cc = Command::new("cc");
        cc.args(["-fPIC", "source.c"]).args(arguments).current_dir(self.folder.path());
        match cc.status() {
            Ok(status) => assert!(status.success(), "{status}"),
            Err(error) => {
                skip(&format!("no C compiler: {error}"));
                return None;
            }
        }
        Some(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn elf(&self, arguments: &[&str]) -> Output {
        let mut becalm = Command::new(env!("CARGO_BIN_EXE_becalm"));
        becalm.arg("elf").args(arguments).current_dir(self.folder.path());
        becalm.output().expect("becalm")
    }

    /// Returns what the command prints.
    fn print(&self, arguments: &[&str]) -> String {
        let done = self.elf(arguments);
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("UTF-8")
    }
}

fn runs(path: &Path) -> bool {
    Command::new(path).status().expect("starts").success()
}

#[test]
fn edits_are_read_back_and_undone() {
    let Some(scratch) = Scratch::new() else { return };
    let program = scratch.path("program");
    let before = std::fs::read(&program).expect("read");
    let two = scratch.path("two").display().to_string();

    scratch.print(&["--shrink-rpath", "program"]);
    assert_eq!(scratch.print(&["--print-rpath", "program"]), format!("$ORIGIN/x:{two}\n"));
    scratch.print(&["--set-rpath", &two, "program"]);
    scratch.print(&["--add-rpath", "/added", "program"]);
    assert_eq!(scratch.print(&["--print-rpath", "program"]), format!("{two}:/added\n"));
    assert!(runs(&program));

    scratch.print(&["--replace-needed", "libb.so", &format!("{two}/libb.so"), "program"]);
    scratch.print(&["--add-needed", "libm.so.6", "--remove-rpath", "program"]);
    let needed = scratch.print(&["--print-needed", "--print-rpath", "program"]);
    assert_eq!(needed, format!("\nlibm.so.6\n{two}/libb.so\nlibc.so.6\n"));
    assert!(runs(&program));

    let undo = Command::new(env!("CARGO_BIN_EXE_becalm")).arg("undo").arg(&program).output();
    assert!(undo.expect("becalm").status.success());
    assert!(std::fs::read(&program).expect("read") == before, "undo is not exact");
}

#[test]
fn soname_interpreter_and_output_are_set_and_printed() {
    let Some(scratch) = Scratch::new() else { return };
    let library = std::fs::read(scratch.path("two/libb.so")).expect("read");
    scratch.print(&["--set-soname", "libc++b.so.2", "--output", "copy.so", "two/libb.so"]);
    assert_eq!(scratch.print(&["--print-soname", "copy.so"]), "libc++b.so.2\n");
    assert!(std::fs::read(scratch.path("two/libb.so")).expect("read") == library);

    std::fs::write(scratch.path("interpreter"), "/lib/another-ld.so").expect("written");
    scratch.print(&["--set-interpreter", "@interpreter", "program"]);
    assert_eq!(scratch.print(&["--print-interpreter", "program"]), "/lib/another-ld.so\n");
    assert!(!scratch.elf(&["--print-interpreter", "two/libb.so"]).status.success());
}

#[test]
fn a_note_goes_if_the_run_path_changes_without_it() {
    let Some(scratch) = Scratch::new() else { return };
    let has_note = || {
        let bytes = std::fs::read(scratch.path("program")).expect("read");
        bytes.windows(5).any(|window| window == b"NixOS")
    };
    scratch.print(&["--build-resolution-cache", "program"]);
    assert!(has_note());
    scratch.print(&["--set-soname", "x", "program"]);
    assert!(has_note(), "the soname does not matter for the search");
    scratch.print(&["--set-rpath", "/elsewhere", "program"]);
    let program = std::fs::read(scratch.path("program")).expect("read");
    let view = becalm_core::elf::parse(&program[..]).expect("ELF");
    assert!(view.notes.resolution.is_none());
}

#[test]
fn a_file_that_cannot_be_edited_is_named_and_the_others_are_edited() {
    let Some(scratch) = Scratch::new() else { return };
    std::fs::copy(scratch.path("program"), scratch.path("payload")).expect("copied");
    let mut payload = std::fs::read(scratch.path("payload")).expect("read");
    payload.extend_from_slice(b"a payload that the program finds from its end");
    std::fs::write(scratch.path("payload"), payload).expect("written");
    let done = scratch.elf(&["--set-rpath", "/new", "payload", "program"]);
    assert_eq!(done.status.code(), Some(2));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("payload: something is appended"), "{said}");
    assert_eq!(scratch.print(&["--print-rpath", "program"]), "/new\n");
}

#[test]
fn single_fields_are_set_printed_and_set_back() {
    let Some(scratch) = Scratch::new() else { return };
    let before = std::fs::read(scratch.path("program")).expect("read");
    let set = ["--set-execstack", "--set-os-abi", "freebsd", "--no-default-lib", "program"];
    scratch.print(&set);
    let fields = scratch.print(&["--print-os-abi", "--print-execstack", "program"]);
    assert_eq!(fields, "FreeBSD\nexecstack: X\n");
    let bytes = std::fs::read(scratch.path("program")).expect("read");
    let dynamic = becalm_core::elf::parse(&bytes[..]).expect("ELF").dynamic.expect("dynamic");
    assert_eq!(dynamic.flags_1 & 0x800, 0x800, "DF_1_NODEFLIB");
    scratch.print(&["--clear-execstack", "--set-os-abi", "System V", "program"]);
    let fields = scratch.print(&["--print-os-abi", "--print-execstack", "program"]);
    assert_eq!(fields, "System V\nexecstack: -\n");
    let mut undo = Command::new(env!("CARGO_BIN_EXE_becalm"));
    assert!(
        undo.arg("undo").arg(scratch.path("program")).output().expect("becalm").status.success()
    );
    assert!(std::fs::read(scratch.path("program")).expect("read") == before, "undo is not exact");
}

#[test]
fn a_symbol_without_its_version_binds_to_a_library_without_versions() {
    let Some(scratch) = Scratch::new() else { return };
    std::fs::write(scratch.path("map"), "B_1 { global: b; local: *; };").expect("written");
    let versioned = ["-shared", "-o", "two/libb.so", "-Wl,-soname,libb.so,--version-script=map"];
    let Some(()) = scratch.cc("void b(void) {}", &versioned) else { return };
    let rpath = format!("-Wl,-rpath,{}", scratch.path("two").display());
    let program = ["-o", "program", "two/libb.so", &rpath];
    let Some(()) = scratch.cc("void b(void); int main(void) { b(); return 0; }", &program) else {
        return;
    };
    let versions = || {
        let mut nm = Command::new("nm");
        let done = nm.arg("-D").arg(scratch.path("program")).output().expect("nm");
        String::from_utf8(done.stdout).expect("UTF-8")
    };
    assert!(versions().contains(" b@B_1"), "{}", versions());
    scratch.print(&["--clear-symbol-version", "b", "program"]);
    assert!(!versions().contains(" b@B_1"), "{}", versions());
    assert!(runs(&scratch.path("program")));
}

#[test]
fn of_edits_at_the_same_time_none_is_lost() {
    let Some(scratch) = Scratch::new() else { return };
    for flags in [&["--add-rpath", "/at-once"][..], &["--in-place", "--add-rpath", "/at-once"]] {
        let before = scratch.print(&["--print-rpath", "program"]).matches("at-once").count();
        let edit = || scratch.elf(&[flags, &["program"]].concat()).status.success();
        let done = std::thread::scope(|scope| {
            let edits: Vec<_> = (0..8).map(|_| scope.spawn(edit)).collect();
            edits.into_iter().filter_map(|it| it.join().ok().filter(|&is_done| is_done)).count()
        });
        let after = scratch.print(&["--print-rpath", "program"]).matches("at-once").count();
        assert_eq!(after - before, done, "{flags:?}");
    }
}

#[test]
fn an_output_is_written_to_the_file_that_its_link_leads_to() {
    let Some(scratch) = Scratch::new() else { return };
    std::fs::write(scratch.path("real"), "old").expect("written");
    std::os::unix::fs::symlink("real", scratch.path("link")).expect("linked");
    scratch.print(&["--set-rpath", "/linked", "--output", "link", "program"]);
    assert!(scratch.path("link").is_symlink());
    assert_eq!(scratch.print(&["--print-rpath", "real"]), "/linked\n");
}

#[test]
fn a_pipe_without_a_reader_is_waited_for_until_a_signal() {
    let Some(scratch) = Scratch::new() else { return };
    assert!(Command::new("mkfifo").arg(scratch.path("pipe")).status().expect("mkfifo").success());
    let mut becalm = Command::new("timeout");
    becalm.args(["1", env!("CARGO_BIN_EXE_becalm"), "elf", "--set-rpath", "/x"]);
    becalm.args(["--output", "pipe", "program"]).current_dir(scratch.folder.path());
    // The status of timeout if SIGTERM has ended the command.
    assert_eq!(becalm.status().expect("timeout").code(), Some(124));
}

#[test]
fn a_file_beyond_the_limit_of_sizes_is_an_error_and_ends_no_process() {
    let Some(scratch) = Scratch::new() else { return };
    let limited = |arguments: &[&str]| {
        let mut shell = Command::new("bash");
        shell.args(["-c", "ulimit -f 1; exec \"$@\"", "-", env!("CARGO_BIN_EXE_becalm")]);
        shell.args(arguments).current_dir(scratch.folder.path()).output().expect("bash")
    };
    let done = limited(&["elf", "--set-rpath", "/x", "program"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && said.contains("File too large"), "{said}");
    let left: Vec<_> =
        std::fs::read_dir(scratch.folder.path()).expect("listed").flatten().collect();
    let is_new = |it: &std::fs::DirEntry| it.file_name().to_string_lossy().contains("becalm-new");
    assert!(!left.iter().any(is_new), "{left:?}");
    // The program has the signal as it was.
    let traced = limited(&["trace", "--", "bash", "-c", "kill -XFSZ $$"]);
    assert_eq!(traced.status.code(), Some(128 + 25), "{}", String::from_utf8_lossy(&traced.stderr));
}

#[test]
fn old_kernels_without_statx_and_pidfds_are_served() {
    let Some(scratch) = Scratch::new() else { return };
    let without = |arguments: &[&str]| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=statx,pidfd_open:error=ENOSYS"]);
        strace.arg(env!("CARGO_BIN_EXE_becalm")).args(arguments);
        let done = strace.current_dir(scratch.folder.path()).output().expect("strace");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("UTF-8")
    };
    without(&["elf", "--set-rpath", "/x", "program"]);
    assert_eq!(without(&["elf", "--print-rpath", "program"]), "/x\n");
    without(&["undo", "program"]);
    let mut plain = Command::new(env!("CARGO_BIN_EXE_becalm"));
    let plain = plain.args(["check", "program"]).current_dir(scratch.folder.path()).output();
    let plain = String::from_utf8(plain.expect("becalm").stdout).expect("UTF-8");
    // The first line has times.
    let rest = |said: &str| said.split_once('\n').expect("lines").1.to_owned();
    assert_eq!(rest(&without(&["check", "program"])), rest(&plain));
    assert!(without(&["bench", "--rounds", "10", "true"]).contains("true"));
}

#[test]
fn an_output_that_is_no_regular_file_is_written_to_and_not_replaced() {
    let Some(scratch) = Scratch::new() else { return };
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).expect("read")
    });
    scratch.print(&["--set-rpath", "/piped", "--output", "pipe", "program"]);
    let bytes = reader.join().expect("the reader");
    let dynamic = becalm_core::elf::parse(&bytes[..]).expect("ELF").dynamic.expect("dynamic");
    assert_eq!(dynamic.runpath, Some("/piped".into()));
    assert!(!std::fs::metadata(&pipe).expect("it is there").is_file());
}

#[test]
fn flags_of_patchelf_that_becalm_lacks_are_refused_by_name() {
    let Some(scratch) = Scratch::new() else { return };
    let refused = |arguments: &[&str], reason: &str| {
        let done = scratch.elf(arguments);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(reason), "{arguments:?}: {said}");
    };
    refused(&["--rename-dynamic-symbols", "map", "program"], "does not rename symbols");
    refused(&["--page-size", "2097152", "program"], "the largest of the machine");
    refused(&["--set-os-abi", "CP/M", "program"], "not one of System V");
    scratch.print(&["--page-size", "4096", "--set-rpath", "/new", "program"]);
}

#[test]
fn no_note_is_added_to_a_file_with_a_section_of_notes_that_no_loader_reads() {
    let Some(scratch) = Scratch::new() else { return };
    std::fs::write(scratch.path("stale"), "stale").expect("written");
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--add-section", ".note.nixos.ldcache=stale", "program"]);
    assert!(objcopy.current_dir(scratch.folder.path()).status().expect("objcopy").success());
    let done = scratch.elf(&["--build-resolution-cache", "program"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && said.contains("already present"), "{said}");
}

#[test]
fn undo_of_a_file_without_its_record_is_refused() {
    let Some(scratch) = Scratch::new() else { return };
    scratch.print(&["--set-rpath", "/nowhere", "program"]);
    let mut strip = Command::new("strip");
    match strip.arg("program").current_dir(scratch.folder.path()).status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => {
            println!("skipped: no strip: {error}");
            let required = std::env::var_os("BECALM_REQUIRE_ALL").is_some_and(|set| set == "1");
            assert!(!required, "BECALM_REQUIRE_ALL=1, but: no strip");
            return;
        }
    }
    let before = std::fs::read(scratch.path("program")).expect("read");
    for path in ["program", "."] {
        let mut undo = Command::new(env!("CARGO_BIN_EXE_becalm"));
        let done = undo.args(["undo", path]).current_dir(scratch.folder.path()).output();
        let done = done.expect("becalm");
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{path}: {error}");
        assert!(error.contains("something else has changed the file since"), "{path}: {error}");
    }
    assert_eq!(std::fs::read(scratch.path("program")).expect("read"), before);
    // A further edit begins with the stripped file, and its undo ends there.
    scratch.print(&["--set-rpath", "/elsewhere", "program"]);
    let mut undo = Command::new(env!("CARGO_BIN_EXE_becalm"));
    let done = undo.args(["undo", "program"]).current_dir(scratch.folder.path()).output();
    assert_eq!(done.expect("becalm").status.code(), Some(0));
    assert_eq!(std::fs::read(scratch.path("program")).expect("read"), before);
}

#[test]
fn directories_are_added_to_the_run_path_in_the_order_of_the_flags() {
    let Some(scratch) = Scratch::new() else { return };
    scratch.print(&["--set-rpath", "/first", "program"]);
    scratch.print(&["--add-rpath", "/second", "--add-rpath", "/third:/fourth", "program"]);
    let printed = scratch.print(&["--print-rpath", "program"]);
    assert_eq!(printed.trim(), "/first:/second:/third:/fourth");
}

/// A file that keeps its inode can be recovered at any point of the write only from its old record.
#[test]
fn a_file_with_several_names_keeps_its_old_record_as_one_written_in_place() {
    let Some(scratch) = Scratch::new() else { return };
    scratch.print(&["--set-rpath", "/first", "program"]);
    std::fs::copy(scratch.path("program"), scratch.path("alone")).expect("copied");
    std::fs::hard_link(scratch.path("program"), scratch.path("other")).expect("linked");
    let second = "/a/longer/path/than/the/first";
    scratch.print(&["--set-rpath", second, "--hardlinks", "keep", "program"]);
    scratch.print(&["--set-rpath", second, "--in-place", "alone"]);
    let [linked, alone] = ["other", "alone"].map(|name| std::fs::read(scratch.path(name)).unwrap());
    assert!(linked == alone, "{} and {} bytes", linked.len(), alone.len());
}
