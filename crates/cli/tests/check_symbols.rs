//! `becalm check --symbols`: undefined and interposed symbols, and what they do to the exit code.

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Ran, cc, check, no_compiler};

/// A program that calls `f`, which two libraries define, and `g`, which the second one calls too
/// and nothing defines unless `with_g`.
fn fixture(dir: &Path, with_g: bool) -> PathBuf {
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("written");
    write("a.c", "int f(void) { return 1; }\nint datum = 3;\n");
    write("b.c", "int g(void);\nint f(void) { return 2; }\nint b(void) { return g(); }\n");
    write(
        "prog.c",
        "int f(void), b(void);\nextern int datum;\nint main(void) { return f() + b() + datum; }\n",
    );
    let g = "int g(void) { return 0; }\n";
    write("g.c", if with_g { g } else { "" });
    for name in ["a", "b"] {
        let (source, library) = (format!("{name}.c"), format!("lib{name}.so"));
        let soname = format!("-Wl,-soname,{library}");
        cc(dir, &["-shared", "-fPIC", &soname, "-o", &library, &source]);
    }
    let run_path = format!("-Wl,-rpath,{}", dir.display());
    cc(
        dir,
        &[
            "-Wl,--unresolved-symbols=ignore-all",
            "-Wl,--no-as-needed",
            "-Wl,-z,lazy",
            "-rdynamic",
            &run_path,
            "-L.",
            "-o",
            "prog",
            "prog.c",
            "g.c",
            "-la",
            "-lb",
        ],
    );
    dir.join("prog")
}

fn checked(path: &Path, flags: &[&str]) -> Ran {
    let path = path.display().to_string();
    check(&[flags, &["--library-path", "", &path]].concat())
}

fn symbols(ran: &Ran) -> Value {
    let json: Value = serde_json::from_str(&ran.stdout).expect("one object");
    json["programs"][0]["symbols"].clone()
}

#[test]
fn a_program_that_lacks_a_symbol_is_a_finding() {
    if no_compiler() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    let program = fixture(dir.path(), false);
    let ran = checked(&program, &["--symbols"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.contains("1 undefined symbol\n  g, needed by "), "{}", ran.stdout);
    assert!(ran.stdout.contains("libb.so (at the first call)"), "{}", ran.stdout);
    // Without the flag the symbols are not looked at.
    assert_eq!(checked(&program, &[]).code, Some(0));
}

#[test]
fn a_library_that_lacks_a_symbol_is_a_finding_only_if_strict() {
    if no_compiler() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    fixture(dir.path(), false);
    let library = dir.path().join("libb.so");
    let lists = checked(&library, &["--symbols"]);
    assert_eq!(lists.code, Some(0), "{}", lists.stderr);
    assert!(lists.stdout.contains("1 undefined symbol"), "{}", lists.stdout);
    assert_eq!(checked(&library, &["--symbols", "--strict"]).code, Some(1));
}

#[test]
fn json_names_who_wins_and_lists_each_binding_if_asked() {
    if no_compiler() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    let program = fixture(dir.path(), true);
    let ran = checked(&program, &["--symbols", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = symbols(&ran);
    assert_eq!(report["undefined"], Value::Array(Vec::new()));
    assert!(report.get("bindings").is_none());
    let interposed = report["interposed"].as_array().expect("a list");
    let f = interposed.iter().find(|symbol| symbol["symbol"] == "f").expect("f");
    let ends = |value: &Value, name: &str| value.as_str().expect("a path").ends_with(name);
    assert!(ends(&f["definer"], "/liba.so") && ends(&f["others"][0], "/libb.so"), "{f}");
    let report = symbols(&checked(&program, &["--bindings", "--json"]));
    let bindings = report["bindings"].as_array().expect("a list");
    let g = bindings.iter().find(|binding| binding["symbol"] == "g").expect("g");
    assert!(ends(&g["object"], "/libb.so") && ends(&g["definer"], "/prog"), "{g}");
    assert_eq!((&g["kind"], &g["type"]), (&"jump_slot".into(), &"function".into()));
}

#[test]
fn bindings_are_one_a_line() {
    if no_compiler() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    let program = fixture(dir.path(), true);
    let ran = checked(&program, &["--bindings"]);
    let line = ran.stdout.lines().find(|line| line.contains(" jump_slot f ")).expect("f");
    assert!(line.contains("/prog+0x") && line.contains("/liba.so+0x"), "{line}");
}
