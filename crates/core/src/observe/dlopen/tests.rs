//! Tests of the inferred requesters.

use super::*;
use crate::fs::mem::ObjectBuilder;
use crate::fs::{Errno, MemFs};
use crate::observe::Kind;

const CACHE: &str = "/etc/ld.so.cache";

fn lookup(kind: Kind, path: &str, found: bool) -> Lookup {
    let errno = (!found).then_some(Errno::NOENT);
    Lookup { kind, path: path.into(), at_cwd: true, errno, ns: 0, by_loader: true }
}

fn open(path: &str, found: bool) -> Lookup {
    lookup(Kind::Open, path, found)
}

fn stores() -> MemFs {
    let library = |name: &str| ObjectBuilder::library(name);
    MemFs::new()
        .object("/v/ext.so", library("").needed("liba.so").needed("libz.so"))
        .object("/v/libs/liba.so", library("liba.so").needed("libz.so").needed("libgone.so"))
        .object("/lib/libz.so", library("libz.so"))
}

fn not_found(dlopens: &Dlopen) -> Vec<&BString> {
    dlopens.needed.iter().filter(|needed| !needed.found).map(|it| &it.misses.name).collect()
}

#[test]
fn a_search_is_charged_to_the_object_that_needs_the_name() {
    let seen = [
        open("/v/ext.so", true),
        open("/v/libs/tls/liba.so", false),
        lookup(Kind::Stat, "/v/libs/tls", false),
        open("/v/libs/liba.so", true),
        open("/v/libs/libz.so", false),
        open(CACHE, true),
        open("/lib/libz.so", true),
        open("/v/libs/libgone.so", false),
    ];
    let dlopens = dlopens(&seen, CACHE.into(), &stores());
    let charged: Vec<(&BStr, &BStr, &BStr)> = dlopens
        .probes
        .iter()
        .map(|probe| (probe.needed_by.as_ref(), probe.needed.as_ref(), probe.directory.as_ref()))
        .collect();
    let expected = [
        ("", "ext.so", "/v"),
        ("/v/ext.so", "liba.so", "/v/libs"),
        ("/v/ext.so", "liba.so", "/v/libs"),
        ("/v/ext.so", "liba.so", "/v/libs"),
        ("/v/ext.so", "libz.so", "/v/libs"),
        ("/v/ext.so", "libz.so", "/lib"),
        ("/v/libs/liba.so", "libgone.so", "/v/libs"),
    ];
    assert_eq!(charged, expected.map(|(by, name, dir)| (by.into(), name.into(), dir.into())));
    assert_eq!(not_found(&dlopens), ["libgone.so"]);
    assert_eq!(dlopens.found_misses, 3);
    let objects: Vec<(&str, u64)> =
        dlopens.objects.iter().map(|it| (it.name.to_str().expect("UTF-8"), it.misses())).collect();
    assert_eq!(objects, [("/v/ext.so", 3), ("/v/libs/liba.so", 1)]);
    assert_eq!(dlopens.directories[0].name, "/v/libs");
}

#[test]
fn the_names_of_a_failed_dlopen_are_not_charged_to_the_next_one() {
    let fs = stores().object("/v/other.so", ObjectBuilder::library("").needed("libz.so"));
    // The first dlopen fails at liba.so, so that libz.so is never searched for.
    let seen = [
        open("/v/ext.so", true),
        open("/v/libs/liba.so", false),
        open("/v/other.so", true),
        open("/v/libs/libz.so", false),
        open("/lib/libz.so", true),
    ];
    let dlopens = dlopens(&seen, CACHE.into(), &fs);
    assert_eq!(dlopens.probes[3].needed_by, "/v/other.so");
    assert_eq!(not_found(&dlopens), ["liba.so"]);
}

#[test]
fn calls_on_other_paths_than_candidates_are_left_out() {
    let seen = [lookup(Kind::Readlink, "/v/x", false), lookup(Kind::Stat, "", true)];
    assert!(dlopens(&seen, CACHE.into(), &MemFs::new()).probes.is_empty());
}
