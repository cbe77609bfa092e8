//! Compiles the reader of the loader patch apart from glibc, with the sanitizers and
//! the comparisons traced by the C compiler, for the target `loader_reader`.

fn main() {
    let reader = "../patches/glibc/tests/reader.c";
    println!("cargo::rerun-if-changed={reader}");
    println!("cargo::rerun-if-changed=../patches/glibc/common/0001/elf/dl-resolution.h");
    cc::Build::new()
        .std("c11")
        .define("_GNU_SOURCE", None)
        .include("../patches/glibc/common/0001/elf")
        .warnings_into_errors(true)
        .extra_warnings(true)
        .flag("-fno-omit-frame-pointer")
        .file(reader)
        // Undefined behaviour traps, so that no second runtime has to be linked.
        .flag("-fsanitize=address,undefined")
        .flag("-fsanitize-undefined-trap-on-error")
        .flag("-fsanitize-coverage=trace-cmp")
        .compile("loader_reader");
}
