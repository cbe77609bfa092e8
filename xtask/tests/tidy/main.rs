//! Guards the architecture: the imports that each crate may have, the modules that core must not
//! use, the direction of imports inside a crate, and the description of every file.

mod circles;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

fn sources_of(dir: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    rust_files(&root().join(dir), &mut files);
    assert!(!files.is_empty(), "no sources below {dir}");
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a source file");
            (path, text)
        })
        .collect()
}

/// A module of tests alone.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| {
        matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs" | "testing.rs" | "build.rs"))
    })
}

/// The code of a file, its comments left out.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// The `becalm-*` crates that a manifest names outside its dev-dependencies.
fn imports(manifest: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
    let shipped = text.split("[dev-dependencies]").next().unwrap_or_default();
    shipped
        .lines()
        .filter_map(|line| line.strip_prefix("becalm-"))
        .map(|rest| rest.split(['.', ' ', '=']).next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn crates_import_in_one_direction() {
    let allowed: [(&str, &[&str]); 8] = [
        ("crates/audit", &[]),
        ("crates/core", &[]),
        ("crates/host", &["core"]),
        ("crates/rewrite", &["core"]),
        ("crates/lib", &["audit", "core", "host", "rewrite"]),
        ("crates/cli", &["audit", "core", "host", "lib", "rewrite"]),
        ("lab", &["core", "host", "lib", "testing"]),
        ("xtask", &["core", "host", "rewrite", "testing"]),
    ];
    for (krate, may) in allowed {
        let may: BTreeSet<String> = may.iter().map(|&name| name.to_owned()).collect();
        let does = imports(&format!("{krate}/Cargo.toml"));
        assert!(does.is_subset(&may), "{krate} imports {does:?}, may import {may:?}");
    }
}

#[test]
fn core_touches_nothing_outside_itself() {
    let forbidden =
        ["std::fs", "std::env", "std::process", "std::net", "std::io", "std::thread", "std::os"];
    let mut seen = Vec::new();
    for (path, text) in sources_of("crates/core/src") {
        if is_test(&path) {
            continue;
        }
        for line in code(&text) {
            if forbidden.iter().any(|module| line.contains(module)) {
                seen.push(format!("{}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(seen.is_empty(), "core is pure, but:\n{}", seen.join("\n"));
    let lib = fs::read_to_string(root().join("crates/core/src/lib.rs")).expect("core's lib.rs");
    assert!(lib.contains("#![forbid(unsafe_code)]"), "core forbids unsafe code");
}

/// The modules of core that each module may name.
const CORE_LAYERS: [(&str, &[&str]); 18] = [
    ("path", &[]),
    ("lossy", &[]),
    ("elf", &[]),
    ("macho", &[]),
    ("facts", &[]),
    ("edit", &[]),
    ("patch", &[]),
    ("fs", &["elf", "path", "lossy"]),
    ("probe", &["fs", "lossy"]),
    ("search", &["elf", "facts", "fs", "probe", "path"]),
    ("loader", &["elf", "facts", "fs", "probe", "search", "path"]),
    ("closure", &["elf", "facts", "fs", "probe", "search", "loader", "path"]),
    ("symbols", &["elf", "facts", "fs", "loader"]),
    ("cost", &["elf", "facts", "fs", "probe", "search", "loader", "closure"]),
    (
        "strategy",
        &[
            "edit", "elf", "facts", "fs", "probe", "search", "loader", "closure", "cost", "path",
            "lossy",
        ],
    ),
    ("index", &["elf", "facts", "fs", "search", "loader", "closure", "symbols", "path"]),
    ("record", &["fs", "probe", "lossy"]),
    ("observe", &["fs", "probe", "search", "closure", "cost", "record", "path", "lossy"]),
];

#[test]
fn core_modules_look_in_one_direction() {
    let src = root().join("crates/core/src");
    for (path, text) in sources_of("crates/core/src") {
        let inside = path.strip_prefix(&src).expect("below core");
        let top = inside.components().next().expect("a component").as_os_str();
        let module = top.to_str().expect("a module name").trim_end_matches(".rs");
        if module == "lib" || is_test(inside) {
            continue;
        }
        let (_, may) = CORE_LAYERS
            .iter()
            .find(|(name, _)| *name == module)
            .unwrap_or_else(|| panic!("module {module} has no place among the layers"));
        // A unit test inside the file may look anywhere.
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in code(shipped) {
            for rest in line.split("crate::").skip(1) {
                let named = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
                let named = named.unwrap_or_default();
                assert!(
                    named.is_empty() || named == module || may.contains(&named),
                    "{}: {module} may not look at {named}: {}",
                    inside.display(),
                    line.trim()
                );
            }
        }
    }
}

#[test]
fn every_file_says_what_it_is_for_and_stays_short() {
    for dir in ["crates", "lab", "xtask"] {
        for (path, text) in sources_of(dir) {
            assert!(text.starts_with("//!"), "{}: no //! at its head", path.display());
            let lines = text.lines().count();
            assert!(lines <= 520, "{}: {lines} lines; split it", path.display());
        }
    }
}

/// A path in a program's hands may lead through a link that another user has made.
#[test]
fn files_are_written_through_the_module_that_knows_whom_to_trust() {
    let direct =
        ["File::create", "fs::write(", "fs::rename(", "create_dir", ".create(true)", ".persist("];
    // Scratch stores and builds, in folders that becalm made or that the user gave up to it.
    let scratch = ["lib/src/compare/", "lib/src/loader/"];
    let mut seen = Vec::new();
    for (path, text) in ["crates/lib/src", "crates/cli/src"].into_iter().flat_map(sources_of) {
        let shown = path.display().to_string();
        if is_test(&path) || scratch.iter().any(|dir| shown.contains(dir)) {
            continue;
        }
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code(shipped).filter(|line| direct.iter().any(|call| line.contains(call)));
        seen.extend(lines.map(|line| format!("{shown}: {}", line.trim())));
    }
    assert!(seen.is_empty(), "not by becalm_host::write or trust:\n{}", seen.join("\n"));
}

#[test]
fn nothing_committed_names_a_registry_host_or_a_machine_path() {
    let output = std::process::Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let listed = String::from_utf8(output.stdout).expect("names in UTF-8");
    let forbidden = [concat!("deb.", "debian.org"), concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let Ok(text) = fs::read_to_string(root().join(name)) else { continue };
        for word in forbidden {
            assert!(!text.contains(word), "{name} names {word}");
        }
    }
}

/// Returns the first lines of doc comments that begin with a word by which a reader cannot search.
/// A doc comment names its item, or begins with the verb of its action.
fn vague_comments(text: &str) -> Vec<&str> {
    let mut before = "";
    let mut found = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let words = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
        let is_first = !before.starts_with("/// ") && !before.starts_with("//! ");
        let is_vague = |words: &str| {
            ["What ", "Who ", "Where ", "Whose ", "One that "]
                .iter()
                .any(|vague| words.starts_with(vague))
        };
        if is_first && words.is_some_and(is_vague) {
            found.push(line);
        }
        before = line;
    }
    found
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    assert_eq!(
        vague_comments("/// A file.\n/// What a line.\n\n    /// What it is.\n"),
        ["/// What it is."]
    );
    let vague: Vec<String> = ["crates", "lab", "xtask"]
        .into_iter()
        .flat_map(sources_of)
        .flat_map(|(path, text)| {
            let lines = vague_comments(&text);
            lines.iter().map(|line| format!("{}: {line}", path.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(vague.is_empty(), "{}", vague.join("\n"));
}

/// Each fuzz target has an entry in the manifest, seeds, and a line in the README.
#[test]
fn fuzz_targets_have_seeds_and_a_description() {
    let fuzz = root().join("fuzz");
    let names = |dir: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(fuzz.join(dir)).expect("a folder of fuzz/");
        let paths = entries.map(|entry| entry.expect("a directory entry").path());
        let files = paths.filter(|path| dir == "corpus" || path.is_file());
        files.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect()
    };
    let text = |file: &str| fs::read_to_string(fuzz.join(file)).expect("a file of fuzz/");
    let (manifest, readme) = (text("Cargo.toml"), text("README.md"));
    let described = |name: &&str| readme.contains(&format!("| `{name}` |"));
    let bins = manifest.split("[[bin]]").skip(1);
    let bins = bins.filter_map(|bin| bin.split('"').nth(1)).filter(described);
    let bins: BTreeSet<String> = bins.map(str::to_owned).collect();
    assert_eq!(names("fuzz_targets"), bins);
    assert_eq!(names("corpus"), bins);
}
