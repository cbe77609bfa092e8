//! `becalm cache`, on a folder with a record and copies.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use support::{becalm, run};

/// A record without paths, as its first two lines have it.
const RECORD: &str = r#"{"schema":"becalm/tree/2","command":"/nfs/app","learned":1,"starts":3,"paths":0,"text":0,"trees":[]}
[]
"#;

#[test]
fn records_and_copies_are_shown_and_removed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(at("copies")).unwrap();
    fs::create_dir(at("pages")).unwrap();
    for (name, text) in [
        ("app.tree", RECORD),
        ("app.tree-lock", ""),
        ("copies/x~1", "12345"),
        ("own", ""),
        ("pages/1", "1234567"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    let cache = |arguments: &[&str]| {
        let ran = run(becalm().arg("cache").args(arguments).env("BECALM_CACHE", folder.path()));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let found: serde_json::Value = serde_json::from_str(&cache(&["--json"])).unwrap();
    let trees = &found["trees"];
    assert_eq!(
        (&found["cleared"], &trees["copies"], &trees["bytes"]),
        (&false.into(), &1.into(), &5.into())
    );
    assert_eq!(trees["records"][0]["command"], "/nfs/app");
    assert_eq!((&found["pages"]["files"], &found["pages"]["bytes"]), (&1.into(), &7.into()));
    assert!(cache(&[]).contains("/pages: 1 file of ready pages, 0.0 MiB\n"));
    assert!(cache(&["--clear", "--dry-run"]).starts_with("to remove   "));
    assert!(at("app.tree").exists() && at("copies/x~1").exists() && at("pages/1").exists());
    assert!(cache(&["--clear"]).starts_with("removed     "));
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["own"]);
    assert!(cache(&[]).contains(": 0 copies, 0.0 MiB"));
    fs::remove_dir_all(folder.path()).unwrap();
    assert!(cache(&[]).starts_with("nothing is kept"));
}
