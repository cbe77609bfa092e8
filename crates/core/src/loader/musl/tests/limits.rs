//! Tests with crafted files: the walk ends, and its time and memory stay bounded.

use super::*;

#[test]
fn an_endless_list_of_needed_strings_ends_the_walk() {
    let program = (0..=Load::MAX_RESOLUTIONS).fold(program(), |program, _| program.needed("libc."));
    let load = plain(&system(program));
    assert_eq!(load.stop, Some(Stop::TooManyProbes));
    assert_eq!(load.resolutions.len(), Load::MAX_RESOLUTIONS);
}

#[test]
fn a_run_path_grown_by_origin_ends_the_walk_before_it_fills_the_memory() {
    let dir = ["/", "d".repeat(250).as_str()].concat().repeat(15);
    let path = format!("{dir}/l.so");
    let grown = library().runpath("$ORIGIN".repeat(100_000)).needed("x.so");
    let load = plain(&system(program().needed(&path)).object(&path, grown));
    assert_eq!(load.stop, Some(Stop::TooManyProbes));
    assert_eq!(opens(&load), [path]);
}

#[test]
fn directories_too_long_for_any_name_are_skipped_once() {
    let run_path = format!("{}/s", ["/", "x".repeat(600).as_str(), ":"].concat().repeat(2_000));
    let program = (0..5_000)
        .fold(program().runpath(run_path), |program, index| program.needed(format!("x{index}.so")));
    let fs = system(program).file(PATH_FILE, "");
    assert_eq!(plain(&fs).probes.len(), 5_000 + 1);
}

#[test]
fn the_first_loaded_of_two_objects_with_one_short_name_answers() {
    let prog = program().needed("/x/a.so").needed("a.so").needed("alias.so").needed("a.so");
    let fs = system(prog)
        .object("/x/a.so", library())
        .object("/lib/a.so", library())
        .link("/lib/alias.so", "/x/a.so");
    assert_eq!(
        answers(&plain(&fs)),
        [
            Answer::Loaded(2, Direct),
            Answer::Loaded(3, System),
            Answer::SameFile(2, System),
            Answer::AlreadyLoaded(2),
        ]
    );
}

#[test]
fn a_run_path_above_objects_without_one_is_searched_for_every_name() {
    let last = library().needed("d.so").needed("e.so");
    let fs = system(program().needed("a.so").runpath("/r"))
        .object("/r/a.so", library().needed("b.so").runpath("/s"))
        .object("/s/b.so", library().needed("c.so"))
        .object("/s/c.so", last)
        .object("/r/d.so", library())
        .object("/s/e.so", library());
    let load = plain(&fs);
    assert!(load.resolutions.iter().all(|current| matches!(current.answer, Answer::Loaded(..))));
    let of_c = opens(&load).into_iter().skip_while(|path| path != "/s/c.so").skip(1);
    assert_eq!(of_c.collect::<Vec<_>>(), ["/s/d.so", "/r/d.so", "/s/e.so"]);
}
