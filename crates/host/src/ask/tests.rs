//! Tests which loaders are run, and the fallback for the others.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_loader_runs_through_its_open_descriptor() {
    let Ok(loader) = File::open("/lib64/ld-linux-x86-64.so.2") else {
        return becalm_testing::skip("no /lib64/ld-linux-x86-64.so.2 here");
    };
    let text = diagnostics(&loader, Libc::Musl, "".into()).expect("glibc 2.33 or later");
    assert!(text.contains_str("path.system_dirs[0x0]="));
    assert!(!text.contains_str("PATH="), "the environment is empty");
}

#[test]
fn a_program_that_hangs_floods_or_fails_gives_no_output() {
    let shell = |script: &str| output_of(Path::new("/bin/sh"), &["-c", script], "".into());
    assert_eq!(shell("printf fine"), Some(b"fine".to_vec()));
    assert_eq!(shell("printf some; exit 1"), None);
    assert_eq!(shell("while :; do echo more; done"), None);
    assert_eq!(shell("exec sleep 600"), None);
    assert_eq!(shell("exec 1>&-; exec sleep 600"), None);
    assert_eq!(output_of(Path::new("/no/such/program"), &[], "".into()), None);
}

#[test]
fn only_a_file_that_only_root_or_this_user_can_write_may_run() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("loader");
    fs::write(&path, b"x").unwrap();
    let fs_here = OsFs::new();
    let name: bstr::BString = <[u8]>::from_path(&path).unwrap().into();
    let may = |mode| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        fs_here.interpreter(name.as_bstr()).unwrap().may_run()
    };
    assert!(may(0o755));
    assert!(may(0o555));
    for mode in [0o775, 0o757, 0o4755, 0o2755] {
        assert!(!may(mode), "{mode:o}");
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert!(!may(0o755), "another user's");
    }
}

#[test]
fn a_file_that_is_no_loader_is_an_error_with_its_path() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("text"), b"no loader").unwrap();
    let fs = OsFs::new();
    let error_of = |name: &str| {
        let path: bstr::BString = <[u8]>::from_path(&top.path().join(name)).unwrap().into();
        loader_facts(&fs, path.as_bstr(), &FactChoice::default()).unwrap_err()
    };
    let reason = "text: no loader known here; name its rules with --libc";
    assert!(error_of("text").to_string().ends_with(reason));
    let error = error_of("absent");
    assert!(
        matches!(&error, HostError::Interpreter { source, .. }
        if source.raw_os_error() == Some(2)),
        "{error:?}"
    );
    assert!(error.to_string().contains("absent"));
    assert!(matches!(error_of("."), HostError::Interpreter { .. }));
}

#[test]
fn the_output_of_this_machines_loader_agrees_with_its_bytes() {
    let path: &BStr = "/lib64/ld-linux-x86-64.so.2".into();
    let here = OsFs::new();
    if here.interpreter(path).is_err() {
        return becalm_testing::skip("no /lib64/ld-linux-x86-64.so.2 here");
    }
    let printed = loader_facts(&here, path, &FactChoice::default()).unwrap();
    assert_eq!(loader_facts(&here, path, &FactChoice::default()).unwrap(), printed, "cached");
    let Ok(inside) = OsFs::in_root(Path::new("/")) else {
        return becalm_testing::skip("no openat2");
    };
    let read = loader_facts(&inside, path, &FactChoice::default()).unwrap();
    assert_eq!(read, printed);
    let least = FactChoice { cpu: Some("baseline".to_owned()), ..FactChoice::default() };
    assert_eq!(loader_facts(&here, path, &least).unwrap().hwcaps, [""; 0]);
    let none = FactChoice { cpu: Some("6502".to_owned()), ..FactChoice::default() };
    let error = loader_facts(&here, path, &none).unwrap_err();
    assert!(error.to_string().contains("6502"), "{error}");
}

#[test]
fn tunables_that_mask_hwcaps_change_the_facts_of_a_loader_that_is_run() {
    let path: &BStr = "/lib64/ld-linux-x86-64.so.2".into();
    let here = OsFs::new();
    let facts = |tunables: &str| {
        let choice = FactChoice { tunables: tunables.into(), ..FactChoice::default() };
        loader_facts(&here, path, &choice)
    };
    let Ok(plain) = facts("") else {
        return becalm_testing::skip("no /lib64/ld-linux-x86-64.so.2 here");
    };
    if plain.hwcaps.is_empty() {
        return becalm_testing::skip("a CPU without x86-64-v2");
    }
    assert_eq!(facts("glibc.malloc.check=0").unwrap(), plain);
    assert_eq!(facts("glibc.cpu.hwcaps=-SSE4_2").unwrap().hwcaps, [""; 0]);
    let masked = facts("glibc.cpu.hwcap_mask=0").unwrap();
    assert!(
        masked
            .legacy_hwcaps
            .iter()
            .all(|name| name == "tls" || plain.platform.as_ref() == Some(name))
    );
    assert_eq!(masked.hwcap_mask, 0);
}
