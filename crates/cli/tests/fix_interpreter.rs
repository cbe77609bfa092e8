//! Libraries with a `PT_INTERP` that the kernel would reject: a loader does not read it, and
//! neither does `becalm fix`.

mod support;

use std::fs;
use std::path::Path;

use support::store::text;
use support::{becalm, cc, no_compiler, run};

/// `PT_INTERP` of a 64-bit object.
const PT_INTERP: u32 = 3;

/// Changes the length of the interpreter's name in the program header of a 64-bit library.
fn set_length(library: &Path, length: u64) {
    let mut bytes = fs::read(library).expect("read");
    let number = |at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0_u64, |n, byte| n << 8 | u64::from(*byte))
    };
    let (first, count) = (number(32, 8) as usize, number(56, 2) as usize);
    let headers = (0..count).map(|index| first + 56 * index);
    let header = headers.into_iter().find(|&at| number(at, 4) == u64::from(PT_INTERP));
    let header = header.expect("a PT_INTERP");
    bytes[header + 32..header + 40].copy_from_slice(&length.to_le_bytes());
    bytes[header + 40..header + 48].copy_from_slice(&length.to_le_bytes());
    fs::write(library, bytes).expect("written");
}

#[test]
fn a_library_with_an_odd_interpreter_is_fixed_verified_and_restored() {
    if no_compiler() || cfg!(not(all(target_pointer_width = "64", target_endian = "little"))) {
        return;
    }
    // A path that is not there; then lengths that the kernel refuses in a program.
    for length in [None, Some(0), Some(1), Some(5000)] {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let root = dir.path().canonicalize().expect("there");
        for package in ["a/lib", "b/lib", "c/lib"] {
            fs::create_dir_all(root.join(package)).expect("made");
        }
        fs::write(root.join("one.c"), "int one(void) { return 1; }\n").expect("written");
        let two = "__attribute__((section(\".interp\"))) const char interpreter[] = \"/none/ld.so\";\n\
                   int one(void); int two(void) { return one() + 1; }\n";
        fs::write(root.join("two.c"), two).expect("written");
        let shared = |source: &str, to: &str, more: &[&str]| {
            let soname = format!("-Wl,-soname,{}", to.rsplit('/').next().expect("a name"));
            let first = ["-shared", "-fPIC", "-Wl,--no-as-needed", &soname, source, "-o", to];
            cc(&root, &[&first[..], more].concat());
        };
        shared("one.c", "b/lib/libone.so", &[]);
        let run_path = format!("-Wl,--enable-new-dtags,-rpath,{0}/c/lib:{0}/b/lib", root.display());
        shared("two.c", "a/lib/libtwo.so", &["b/lib/libone.so", &run_path]);
        let library = root.join("a/lib/libtwo.so");
        if let Some(length) = length {
            set_length(&library, length);
        }
        let before = fs::read(&library).expect("read");
        let on = |arguments: &[&str]| {
            let store = ["--store", text(&root), text(&library)];
            run(becalm().args(arguments).args(store))
        };
        for strategy in ["note", "absolute"] {
            let ran = on(&["fix", "--with", strategy]);
            assert_eq!(ran.code, Some(0), "{length:?} {strategy}: {ran:?}");
            assert_ne!(fs::read(&library).expect("read"), before, "{length:?} {strategy}");
            let ran = on(&["verify"]);
            assert_eq!(ran.code, Some(0), "{length:?} {strategy}: {ran:?}");
            let ran = run(becalm().args(["undo", text(&library)]));
            assert_eq!(ran.code, Some(0), "{length:?} {strategy}: {ran:?}");
            assert_eq!(fs::read(&library).expect("read"), before, "{length:?} {strategy}");
        }
    }
}
