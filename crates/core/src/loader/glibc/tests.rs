//! Tests of the rules of the search on an in-memory file system. `tests/cases` proves the same
//! rules against the real loader.

mod before;
mod limits;
mod run_path;
mod stored_answers;

use bstr::BString;

use crate::closure::{self, Closure, Subject};
use crate::elf::DF_1_NODEFLIB;
use crate::fs::MemFs;
use crate::fs::mem::ObjectBuilder;
use crate::loader::facts::plain_glibc as facts;
use crate::loader::load::{Answer, Refusal, Stop};
use crate::loader::{Environment, LoaderFacts};

const LD_SO: &str = "/lib/ld.so";

fn base() -> MemFs {
    MemFs::new().object(LD_SO, ObjectBuilder::library("ld.so.1")).dir("/usr/lib")
}

fn program() -> ObjectBuilder {
    ObjectBuilder::program().interpreter(LD_SO)
}

fn walk(fs: &MemFs, facts: LoaderFacts, environment: &Environment) -> Closure {
    let subject = Subject::open(fs, "/bin/prog".into()).expect("the fixture's program");
    closure::resolve(fs, subject, LD_SO.into(), facts, environment).expect("the fixture's loader")
}

fn run(fs: &MemFs) -> Closure {
    walk(fs, facts(36), &Environment::default())
}

/// Formats the probes as `open:miss /path`, with the names that the JSON uses.
fn probes(closure: &Closure) -> Vec<String> {
    closure.probes().map(|p| format!("{}:{} {}", name(&p.call), name(&p.outcome), p.path)).collect()
}

fn name(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("a unit variant").trim_matches('"').to_owned()
}

fn paths(closure: &Closure) -> Vec<String> {
    closure.load.objects[2..].iter().map(|object| object.path.to_string()).collect()
}

#[test]
fn runpath_is_searched_for_its_own_object_only() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").runpath("/a:/b"))
        .object("/a/liba.so", ObjectBuilder::library("liba.so").needed("libb.so"))
        .object("/b/libb.so", ObjectBuilder::library("libb.so"));
    let closure = run(&fs);
    assert_eq!(closure.unresolved(), ["libb.so"]);
    assert_eq!(
        probes(&closure),
        ["open:hit /a/liba.so", "open:miss /lib/libb.so", "stat:hit /lib"]
            .into_iter()
            .chain(["open:miss /usr/lib/libb.so", "stat:hit /usr/lib"])
            .collect::<Vec<_>>()
    );
}

#[test]
fn rpath_is_inherited_from_the_objects_that_loaded_it() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").rpath("/p"))
        .object("/p/liba.so", ObjectBuilder::library("liba.so").needed("libb.so").rpath("/q"))
        .object("/p/libb.so", ObjectBuilder::library("libb.so"))
        .dir("/q");
    assert_eq!(
        probes(&run(&fs)),
        ["open:hit /p/liba.so", "open:miss /q/libb.so", "stat:hit /q", "open:hit /p/libb.so"]
    );
}

#[test]
fn runpath_switches_off_every_rpath_for_its_object() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").rpath("/p"))
        .object("/p/liba.so", ObjectBuilder::library("liba.so").needed("libb.so").runpath("/q"))
        .object("/p/libb.so", ObjectBuilder::library("libb.so"));
    assert_eq!(run(&fs).unresolved(), ["libb.so"]);
}

#[test]
fn library_path_comes_after_rpath_and_before_runpath() {
    let environment =
        Environment { library_path: Some("/e1;/e2:".into()), ..Environment::default() };
    let library = || ObjectBuilder::library("liba.so");
    let with = |prog: ObjectBuilder| {
        let fs = base()
            .object("/bin/prog", prog.needed("liba.so"))
            .object("/r/liba.so", library())
            .object("/e2/liba.so", library());
        paths(&walk(&fs, facts(36), &environment))
    };
    assert_eq!(with(program().rpath("/r")), ["/r/liba.so"]);
    assert_eq!(with(program().runpath("/r")), ["/e2/liba.so"]);
}

#[test]
fn an_absent_directory_is_tried_once_in_the_whole_process() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so").runpath("/none:/a"))
        .object("/a/liba.so", ObjectBuilder::library("liba.so").needed("libb.so").runpath("/none"))
        .object("/a/libb.so", ObjectBuilder::library("libb.so"));
    assert_eq!(
        probes(&run(&fs)),
        [
            "open:miss /none/liba.so",
            "stat:miss /none",
            "open:hit /a/liba.so",
            "open:hit /a/libb.so"
        ]
    );
}

#[test]
fn hwcaps_come_first_and_the_legacy_power_set_after_them() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").runpath("/a"))
        .object("/a/liba.so", ObjectBuilder::library("liba.so"));
    let mut facts = facts(36);
    facts.hwcaps = vec!["x86-64-v2".into()];
    facts.legacy_hwcaps = vec!["x86_64".into(), "tls".into()];
    let storm = walk(&fs, facts, &Environment::default());
    assert_eq!(
        probes(&storm).iter().filter(|line| line.starts_with("open")).collect::<Vec<_>>(),
        [
            "open:miss /a/glibc-hwcaps/x86-64-v2/liba.so",
            "open:miss /a/tls/x86_64/liba.so",
            "open:miss /a/tls/liba.so",
            "open:miss /a/x86_64/liba.so",
            "open:hit /a/liba.so"
        ]
    );
    assert_eq!(crate::cost::SearchCost::of(&storm.load).missed_stats, 4);
}

#[test]
fn misses_in_hwcaps_subdirectories_are_counted_apart_from_those_in_search_directories() {
    // The current directory, the root directory, an absent directory, an existing one.
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("b/libb.so").runpath(":/:/x//:/a"))
        .object("/a/liba.so", ObjectBuilder::library("liba.so"));
    let mut facts = facts(36);
    facts.hwcaps = vec!["v2".into()];
    facts.legacy_hwcaps = vec!["tls".into()];
    let closure = walk(&fs, facts, &Environment::default());
    let failed = |line: &&String| line.contains(":miss ");
    let all = probes(&closure);
    let (inside, outside): (Vec<&String>, Vec<&String>) = all
        .iter()
        .filter(failed)
        .partition(|line| line.contains("/v2") || line.ends_with("tls") || line.contains("tls/"));
    let storm = crate::cost::SearchCost::of(&closure.load);
    assert_eq!(storm.hwcaps_misses, inside.len() as u64, "{all:#?}");
    assert_eq!(storm.misses(), (inside.len() + outside.len()) as u64);
    assert!(inside.len() > 12 && outside.len() > 3, "{all:#?}");
}

#[test]
fn a_soname_of_a_loaded_object_answers_without_a_probe() {
    let fs = base()
        .object("/bin/prog", program().needed("/x/real.so").needed("liba.so").needed("ld.so.1"))
        .object("/x/real.so", ObjectBuilder::library("liba.so"));
    let closure = run(&fs);
    assert_eq!(probes(&closure), ["open:hit /x/real.so"]);
    let answers: Vec<_> = closure.load.resolutions.iter().map(|r| r.answer.clone()).collect();
    assert_eq!(answers[1..], [Answer::AlreadyLoaded(2), Answer::AlreadyLoaded(1)]);
}

#[test]
fn the_same_file_under_another_name_is_loaded_once() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so").runpath("/a"))
        .object("/a/liba.so", ObjectBuilder::library("libother.so"))
        .link("/a/libb.so", "liba.so");
    let closure = run(&fs);
    assert_eq!(paths(&closure), ["/a/liba.so"]);
    assert_eq!(probes(&closure), ["open:hit /a/liba.so", "open:hit /a/libb.so"]);
}

#[test]
fn a_file_of_another_class_or_machine_is_skipped() {
    let library = || ObjectBuilder::library("liba.so");
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").runpath("/32:/arm:/a"))
        .object("/32/liba.so", library().class(crate::elf::Class::Elf32))
        .object("/arm/liba.so", library().machine(183))
        .object("/a/liba.so", library());
    assert_eq!(
        probes(&run(&fs)),
        [
            "open:wrong-class /32/liba.so",
            "stat:hit /32",
            "open:wrong-machine /arm/liba.so",
            "stat:hit /arm",
            "open:hit /a/liba.so"
        ]
    );
}

#[test]
fn a_file_without_elf_magic_ends_the_start() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so").runpath("/a:/b"))
        .file("/a/liba.so", [b'x'; 100])
        .object("/b/liba.so", ObjectBuilder::library("liba.so"));
    let closure = run(&fs);
    assert_eq!(probes(&closure), ["open:not-elf /a/liba.so"]);
    let fatal = closure.fatal().expect("a fatal answer");
    assert_eq!(fatal.answer, Answer::Refused(Refusal::NOT_ELF));
}

#[test]
fn a_link_loop_ends_its_search_source_but_not_the_search() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").runpath("/a:/b"))
        .dir("/a")
        .link("/a/liba.so", "liba.so")
        .object("/b/liba.so", ObjectBuilder::library("liba.so"))
        .object("/lib/liba.so", ObjectBuilder::library("liba.so"));
    assert_eq!(probes(&run(&fs)), ["open:loop /a/liba.so", "stat:hit /a", "open:hit /lib/liba.so"]);
}

#[test]
fn an_unreadable_file_is_skipped() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").runpath("/a:/b"))
        .object("/a/liba.so", ObjectBuilder::library("liba.so"))
        .mode("/a/liba.so", 0o600)
        .object("/b/liba.so", ObjectBuilder::library("liba.so"));
    assert_eq!(probes(&run(&fs)), ["open:denied /a/liba.so", "stat:hit /a", "open:hit /b/liba.so"]);
}

#[test]
fn origin_of_a_program_has_its_links_resolved_and_that_of_a_library_has_not() {
    let fs = base()
        .object("/opt/x/prog", program().needed("liba.so").runpath("$ORIGIN/lib"))
        .link("/bin/prog", "/opt/x/prog")
        .link("/opt/x/lib", "/real")
        .object(
            "/real/liba.so",
            ObjectBuilder::library("liba.so").needed("libb.so").runpath("$ORIGIN"),
        )
        .object("/real/libb.so", ObjectBuilder::library("libb.so"));
    assert_eq!(paths(&run(&fs)), ["/opt/x/lib/liba.so", "/opt/x/lib/libb.so"]);
}

#[test]
fn nodeflib_keeps_an_object_out_of_the_system_dirs() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").flags_1(DF_1_NODEFLIB))
        .object("/lib/liba.so", ObjectBuilder::library("liba.so"));
    assert_eq!(run(&fs).unresolved(), ["liba.so"]);
}

#[test]
fn a_system_directory_listed_twice_is_found_absent_twice() {
    let fs = base().object("/bin/prog", program().needed("liba.so")).dir("/lib");
    let dirs = ["/none/", "/lib/", "/none/"].map(Into::into).to_vec();
    let facts = LoaderFacts { system_dirs: dirs, ..facts(37) };
    let tried = probes(&walk(&fs, facts, &Environment::default()));
    let none = ["open:miss /none/liba.so", "stat:miss /none"];
    let lib = ["open:miss /lib/liba.so", "stat:hit /lib"];
    assert_eq!(tried[tried.len() - 6..], [none, lib, none].concat());
}

#[test]
fn the_root_directory_counts_as_absent_before_2_38() {
    let fs = base()
        .object("/bin/prog", program().needed("libnone.so").needed("liba.so").runpath("/"))
        .object("/liba.so", ObjectBuilder::library("liba.so"));
    let old = walk(&fs, facts(36), &Environment::default());
    assert_eq!(old.unresolved(), ["libnone.so", "liba.so"]);
    let new = walk(&fs, facts(38), &Environment::default());
    assert_eq!(new.unresolved(), ["libnone.so"]);
}

#[test]
fn needed_strings_are_followed_breadth_first() {
    let library = ObjectBuilder::library;
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so"))
        .object("/lib/liba.so", library("liba.so").needed("libc.so"))
        .object("/lib/libb.so", library("libb.so").needed("libd.so"))
        .object("/lib/libc.so", library("libc.so"))
        .object("/lib/libd.so", library("libd.so"));
    assert_eq!(paths(&run(&fs)), ["/lib/liba.so", "/lib/libb.so", "/lib/libc.so", "/lib/libd.so"]);
}

#[test]
fn auxiliary_objects_are_followed_before_the_rest_and_may_be_missing() {
    let library = ObjectBuilder::library;
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so"))
        .object("/lib/liba.so", library("liba.so").auxiliary("libaux.so").auxiliary("libno.so"))
        .object("/lib/libb.so", library("libb.so").needed("libz.so"))
        .object("/lib/libaux.so", library("libaux.so").needed("liby.so"))
        .object("/lib/liby.so", library("liby.so"))
        .object("/lib/libz.so", library("libz.so"));
    let closure = run(&fs);
    assert!(closure.unresolved().is_empty());
    assert_eq!(paths(&closure)[2..], ["/lib/libaux.so", "/lib/liby.so", "/lib/libz.so"]);
}

#[test]
fn preloads_come_before_needed_strings_and_may_be_missing() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so"))
        .object("/lib/liba.so", ObjectBuilder::library("liba.so"))
        .object("/lib/libpre.so", ObjectBuilder::library("libpre.so"))
        .object("/x/two.so", ObjectBuilder::library("two.so"))
        .file("/etc/ld.so.preload", "# all\n/x/two.so\n");
    let environment =
        Environment { preload: Some("libpre.so:libnone.so".into()), ..Environment::default() };
    let closure = walk(&fs, facts(36), &environment);
    assert!(closure.unresolved().is_empty());
    assert_eq!(paths(&closure), ["/lib/libpre.so", "/x/two.so", "/lib/liba.so"]);
}

#[test]
fn secure_mode_ignores_the_library_path_and_accepts_only_set_uid_preloads() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so"))
        .object("/lib/liba.so", ObjectBuilder::library("liba.so"))
        .object("/lib/libpre.so", ObjectBuilder::library("libpre.so"))
        .object("/lib/libsuid.so", ObjectBuilder::library("libsuid.so"))
        .mode("/lib/libsuid.so", 0o4755)
        .object("/e/liba.so", ObjectBuilder::library("liba.so"));
    let environment = Environment {
        library_path: Some("/e".into()),
        preload: Some("libpre.so:libsuid.so:/e/liba.so".into()),
        secure: true,
        ..Environment::default()
    };
    let closure = walk(&fs, facts(36), &environment);
    assert_eq!(paths(&closure), ["/lib/libsuid.so", "/lib/liba.so"]);
}

#[test]
fn an_audit_module_gets_libraries_of_its_own() {
    let fs = base()
        .object("/bin/prog", program().needed("libc.so"))
        .object("/lib/libc.so", ObjectBuilder::library("libc.so"))
        .object("/m/audit.so", ObjectBuilder::library("audit.so").needed("libc.so"));
    let environment = Environment { audit: Some("/m/audit.so".into()), ..Environment::default() };
    let closure = walk(&fs, facts(36), &environment);
    assert_eq!(paths(&closure), ["/m/audit.so", "/lib/libc.so", "/lib/libc.so"]);
}

#[test]
fn an_absent_loader_cache_costs_one_failed_open() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so"))
        .object("/lib/liba.so", ObjectBuilder::library("liba.so"))
        .object("/lib/libb.so", ObjectBuilder::library("libb.so"));
    let mut facts = facts(36);
    facts.cache_path = Some(BString::from("/etc/ld.so.cache"));
    let closure = walk(&fs, facts, &Environment::default());
    assert_eq!(
        probes(&closure),
        ["open:miss /etc/ld.so.cache", "open:hit /lib/liba.so", "open:hit /lib/libb.so"]
    );
}

#[test]
fn since_2_44_each_lookup_that_reaches_the_loader_cache_calls_stat_on_it() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so"))
        .object("/lib/liba.so", ObjectBuilder::library("liba.so"))
        .object("/lib/libb.so", ObjectBuilder::library("libb.so"));
    let mut facts = facts(44);
    facts.cache_path = Some(BString::from("/etc/ld.so.cache"));
    let missing = walk(&fs, facts.clone(), &Environment::default());
    assert_eq!(
        probes(&missing),
        [
            "stat:miss /etc/ld.so.cache",
            "open:hit /lib/liba.so",
            "stat:miss /etc/ld.so.cache",
            "open:hit /lib/libb.so",
        ]
    );
    let there = fs.file("/etc/ld.so.cache", "no cache");
    assert_eq!(
        probes(&walk(&there, facts, &Environment::default()))[..2],
        ["stat:hit /etc/ld.so.cache", "open:hit /lib/liba.so"]
    );
}

#[test]
fn gap_a_fifo_is_refused_although_the_loader_would_wait() {
    let fs =
        base().object("/bin/prog", program().needed("liba.so").runpath("/a")).fifo("/a/liba.so");
    assert_eq!(probes(&run(&fs)), ["open:refused /a/liba.so"]);
}

#[test]
fn a_file_of_separate_debug_information_cannot_start() {
    let fs = base().object("/x.debug", ObjectBuilder::library("x").without_dynamic());
    let error = Subject::open(&fs, "/x.debug".into()).expect_err("nothing to start");
    assert!(matches!(error, closure::ClosureError::NotLoadable { .. }), "{error}");
}

#[test]
fn the_interpreter_of_a_library_is_ignored() {
    let odd = || ObjectBuilder::library("liba.so").bad_interpreter("a reason");
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so").runpath("/a"))
        .object("/a/liba.so", odd())
        .object("/a/libb.so", ObjectBuilder::library("libb.so").interpreter("/nowhere/ld.so"));
    assert_eq!(probes(&run(&fs)), ["open:hit /a/liba.so", "open:hit /a/libb.so"]);
    for library in ["/a/liba.so", "/a/libb.so"] {
        let subject = Subject::open(&fs, library.into()).expect("a library");
        assert_eq!(subject.kind, closure::SubjectKind::Library);
        assert_eq!(subject.interpreter, Some("/lib64/ld-linux-x86-64.so.2".into()));
    }
}

#[test]
fn a_program_with_a_malformed_interpreter_is_rejected() {
    let odd = |object: ObjectBuilder| object.bad_interpreter("a reason");
    let fs = base()
        .object("/pie", odd(program()))
        .object("/old-pie", odd(ObjectBuilder::library("").dt_debug()))
        .object("/fixed", odd(ObjectBuilder::library("").e_type(2)))
        .object("/elsewhere", ObjectBuilder::library("").dt_debug().interpreter("/nowhere/ld"))
        .object("/fixed.debug", odd(program().e_type(2).without_dynamic()));
    for path in ["/pie", "/old-pie", "/fixed"] {
        let error = Subject::open(&fs, path.into()).expect_err("the kernel refuses it");
        let cause = std::error::Error::source(&error).expect("a cause");
        assert_eq!(
            (error.to_string().as_str(), cause.to_string().as_str()),
            (path, "malformed ELF file: a reason")
        );
    }
    let elsewhere = Subject::open(&fs, "/elsewhere".into()).expect("a program");
    assert_eq!(elsewhere.interpreter, Some("/nowhere/ld".into()));
    let error = Subject::open(&fs, "/fixed.debug".into()).expect_err("nothing to start");
    assert!(matches!(error, closure::ClosureError::NotLoadable { .. }), "{error}");
}

#[test]
fn the_answer_of_an_audit_module_replaces_the_search() {
    let fs = base()
        .object("/bin/prog", program().needed("liba.so").needed("libb.so").runpath("/gone:/a"))
        .object("/a/liba.so", ObjectBuilder::library("liba.so"))
        .object("/a/libb.so", ObjectBuilder::library("libb.so"));
    let mut environment = Environment::default();
    let answers = &mut environment.audit_answers;
    answers.insert("/bin/prog".into(), "liba.so".into(), "/a/liba.so".into());
    answers.insert("/a/liba.so".into(), "libb.so".into(), "/another/asks".into());
    let closure = walk(&fs, facts(36), &environment);
    let probes = probes(&closure);
    assert_eq!(probes.first().map(String::as_str), Some("open:hit /a/liba.so"));
    assert!(probes.len() > 2 && probes[1].starts_with("open:miss /gone/"), "{probes:?}");
    assert_eq!(probes.last().map(String::as_str), Some("open:hit /a/libb.so"));
}

#[test]
fn a_tunable_that_forbids_executable_stacks_ends_the_start() {
    let start = |program: ObjectBuilder, library: ObjectBuilder| {
        let fs = base()
            .object("/bin/prog", program.needed("liba.so").runpath("/a"))
            .object("/a/liba.so", library);
        let mut facts = facts(44);
        assert_eq!(walk(&fs, facts.clone(), &Environment::default()).load.stop, None);
        facts.no_exec_stack = true;
        walk(&fs, facts, &Environment::default())
    };
    let library = || ObjectBuilder::library("liba.so");
    assert_eq!(start(program(), library()).load.stop, None);
    assert_eq!(start(program().exec_stack(), library()).load.stop, Some(Stop::ExecStack));
    let closure = start(program(), library().exec_stack());
    let fatal = closure.fatal().expect("a fatal answer");
    assert_eq!(fatal.answer, Answer::Refused(Refusal::EXEC_STACK));
}
