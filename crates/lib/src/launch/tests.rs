//! Tests of scripts on the in-memory file system.

use becalm_core::search::Stores;
use becalm_testing::mem::{MemFs, ObjectBuilder};

use super::*;

fn base() -> MemFs {
    MemFs::new()
        .object("/bin/bash", ObjectBuilder::program())
        .object("/bin/env", ObjectBuilder::program())
        .object("/opt/bin/python3.11", ObjectBuilder::program())
        .link("/opt/bin/python3", "python3.11")
        .object("/nix/store/h-x/bin/.x-wrapped", ObjectBuilder::program())
}

fn launch(fs: &MemFs, path: &str) -> Result<Option<Launch>, String> {
    let stores = Stores::parse("/nix/store".into());
    let world = World { fs, path: "/none:/opt/bin:/bin".into(), stores: &stores };
    follow(world, path.into()).map_err(|error| error.to_string())
}

/// Formats the steps: a script in brackets.
fn steps(fs: &MemFs, path: &str) -> String {
    let launch = launch(fs, path).expect("followed").expect("a script");
    let words = launch.steps.iter().map(|step| match step {
        Step::Script(path) => format!("[{path}]"),
        Step::Program(path) => path.to_string(),
    });
    words.chain([launch.program.to_string()]).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_program_and_a_missing_file_are_no_scripts() {
    assert_eq!(launch(&base(), "/bin/bash"), Ok(None));
    assert_eq!(launch(&base(), "/bin/none"), Ok(None));
}

#[test]
fn an_interpreter_may_be_named_through_env() {
    let fs = base()
        .file("/a", "#! /opt/bin/python3 -u\nprint()\n")
        .file("/b", "#!/bin/env python3\n")
        .file("/c", "#!/bin/env -S FOO=1 python3 -u\n")
        .file("/d", "#!/bin/env nonesuch\n")
        .file("/e", "#!\n");
    assert_eq!(steps(&fs, "/a"), "[/a] /opt/bin/python3");
    assert_eq!(steps(&fs, "/b"), "[/b] /bin/env /opt/bin/python3");
    assert_eq!(steps(&fs, "/c"), "[/c] /bin/env /opt/bin/python3");
    let why = |path| launch(&fs, path).unwrap_err();
    assert_eq!(why("/d"), "the program of the script is nonesuch, which PATH does not have");
    assert_eq!(why("/e"), "a script whose first line names no interpreter");
}

#[test]
fn wrappers_lead_to_what_they_execute_last() {
    let nixpkgs = "#! /bin/bash -e\nexport PATH='/x'\n# a comment\n\
        exec -a \"$0\" \"/nix/store/h-x/bin/.x-wrapped\"  \"$@\" \n";
    let fs = base()
        .file("/nix/store/h-x/bin/x", nixpkgs)
        .file("/outer", "#!/bin/bash\nexec /nix/store/h-x/bin/x --flag \"$@\"\n")
        .file("/name", "#!/bin/bash\nexec env A=b python3 \"$@\"\n")
        .file("/unknown", "#!/bin/bash\nexec \"$HOME/x\" \"$@\"\n")
        .file("/not-last", "#!/bin/bash\nexec /bin/env\necho no\n")
        .file("/no-shell", "#!/opt/bin/python3\nexec /bin/env\n");
    let inner = "[/nix/store/h-x/bin/x] /bin/bash /nix/store/h-x/bin/.x-wrapped";
    assert_eq!(steps(&fs, "/nix/store/h-x/bin/x"), inner);
    assert_eq!(steps(&fs, "/outer"), format!("[/outer] /bin/bash {inner}"));
    assert_eq!(steps(&fs, "/name"), "[/name] /bin/bash /bin/env /opt/bin/python3");
    assert_eq!(steps(&fs, "/unknown"), "[/unknown] /bin/bash");
    assert_eq!(steps(&fs, "/not-last"), "[/not-last] /bin/bash");
    assert_eq!(steps(&fs, "/no-shell"), "[/no-shell] /opt/bin/python3");
}

#[test]
fn scripts_in_a_circle_and_gone_interpreters_are_errors() {
    let fs = base().file("/a", "#!/b\n").file("/b", "#!/a\n").file("/c", "#!/gone\n");
    let why = |path| launch(&fs, path).unwrap_err();
    assert_eq!(why("/a"), "more than 8 scripts that lead to one another");
    assert_eq!(why("/c"), "/gone: No such file or directory");
}

#[test]
fn a_wrapper_that_sets_what_the_loader_reads_is_said_so() {
    let fs = base().file(
        "/w",
        "#!/bin/bash\nexport LD_LIBRARY_PATH='/x'\nLD_PRELOAD=y\nMY_LD_AUDIT=z\nexec /bin/bash\n",
    );
    let launch = launch(&fs, "/w").expect("followed").expect("a script");
    let words = |variable, flag| {
        format!("sets {variable}, which the prediction ignores; give its value with {flag}")
    };
    let sets = |variable, flag| Finding {
        script: "/w".into(),
        words: words(variable, flag),
        is_costly: false,
    };
    let expected = [sets("LD_LIBRARY_PATH", "--library-path"), sets("LD_PRELOAD", "--preload")];
    assert_eq!(launch.findings, expected);
}

#[test]
fn a_python_script_in_a_store_root_is_a_finding_unless_python_is_isolated() {
    let fs = base()
        .file("/nix/store/h-a.py", "#!/opt/bin/python3\n")
        .file("/nix/store/h-b.py", "#!/opt/bin/python3 -sP\n")
        .file("/nix/store/h-c.sh", "#!/bin/bash\n")
        .file("/nix/store/h-x/bin/d.py", "#!/opt/bin/python3\n")
        .link("/home/a.py", "/nix/store/h-a.py");
    let findings = |path| launch(&fs, path).expect("followed").expect("a script").findings;
    for path in ["/nix/store/h-a.py", "/home/a.py"] {
        let [Finding { script, words, is_costly: true }] = &findings(path)[..] else {
            panic!("{path}");
        };
        assert!(script == path && words.contains("in the store /nix/store: "), "{script}: {words}");
    }
    for path in ["/nix/store/h-b.py", "/nix/store/h-c.sh", "/nix/store/h-x/bin/d.py"] {
        assert_eq!(findings(path), []);
    }
}
