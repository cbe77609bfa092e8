//! Compiles the audit module and the starter of `becalm on`, so that the command carries them.
//!
//! `module/module.flags` holds flags and sources, for this and for `module/Makefile` alike;
//! `starter/starter.flags` those of the starter, `starter/quick.flags` those of the beginning of
//! the command, which its own build script links.
//! The machine becalm is built for must have a C compiler (`CC`, or in a cross build clang or the
//! cross compiler). Modules of the other machines are built in if their cross compiler is installed. With `BECALM_MODULES=all` all of them are
//! built in, by clang or by cross compilers, or the build fails; releases are built in this way.
//! `BECALM_CC_<MACHINE>` names the compiler of one machine, with its arguments.
//!
//! `modules.rs` in the output folder lists the modules: `pub static MODULES: &[(&str, &[u8])]`,
//! the machine as `uname -m` has it and the file; `STARTERS` in the same form.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Machines that the module supports, with the prefix of their usual cross compiler.
const MACHINES: [(&str, &str); 7] = [
    ("x86_64", "x86_64-linux-gnu"),
    ("aarch64", "aarch64-linux-gnu"),
    ("arm", "arm-linux-gnueabihf"),
    ("i686", "i686-linux-gnu"),
    ("riscv64", "riscv64-linux-gnu"),
    ("ppc64le", "powerpc64le-linux-gnu"),
    ("s390x", "s390x-linux-gnu"),
];

/// Machines that the starter supports. Those of other machines that cannot be compiled are left out.
const OF_STARTER: [&str; 2] = ["x86_64", "aarch64"];

/// Atomic operations without calls into libgcc, for AArch64.
const OWN_ATOMICS: &str = "-mno-outline-atomics";
/// The flag of `module.flags` that clang refuses.
const GCC_ALONE: &str = "-fno-tree-loop-distribute-patterns";

fn main() {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let (sources, of_starter) = (manifest.join("module"), manifest.join("starter"));
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed={}", of_starter.display());
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=BECALM_MODULES");
    let all = match env::var("BECALM_MODULES").as_deref() {
        Err(_) | Ok("") => false,
        Ok("all") => true,
        Ok(other) => panic!("BECALM_MODULES is {other:?}; it can be \"all\" or unset"),
    };
    let out = PathBuf::from(variable("OUT_DIR"));
    let own = own_machine();
    let entry = |machine, file: &Path| format!("    ({machine:?}, include_bytes!({file:?})),\n");
    let (mut modules, mut starters) = (String::new(), String::new());
    for (machine, prefix) in MACHINES {
        let name = format!("BECALM_CC_{}", machine.to_uppercase());
        println!("cargo::rerun-if-env-changed={name}");
        let cross = format!("{prefix}-gcc");
        let compilers = match env::var(&name) {
            Ok(named) => vec![named],
            Err(_) if machine == own && is_native() => {
                vec![env::var("CC").unwrap_or_else(|_| "cc".to_owned())]
            }
            Err(_) if machine == own || all => clang(prefix).into_iter().chain([cross]).collect(),
            Err(_) => vec![cross],
        };
        let module = out.join(format!("becalm-audit-{machine}.so"));
        let flags = if machine == "aarch64" { &[OWN_ATOMICS][..] } else { &[] };
        match compile((&sources, "module.flags"), &compilers, flags, &module) {
            Ok(()) => modules.push_str(&entry(machine, &module)),
            Err(reason) if machine == own => panic!(
                "the audit module cannot be compiled: {reason}\n\
                 (becalm needs a C compiler and linker: Debian's package gcc; CC names another)"
            ),
            Err(reason) if all => panic!(
                "the audit module of {machine} cannot be compiled: {reason}\n\
                 (BECALM_MODULES=all needs clang, lld and, for a machine that lld cannot link \
                 for, its binutils: Debian's packages clang, lld, binutils-s390x-linux-gnu)"
            ),
            Err(_) => {}
        }
        if !OF_STARTER.contains(&machine) {
            continue;
        }
        let starter = out.join(format!("becalm-starter-{machine}"));
        match compile((&of_starter, "starter.flags"), &compilers, &[], &starter) {
            Ok(()) => starters.push_str(&entry(machine, &starter)),
            Err(reason) if machine == own => panic!("the starter cannot be compiled: {reason}"),
            Err(_) => {}
        }
        if machine == own {
            let quick = out.join("becalm-quick.o");
            compile((&of_starter, "quick.flags"), &compilers, &[], &quick)
                .unwrap_or_else(|reason| panic!("becalm's beginning cannot be compiled: {reason}"));
            println!("cargo::metadata=quick={}", quick.display());
        }
    }
    let lists = format!(
        "/// The audit modules built in: the machine as `uname -m` has it, the file.\n\
         pub static MODULES: &[(&str, &[u8])] = &[\n{modules}];\n\
         /// The starters built in: the machine as `uname -m` has it, the file.\n\
         pub static STARTERS: &[(&str, &[u8])] = &[\n{starters}];\n"
    );
    std::fs::write(out.join("modules.rs"), lists).expect("the output folder can be written");
}

/// Returns the machine that becalm is built for, as `uname -m` has it. Rust's names are the same
/// except for these.
fn own_machine() -> String {
    match variable("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86" => "i686".to_owned(),
        "powerpc64" => "ppc64le".to_owned(),
        other => other.to_owned(),
    }
}

/// True if becalm is built for the machine that builds it.
fn is_native() -> bool {
    variable("HOST").split('-').next() == variable("TARGET").split('-').next()
}

/// Returns the ways to compile and link for another machine with clang: with LLVM's linker, which
/// may not support a rare machine, and with the machine's GNU linker.
fn clang(prefix: &str) -> [String; 2] {
    let clang = format!("clang --target={prefix}");
    [format!("{clang} -fuse-ld=lld"), format!("{clang} --ld-path={prefix}-ld")]
}

/// Compiles with the first compiler that succeeds; returns the reasons of all if none does.
fn compile(
    (sources, flags): (&Path, &str),
    compilers: &[String],
    of_machine: &[&str],
    output: &Path,
) -> Result<(), String> {
    let flags = std::fs::read_to_string(sources.join(flags))
        .map_err(|error| format!("{flags}: {error}"))?;
    let mut reasons = Vec::new();
    for compiler in compilers {
        // A compiler may be named with arguments.
        let mut words = compiler.split_whitespace();
        // clang needs no flag to keep memcpy's own loop from becoming a call of memcpy.
        let is_clang = compiler.contains("clang");
        let flags = flags.split_whitespace().filter(|flag| !is_clang || *flag != GCC_ALONE);
        let mut command = Command::new(words.next().unwrap_or("cc"));
        command.args(words).current_dir(sources).args(flags).args(of_machine).arg("-o").arg(output);
        match command.output() {
            Ok(made) if made.status.success() => return Ok(()),
            Ok(made) => {
                reasons.push(format!("{compiler}: {}", String::from_utf8_lossy(&made.stderr)));
            }
            Err(error) => reasons.push(format!("{compiler}: {error}")),
        }
    }
    Err(reasons.join("\n"))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
