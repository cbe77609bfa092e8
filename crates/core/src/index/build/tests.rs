//! Answers of the directories of a `DT_RPATH` ([`Resolver::listed`]).

use std::sync::Arc;

use bstr::{BStr, BString};

use super::{Condition, Fingerprints, Listed, Resolver, Sources};
use crate::elf::Ident;
use crate::fs::mem::ObjectBuilder;
use crate::fs::{Errno, MemFs};
use crate::index::{Fingerprint, Time};
use crate::loader::facts::plain_glibc;
use crate::search::Stores;

/// One fingerprint for every file, from long ago or just now.
struct OneFingerprint {
    now: Time,
}

const STAMP: Fingerprint = Fingerprint {
    volume: 1,
    ino: 2,
    size: 0,
    mtime: Time { sec: 100, nsec: 1 },
    ctime: Time { sec: 100, nsec: 1 },
};

impl Fingerprints for OneFingerprint {
    fn fingerprint(&self, _: &BStr) -> Result<Fingerprint, Errno> {
        Ok(STAMP)
    }

    fn listing(&self, _: &BStr) -> u64 {
        0
    }

    fn is_for_all(&self, _: &BStr) -> bool {
        true
    }

    fn now(&self) -> Time {
        self.now
    }
}

/// Asks for one directory, with `/s` as the store; `names` are those in it.
fn listed(fs: &MemFs, dir: &str, names: &[&str], now: i64) -> Option<Listed> {
    let facts = plain_glibc(36);
    let ident: Ident = ObjectBuilder::program().build().ident;
    let fingerprints = OneFingerprint { now: Time { sec: now, nsec: 1 } };
    let stores = Stores::of(["/s"]);
    let resolver = Resolver::new(Sources {
        fs,
        fingerprints: &fingerprints,
        facts: &facts,
        loader: "/lib/ld.so".into(),
        ident: &ident,
        stores: &stores,
    });
    let list = |of: &BStr| {
        assert_eq!(of, dir, "only the directory itself is listed");
        Some(names.iter().map(|name| BString::from(*name)).collect())
    };
    resolver.listed(dir.into(), &list)
}

fn alone(condition: Condition) -> [Arc<Condition>; 1] {
    [Arc::new(condition)]
}

fn name(name: &str, is_certain: bool) -> (BString, bool) {
    (name.into(), is_certain)
}

#[test]
fn a_library_under_its_soname_answers_and_any_other_file_may() {
    let foreign = ObjectBuilder::library("libforeign.so").machine(183);
    let fs = MemFs::new()
        .object("/s/p/lib/liba.so.1", ObjectBuilder::library("liba.so.1"))
        .link("/s/p/lib/liba.so", "liba.so.1")
        .object("/s/p/lib/libforeign.so", foreign)
        .object("/s/p/lib/libhidden.so", ObjectBuilder::library("libhidden.so"))
        .mode("/s/p/lib/libhidden.so", 0o700)
        .file("/s/p/lib/libtext.so", "GROUP ( liba.so.1 )")
        .file("/s/p/lib/README", "");
    let names = ["liba.so.1", "liba.so", "libforeign.so", "libhidden.so", "libtext.so", "README"];
    let found = listed(&fs, "/s/p/lib", &names, 1_000).unwrap();
    assert_eq!(found.conditions, alone(Condition::StoreDirectory("/s/p/lib".into(), STAMP)));
    assert!(!found.look);
    // The loader passes over the library of another machine: it is as if it was not there.
    let expected = [
        name("liba.so.1", true),
        name("liba.so", false),
        name("libhidden.so", false),
        name("libtext.so", false),
        name("README", false),
    ];
    assert_eq!(found.names, expected);
}

#[test]
fn a_library_whose_link_leads_out_of_the_store_is_not_certain() {
    let fs = MemFs::new()
        .object("/opt/liba.so", ObjectBuilder::library("liba.so"))
        .dir("/s/p/lib")
        .link("/s/p/lib/liba.so", "/opt/liba.so");
    let found = listed(&fs, "/s/p/lib", &["liba.so"], 1_000).unwrap();
    assert_eq!(found.names, [name("liba.so", false)]);
}

#[test]
fn a_directory_outside_of_the_stores_is_guarded_and_its_files_are_looked_at() {
    let fs = MemFs::new().object("/usr/lib/liba.so", ObjectBuilder::library("liba.so"));
    let found = listed(&fs, "/usr/lib", &["liba.so"], 1_000).unwrap();
    assert_eq!(found.conditions, alone(Condition::Directory("/usr/lib".into(), STAMP)));
    assert!(found.look);
    assert_eq!(found.names, [name("liba.so", true)]);
    // A name added in the same tick of the clock would leave the same fingerprint.
    assert_eq!(listed(&fs, "/usr/lib", &["liba.so"], 100), None);
}

#[test]
fn an_absent_directory_answers_nothing_while_it_is_absent() {
    let fs = MemFs::new().dir("/s/p").dir("/usr");
    let conditions = |dir: &str| {
        let found = listed(&fs, dir, &[], 1_000).unwrap();
        assert_eq!(found.names, []);
        found.conditions
    };
    assert_eq!(conditions("/usr/none"), alone(Condition::Absent("/usr/none".into())));
    // An existing package keeps its content while packages neither come nor go.
    let package = "/s/0123456789abcdefghijklmnopqrstuv-p";
    let fs = MemFs::new().dir(package);
    let dir = format!("{package}/lib");
    let found = listed(&fs, &dir, &[], 1_000).unwrap();
    assert_eq!(found.conditions, alone(Condition::AbsentPackage(dir.into())));
    assert_eq!(found.names, []);
    let dir = "/s/zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz-q/lib";
    let found = listed(&fs, dir, &[], 1_000).unwrap();
    assert_eq!(found.conditions, alone(Condition::AbsentPackage(dir.into())));
}
