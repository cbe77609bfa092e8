//! Tests the lab end to end, with this machine's own programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use becalm_testing::skip;
use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    // Tests run in the crate's own directory, so the lab finds patchelf in the workspace or through
    // the variable.
    Command::new(env!("CARGO_BIN_EXE_lab")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Imports bash into `store`. Returns `None` if this machine cannot do that.
fn import(store: &Path) -> Option<Value> {
    import_with(store, &[])
}

fn import_with(store: &Path, flags: &[&str]) -> Option<Value> {
    let output = lab(&[&["import", "--store", store.to_str().unwrap(), "bash"], flags].concat());
    let said = text(&output);
    if !output.status.success() {
        if said.contains("no patchelf") || said.contains("cannot run dpkg") {
            skip(said.trim());
            return None;
        }
        panic!("{said}");
    }
    let manifest = std::fs::read(store.join("manifest.json")).unwrap();
    Some(serde_json::from_slice(&manifest).unwrap())
}

fn loaded(program: &str) -> Vec<PathBuf> {
    let output = Command::new(program).env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(PathBuf::from).collect()
}

#[test]
fn an_imported_program_loads_nothing_from_outside_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let Some(manifest) = import(dir.path()) else { return };
    let program = manifest["programs"][0]["path"].as_str().unwrap();
    let store = dir.path().canonicalize().unwrap();
    let loaded = loaded(program);
    assert!(loaded.len() >= 3, "{loaded:?}");
    for path in loaded {
        assert!(path.starts_with(&store), "{}", path.display());
    }
}

#[test]
fn every_library_has_a_package_directory_and_its_soname_for_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let Some(manifest) = import(dir.path()) else { return };
    let store = dir.path().canonicalize().unwrap();
    for object in manifest["objects"].as_array().unwrap() {
        let path = Path::new(object["path"].as_str().unwrap());
        let inside = path.strip_prefix(&store).unwrap();
        let parts: Vec<_> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        let [package, kind, _name] = parts[..] else { panic!("{}", path.display()) };
        let hash = package.split('-').next().unwrap();
        assert!(hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{package}");
        let expected = if object["kind"] == "program" { "bin" } else { "lib" };
        assert_eq!(kind, expected, "{}", path.display());
    }
}

#[test]
fn a_second_import_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(first) = import(dir.path()) else { return };
    let inodes = |manifest: &Value| -> Vec<u64> {
        use std::os::unix::fs::MetadataExt;
        let objects = manifest["objects"].as_array().unwrap().iter();
        objects.map(|o| std::fs::metadata(o["path"].as_str().unwrap()).unwrap().ino()).collect()
    };
    let before = inodes(&first);
    let second = import(dir.path()).unwrap();
    assert_eq!(before, inodes(&second));
    assert_eq!(first, second);
}

#[test]
fn an_object_that_was_changed_in_the_store_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let Some(manifest) = import(dir.path()) else { return };
    let program = manifest["programs"][0]["path"].as_str().unwrap();
    let whole = std::fs::read(program).unwrap();
    std::fs::write(program, &whole[..whole.len() / 2]).unwrap();
    import(dir.path()).unwrap();
    assert!(std::fs::read(program).unwrap() == whole);
}

#[test]
fn a_store_with_rpath_keeps_the_c_library_of_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().canonicalize().unwrap();
    // The import itself compares every dynamic section with the plan, including DT_RPATH.
    let Some(manifest) = import_with(&store, &["--rpath"]) else { return };
    assert_eq!(manifest["rpath"], true);
    let program = manifest["programs"][0]["path"].as_str().unwrap();
    let (inside, outside): (Vec<_>, Vec<_>) =
        loaded(program).into_iter().partition(|path| path.starts_with(&store));
    assert!(inside.iter().any(|path| path.ends_with("libtinfo.so.6")), "{inside:?}");
    assert!(outside.iter().any(|path| path.ends_with("libc.so.6")), "{outside:?}");
}
