//! Compares the parsed view of real ELF files with the output of `readelf`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_core::elf::{self, DF_1_NODEFLIB, DF_1_PIE, DF_STATIC_TLS, DependencyKind, ObjectView};
use object::read::ReadCache;

/// The number of files to compare.
const FILES: usize = 100;

#[test]
fn view_of_system_files_is_what_readelf_prints() {
    if Command::new("readelf").arg("--version").output().is_err() {
        return becalm_testing::skip("readelf is not installed");
    }
    let files = pick(elf_files());
    assert!(files.len() >= 20, "only {} ELF files under /usr", files.len());
    for path in &files {
        let cache = ReadCache::new(File::open(path).unwrap());
        let view = elf::parse(&cache).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (mut oracle, go) = from_readelf(path);
        if go && view.build_id.is_none() {
            oracle.build_id = None;
        }
        assert_eq!(from_view(&view), oracle, "{}", path.display());
    }
}

/// The fields that both have, by `readelf`'s names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    interpreter: Option<String>,
    /// The tag and string of all dependencies, in order.
    dependencies: Vec<(String, String)>,
    /// `SONAME`, `RPATH`, `RUNPATH`.
    strings: BTreeMap<String, String>,
    static_tls: bool,
    no_default_lib: bool,
    pie: bool,
    tls: Option<u64>,
    build_id: Option<String>,
}

fn from_view(view: &ObjectView) -> Facts {
    let dynamic = view.dynamic.clone().unwrap_or_default();
    let dependencies = dynamic.dependencies.iter().map(|dependency| {
        let tag = match dependency.kind {
            DependencyKind::Needed => "NEEDED",
            DependencyKind::Filter => "FILTER",
            DependencyKind::Auxiliary => "AUXILIARY",
        };
        (tag.to_owned(), dependency.name.to_string())
    });
    let strings =
        [("SONAME", &dynamic.soname), ("RPATH", &dynamic.rpath), ("RUNPATH", &dynamic.runpath)];
    let present = |(tag, value): (&str, &Option<bstr::BString>)| {
        value.as_ref().map(|value| (tag.to_owned(), value.to_string()))
    };
    let hex = |id: &Vec<u8>| id.iter().map(|byte| format!("{byte:02x}")).collect();
    Facts {
        interpreter: view.interpreter.as_ref().map(ToString::to_string),
        dependencies: dependencies.collect(),
        strings: strings.into_iter().filter_map(present).collect(),
        static_tls: dynamic.flags & DF_STATIC_TLS != 0,
        no_default_lib: dynamic.flags_1 & DF_1_NODEFLIB != 0,
        pie: dynamic.flags_1 & DF_1_PIE != 0,
        tls: view.tls.map(|tls| tls.size),
        build_id: view.build_id.as_ref().map(hex),
    }
}

/// Parses the output of `readelf`. The flag is true if Go's linker made the file. This linker leaves the
/// GNU build id out of the `PT_NOTE`, and `readelf` finds it by its section.
fn from_readelf(path: &Path) -> (Facts, bool) {
    let output = Command::new("readelf").env("LC_ALL", "C").arg("-dlnW").arg(path).output();
    let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    let mut facts = Facts::default();
    for line in text.lines().map(str::trim) {
        if let Some(path) = between(line, "[Requesting program interpreter: ", "]") {
            facts.interpreter = Some(path);
        } else if let Some((_, id)) = line.split_once("Build ID: ") {
            facts.build_id.get_or_insert_with(|| id.trim().to_owned());
        } else if line.starts_with("TLS ") {
            let size = line.split_whitespace().nth(5).unwrap().trim_start_matches("0x");
            facts.tls = Some(u64::from_str_radix(size, 16).unwrap()).filter(|&size| size > 0);
        } else if line.starts_with("0x") {
            dynamic_line(&mut facts, line);
        }
    }
    (facts, text.contains("GO BUILDID"))
}

/// Parses ` 0x… (TAG) value`.
fn dynamic_line(facts: &mut Facts, line: &str) {
    let Some(tag) = between(line, "(", ")") else { return };
    let value = line.split_once(')').map_or("", |(_, value)| value);
    let text = value.rsplit_once('[').map(|(_, text)| text.trim_end_matches(']').to_owned());
    let has = |word: &str| value.split_whitespace().any(|flag| flag == word);
    match tag.as_str() {
        "NEEDED" | "FILTER" | "AUXILIARY" => facts.dependencies.push((tag, text.unwrap())),
        "SONAME" | "RPATH" | "RUNPATH" => {
            facts.strings.insert(tag, text.unwrap());
        }
        "FLAGS" => facts.static_tls = has("STATIC_TLS"),
        "FLAGS_1" => (facts.no_default_lib, facts.pie) = (has("NODEFLIB"), has("PIE")),
        _ => {}
    }
}

fn between(line: &str, before: &str, after: &str) -> Option<String> {
    let rest = line.split_once(before)?.1;
    Some(rest.split_once(after)?.0.to_owned())
}

/// Finds the ELF files in the usual directories and in their subdirectories.
fn elf_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for top in ["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec"] {
        collect(Path::new(top), 2, &mut files);
    }
    files.sort();
    files
}

fn collect(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, files);
        } else if kind.is_file() && is_linked_elf(&entry.path()) {
            files.push(entry.path());
        }
    }
}

/// Returns true for `ET_EXEC` and `ET_DYN`, the two kinds that loaders map.
fn is_linked_elf(path: &Path) -> bool {
    let mut head = [0; 52];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && elf::ident(&head).is_some_and(|ident| matches!(ident.e_type, 2 | 3))
}

/// Selects files from the whole list, the same ones each time.
fn pick(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let step = files.len().div_ceil(FILES).max(1);
    files.into_iter().step_by(step).collect()
}
