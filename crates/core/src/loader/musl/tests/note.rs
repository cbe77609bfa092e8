//! Tests of musl with becalm's patch. `vectors/layouts.txt` has the cases of one program.

use super::*;
use crate::facts::Readers;
use crate::probe::SearchSource::Note;

fn reading() -> Environment {
    let reads = Readers { note: true, ..Readers::default() };
    Environment { reads, ..Environment::default() }
}

fn noted(object: ObjectBuilder, records: &str) -> ObjectView {
    let mut view = object.build();
    view.notes.resolution = Some(format!("/complete/1\0?\0{records}\0").into());
    view
}

fn tried_by(fs: &MemFs, path: &str, environment: &Environment) -> Vec<(SearchSource, String)> {
    let load = started(fs, path, environment);
    load.probes.iter().map(|probe| (probe.source, probe.path.to_string())).collect()
}

#[test]
fn the_note_of_an_ancestor_answers_at_the_place_of_its_run_path() {
    let program = program().needed("libp.so").runpath("/p:/x");
    let records = "libp.so\0=/p/libp.so\0libx.so\0=/x/libx.so\0";
    let fs = MemFs::new()
        .object(LD, library())
        .object("/bin/p", noted(program, records))
        .object("/p/libp.so", library().needed("libx.so").runpath("/own"))
        .object("/x/libx.so", library());
    assert_eq!(
        tried_by(&fs, "/bin/p", &reading()),
        [
            (Note, "/p/libp.so".into()),
            (Runpath, "/own/libx.so".into()),
            (Note, "/x/libx.so".into())
        ]
    );
}

#[test]
fn preloads_are_searched_without_a_note() {
    let program = noted(program().runpath("/x"), "libx.so\0=/x/libx.so\0");
    let fs = MemFs::new().object(LD, library()).object("/bin/p", program);
    let environment = Environment { preload: Some("libx.so".into()), ..reading() };
    assert!(tried_by(&fs, "/bin/p", &environment).iter().all(|(source, _)| *source == System));
}

#[test]
fn a_note_is_ignored_if_the_origin_has_a_separator() {
    let run_path = "/n:$ORIGIN/lib:/x";
    let program = noted(program().needed("libx.so").runpath(run_path), "libx.so\0=/x/libx.so\0");
    let fs = MemFs::new().object(LD, library()).object("/a:b/p", program);
    let fs = fs.object("/x/libx.so", library());
    let opened: Vec<_> =
        tried_by(&fs, "/a:b/p", &reading()).into_iter().map(|tried| tried.1).collect();
    assert_eq!(opened, ["/n/libx.so", "/a/libx.so", "b/lib/libx.so", "/x/libx.so"]);
}
