//! Uses of libraries by running programs: each has the same result with the module.

use std::fmt::Write;
use std::process::Command;

use crate::support::{SHOW, Scene, answered, skip};

const RUN_PATH: &str = "-Wl,-rpath,@/store/a:@/store/b";

#[test]
fn libraries_opened_again_and_in_another_order_after_a_change_of_directory() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    for n in 0..4 {
        scene.library(&format!("store/b/libx{n}.so"), "x", n + 1, &[]);
    }
    let source = format!(
        r#"{SHOW}
        #include <unistd.h>
        static int turn(int from, int step) {{
          int value = 0;
          void *opened[4];
          for (int i = 0, n = from; i < 4; i++, n = (n + step) % 4) {{
            char name[16];
            snprintf(name, sizeof name, "libx%d.so", n);
            opened[i] = dlopen(name, RTLD_NOW);
            value = 10 * value + (opened[i] ? ((int (*)(void)) dlsym(opened[i], "x"))() : 0);
          }}
          for (int i = 0; i < 4; i++) if (opened[i]) dlclose(opened[i]);
          return value;
        }}
        int main(void) {{
          printf("%d %d\n", turn(0, 1), turn(3, 3));
          if (chdir("/") != 0) return 1;
          printf("%d %d\n", turn(2, 1), turn(1, 3));
          dlopen("libx2.so", RTLD_NOW);
          show(turn(3, 3));
        }}"#
    );
    scene.cc("store/p/prog", &source, &[RUN_PATH]);
    scene.index(&[]);
    let (ran, _) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.starts_with("1234 4321\n3412 2143\n"), "{ran:?}");
    assert!(ran.stdout.ends_with("value 4321\n"), "{ran:?}");
}

#[test]
fn a_program_that_may_not_be_executed_and_another_after_it() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so", "x", 1, &[]);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/next", &source, &["@/store/b/libx.so", RUN_PATH]);
    std::fs::write(scene.path("refused"), "no program").unwrap();
    let source = format!(
        r#"#include <errno.h>
        #include <unistd.h>
        int x(void);
        int main(void) {{
          execl("{}", "refused", (char *) 0);
          if (errno == EACCES && x() == 1) execl("{}", "next", (char *) 0);
          return 9;
        }}"#,
        scene.text("refused"),
        scene.text("store/p/next")
    );
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so", RUN_PATH]);
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    assert_eq!(answers.iter().filter(|(name, _)| name == "libx.so").count(), 2, "{answers:?}");
}

#[test]
fn many_preloads_by_name_and_by_path() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let mut preloads = String::new();
    for n in 0..40 {
        let folder = if n % 2 == 0 { "store/b" } else { "mine" };
        let file = format!("{folder}/libpre{n}.so");
        scene.library(&file, &format!("pre{n}"), n, &[]);
        let name = if n % 2 == 0 { format!("libpre{n}.so") } else { scene.text(&file) };
        write!(preloads, "{name}:").unwrap();
    }
    scene.library("store/b/libx.so", "x", 1, &[]);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so", RUN_PATH]);
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/prog", &[("LD_PRELOAD", &preloads)]);
    assert_eq!(ran.stdout.matches("/libpre").count(), 40, "{ran:?}");
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so"), "{answers:?}");
}

/// An exception type, and the types of the functions that throw and pass it on.
const THROWS: &str = r#"
#include <stdexcept>
#include <string>
struct Odd : std::runtime_error {
  int n;
  Odd(int n) : std::runtime_error("odd " + std::to_string(n)), n(n) {}
};
typedef void (*Inner)(int);
typedef void (*Outer)(Inner, int, int *);
extern "C" void odd(int n);
"#;

#[test]
fn exceptions_thrown_across_opened_libraries() {
    if skip() {
        return;
    }
    if Command::new("g++").arg("--version").output().is_err() {
        becalm_testing::skip("no C++ compiler (Debian: g++)");
        return;
    }
    let scene = Scene::new();
    let library = |name: &str, body: &str, arguments: &[&str]| {
        let soname = format!("-Wl,-soname,{name}");
        let all = [&["-shared", "-fPIC", soname.as_str()], arguments].concat();
        scene.cxx(&format!("store/b/{name}"), &format!("{THROWS}{body}"), &all);
    };
    library("libodd.so", "void odd(int n) { throw Odd(n); }", &[]);
    library(
        "libinner.so",
        r#"extern "C" void inner(int n) { if (n % 2) odd(n); throw n; }"#,
        &["@/store/b/libodd.so", RUN_PATH],
    );
    library(
        "libouter.so",
        r#"struct Leave { int *count; ~Leave() { ++*count; } };
        extern "C" void outer(Inner inner, int n, int *count) {
          Leave leave = {count};
          try { inner(n); } catch (const Odd &odd) {
            if (odd.n > 10) throw std::string("large");
            throw;
          }
        }"#,
        &[],
    );
    let source = format!(
        r#"{SHOW}{THROWS}
        static Inner inner;
        static Outer outer;
        static int left;
        static std::string call(int n) {{
          try {{ outer(inner, n, &left); }}
          catch (const std::exception &error) {{ return error.what(); }}
          catch (const std::string &error) {{ return error; }}
          catch (int error) {{ return "int " + std::to_string(error); }}
          return "nothing";
        }}
        int main() {{
          for (int turn = 0; turn < 2; turn++) {{
            void *first = dlopen("libouter.so", RTLD_NOW);
            void *second = dlopen("libinner.so", RTLD_LAZY);
            if (!first || !second) return 1;
            outer = (Outer) dlsym(first, "outer");
            inner = (Inner) dlsym(second, "inner");
            for (int n : {{3, 4, 11}}) printf("%s\n", call(n).c_str());
            if (turn == 0) {{ dlclose(second); dlclose(first); }}
          }}
          show(left);
        }}"#
    );
    scene.cxx("store/p/prog", &source, &[RUN_PATH]);
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.starts_with(&"odd 3\nint 4\nlarge\n".repeat(2)), "{ran:?}");
    assert!(ran.stdout.ends_with("value 6\n"), "{ran:?}");
    assert!(answered(&answers, "libodd.so"), "{answers:?}");
}
