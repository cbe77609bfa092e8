//! Tests with crafted files: the walk ends, and its time and memory stay bounded.

use super::*;
use crate::loader::load::{Load, Stop};

/// Returns a directory almost as long as a path may be.
fn deep_dir() -> String {
    ["/", "d".repeat(250).as_str()].concat().repeat(15)
}

#[test]
fn auxiliary_objects_that_name_each_other_end_the_walk() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so"))
        .object("/lib/liba.so", ObjectBuilder::library("liba.so").auxiliary("libb.so"))
        .object("/lib/libb.so", ObjectBuilder::library("libb.so").auxiliary("liba.so"));
    let closure = run(&fs);
    assert_eq!(closure.load.stop, Some(Stop::TooManyProbes));
    assert_eq!(paths(&closure), ["/lib/liba.so", "/lib/libb.so"]);
}

#[test]
fn long_needed_strings_end_the_walk_before_they_fill_the_memory() {
    let long = ["/", "l".repeat(100_000).as_str()].concat();
    let auxiliary = |soname: &str, other: &str| {
        let library = ObjectBuilder::library(soname).auxiliary(other);
        library.needed(&long)
    };
    let fs = base()
        .object("/bin/prog", program().needed("liba.so"))
        .object("/lib/liba.so", auxiliary("liba.so", "libb.so"))
        .object("/lib/libb.so", auxiliary("libb.so", "liba.so"));
    let load = run(&fs).load;
    assert_eq!(load.stop, Some(Stop::TooManyProbes));
    let bytes: usize = load.resolutions.iter().map(|resolution| resolution.needed.len()).sum();
    assert!((1..=Load::MAX_NEEDED_BYTES).contains(&bytes), "{bytes}");
}

#[test]
fn audit_modules_that_need_themselves_many_times_end_the_walk() {
    let module = (0..5_000).fold(ObjectBuilder::library("m.so"), |module, _| module.needed("m.so"));
    let fs = base()
        .object("/bin/prog", program().audit("/m/m.so:".repeat(5_000)))
        .object("/m/m.so", module);
    assert_eq!(run(&fs).load.stop, Some(Stop::TooManyProbes));
}

#[test]
fn a_run_path_grown_by_origin_ends_the_walk_before_it_fills_the_memory() {
    let dir = deep_dir();
    let run_path: Vec<_> = (0..20_000).map(|index| format!("$ORIGIN/{index}")).collect();
    let library = ObjectBuilder::library("l.so").runpath(run_path.join(":")).needed("x.so");
    let path = format!("{dir}/l.so");
    let fs = base().object("/bin/prog", program().needed(&path)).object(&path, library);
    let closure = run(&fs);
    assert_eq!(closure.load.stop, Some(Stop::TooManyProbes));
    assert_eq!(closure.load.probes.len(), 1);
}

#[test]
fn absent_directories_are_not_probed_again() {
    let absent: Vec<_> = (0..20_000).map(|index| format!("/no{index}")).collect();
    let run_path = format!("/a:{}:/b", absent.join(":"));
    let prog = (0..20_000)
        .fold(program().runpath(run_path), |prog, index| prog.needed(format!("lib{index}.so")));
    let fs = base().dir("/a").dir("/b").object("/bin/prog", prog);
    let closure = run(&fs);
    // The four directories that exist cost one open a name and one stat each.
    assert_eq!(closure.load.probes.len(), 4 * 20_000 + 4 + 2 * 20_000);
    assert_eq!(closure.unresolved().len(), 20_000);
}

#[test]
fn a_name_missing_twice_is_listed_once_at_its_first_position() {
    let prog = program().needed("libz.so").needed("liba.so").needed("libz.so");
    let fs = base().object("/bin/prog", prog);
    assert_eq!(run(&fs).unresolved(), ["libz.so", "liba.so"]);
}

#[test]
fn an_rpath_above_objects_without_one_is_searched_for_every_name() {
    let library = ObjectBuilder::library;
    let last = library("libc.so").needed("libd.so").needed("libe.so").needed("libf.so");
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").rpath("/r"))
        .object("/r/liba.so", library("liba.so").needed("libb.so").rpath("/s:/none"))
        .object("/s/libb.so", library("libb.so").needed("libc.so").rpath("/none"))
        .object("/s/libc.so", last)
        .object("/r/libd.so", library("libd.so"))
        .object("/s/libe.so", library("libe.so"))
        .object("/r/libf.so", library("libf.so"));
    let closure = run(&fs);
    assert_eq!(paths(&closure)[3..], ["/r/libd.so", "/s/libe.so", "/r/libf.so"]);
    // Only the first lookup from libb.so opens a file in /none and makes the stat.
    assert_eq!(probes(&closure).iter().filter(|probe| probe.contains("/none")).count(), 2);
}

#[test]
fn an_auxiliary_object_already_waiting_moves_up() {
    let library = ObjectBuilder::library;
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so").needed("libc.so"))
        .object("/lib/liba.so", library("liba.so").auxiliary("libc.so").auxiliary("libc.so"))
        .object("/lib/libb.so", library("libb.so").needed("liby.so"))
        .object("/lib/libc.so", library("libc.so").needed("libx.so"))
        .object("/lib/libx.so", library("libx.so"))
        .object("/lib/liby.so", library("liby.so"));
    assert_eq!(paths(&run(&fs))[3..], ["/lib/libx.so", "/lib/liby.so"]);
}
