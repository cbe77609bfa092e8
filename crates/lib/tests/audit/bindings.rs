//! Bindings from the index: the slots, output and exit code of a start equal those of a start
//! without them; after any change of the files the loader binds instead.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::time::Duration;

use becalm_core::index::bound::NotBound;
use becalm_core::index::{embed, encode, split};
use becalm_host::OsFs;
use becalm_host::index_store::{BindThreshold, Binding, IndexOptions, MachineIndex, index_stores};

use crate::support::{Ran, Scene, skip, start};

const NEEDED: &str = "-Wl,-rpath,@/lib";

impl Scene {
    /// Makes `index.so`, with the bindings of programs.
    fn bind(&self, programs: &[&str]) -> MachineIndex {
        // Older than the clock's granularity, because newer files are not trusted.
        std::thread::sleep(Duration::from_millis(250));
        let files: Vec<PathBuf> = programs.iter().map(|program| self.path(program)).collect();
        let stores = [self.store()];
        let (prefixes, files) = (&stores, &files);
        let bind = Binding { threshold: BindThreshold::ALL, only: None, environments: &[] };
        let options = IndexOptions { prefixes, files, bind: Some(bind), ..IndexOptions::default() };
        let machine = index_stores(&OsFs::new(), options).machines.remove(0);
        self.write_index(&machine.index, machine.target);
        machine
    }

    /// Runs a start under `index.so`; returns its result and the bindings' outcome in the module's
    /// log.
    fn bound(&self, line: &[String], environment: &[(&str, &str)]) -> (Ran, String) {
        let log = self.path("log");
        let _ = std::fs::remove_file(&log);
        let (index, switches) = (self.text("index.so"), format!("log:{}", log.display()));
        let mut all = vec![("LD_AUDIT", index.as_str()), ("BECALM", switches.as_str())];
        all.retain(|(name, _)| environment.iter().all(|(other, _)| other != name));
        let ran = start(line, &[&all, environment].concat());
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let outcome = |line: &str| Some(line.split_once("\tbindings\t0\t")?.1.to_owned());
        let outcomes: Vec<String> = said.lines().filter_map(outcome).collect();
        // Of two copies of the module one declines, and may log this first.
        let applied = outcomes.iter().find(|outcome| outcome.starts_with("applied"));
        let said = applied.or(outcomes.first()).map_or("nothing", |said| said);
        (ran, said.to_owned())
    }

    /// Asserts that a program is bound, with the same results as without bindings, lazily and not.
    fn assert_bound(&self, program: &str) {
        for now in [&[][..], &[("LD_BIND_NOW", "1")]] {
            let line = [self.text(program)];
            let plain = start(&line, now);
            let (bound, said) = self.bound(&line, now);
            assert!(said.starts_with("applied"), "{said}");
            assert_eq!(plain, bound);
            assert_eq!(plain.code, 0, "{plain:?}");
        }
        self.assert_same_slots(program);
    }

    /// Asserts that every slot is the same with and without bindings, in the same address space.
    fn assert_same_slots(&self, program: &str) {
        let slots = |name: &str, switch: &str| {
            let file = self.path(name);
            let _ = std::fs::remove_file(&file);
            let switches = format!("{switch},dump:{}", file.display());
            let line = ["setarch", std::env::consts::ARCH, "-R", &self.text(program)];
            let index = self.text("index.so");
            let variables = [("BECALM", switches.as_str()), ("LD_AUDIT", index.as_str())];
            let path = [("PATH", "/usr/bin:/bin"), ("LD_BIND_NOW", "1")];
            // setarch itself starts under the module and would write the log.
            let mut env = vec!["env".to_owned()];
            env.extend(variables.map(|(name, value)| format!("{name}={value}")));
            let line: Vec<String> = line[..3]
                .iter()
                .map(ToString::to_string)
                .chain(env)
                .chain([line[3].to_owned()])
                .collect();
            start(&line, &path);
            std::fs::read_to_string(&file).unwrap()
        };
        let (plain, bound) = (slots("plain", "nobind"), slots("slots", "------"));
        assert!(plain.contains("\nslot "), "{plain}");
        assert!(plain == bound, "{:?}", plain.lines().zip(bound.lines()).find(|(a, b)| a != b));
    }
}

/// A program with a library that it calls, and that calls it.
fn scene() -> Scene {
    let scene = Scene::new();
    let library = "int own = 7; int *pointers[] = { &own, &own };
        int of_program(void); int called(void) { return *pointers[1] + of_program(); }";
    scene.cc("lib/libx.so", library, &["-shared", "-fPIC", "-Wl,-soname,libx.so"]);
    let program = "#include <stdio.h>
        #include <string.h>
        extern int own; int called(void); int of_program(void) { return 1; }
        int main(int n, char **a) { own = 40; printf(\"%d %zu\\n\", called(), strlen(\"four\")); }";
    scene.cc("program", program, &["-rdynamic", "@/lib/libx.so", NEEDED]);
    scene
}

#[test]
fn exceptions_tls_resolvers_copies_interposition_and_unique_symbols_are_as_without() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let shared = "#include <stdexcept>
        struct Error : std::runtime_error { int v; Error(int v) : std::runtime_error(\"E\"), v(v) {} };
        template <class T> struct Unique { static int &get() { static int n = 0; return n; } };
        extern \"C\" { int interposed(); void throws(int); int unique(); int *address(); int local();
          int chosen(int); int chosen_by_table(int); extern int data; int is_there(); }
        extern thread_local int variable;";
    let library = format!(
        "{shared}
        extern \"C\" {{
          int data = 41; int interposed() {{ return 1; }} int gone() __attribute__((weak));
          void throws(int v) {{ Unique<int>::get()++; throw Error(v); }}
          int unique() {{ return ++Unique<int>::get() * 10 + interposed(); }}
          int *address() {{ return &data; }} int local() {{ return ++variable; }}
          int is_there() {{ return gone != 0; }}
          typedef int function(int);
          static int two(int x) {{ return x + 200; }}
          __attribute__((used)) static function *resolve(void) {{ return two; }}
          int chosen(int) __attribute__((ifunc(\"resolve\")));
          function *table[2] = {{ chosen, chosen }};
          int chosen_by_table(int x) {{ return chosen(x) + table[1](x); }} }}
        thread_local int variable = 5;"
    );
    let shared_object = ["-shared", "-fPIC", "-Wl,-soname,liba.so"];
    scene.cxx("lib/liba.so", &library, &shared_object);
    let plugin = format!(
        "{shared} extern \"C\" int plugin() {{ int r = 0; try {{ throws(3); }} catch (Error &e) {{ r = e.v; }}
         Unique<int>::get() += 10; return r * 1000 + unique(); }}"
    );
    scene.cxx("lib/plugin.so", &plugin, &["-shared", "-fPIC"]);
    let program = format!(
        "{shared}
        #include <cstdio>
        #include <dlfcn.h>
        #include <thread>
        extern \"C\" int interposed() {{ return 77; }}
        int (*pointer)(int) = chosen;
        int main() {{
          try {{ throws(9); }} catch (Error &e) {{ printf(\"%d %s\\n\", e.v, e.what()); }}
          data = 42;
          printf(\"%d %d %d\\n\", *address(), address() == &data, is_there());
          variable = 50;
          printf(\"%d\\n\", local());
          std::thread([] {{ printf(\"%d\\n\", local()); }}).join();
          printf(\"%d %d %d\\n\", chosen(1), chosen_by_table(1), pointer == chosen);
          void *handle = dlopen(\"{}\", RTLD_NOW | RTLD_LOCAL);
          int (*plugin)() = (int (*)()) dlsym(handle, \"plugin\");
          int of_plugin = plugin(), own = unique();
          printf(\"%d %d %d\\n\", of_plugin, own, dlclose(handle));
        }}",
        scene.text("lib/plugin.so")
    );
    for (name, flags) in [("pie", &["-pie", "-fPIE"][..]), ("fixed", &["-no-pie", "-fno-pie"])] {
        let all = [flags, &["@/lib/liba.so", NEEDED]].concat();
        scene.cxx(name, &program, &all);
        scene.bind(&[name]);
        scene.assert_bound(name);
    }
}

#[test]
fn packed_relatives_read_only_relocation_tables_and_text_relocations_are_as_without() {
    if skip() {
        return;
    }
    for flags in [
        &["-Wl,-z,pack-relative-relocs"][..],
        &["-Wl,-z,now", "-Wl,-z,relro"],
        &["-Wl,-z,lazy", "-Wl,-z,norelro"],
        &["-Wl,-Bsymbolic"],
        &["-fno-pic", "-mcmodel=large", "-Wl,-z,notext"],
        &["-Wl,--hash-style=sysv"],
    ] {
        let scene = scene();
        let library = "int own = 7; int *pointers[] = { &own, &own, (int *) ((char *) &own + 1) };
            __attribute__((weak)) int weak(void); int of_program(void);
            int called(void) { return *pointers[1] + of_program() + (weak != 0); }";
        let all = [&["-shared", "-fPIC", "-Wl,-soname,libx.so"], flags].concat();
        scene.cc("lib/libx.so", library, &all);
        scene.bind(&["program"]);
        scene.assert_bound("program");
    }
}

#[test]
fn what_the_loader_is_asked_for_otherwise_is_left_to_it() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.bind(&["program"]);
    scene.assert_bound("program");
    scene.cc("lib/preload.so", "int unused;", &["-shared", "-fPIC"]);
    let watcher = "unsigned la_version(unsigned v) { return v; }
        unsigned la_objopen(void *m, long n, void *c) { return 3; }
        unsigned long la_symbind64(void *s, unsigned n, void *a, void *b, unsigned *f, const char *x)
        { return *(unsigned long *) ((char *) s + 8); }";
    scene.cc("watcher.so", watcher, &["-shared", "-fPIC"]);
    let harmless = "unsigned la_version(unsigned v) { return v; }";
    scene.cc("harmless.so", harmless, &["-shared", "-fPIC"]);
    let program = [scene.text("program")];
    let preload = scene.text("lib/preload.so");
    let (index, watcher) = (scene.text("index.so"), scene.text("watcher.so"));
    let before = format!("{watcher}:{index}");
    let after = format!("{index}:{watcher}");
    let beside = format!("{index}:{}", scene.text("harmless.so"));
    let behind = format!("{}:{index}", scene.text("harmless.so"));
    let between = format!("{}:{index}:{watcher}", scene.text("harmless.so"));
    let twice = format!("{index}:{index}");
    let files = scene.text("debug");
    for (name, value, said) in [
        ("LD_PRELOAD", preload.as_str(), "declined\tother-objects"),
        ("LD_BIND_NOT", "1", "declined\tenvironment"),
        ("LD_DYNAMIC_WEAK", "1", "declined\tenvironment"),
        ("LD_PROFILE", "libx.so", "declined\tenvironment"),
        ("LD_TRACE_LOADED_OBJECTS", "1", "declined\tenvironment"),
        ("GLIBC_TUNABLES", "glibc.cpu.plt_rewrite=1", "declined\tenvironment"),
        ("LD_AUDIT", &before, "declined\tauditors"),
        ("LD_AUDIT", &after, "declined\tauditors"),
        ("LD_AUDIT", &beside, "applied"),
        ("LD_AUDIT", &behind, "applied"),
        ("LD_AUDIT", &between, "declined\tauditors"),
        ("LD_AUDIT", &twice, "applied"),
        ("LD_BIND_NOW", "1", "applied"),
    ] {
        let plain = [(name, value)];
        let plain: &[_] = if name == "LD_AUDIT" { &[] } else { &plain };
        let plain = start(&program, plain);
        let (bound, now_said) = scene.bound(&program, &[(name, value)]);
        assert!(now_said.starts_with(said), "{name}={value}: {now_said}");
        if name != "LD_TRACE_LOADED_OBJECTS" {
            assert_eq!(plain, bound, "{name}={value}");
        }
    }
    let debug = [("LD_DEBUG", "bindings"), ("LD_DEBUG_OUTPUT", files.as_str())];
    assert!(scene.bound(&program, &debug).1.starts_with("declined\tenvironment"));
    let debug = [("LD_DEBUG", "statistics"), ("LD_DEBUG_OUTPUT", files.as_str())];
    assert!(scene.bound(&program, &debug).1.starts_with("applied"));
    let switches = format!("unknown,nobind,log:{}", scene.text("log"));
    assert!(scene.bound(&program, &[("BECALM", &switches)]).1.starts_with("declined\tnobind"));
    let loader = "/lib64/ld-linux-x86-64.so.2".to_owned();
    if PathBuf::from(&loader).exists() {
        let (ran, said) = scene.bound(&[loader, program[0].clone()], &[]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!said.starts_with("applied"), "{said}");
    }
}

#[test]
fn an_undefined_function_stays_lazy_and_ends_a_start_with_bind_now_as_it_does_plainly() {
    if skip() {
        return;
    }
    let scene = scene();
    let library =
        "int missing(int); int absent(int) __attribute__((weak)); int own; int of_program(void);
        int called(void) { return own == 9 ? missing(1) + absent(2) : of_program(); }";
    scene.cc("lib/libx.so", library, &["-shared", "-fPIC", "-Wl,-soname,libx.so", "-Wl,-z,lazy"]);
    let machine = scene.bind(&["program"]);
    assert!(machine.index.bound.programs[0].undefined_function);
    let program = [scene.text("program")];
    let (bound, said) = scene.bound(&program, &[]);
    assert!(said.starts_with("applied"), "{said}");
    assert_eq!((start(&program, &[]), bound.code), (bound, 0));
    let now = [("LD_BIND_NOW", "1")];
    let (bound, said) = scene.bound(&program, &now);
    assert_eq!(said, "declined\tLD_BIND_NOW\t");
    assert_eq!(start(&program, &now), bound);
    assert_eq!(bound.code, 127);
}

#[test]
fn a_resolver_that_the_loader_calls_at_the_first_call_is_not_called_at_the_start() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let library = "extern char **environ; typedef int function(void);
        static int is_ready; static int early(void) { return 1; } static int late(void) { return 2; }
        __attribute__((constructor)) static void make_ready(void) { is_ready = 1; }
        static function *by_constructor(void) { return is_ready ? late : early; }
        static function *by_environment(void) { return environ ? late : early; }
        static function *trap(void) { __builtin_trap(); }
        int constructed(void) __attribute__((ifunc(\"by_constructor\")));
        int in_environment(void) __attribute__((ifunc(\"by_environment\")));
        int never(void) __attribute__((ifunc(\"trap\")));";
    scene.cc("lib/libx.so", library, &["-shared", "-fPIC", "-Wl,-soname,libx.so"]);
    let program = |call: &str| {
        format!(
            "#include <stdio.h>
            #include <string.h>
            int constructed(void), in_environment(void), never(void);
            int main(int n, char **a)
            {{ printf(\"%d %d %zu\\n\", constructed(), in_environment(), strlen(a[0])); {call} }}"
        )
    };
    let call = "if (n > 1) never();";
    for (name, call, flag) in
        [("traps", call, "-Wl,-z,lazy"), ("lazy", "", "-Wl,-z,lazy"), ("now", "", "-Wl,-z,now")]
    {
        scene.cc(name, &program(call), &["@/lib/libx.so", NEEDED, flag]);
    }
    scene.bind(&["traps", "lazy", "now"]);
    scene.assert_bound("lazy");
    scene.assert_bound("now");
    for now in [&[][..], &[("LD_BIND_NOW", "1")]] {
        let program = [scene.text("traps")];
        let plain = start(&program, now);
        // 128 and SIGILL or SIGTRAP.
        assert_eq!(plain.code > 128, !now.is_empty(), "{plain:?}");
        assert_eq!(plain, scene.bound(&program, now).0);
    }
}

#[test]
fn the_same_libraries_under_other_names_are_bound_and_other_libraries_are_not() {
    if skip() {
        return;
    }
    let scene = scene();
    std::fs::create_dir_all(scene.path("other")).unwrap();
    std::os::unix::fs::symlink(scene.path("lib"), scene.path("link")).unwrap();
    let library =
        "int more, own = 9; int of_program(void); int called(void) { return more + own; }";
    scene.cc("other/libx.so", library, &["-shared", "-fPIC", "-Wl,-soname,libx.so"]);
    std::fs::create_dir_all(scene.path("copy")).unwrap();
    std::fs::copy(scene.path("lib/libx.so"), scene.path("copy/libx.so")).unwrap();
    scene.bind(&["program"]);
    let program = [scene.text("program")];
    for (directory, expected) in [
        ("lib/../lib", "applied"),
        ("link", "applied"),
        ("copy", "applied"),
        ("other", "declined\tother-objects"),
    ] {
        let path = scene.text(directory);
        let path = [("LD_LIBRARY_PATH", path.as_str())];
        let plain = start(&program, &path);
        let (bound, said) = scene.bound(&program, &path);
        assert!(said.starts_with(expected), "{directory}: {said}");
        assert_eq!((plain, bound.code), (bound, 0), "{directory}");
    }
}

#[test]
fn a_filter_that_ends_a_process_at_calls_of_newer_programs_does_not_end_a_start() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.cc("lib/plugin.so", "int in_plugin(void) { return 3; }", &["-shared", "-fPIC"]);
    let program = "#include <dlfcn.h>
        #include <stdio.h>
        int called(void); int of_program(void) { return 1; }
        int main(void) { printf(\"%d %d\\n\", called(), dlopen(\"plugin.so\", RTLD_NOW) != 0); }";
    scene.cc("opens", program, &["-rdynamic", "@/lib/libx.so", NEEDED]);
    scene.cc("filter", becalm_testing::FILTER, &[]);
    scene.bind(&["program", "opens"]);
    let name = format!("filtered-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _learner = UnixListener::bind_addr(&address).unwrap();
    let switches = format!("log:{},learn:{name}", scene.text("log"));
    for (name, is_bound) in [("program", true), ("opens", true), ("other", false)] {
        if !is_bound {
            std::fs::copy(scene.path("program"), scene.path(name)).unwrap();
        }
        let (_, said) = scene.bound(&[scene.text(name)], &[]);
        assert_eq!(said.starts_with("applied"), is_bound, "{said}");
        for calls in ["statx,readlinkat", "getdents64", "userfaultfd", "socket"] {
            let line = [scene.text("filter"), calls.to_owned(), scene.text(name)];
            let plain = start(&line, &[]);
            let (ran, _) = scene.bound(&line, &[("BECALM", &switches)]);
            assert_eq!((plain, ran.code), (ran, 0), "{name}, {calls}");
        }
    }
}

#[test]
fn a_library_that_was_updated_is_bound_anew_by_the_loader_and_by_the_next_index() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.bind(&["program"]);
    scene.assert_bound("program");
    let library = "int first = 1, own = 7; int *pointers[] = { &first, &own };
        int of_program(void); int called(void) { return *pointers[0] * 1000 + of_program(); }";
    scene.cc("lib/libx.so", library, &["-shared", "-fPIC", "-Wl,-soname,libx.so"]);
    let program = [scene.text("program")];
    let (bound, said) = scene.bound(&program, &[]);
    assert!(said.starts_with("declined\tother-"), "{said}");
    assert_eq!(start(&program, &[]), bound);
    assert_eq!(bound.stdout, "1001 4\n");
    scene.bind(&["program"]);
    scene.assert_bound("program");
}

#[test]
fn without_a_build_id_the_tables_are_compared() {
    if skip() {
        return;
    }
    let package = "store/0123456789abcdfghijklmnpqrsvwxyz-x/lib";
    let without = ["-shared", "-fPIC", "-Wl,-soname,libx.so", "-Wl,--build-id=none"];
    let library = "int own; int of_program(void); int called(void) { return of_program(); }";
    let scene = scene();
    scene.cc("lib/libx.so", library, &without);
    scene.bind(&["program"]);
    scene.assert_bound("program");
    // A new link changes the time of status change, and not the tables.
    std::fs::hard_link(scene.path("lib/libx.so"), scene.path("link")).unwrap();
    scene.assert_bound("program");
    // Another function at the same place, found by a bit of the file's tables.
    let file = scene.path("lib/libx.so");
    let mut bytes = std::fs::read(&file).unwrap();
    let name = bytes.windows(7).position(|window| window == b"called\0").unwrap();
    bytes[name] = b'x';
    std::fs::write(&file, bytes).unwrap();
    let (_, said) = scene.bound(&[scene.text("program")], &[]);
    assert_eq!(said, format!("declined\tother-content\t{}", scene.text("lib/libx.so")));
    // The addends of DT_RELR are in the data, and in none of the tables.
    let packed = "int own, *pointers[] = { &own, &own, &own }; int of_program(void);
        int called(void) { return of_program() + *pointers[1]; }";
    scene.cc("lib/libx.so", packed, &[&without[..], &["-Wl,-z,pack-relative-relocs"]].concat());
    let machine = scene.bind(&["program"]);
    let path = scene.text("lib/libx.so");
    assert_eq!(machine.not_bound[0].1, NotBound::NoBuildId(path.into()));
    scene.cc(&format!("{package}/libx.so"), library, &without);
    let program = "extern int own; int called(void); int of_program(void) { return 0; }
        int main(void) { own = 1; return called(); }";
    let (file, rpath) = (format!("@/{package}/libx.so"), format!("-Wl,-rpath,@/{package}"));
    let name = "store/0123456789abcdfghijklmnpqrsvwxyy-p/bin/p";
    scene.cc(name, program, &["-rdynamic", &file, &rpath]);
    scene.bind(&[name]);
    scene.assert_bound(name);
}

#[test]
fn a_damaged_table_of_bindings_changes_nothing() {
    if skip() {
        return;
    }
    let scene = scene();
    let mut machine = scene.bind(&["program"]);
    let file = std::fs::read(scene.path("index.so")).unwrap();
    let (module, _) = split(&file).unwrap();
    let line = ["timeout", "-s", "KILL", "20", &scene.text("program")].map(ToOwned::to_owned);
    let plain = start(&line[4..], &[]);
    let flips: u64 = std::env::var("BECALM_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    // The bindings are the last sections, so the others can be compared by their length.
    let bound = std::mem::take(&mut machine.index.bound);
    let other = encode(&machine.index, machine.target).unwrap().len();
    machine.index.bound = bound;
    let table = encode(&machine.index, machine.target).unwrap();
    let trailer = 264;
    let range = other - trailer..table.len() - trailer;
    let step = (range.len() as u64 * 8 / flips).max(1);
    let (mut declined, mut applied) = (0, 0);
    for flip in 0..flips.min(range.len() as u64 * 8) {
        let bit = flip * step;
        let mut damaged = table.clone();
        damaged[range.start + (bit / 8) as usize] ^= 1 << (bit % 8);
        let index = scene.path("index.so");
        let _ = std::fs::remove_file(&index);
        std::fs::write(&index, embed(&module, &damaged).unwrap()).unwrap();
        let (ran, said) = scene.bound(&line, &[("PATH", "/usr/bin:/bin")]);
        assert_eq!(ran, plain, "bit {bit}");
        declined += usize::from(!said.starts_with("applied"));
        applied += usize::from(said.starts_with("applied"));
    }
    assert!(declined > applied, "{declined} declined, {applied} applied");
}
