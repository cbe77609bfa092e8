//! Tests of the model of musl, one for each rule of `dynlink.c`.

mod limits;
mod note;

use super::*;
use crate::elf::Endian;
use crate::fs::MemFs;
use crate::fs::mem::ObjectBuilder;
use crate::loader::facts;
use crate::loader::load::Subject;
use crate::probe::SearchSource::{Direct, LibraryPath, Rpath, Runpath, System};

const LD: &str = "/lib/ld-musl-x86_64.so.1";
const PATH_FILE: &str = "/etc/ld-musl-x86_64.path";

fn program() -> ObjectBuilder {
    ObjectBuilder::program().interpreter(LD)
}

fn library() -> ObjectBuilder {
    ObjectBuilder::library("")
}

/// Makes a file system with the loader and with this program at `/bin/p`.
fn system(program: ObjectBuilder) -> MemFs {
    MemFs::new().object(LD, library()).object("/bin/p", program)
}

fn start_at(fs: &MemFs, path: &str) -> Start {
    let subject = Subject::open(fs, path.into()).expect("the program is an object");
    let interpreter = subject.view.interpreter.clone().unwrap_or_else(|| LD.into());
    let loader = fs.open(interpreter.as_bstr()).expect("the loader is there");
    let real = fs.canonicalize(path.into()).expect("the program is there");
    let origin = match paths::directory(&real) {
        root if root.is_empty() => "/".into(),
        origin => origin,
    };
    let loader = loader.object.clone().expect("the loader is an object");
    Start { subject, origin, interpreter, loader }
}

fn started(fs: &MemFs, path: &str, environment: &Environment) -> Load {
    let facts = LoaderFacts { system_dirs: Vec::new(), ..facts::musl() };
    load(fs, &start_at(fs, path), &facts, environment)
}

fn plain(fs: &MemFs) -> Load {
    started(fs, "/bin/p", &Environment::default())
}

fn library_path(path: &str) -> Environment {
    Environment { library_path: Some(path.into()), ..Environment::default() }
}

fn preload(list: &str) -> Environment {
    Environment { preload: Some(list.into()), ..Environment::default() }
}

fn opens(load: &Load) -> Vec<String> {
    load.probes.iter().map(|probe| probe.path.to_string()).collect()
}

fn tried(load: &Load) -> Vec<(SearchSource, Outcome)> {
    load.probes.iter().map(|probe| (probe.source, probe.outcome)).collect()
}

fn answers(load: &Load) -> Vec<Answer> {
    load.resolutions.iter().map(|resolution| resolution.answer.clone()).collect()
}

#[test]
fn names_of_the_c_library_and_the_interpreter_cost_nothing() {
    let program = program()
        .needed("libc.so")
        .needed("libm.so.6")
        .needed("libpthread.so.0")
        .needed("librt.so.1")
        .needed("libdl.anything")
        .needed("libutil.so.1")
        .needed("libxnet.so.1")
        .needed("libc.musl-x86_64.so.1")
        .needed("libc.d/plugin.so")
        .needed(LD);
    let load = plain(&system(program));
    assert_eq!(answers(&load), vec![Answer::AlreadyLoaded(LOADER); 10]);
    assert!(load.probes.is_empty());
}

#[test]
fn names_that_only_look_like_the_c_library_are_searched() {
    let load = plain(&system(program().needed("libcurl.so").needed("libm2.so")));
    assert_eq!(answers(&load), [Answer::Missing, Answer::Missing]);
}

#[test]
fn order_is_library_path_run_path_system_path() {
    let load =
        started(&system(program().needed("libx.so").runpath("/r")), "/bin/p", &library_path("/l"));
    let paths = [
        "/l/libx.so",
        "/r/libx.so",
        PATH_FILE,
        "/lib/libx.so",
        "/usr/local/lib/libx.so",
        "/usr/lib/libx.so",
    ];
    assert_eq!(opens(&load), paths);
    let sources: Vec<_> = load.probes.iter().map(|probe| probe.source).collect();
    assert_eq!(sources, [LibraryPath, Runpath, System, System, System, System]);
}

#[test]
fn a_probe_names_its_search_dir_and_the_path_file_has_none() {
    let load = plain(&system(program().needed("libx.so").runpath("/r")));
    let dirs: Vec<_> = load.probes.iter().map(|probe| probe.dir().to_string()).collect();
    assert_eq!(dirs, ["/r", "", "/lib", "/usr/local/lib", "/usr/lib"]);
}

#[test]
fn run_paths_are_inherited_from_every_object_up_to_the_program() {
    let fs = system(program().needed("liba.so").rpath("/p"))
        .object("/p/liba.so", library().needed("libb.so").runpath("/a"))
        .object("/a/libb.so", library().needed("libc1.so"))
        .object("/p/libc1.so", library());
    let load = plain(&fs);
    assert_eq!(opens(&load), ["/p/liba.so", "/a/libb.so", "/a/libc1.so", "/p/libc1.so"]);
    assert_eq!(load.objects[4].loaded_by, Some(3));
    let last = Answer::Loaded(4, Rpath);
    assert_eq!(answers(&load), [Answer::Loaded(2, Rpath), Answer::Loaded(3, Runpath), last]);
}

#[test]
fn runpath_wins_over_rpath_and_both_are_tried_after_library_path() {
    let fs = system(program().needed("liba.so").rpath("/old").runpath("/new"));
    let load = started(&fs, "/bin/p", &library_path("/l"));
    assert_eq!(opens(&load)[..2], ["/l/liba.so", "/new/liba.so"]);
    assert!(!opens(&load).iter().any(|path| path.starts_with("/old")));
}

#[test]
fn objects_are_followed_breadth_first_in_load_order() {
    let fs = system(program().needed("/l/a").needed("/l/b"))
        .object("/l/a", library().needed("/l/c"))
        .object("/l/b", library().needed("/l/d"))
        .object("/l/c", library())
        .object("/l/d", library());
    assert_eq!(opens(&plain(&fs)), ["/l/a", "/l/b", "/l/c", "/l/d"]);
}

#[test]
fn elements_end_at_colons_and_newlines_and_empty_elements_are_skipped() {
    let fs = system(program().needed("x.so"));
    let load = started(&fs, "/bin/p", &library_path(":/a::/b\n\n/c;/d: e/:"));
    let wanted = ["/a/x.so", "/b/x.so", "/c;/d/x.so", " e//x.so", PATH_FILE];
    assert_eq!(opens(&load)[..5], wanted);
}

#[test]
fn a_missing_library_is_searched_again_for_each_needed_string() {
    let load = plain(&system(program().needed("x.so").needed("x.so")));
    let dirs = ["/lib/x.so", "/usr/local/lib/x.so", "/usr/lib/x.so"];
    assert_eq!(opens(&load), [&[PATH_FILE], &dirs[..], &dirs[..]].concat());
    assert_eq!(load.stop, None);
}

#[test]
fn a_library_found_by_search_has_its_file_name_and_not_its_soname() {
    let fs = system(program().needed("liba.so").needed("liba.so").needed("liba.so.1"))
        .object("/lib/liba.so", ObjectBuilder::library("liba.so.1"));
    let found = Answer::Loaded(2, System);
    assert_eq!(answers(&plain(&fs)), [found, Answer::AlreadyLoaded(2), Answer::Missing]);
}

#[test]
fn the_same_inode_is_recognised_after_its_open_and_named_after_its_first_path() {
    let fs = system(
        program()
            .needed("/d/real.so")
            .needed("alias.so")
            .needed("alias.so")
            .needed("real.so")
            .runpath("/d"),
    )
    .object("/d/real.so", library())
    .link("/d/alias.so", "real.so");
    let load = plain(&fs);
    let same = Answer::SameFile(2, Runpath);
    let wanted = [Answer::Loaded(2, Direct), same.clone(), same, Answer::AlreadyLoaded(2)];
    assert_eq!(answers(&load), wanted);
    assert_eq!(opens(&load), ["/d/real.so", "/d/alias.so", "/d/alias.so"]);
}

#[test]
fn a_library_loaded_by_path_has_no_name_until_a_search_finds_it() {
    let fs = system(program().needed("/d/real.so").needed("real.so").runpath("/d"))
        .object("/d/real.so", library());
    assert_eq!(opens(&plain(&fs)), ["/d/real.so", "/d/real.so"]);
}

#[test]
fn the_program_is_not_recognised_as_a_library() {
    let load = plain(&system(program().needed("/bin/p")));
    assert_eq!(answers(&load)[0], Answer::Loaded(2, Direct));
    assert_eq!(load.resolutions.len(), 2);
}

#[test]
fn a_c_library_by_any_path_is_the_loader_itself() {
    let fs = system(program().needed("/alt/libc.so").needed("/g/other.so").needed("ld.so"))
        .hard_link("/alt/libc.so", LD)
        .object("/g/other.so", ObjectBuilder::library("libc.so.6").needed("never.so"))
        .hard_link("/usr/lib/ld.so", LD);
    let load = plain(&fs);
    let wanted = [Direct, Direct, System].map(|source| Answer::SameFile(LOADER, source));
    assert_eq!(answers(&load), wanted);
}

#[test]
fn the_search_continues_after_enoent_enotdir_eacces_and_enametoolong() {
    let long = "n".repeat(256);
    let path = format!("/none:/file:/shut:/unread:/{long}:/d");
    let fs = system(program().needed("x.so").runpath(path))
        .file("/file", "")
        .object("/shut/x.so", library())
        .mode("/shut", 0o700)
        .object("/unread/x.so", library())
        .mode("/unread/x.so", 0o600)
        .object("/d/x.so", library());
    let outcomes: Vec<_> = plain(&fs).probes.iter().map(|probe| probe.outcome).collect();
    use Outcome::*;
    assert_eq!(outcomes, [Miss, NotADirectory, Denied, Denied, NameTooLong, Hit]);
}

#[test]
fn any_other_errno_ends_the_search_for_that_name_only() {
    let fs = system(program().needed("x.so").needed("y.so").runpath("/loop:/d"))
        .link("/loop", "loop")
        .object("/d/x.so", library());
    let load = plain(&fs);
    assert_eq!(tried(&load), [(Runpath, Outcome::Loop); 2]);
    assert_eq!(answers(&load), [Answer::Missing, Answer::Missing]);
}

#[test]
fn a_candidate_of_512_bytes_is_skipped_and_one_of_511_is_tried() {
    let dir = |len: usize| format!("/{}", "d/".repeat(255))[..len].to_owned();
    let path = format!("{}:{}", dir(507), dir(506));
    let load = plain(&system(program().needed("x.so").runpath(path)));
    assert_eq!(opens(&load)[0].len(), 511);
    assert_eq!(opens(&load)[1], PATH_FILE);
}

#[test]
fn a_name_over_255_bytes_and_an_empty_name_are_not_searched() {
    let load = plain(&system(program().needed("n".repeat(256)).needed("")));
    assert_eq!(answers(&load), [Answer::Missing, Answer::Missing]);
    assert!(load.probes.is_empty());
}

#[test]
fn a_file_that_cannot_be_mapped_ends_the_search_but_not_the_walk() {
    use Outcome::{NotElf, Refused, WrongClass};
    let bad = |fs: MemFs| {
        let load = plain(&fs.object("/d/x.so", library()).object("/d/y.so", library()));
        let answer = answers(&load)[0].clone();
        assert_eq!(answers(&load)[1], Answer::Loaded(2, Runpath));
        assert_eq!(opens(&load).len(), 3, "{:?}", opens(&load));
        (tried(&load)[0].1, answer)
    };
    let base = || system(program().needed("x.so").needed("y.so").runpath("/bad:/d"));
    let wrong = |view: ObjectBuilder| bad(base().object("/bad/x.so", view));
    let refused = |refusal| Answer::Refused(refusal);

    let narrow = library().class(Class::Elf32);
    assert_eq!(wrong(narrow), (WrongClass, refused(Refusal::HEADER)));
    let big = library().endian(Endian::Big);
    assert_eq!(wrong(big), (Refused, refused(Refusal::HEADER)));
    assert_eq!(wrong(library().e_type(1)), (Refused, refused(Refusal::KIND)));
    let fixed = library().without_dynamic();
    assert_eq!(wrong(fixed), (Refused, refused(Refusal::NO_DYNAMIC)));
    let text = base().file("/bad/x.so", [b'x'; 100]);
    assert_eq!(bad(text), (NotElf, refused(Refusal::NOT_ELF)));
    let short = base().file("/bad/x.so", "\x7fELF");
    assert_eq!(bad(short), (NotElf, refused(Refusal::TOO_SHORT)));
    let folder = base().dir("/bad/x.so");
    assert_eq!(bad(folder), (Refused, refused(Refusal::UNREADABLE)));
}

#[test]
fn the_machine_is_not_checked() {
    let fs = system(program().needed("x.so").runpath("/d"))
        .object("/d/x.so", library().machine(183).needed("y.so"));
    let load = plain(&fs);
    assert_eq!(answers(&load)[0], Answer::Loaded(2, Runpath));
    assert_eq!(load.resolutions.len(), 2, "its needed strings are followed");
}

#[test]
fn a_fixed_address_executable_loads_into_a_pie_but_not_into_another_one() {
    let with = |program: ObjectBuilder| {
        let fs = system(program.needed("/d/x.so")).object("/d/x.so", library().e_type(ET_EXEC));
        answers(&plain(&fs))[0].clone()
    };
    assert_eq!(with(program()), Answer::Loaded(2, Direct));
    assert_eq!(with(program().e_type(ET_EXEC)), Answer::Refused(Refusal::EXECUTABLE));
}

#[test]
fn filter_auxiliary_and_audit_entries_are_ignored() {
    let fs = system(program().filter("f.so").auxiliary("x.so").audit("a.so").depaudit("d.so"));
    assert!(plain(&fs).resolutions.is_empty());
}

#[test]
fn origin_of_the_program_has_its_links_resolved() {
    let fs = MemFs::new()
        .object(LD, library())
        .object("/opt/x/bin/p", program().needed("a.so").runpath("${ORIGIN}/../lib:$ORIGINal"))
        .link("/bin/p", "/opt/x/bin/p");
    let load = plain(&fs);
    assert_eq!(opens(&load)[..2], ["/opt/x/bin/../lib/a.so", "/opt/x/binal/a.so"]);
}

#[test]
fn origin_of_a_library_is_the_directory_of_the_path_it_was_opened_by() {
    let fs = system(program().needed("lib/a.so").needed("/b.so"))
        .object("/real/a.so", library().needed("x.so").runpath("$ORIGIN/n"))
        .object("/b.so", library().needed("x.so").runpath("$ORIGIN/n"))
        .link("/cwd/lib", "/real")
        .cwd("/cwd");
    let paths = opens(&plain(&fs));
    assert_eq!(paths[2], "lib/n/x.so");
    assert!(paths.contains(&"/n/x.so".to_owned()), "the root directory's slash is not doubled");
}

#[test]
fn origin_of_a_program_that_the_loader_maps_has_its_links_unresolved() {
    let fs = MemFs::new()
        .object(LD, library())
        .object("/opt/x/p.so", library().needed("a.so").runpath("$ORIGIN/n"))
        .link("/l/p.so", "/opt/x/p.so");
    let load = started(&fs, "/l/p.so", &Environment::default());
    assert_eq!(opens(&load)[0], "/l/n/a.so");
}

#[test]
fn another_token_drops_the_whole_run_path() {
    for path in ["/a:$ORIGIN/b:$LIB", "/a:$", "/a:${ORIGIN", "/a:$PLATFORM"] {
        let load = plain(&system(program().needed("x.so").runpath(path)));
        assert_eq!(opens(&load)[0], PATH_FILE, "{path}");
    }
}

#[test]
fn a_program_path_of_512_bytes_drops_a_run_path_with_origin() {
    let dir = format!("/{}/{}", "d".repeat(200), "e".repeat(200));
    for (name, dropped) in [(108, false), (109, true)] {
        let path = format!("{dir}/{}", "p".repeat(name));
        let fs = MemFs::new()
            .object(LD, library())
            .object(&path, program().needed("x.so").runpath("/a:$ORIGIN"));
        let load = started(&fs, &path, &Environment::default());
        assert_eq!(opens(&load)[0] == PATH_FILE, dropped, "{}", path.len());
    }
}

#[test]
fn secure_mode_ignores_the_environment_and_the_programs_origin() {
    let environment = Environment {
        library_path: Some("/l".into()),
        preload: Some("/l/pre.so".into()),
        secure: true,
        ..Environment::default()
    };
    let fs = system(program().needed("x.so").runpath("$ORIGIN/../d:/d"));
    assert_eq!(opens(&started(&fs, "/bin/p", &environment))[0], PATH_FILE);
    let fs = system(program().needed("x.so").runpath("/d"));
    assert_eq!(opens(&started(&fs, "/bin/p", &environment))[0], "/d/x.so");
}

#[test]
fn secure_mode_keeps_a_librarys_origin_only_if_it_is_absolute() {
    let secure = Environment { secure: true, ..Environment::default() };
    let inner = || library().needed("x.so").runpath("$ORIGIN/n");
    let fs = system(program().needed("/d/a.so").needed("d/b.so"))
        .object("/d/a.so", inner())
        .object("/d/b.so", inner());
    let paths = opens(&started(&fs, "/bin/p", &secure));
    assert!(paths.contains(&"/d/n/x.so".to_owned()));
    assert!(!paths.contains(&"d/n/x.so".to_owned()));
}

#[test]
fn preloads_come_first_and_are_not_searched_along_run_paths() {
    let fs = system(program().needed("b.so").runpath("/r"))
        .object("/r/a.so", library())
        .object("/r/b.so", library())
        .object("/pre/p.so", library().needed("a.so"))
        .file(PATH_FILE, "/s");
    let load = started(&fs, "/bin/p", &preload(" a.so:\t/pre/p.so\n"));
    let wanted = [PATH_FILE, "/s/a.so", "/pre/p.so", "/r/b.so", "/s/a.so"];
    assert_eq!(opens(&load), wanted);
    assert_eq!(load.objects[2].role, Role::Preload);
    assert_eq!(load.resolutions[0].reason, Reason::Preload);
}

#[test]
fn the_path_file_is_read_once_and_replaces_the_default_path() {
    let fs =
        system(program().needed("x.so").needed("y.so")).file(PATH_FILE, "/s1\n\n/s2:/s3\n\0/never");
    let x = ["/s1/x.so", "/s2/x.so", "/s3/x.so"];
    let y = ["/s1/y.so", "/s2/y.so", "/s3/y.so"];
    let load = plain(&fs);
    assert_eq!(opens(&load), [&[PATH_FILE], &x[..], &y[..]].concat());
    assert_eq!(tried(&load)[0], (System, Outcome::Hit));
}

#[test]
fn a_path_file_that_is_empty_or_unreadable_leaves_no_system_path() {
    let base = || system(program().needed("x.so"));
    let unreadable = base().file(PATH_FILE, "/s").mode(PATH_FILE, 0o600);
    for fs in [base().file(PATH_FILE, ""), base().dir(PATH_FILE), unreadable] {
        assert_eq!(opens(&plain(&fs)), [PATH_FILE]);
    }
}

#[test]
fn the_path_file_is_found_from_the_interpreters_path_two_levels_up() {
    let ident = ObjectBuilder::library("").machine(183).build().ident;
    let file = |interpreter: &str| paths::path_file(&interpreter.into(), &ident).to_string();
    assert_eq!(file("/lib/ld-musl-x86_64.so.1"), PATH_FILE);
    assert_eq!(file("/ld-musl-i386.so.1"), "/etc/ld-musl-i386.path");
    assert_eq!(file("/opt/m/lib/ld-musl-armhf.so.1"), "/opt/m/etc/ld-musl-armhf.path");
    assert_eq!(file("/opt//ld-musl-armhf.so.1"), "/opt/etc/ld-musl-armhf.path");
    assert_eq!(file("m/lib/ld-musl-i386.so.1"), "/etc/ld-musl-i386.path");
    assert_eq!(file("/opt/lib/libc.so"), "/opt/etc/ld-musl-aarch64.path");
}

#[test]
fn system_dirs_of_the_facts_replace_the_compiled_in_path() {
    let joined = paths::join(&["/a/".into(), "/b".into()]);
    assert_eq!(joined, Some("/a:/b".into()));
    assert_eq!(paths::join(&[]), None);
}
