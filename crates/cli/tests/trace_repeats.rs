//! `becalm trace`: successful lookups that a program repeats.

mod support;

use std::fs;

use serde_json::Value;
use support::store::text;
use support::{becalm, cc, no_compiler, run};

#[test]
fn lookups_that_had_succeeded_before_are_counted_by_path() {
    if no_compiler() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    let source = "#include <sys/stat.h>\n#include <stdio.h>\n\
        int main(int argc, char **argv)\n\
        { struct stat s; char name[64]; int i;\n\
          for (i = 0; i < 150; i++) { stat(argv[1], &s); snprintf(name, 64, \"%d.py\", i % 3); stat(name, &s); }\n\
          return argc - 2; }\n";
    fs::write(dir.path().join("ask.c"), source).expect("written");
    cc(dir.path(), &["ask.c", "-o", "python-ask"]);
    let (program, out) = (dir.path().join("python-ask"), dir.path().join("trace.json"));
    let site = dir.path().join("site-packages");
    fs::create_dir(&site).expect("made");
    let trace = |more: &[&str]| {
        let mut trace = becalm();
        trace.current_dir(dir.path()).arg("trace").args(more).arg("--");
        run(trace.arg(&program).arg(&site))
    };
    let ran = trace(&["--json", "-o", text(&out)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report: Value = serde_json::from_slice(&fs::read(&out).expect("a report")).expect("JSON");
    if report["opens_alone"] == true {
        becalm_testing::skip("no tracing here");
        return;
    }
    let image = report["images"].as_array().and_then(|images| images.last()).expect("an image");
    let classes = image["classes"].as_array().expect("classes");
    let python = classes.iter().find(|class| class["class"] == "python").expect("the class");
    let repeated = &python["repeated"];
    assert_eq!((&repeated["count"], &python["hits"]), (&149.into(), &150.into()), "{python}");
    assert_eq!(repeated["paths"][0]["path"], text(&site));
    assert_eq!(repeated["paths"][0]["times"], 149);
    let names = python["names"].as_array().expect("names");
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.iter().all(|name| name["misses"] == 50), "{names:?}");
    let screen = trace(&[]);
    assert!(screen.stderr.contains("repeated successful lookups\n     149  "), "{screen:?}");
}
