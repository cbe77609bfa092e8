//! The programs and libraries on which properties are tested: C sources, with the place of each
//! object and its run path.

/// C code at the start of every program. `show` prints the loaded objects, 1 if the program runs in
/// secure-execution mode, and the program's own number.
pub(super) const SHOW: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>
static int show_one(struct dl_phdr_info *info, size_t size, void *data) {
  (void) size; (void) data;
  printf("object %s\n", info->dlpi_name);
  return 0;
}
static int show(int value) {
  dl_iterate_phdr(show_one, 0);
  printf("secure %d\nvalue %d\n", getauxval(AT_SECURE) != 0, value);
  return 0;
}
"#;

/// One object of the store.
#[derive(Clone, Copy)]
pub(super) struct Object {
    /// `PACKAGE/DIR/NAME`; `HWCAP` is replaced by a hwcaps subdirectory.
    pub path: &'static str,
    /// Its C source; programs get [`SHOW`] before it. `@PACKAGE` is replaced by the directory of a
    /// package.
    pub source: &'static str,
    /// Objects that it is linked with, in the form of `path`, in order.
    pub needs: &'static [&'static str],
    /// Its run path: names of packages, for their `lib` directories, and `/NAME` for a directory
    /// outside the store that may change.
    pub run_path: &'static [&'static str],
    /// Further arguments of the compiler.
    pub flags: &'static [&'static str],
    /// A version script; empty for none.
    pub versions: &'static str,
}

const PLAIN: Object =
    Object { path: "", source: "", needs: &[], run_path: &[], flags: &[], versions: "" };

/// A run path with several directories before the one with `libone.so.1`.
const LONG: &[&str] = &["none", "two", "gl", "la", "lb", "one"];

/// A program with a note about the library that it opens at run time (the FDO dlopen note,
/// systemd's ELF_DLOPEN_METADATA: owner `FDO`, type 0x407c0c0a, JSON).
const OPENS: &str = r#"
__asm__(".section .note.dlopen,\"a\",%note\n .balign 4\n .long 4, 2f - 1f, 0x407c0c0a\n"
  ".asciz \"FDO\"\n 1: .asciz \"[{\\\"soname\\\":[\\\"libone.so.1\\\"],\\\"feature\\\":\\\"one\\\",\\\"description\\\":\\\"one\\\",\\\"priority\\\":\\\"required\\\"}]\"\n"
  "2: .balign 4\n .previous");
int main(void) {
  void *l = dlopen("libone.so.1", RTLD_NOW);
  return show(l ? ((int (*)(void)) dlsym(l, "one"))() : -1);
}"#;

/// Adds a variable with one definition in the whole process (`STB_GNU_UNIQUE`) to a source.
macro_rules! with_token {
    ($source:literal) => {
        concat!(
            "extern int token;\n",
            "__asm__(\".pushsection .data\\n .balign 4\\n .globl token\\n\"\n",
            "\" .type token, %gnu_unique_object\\n .size token, 4\\n token: .long 0\\n\"\n",
            "\" .popsection\");\n",
            $source
        )
    };
}

/// All objects; each follows the objects that it needs. The sonames are the file names.
pub(super) const OBJECTS: &[Object] = &[
    Object { path: "one/lib/libone.so.1", source: "int one(void) { return 1; }", ..PLAIN },
    Object { path: "one/lib/libquiet.so.1", source: "int quiet(void) { return 0; }", ..PLAIN },
    Object { path: "two/lib/libx.so.1", source: "int x(void) { return 2; }", ..PLAIN },
    Object { path: "three/lib/libx.so.1", source: "int x(void) { return 1; }", ..PLAIN },
    Object {
        path: "la/lib/liba.so.1",
        source: "int x(void); int a(void) { return x(); }",
        needs: &["three/lib/libx.so.1"],
        run_path: &["three"],
        ..PLAIN
    },
    Object {
        path: "lb/lib/libb.so.1",
        source: "int x(void); int b(void) { return x(); }",
        needs: &["two/lib/libx.so.1"],
        run_path: &["two"],
        ..PLAIN
    },
    Object { path: "gl/lib/libGLdriver.so.0", source: "int draw(void) { return 1; }", ..PLAIN },
    Object {
        path: "glvnd/lib/libGL.so.1",
        source: "#include <dlfcn.h>\nint gl(void) { void *l = dlopen(\"libGLdriver.so.0\", RTLD_NOW);\n\
                 return l ? ((int (*)(void)) dlsym(l, \"draw\"))() : -1; }",
        run_path: &["none", "gl"],
        ..PLAIN
    },
    Object { path: "hw/lib/libhw.so.1", source: "int hw(void) { return 1; }", ..PLAIN },
    Object { path: "hw/lib/HWCAP/libhw.so.1", source: "int hw(void) { return 2; }", ..PLAIN },
    Object {
        path: "tls/lib/libtls.so.1",
        source: "__thread char block[3000] __attribute__((tls_model(\"initial-exec\"))) = {3};\n\
                 int tls(void) { return block[0]; }",
        flags: &["-ftls-model=initial-exec"],
        ..PLAIN
    },
    Object {
        path: "plug/lib/plugin.so",
        source: "int one(void); int plugin(void) { return one(); }",
        needs: &["one/lib/libone.so.1"],
        run_path: LONG,
        ..PLAIN
    },
    Object {
        path: "app-plain/bin/plain",
        source: "int one(void); int main(void) { return show(one()); }",
        needs: &["one/lib/libone.so.1", "one/lib/libquiet.so.1"],
        run_path: LONG,
        ..PLAIN
    },
    Object {
        path: "app-suid/bin/suid",
        source: "int one(void); int main(void) { return show(one()); }",
        needs: &["one/lib/libone.so.1"],
        run_path: LONG,
        ..PLAIN
    },
    Object {
        path: "app-later/bin/later",
        source: "int one(void); int main(void) { return show(one()); }",
        needs: &["one/lib/libone.so.1"],
        run_path: &["/later", "none", "one"],
        ..PLAIN
    },
    Object {
        path: "app-ab/bin/ab",
        source: "int a(void), b(void); int main(void) { return show(10 * a() + b()); }",
        needs: &["la/lib/liba.so.1", "lb/lib/libb.so.1"],
        run_path: &["none", "la", "lb"],
        flags: &["-Wl,--allow-shlib-undefined"],
        ..PLAIN
    },
    Object {
        path: "app-ba/bin/ba",
        source: "int a(void), b(void); int main(void) { return show(10 * a() + b()); }",
        needs: &["lb/lib/libb.so.1", "la/lib/liba.so.1"],
        run_path: &["none", "la", "lb"],
        flags: &["-Wl,--allow-shlib-undefined"],
        ..PLAIN
    },
    Object {
        path: "app-draw/bin/draw",
        source: "int gl(void); int main(void) { return show(gl()); }",
        needs: &["glvnd/lib/libGL.so.1"],
        run_path: &["none", "glvnd"],
        ..PLAIN
    },
    Object {
        path: "app-hw/bin/hw",
        source: "int hw(void); int main(void) { return show(hw()); }",
        needs: &["hw/lib/libhw.so.1"],
        run_path: &["none", "hw"],
        ..PLAIN
    },
    Object {
        path: "app-tls/bin/tls",
        source: "int tls(void); int main(void) { return show(tls()); }",
        needs: &["tls/lib/libtls.so.1"],
        run_path: &["none", "tls"],
        ..PLAIN
    },
    // Enough relocations for an index to have symbol bindings of the programs that need the
    // library.
    Object {
        path: "many/lib/libmany.so.1",
        source: "int value = 1; int *pointers[3000] = { [0 ... 2999] = &value };\n\
                 int many(void) { return *pointers[2999]; }",
        ..PLAIN
    },
    Object { path: "first/lib/libfirst.so.1", source: "int who(void) { return 1; }", ..PLAIN },
    Object {
        path: "second/lib/libsecond.so.1",
        source: "int who(void) { return 2; } int asks(void) { return who(); }",
        ..PLAIN
    },
    Object {
        path: "app-interposed/bin/interposed",
        source: "int who(void), asks(void), many(void);\n\
                 int main(void) { return show(100 * many() + 10 * who() + asks()); }",
        needs: &["first/lib/libfirst.so.1", "second/lib/libsecond.so.1", "many/lib/libmany.so.1"],
        run_path: &["first", "second", "many"],
        ..PLAIN
    },
    Object {
        path: "versions/lib/libversions.so.1",
        source: "int first(void) { return 1; } int second(void) { return 2; }\n\
                 __asm__(\".symver first,which@V1\\n.symver second,which@@V2\");",
        versions: "V1 { global: which; }; V2 { global: which; } V1;",
        ..PLAIN
    },
    // \x40 is an @. A plain @ would be replaced by the directory of a package.
    Object {
        path: "app-versions/bin/versions",
        source: "int old(void), which(void), many(void); __asm__(\".symver old,which\\x40V1\");\n\
                 int main(void) { return show(100 * many() + 10 * old() + which()); }",
        needs: &["versions/lib/libversions.so.1", "many/lib/libmany.so.1"],
        run_path: &["versions", "many"],
        ..PLAIN
    },
    // The value depends on the chosen variants of strlen and memcpy, but not on the C library's
    // load address.
    Object {
        path: "app-chosen/bin/chosen",
        source: "#include <string.h>\n#include <unistd.h>\nint many(void);\n\
                 int main(void) { char *near = (char *) getpid; return show(many() *\n\
                 (int) (((char *) strlen - near) ^ ((char *) memcpy - near))); }",
        needs: &["many/lib/libmany.so.1"],
        run_path: &["many"],
        flags: &["-fPIC", "-fno-builtin"],
        ..PLAIN
    },
    Object {
        path: "copy/lib/libcopy.so.1",
        source: "int shared = 1; void bump(void) { shared++; } int get(void) { return shared; }",
        ..PLAIN
    },
    // The value includes 100 if the variable was copied into the program.
    Object {
        path: "app-copy/bin/copy",
        source: "extern int shared; void bump(void); int get(void), many(void);\n\
                 int main(void) { Dl_info own, of; bump();\n\
                 int copied = dladdr((void *) main, &own) && dladdr(&shared, &of)\n\
                 && own.dli_fbase == of.dli_fbase;\n\
                 return show(100 * many() * copied + 10 * shared + get()); }",
        needs: &["copy/lib/libcopy.so.1", "many/lib/libmany.so.1"],
        run_path: &["copy", "many"],
        flags: &["-fno-pie", "-no-pie"],
        ..PLAIN
    },
    Object {
        path: "unique/lib/libunique.so.1",
        source: with_token!("void set(int value) { token = value; }"),
        ..PLAIN
    },
    Object {
        path: "other/lib/plugin.so",
        source: with_token!("int plugin(void) { return token; }"),
        ..PLAIN
    },
    Object {
        path: "app-unique/bin/unique",
        source: "void set(int); int many(void);\n\
                 int main(void) { set(5);\n\
                 void *l = dlopen(\"@other/lib/plugin.so\", RTLD_NOW | RTLD_DEEPBIND);\n\
                 return show(l ? many() * ((int (*)(void)) dlsym(l, \"plugin\"))() : -1); }",
        needs: &["unique/lib/libunique.so.1", "many/lib/libmany.so.1"],
        run_path: &["unique", "many"],
        ..PLAIN
    },
    Object { path: "app-opens/bin/opens", source: OPENS, run_path: LONG, ..PLAIN },
    Object {
        path: "app-plugs/bin/plugs",
        source: "int main(void) { void *l = dlopen(\"@plug/lib/plugin.so\", RTLD_NOW);\n\
                 return show(l ? ((int (*)(void)) dlsym(l, \"plugin\"))() : -1); }",
        run_path: &["none"],
        ..PLAIN
    },
];

/// Libraries outside the store: directory, file, source.
pub(super) const OUTSIDE: &[(&str, &str, &str)] = &[
    ("over", "libone.so.1", "int one(void) { return 9; }"),
    ("over", "libpreload.so", "int one(void) { return 7; }"),
    ("over", "libwho.so", "int who(void) { return 7; }"),
    ("driver", "libGLdriver.so.0", "int draw(void) { return 6; }"),
    ("stack", "libGL.so.1", "int gl(void) { return 8; }"),
    ("kept", "libone.so.1", "int one(void) { return 5; }"),
    // An audit module that does nothing.
    ("audit", "libaudit.so", "unsigned la_version(unsigned version) { return version; }"),
];
