//! Counts of calls by name and class, and the limits of kept lookups.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command as Host;

use becalm_core::observe::{Class, Kind};

use super::fixture::{option_sets, run, trace};
use super::parent::program;
use crate::trace::{Command, Exit, Note, Options};
use becalm_testing::skip;

#[test]
fn a_million_lookups_are_counted_and_not_kept() {
    let body = "int main(void) {
            char name[64]; struct stat s;
            for (int i = 0; i < 20000; i++) { sprintf(name, \"/nonexistent-%d/x\", i); stat(name, &s); }
            return 0;
        }";
    let fixture = program(body);
    let command = Command { env: Some(vec![]), ..Command::new(&fixture.program, []) };
    let traced = run(&command, Options { timeline: true, ..Options::default() });
    let image = &traced.unwrap().images[0];
    let of_program = image.timeline.iter().filter(|timed| timed.class.is_some());
    let seen = of_program.filter(|timed| timed.lookup.kind == Kind::Stat).count();
    assert_eq!((seen, image.program.missed.stats), (20_000, 20_000));
    assert!(image.lookups.len() < 100);
    assert_eq!(image.classes[0].class, Class::Other);
    assert!(image.classes[0].dirs.len() <= 1024);
}

#[test]
fn all_syscalls_counts_every_system_call() {
    let fixture =
        program("int main(void) { for (int i = 0; i < 100; i++) syscall(SYS_getuid); return 0; }");
    let traced = trace(&fixture.program, Options { all_syscalls: true, ..Options::default() });
    let image = &traced.images[0];
    let row = image.program.syscalls.iter().find(|row| row.name == "getuid").unwrap();
    assert_eq!((row.count, row.errors), (100, 0));
    assert!(image.loader.syscalls.iter().any(|row| row.name == "mmap" && row.count > 3));
    assert!(row.max_ns * 100 >= row.total_ns);
}

#[test]
fn thirty_two_bit_programs_are_decoded() {
    if !cfg!(target_arch = "x86_64") {
        return skip("32-bit programs of x86");
    }
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("small.s");
    // open("/nonexistent-becalm", O_RDONLY), then exit(5), with i386 system calls.
    let text = ".globl _start\n_start: mov $5, %eax\n mov $path, %ebx\n xor %ecx, %ecx\n int $0x80\n\
        mov $1, %eax\n mov $5, %ebx\n int $0x80\n.data\npath: .asciz \"/nonexistent-becalm\"\n";
    std::fs::write(&source, text).unwrap();
    let object = dir.path().join("small.o");
    let program = dir.path().join("small");
    let done = Host::new("as").args(["--32", "-o"]).arg(&object).arg(&source).status().unwrap();
    assert!(done.success());
    let done = Host::new("ld").args(["-m", "elf_i386", "-o"]).arg(&program).arg(&object).status();
    assert!(done.unwrap().success());
    if Host::new(&program).status().is_err() {
        return skip("this kernel starts no 32-bit programs");
    }
    for options in option_sets() {
        let traced = trace(&program, options);
        assert_eq!(traced.exit, Exit::Code(5));
        assert_eq!(traced.images[0].program.missed.opens, 1);
        assert!(
            traced
                .notes
                .iter()
                .any(|note| matches!(note, Note::OfProgram { what: "a 32-bit program", .. }))
        );
    }
}

#[test]
fn lookups_of_python_get_its_class() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return skip("python3 is not installed");
    }
    let path: Vec<String> = (0..40).map(|n| format!("/nonexistent-becalm/py{n}")).collect();
    let command = Command {
        env: Some(vec![("PYTHONPATH".into(), path.join(":").into())]),
        ..Command::new(python, ["-c".into(), "import json".into()])
    };
    let traced = run(&command, Options::default()).unwrap();
    assert_eq!(traced.exit, Exit::Code(0));
    let tally = &traced.images[0].classes[0];
    assert_eq!(tally.class, Class::Python, "{:?}", traced.images[0].classes);
    assert!(tally.missed.total() >= 40);
}

#[test]
fn lookups_of_perl_get_its_class() {
    let perl = Path::new("/usr/bin/perl");
    if !perl.exists() {
        return skip("perl is not installed");
    }
    let dirs = (0..20).map(|n| OsString::from(format!("-I/nonexistent-becalm/pl{n}")));
    let args = dirs.chain(["-e".into(), "use strict; use File::Spec;".into()]);
    let traced = run(&Command::new(perl, args), Options::default()).unwrap();
    assert_eq!(traced.exit, Exit::Code(0));
    let tally = &traced.images[0].classes[0];
    assert_eq!(tally.class, Class::Perl, "{:?}", traced.images[0].classes);
    assert!(tally.missed.total() >= 40);
}
