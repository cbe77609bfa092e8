//! Trees of `DT_RPATH`: the directories that an object inherits from its loader, at the start and
//! in `dlopen`.

use becalm_core::index::hash;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{SHOW, Scene, answered, skip};

/// Loads the libraries of its arguments and prints the results: `K:NAME` makes library K open NAME,
/// `-` closes the library that was opened last.
const OPENER: &str = r#"
int main(int argc, char **argv) {
  void *last = 0;
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] == '-') { if (last) dlclose(last); last = 0; continue; }
    char symbol[] = "openK";
    symbol[4] = argv[i][0];
    void *(*opener)(const char *) = (void *(*)(const char *)) dlsym(RTLD_DEFAULT, symbol);
    void *opened = opener ? opener(argv[i] + 2) : 0;
    printf("%s %s\n", argv[i], opener ? opened ? "opened" : "not found" : "no opener");
    if (opened) last = opened;
  }
  show(0);
  return 0;
}
"#;

fn opener(number: usize) -> String {
    format!(
        "#include <dlfcn.h>\nvoid *open{number}(const char *n) {{ return dlopen(n, RTLD_NOW | \
         RTLD_GLOBAL); }}"
    )
}

impl Scene {
    /// Libraries to link with, without the libraries that programs find.
    fn stubs(&self, count: usize) {
        for number in 0..count {
            self.library(&format!("stubs/lib{number}.so"), &format!("stub{number}"), 0, &[]);
        }
    }

    /// A numbered library in a directory of the store, and its needed libraries.
    fn numbered(&self, dir: &str, number: usize, needs: &[usize], run_path: &str) {
        let (soname, needed) = (format!("-Wl,-soname,lib{number}.so"), linked(needs));
        let mut arguments = vec!["-shared", "-fPIC", soname.as_str(), "-L@/stubs"];
        arguments.extend(needed.iter().map(String::as_str));
        if !run_path.is_empty() {
            arguments.push(run_path);
        }
        self.cc(&format!("store/{dir}/lib{number}.so"), &opener(number), &arguments);
    }

    fn program(&self, needs: &[usize], run_path: &str) {
        let needed = linked(needs);
        let mut arguments = vec!["-L@/stubs", "-rdynamic", "-Wl,--allow-shlib-undefined"];
        arguments.extend(needed.iter().map(String::as_str));
        arguments.extend(["-ldl", run_path].into_iter().filter(|argument| !argument.is_empty()));
        self.cc("store/app/bin/app", &format!("{SHOW}{OPENER}"), &arguments);
    }

    /// Asserts that a start is the same with the index; returns the answered names.
    fn same_rpath(&self, opened: &[&str]) -> (String, Vec<(String, String)>) {
        self.same_with(opened, &[])
    }

    fn same_with(
        &self,
        opened: &[&str],
        environment: &[(&str, &str)],
    ) -> (String, Vec<(String, String)>) {
        let mut line = vec![self.text("store/app/bin/app")];
        line.extend(opened.iter().map(ToString::to_string));
        let plain = crate::support::start(&line, environment);
        let (calmed, answers) = self.logged(&line, environment);
        assert_eq!(plain, calmed, "{opened:?} answered: {answers:#?}");
        (plain.stdout, answers)
    }
}

fn linked(needs: &[usize]) -> Vec<String> {
    needs.iter().map(|need| format!("-l{need}")).collect()
}

fn rpath(dirs: &[&str]) -> String {
    let dirs: Vec<String> = dirs.iter().map(|dir| format!("@/store/{dir}")).collect();
    format!("-Wl,--disable-new-dtags,-rpath,{}", dirs.join(":"))
}

#[test]
fn a_library_without_a_run_path_is_answered_by_the_rpath_of_its_loader() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.stubs(4);
    scene.numbered("x", 0, &[1], "");
    scene.numbered("y", 1, &[2], &rpath(&["z"]));
    scene.numbered("x", 2, &[3], "");
    scene.numbered("z", 3, &[], "");
    scene.program(&[0], &rpath(&["none", "y", "x"]));
    scene.index(&[]);
    let (_, answers) = scene.same_rpath(&[]);
    for (needed, dir) in [("lib1.so", "y"), ("lib2.so", "x"), ("lib3.so", "z")] {
        let path = scene.text(&format!("store/{dir}/{needed}"));
        assert!(answers.contains(&(needed.to_owned(), path)), "{needed}: {answers:#?}");
    }
}

#[test]
fn what_dlopen_opens_inherits_from_the_program_and_not_from_its_caller() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.stubs(4);
    // 2 is in the caller's directories and in the program's.
    scene.numbered("a", 0, &[], &rpath(&["b"]));
    scene.numbered("b", 1, &[2], "");
    scene.numbered("b", 2, &[3], "");
    scene.numbered("c", 2, &[3], "");
    scene.numbered("b", 3, &[], "");
    scene.program(&[0], &rpath(&["a", "c"]));
    scene.index(&[]);
    let (shown, answers) = scene.same_rpath(&["0:lib1.so"]);
    // 3 is in no directory that is searched for it.
    assert!(shown.contains("0:lib1.so not found"), "{shown}");
    assert!(answered(&answers, "lib2.so"), "{answers:#?}");
}

#[test]
fn an_rpath_that_nobody_indexed_is_searched_by_the_loader() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.stubs(4);
    scene.numbered("a", 0, &[], "");
    scene.numbered("a", 2, &[], "");
    scene.numbered("b", 3, &[], "");
    scene.program(&[0], &rpath(&["a", "b"]));
    scene.index(&[]);
    // An object that is not indexed, whose own DT_RPATH has another lib2.so; the objects that it
    // loads inherit that.
    scene.numbered("../late", 1, &[2, 3], &rpath(&["../late"]));
    scene.numbered("../late", 2, &[], "");
    let stranger = format!("0:{}", scene.text("late/lib1.so"));
    let (shown, answers) = scene.same_rpath(&[&stranger]);
    assert!(shown.contains("late/lib2.so"), "{shown}");
    assert!(!answered(&answers, "lib2.so") && !answered(&answers, "lib3.so"), "{answers:#?}");
}

#[test]
fn an_object_whose_loader_is_closed_inherits_from_the_program_alone() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.stubs(5);
    scene.numbered("a", 0, &[], "");
    // 1 loads 2, which 4 keeps; 2 opens 3 once 1 is gone.
    scene.numbered("a", 1, &[2], &rpath(&["b"]));
    scene.numbered("b", 2, &[], "");
    scene.numbered("b", 3, &[], "");
    scene.numbered("c", 3, &[], "");
    scene.numbered("a", 4, &[2], &rpath(&["b"]));
    scene.program(&[0], &rpath(&["a", "c"]));
    scene.index(&[]);
    let (before, _) = scene.same_rpath(&["0:lib1.so", "2:lib3.so"]);
    assert!(before.contains("store/b/lib3.so"), "{before}");
    let (after, _) = scene.same_rpath(&["0:lib4.so", "0:lib1.so", "-", "2:lib3.so"]);
    assert!(after.contains("lib3.so opened"), "{after}");
}

#[test]
fn every_order_of_sources_is_that_of_the_loader() {
    if skip() {
        return;
    }
    // Which directories have the library; in which of them each requester finds it, in order.
    const REQUESTERS: [(&str, &[&str]); 3] = [
        ("", &["program", "variable"]),
        ("rpath", &["own", "program", "variable"]),
        ("runpath", &["variable", "own"]),
    ];
    let scene = Scene::new();
    scene.stubs(5);
    for (number, (kind, _)) in REQUESTERS.iter().enumerate() {
        let path = match *kind {
            "" => String::new(),
            "rpath" => rpath(&["own"]),
            _ => rpath(&["own"]).replace("--disable", "--enable"),
        };
        scene.numbered("program", number, &[3], &path);
    }
    scene.numbered("program", 4, &[], "");
    scene.program(&[4], &rpath(&["program"]));
    let places = ["own", "program", "variable"];
    for place in places {
        scene.numbered(place, 3, &[], "");
    }
    let file = |place: &str| scene.text(&format!("store/{place}/lib3.so"));
    let variable = scene.text("store/variable");
    for has in 0..8_u8 {
        let (with, without): (Vec<_>, Vec<_>) =
            (0..3).partition::<Vec<usize>, _>(|at| has >> at & 1 == 1);
        let hidden = |at: &usize| file(places[*at]) + ".hidden";
        for at in &without {
            std::fs::rename(file(places[*at]), hidden(at)).unwrap();
        }
        scene.index(&["store/variable"]);
        for (number, (kind, order)) in REQUESTERS.iter().enumerate() {
            let environment = [("LD_LIBRARY_PATH", variable.as_str())];
            let opened = format!("4:lib{number}.so");
            let (shown, answers) = scene.same_with(&[&opened], &environment);
            let first = order.iter().find(|place| with.iter().any(|at| places[*at] == **place));
            let is_found = first.is_some_and(|place| shown.contains(&(file(place) + "\n")));
            assert_eq!(is_found, first.is_some(), "{kind:?} of {with:?}: {shown}");
            assert_eq!(answered(&answers, "lib3.so"), is_found, "{kind:?} {with:?}: {answers:#?}");
        }
        for at in &without {
            std::fs::rename(hidden(at), file(places[*at])).unwrap();
        }
    }
}

/// A run path as linker argument: none, `DT_RPATH` or `DT_RUNPATH`.
fn any_run_path() -> impl Strategy<Value = String> {
    let dirs = prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "none"]), 1..4);
    (0..4_u8, dirs).prop_map(|(kind, dirs)| match kind {
        0 => String::new(),
        1 => rpath(&dirs).replace("--disable-new-dtags", "--enable-new-dtags"),
        _ => rpath(&dirs),
    })
}

/// A library: directory, number, what it needs, run path.
type Library = (&'static str, usize, Vec<usize>, String);

fn any_library(number: usize) -> impl Strategy<Value = Library> {
    let needs = prop::collection::vec(number + 1..8_usize, if number < 7 { 0..3 } else { 0..1 });
    let dir = prop::sample::select(vec!["a", "b", "c"]);
    (dir, Just(number), needs, any_run_path()).prop_map(move |(dir, number, needs, path)| {
        let needs = if number < 7 { needs } else { Vec::new() };
        (dir, number, needs, path)
    })
}

#[test]
fn random_trees_of_rpath_and_runpath_load_what_they_load_without_the_index() {
    if skip() {
        return;
    }
    let trees = std::env::var("BECALM_TREES").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let libraries: Vec<_> = (0..7).flat_map(|n| [any_library(n), any_library(n)]).collect();
    let tree = (libraries, any_run_path());
    for _ in 0..trees {
        let (libraries, of_program) = tree.new_tree(&mut runner).unwrap().current();
        let scene = Scene::new();
        scene.stubs(8);
        for (dir, number, needs, run_path) in &libraries {
            scene.numbered(dir, *number, needs, run_path);
        }
        scene.numbered("a", 7, &[], "");
        scene.program(&[], &of_program);
        scene.index(&[]);
        let plugin = scene.text("store/a/lib7.so");
        for seed in 0..12_u64 {
            let draw = |step: u64| hash::bytes(seed, &step.to_le_bytes()) % 7;
            let mut opened = vec![format!("7:lib{}.so", draw(0))];
            opened.extend((1..4).map(|step| format!("{}:lib{}.so", draw(step), draw(step + 9))));
            opened.insert(3, "-".to_owned());
            let mut line: Vec<&str> = opened.iter().map(String::as_str).collect();
            let first = format!("7:{plugin}");
            line.insert(0, &first);
            scene.same_rpath(&line);
        }
    }
}
