//! Tests of the list of files on the in-memory file system.

use std::path::Path;

use becalm_core::closure::{Subject, resolve};
use becalm_core::loader::{Environment, LoaderFacts};
use becalm_testing::mem::{MemFs, ObjectBuilder};

use super::bundle::{Bundle, NoBundle};
use super::*;

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

fn facts() -> LoaderFacts {
    LoaderFacts {
        libc: "glibc-2.41".parse().expect("a release"),
        system_dirs: vec!["/lib64/".into(), "/usr/lib64/".into()],
        cache_path: Some("/etc/ld.so.cache".into()),
        lib: "lib64".into(),
        platform: Some("x86_64".into()),
        hwcaps: Vec::new(),
        legacy_hwcaps: Vec::new(),
        hwcap_mask: 0,
        platform_bit: None,
        reads: becalm_core::facts::Readers::default(),
        no_exec_stack: false,
    }
}

fn files(fs: &MemFs, program: &str, via: &[BString]) -> Vec<StartFile> {
    let subject = Subject::open(fs, program.into()).expect("a program");
    let closure = resolve(fs, subject, LOADER.into(), facts(), &Environment::default());
    let mut list = FileList::new(fs);
    via.iter().for_each(|script| list.add(script.as_ref(), FileUse::Script));
    list.add_start(&closure.expect("a start"));
    list.files
}

/// A program in a repository, with libraries behind links of files and of directories.
fn repository() -> MemFs {
    MemFs::new()
        .object("/usr/lib64/ld-2.41.so", ObjectBuilder::library("ld-linux-x86-64.so.2"))
        .link("/usr/lib64/ld-linux-x86-64.so.2", "ld-2.41.so")
        .link("/lib64", "usr/lib64")
        .object(
            "/cvmfs/a.org/x/bin/prog-1",
            ObjectBuilder::program()
                .needed("libone.so.1")
                .needed("libtwo.so")
                .runpath("/cvmfs/a.org/view/lib"),
        )
        .link("/cvmfs/a.org/x/bin/prog", "prog-1")
        .link("/cvmfs/a.org/view", "/cvmfs/a.org/x")
        .object("/cvmfs/a.org/x/lib/libone.so.1.2", ObjectBuilder::library("libone.so.1"))
        .link("/cvmfs/a.org/x/lib/libone.so.1", "./libone.so.1.2")
        .object("/usr/lib64/libtwo.so", ObjectBuilder::library("libtwo.so"))
        .file("/etc/ld.so.cache", "")
        .file("/cvmfs/a.org/x/bin/start", "#!/bin/sh\n")
}

fn line(file: &StartFile) -> String {
    let target = file.target.as_ref().map_or(String::new(), |target| format!(" -> {target}"));
    format!("{:?} {}{target}", file.kind, file.path)
}

#[test]
fn every_link_comes_before_the_file_that_it_leads_to() {
    let lines: Vec<String> =
        files(&repository(), "/cvmfs/a.org/x/bin/prog", &[]).iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "Link /cvmfs/a.org/x/bin/prog -> prog-1",
            "Program /cvmfs/a.org/x/bin/prog-1",
            "Link /lib64 -> usr/lib64",
            "Link /usr/lib64/ld-linux-x86-64.so.2 -> ld-2.41.so",
            "Interpreter /usr/lib64/ld-2.41.so",
            "Link /cvmfs/a.org/view -> /cvmfs/a.org/x",
            "Link /cvmfs/a.org/x/lib/libone.so.1 -> ./libone.so.1.2",
            "Library /cvmfs/a.org/x/lib/libone.so.1.2",
            "Library /usr/lib64/libtwo.so",
            "Configuration /etc/ld.so.cache",
        ]
    );
}

#[test]
fn scripts_come_first_and_a_relative_path_starts_at_the_current_directory() {
    let fs = repository().cwd("/cvmfs/a.org/x/lib");
    let via = ["../bin/start".into()];
    let listed = files(&fs, "/cvmfs/a.org/x/bin/prog-1", &via);
    assert_eq!(line(&listed[0]), "Script /cvmfs/a.org/x/bin/start");
    assert_eq!(listed[1].kind, FileUse::Program);
}

#[test]
fn a_circle_of_links_ends() {
    let fs = MemFs::new().link("/a", "b").link("/b", "a");
    let mut list = FileList::new(&fs);
    list.add("/a/x".into(), FileUse::Library);
    assert!(list.files.len() <= 3, "{:?}", list.files);
}

#[test]
fn a_bundle_has_the_files_of_the_repository_but_the_trigger_and_no_links() {
    let listed = files(&repository(), "/cvmfs/a.org/x/bin/prog", &[]);
    let bundle = Bundle::of(&listed, None).expect("a bundle");
    assert_eq!(bundle.dependencies, ["/x/lib/libone.so.1.2"]);
    let text = serde_json::to_string(&bundle).expect("JSON");
    assert_eq!(
        text,
        r#"{"name":"CVMFS_BUNDLE","version":"1.0.0","encoding":"UTF-8","dependencies":["/x/lib/libone.so.1.2"]}"#
    );
    let whole = Bundle::of(&listed, Some(Path::new("/"))).expect("a bundle");
    assert!(whole.dependencies.contains(&"/usr/lib64/libtwo.so".to_owned()), "{whole:?}");
    assert_eq!(Bundle::of(&listed, Some(Path::new("/cvmfs/b.org"))), Err(NoBundle::Outside));
}
