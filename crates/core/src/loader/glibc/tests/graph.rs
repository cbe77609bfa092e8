//! Tests that the scope of a start in a [`LoadGraph`] is that of the plain model.

use std::sync::Arc;

use super::*;
use crate::closure::{FoundBefore, LoadGraph, Starts};

fn library(name: impl AsRef<[u8]>) -> ObjectBuilder {
    ObjectBuilder::library(name)
}

/// The scope of each program by a graph for all of them, if it has one. Fails if that differs from
/// the scope of the plain model.
fn scopes<'p>(
    fs: &MemFs,
    programs: impl IntoIterator<Item = &'p str>,
    environment: &Environment,
) -> Vec<Option<Vec<String>>> {
    let (facts, found) = (Arc::new(facts(36)), FoundBefore::default());
    let starts = Starts::new(fs, &facts, environment, &found);
    let mut graph = LoadGraph::default();
    let mut scope = |path: &str| {
        let subject = starts.open(path.into()).expect("the fixture's program");
        let scope = starts.scope(&mut graph, &subject, LD_SO.into())?;
        let plain = closure::resolve(fs, subject, LD_SO.into(), facts.clone(), environment);
        let plain = plain.expect("the fixture's loader").load;
        let of_graph = scope.objects.iter().map(|&at| graph.object(at).path.to_string());
        let of_load = plain.scope.iter().map(|&at| plain.objects[at].path.to_string());
        let of_graph: Vec<String> = of_graph.collect();
        assert_eq!(of_graph, of_load.collect::<Vec<_>>(), "{path}");
        assert_eq!((plain.stop, graph.object(scope.loader).path.to_string()), (None, LD_SO.into()));
        let is_outside = !scope.objects.contains(&scope.loader);
        assert_eq!(plain.objects.len(), of_graph.len() + usize::from(is_outside), "{path}");
        Some(of_graph)
    };
    programs.into_iter().map(&mut scope).collect()
}

#[test]
fn a_name_that_a_loaded_object_has_is_not_searched_for() {
    let fs = base()
        .object("/bin/one", program().needed("liba.so").needed("libb.so").runpath("/a:/b"))
        .object("/bin/two", program().needed("libb.so").needed("ld.so.1").runpath("/c:/b"))
        .object("/bin/three", program().needed("liba.so").runpath("/a"))
        // The library has no run path: only a program that has loaded libb.so starts.
        .object("/a/liba.so", library("liba.so").needed("libb.so").needed("ld.so.1"))
        .object(
            "/b/libb.so",
            library("libother.so").needed("libother.so").needed("linux-vdso.so.1"),
        )
        .link("/c/libb.so", "/b/libb.so");
    let scopes = scopes(&fs, ["/bin/one", "/bin/two", "/bin/three"], &Environment::default());
    let found = |paths: &[&str]| Some(paths.iter().map(|path| (*path).to_owned()).collect());
    let one = found(&["/bin/one", "/a/liba.so", "/b/libb.so", LD_SO]);
    assert_eq!(scopes, [one, found(&["/bin/two", "/c/libb.so", LD_SO]), None]);
}

#[test]
fn a_start_whose_searches_depend_on_its_process_has_no_scope() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").runpath("/a"))
        .object("/bin/rpath", program().needed("liba.so").rpath("/a"))
        .object("/bin/filter", program().needed("libf.so").runpath("/a"))
        .object("/bin/inherits", program().needed("libr.so").runpath("/a"))
        .object("/bin/error", program().needed("liba.so").runpath("/lib/ld.so/x:/a"))
        .object("/a/liba.so", library("liba.so"))
        .object("/a/libr.so", library("libr.so").needed("liba.so").rpath("/a"))
        .object("/a/libf.so", library("libf.so").filter("liba.so").runpath("/a"));
    let programs = ["/bin/prog", "/bin/rpath", "/bin/filter", "/bin/inherits", "/bin/error"];
    let have = |environment: &Environment| {
        scopes(&fs, programs, environment).iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(have(&Environment::default()), [true, false, false, false, false]);
    let path = |path: &str| Environment { library_path: Some(path.into()), ..Default::default() };
    assert_eq!(have(&path("/e"))[..1], [true]);
    assert_eq!(have(&path("$ORIGIN"))[..1], [false]);
    let preload = Environment { preload: Some("liba.so".into()), ..Default::default() };
    assert_eq!(have(&preload)[..1], [false]);
}

#[test]
fn the_scopes_of_random_stores_are_those_of_the_plain_model() {
    const COUNT: usize = 12;
    let mut state = 1_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % limit
    };
    let mut with_scope = 0;
    for _ in 0..200 {
        let mut fs = base();
        for number in 0..2 * COUNT {
            // A soname may be another one than the name, and names repeat in several directories.
            let is_program = number >= COUNT;
            let mut object = if is_program { program() } else { library(soname(below(COUNT))) };
            for _ in 0..below(5) {
                object = object.needed(soname(below(COUNT + 1)));
            }
            if below(12) == 0 {
                object = object.needed("ld.so.1");
            }
            object = match below(40) {
                0 => object.rpath("/d0:/d1"),
                1 => object,
                _ => object.runpath(format!("/d{}:/d{}:/d0:/d1:/d2", below(3), below(3))),
            };
            fs = match is_program {
                true => fs.object(format!("/bin/p{number}"), object),
                false => fs.object(format!("/d{}/{}", below(3), soname(number)), object),
            };
            if below(4) == 0 && !is_program {
                let target = format!("/d{}/{}", below(3), soname(below(COUNT)));
                fs = fs.link(format!("/d{}/{}", below(3), soname(COUNT + below(3))), target);
            }
        }
        let programs: Vec<String> = (COUNT..2 * COUNT).map(|n| format!("/bin/p{n}")).collect();
        let scopes = scopes(&fs, programs.iter().map(String::as_str), &Environment::default());
        with_scope += scopes.iter().flatten().count();
    }
    assert!((1000..2400).contains(&with_scope), "{with_scope}");
}

fn soname(number: usize) -> String {
    format!("lib{number}.so")
}

#[test]
fn a_start_with_more_needed_strings_than_the_limit_has_a_whole_scope() {
    const COUNT: usize = 110;
    let needs_all = |object: ObjectBuilder, times: usize| {
        let names = (0..times * COUNT).map(|at| soname(at % COUNT));
        names.fold(object.runpath("/a"), |object, name| object.needed(name))
    };
    let mut fs = base().object("/bin/prog", needs_all(program(), 1));
    for number in 0..COUNT {
        let name = soname(number);
        fs = fs.object(format!("/a/{name}"), needs_all(library(&name), 10));
    }
    assert_eq!(run(&fs).load.stop, Some(Stop::TooManyProbes));
    let (facts, found) = (Arc::new(facts(36)), FoundBefore::default());
    let environment = Environment::default();
    let starts = Starts::new(&fs, &facts, &environment, &found);
    let subject = starts.open("/bin/prog".into()).expect("the fixture's program");
    let scope = starts.scope(&mut LoadGraph::default(), &subject, LD_SO.into());
    assert_eq!(scope.map(|scope| scope.objects.len()), Some(COUNT + 1));
}
