//! Compiles the audit module, so that the command carries it.
//!
//! `audit/module.flags` holds flags and sources, for this and for `audit/Makefile` alike.
//! The machine becalm is built for must have a C compiler; modules of the others are there
//! where a cross compiler is. `modules.rs` in the output folder lists them:
//! `pub static MODULES: &[(&str, &[u8])]`, the machine as `uname -m` has it and the file.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Machines the module is written for, with the prefix of their usual cross compiler.
const MACHINES: [(&str, &str); 7] = [
    ("x86_64", "x86_64-linux-gnu"),
    ("aarch64", "aarch64-linux-gnu"),
    ("arm", "arm-linux-gnueabihf"),
    ("i686", "i686-linux-gnu"),
    ("riscv64", "riscv64-linux-gnu"),
    ("ppc64le", "powerpc64le-linux-gnu"),
    ("s390x", "s390x-linux-gnu"),
];

fn main() {
    let sources = Path::new(&variable("CARGO_MANIFEST_DIR")).join("audit");
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(variable("OUT_DIR"));
    let own = own_machine();
    let mut list = String::from(
        "/// The audit modules built in: the machine as `uname -m` has it, the file.\n\
         pub static MODULES: &[(&str, &[u8])] = &[\n",
    );
    for (machine, prefix) in MACHINES {
        let cross = format!("{prefix}-gcc");
        let compiler = if machine == own { own_compiler(&cross) } else { cross };
        println!("cargo::rerun-if-env-changed=BECALM_CC_{}", machine.to_uppercase());
        let compiler =
            env::var(format!("BECALM_CC_{}", machine.to_uppercase())).unwrap_or(compiler);
        let module = out.join(format!("becalm-audit-{machine}.so"));
        match compile(&sources, &compiler, &module) {
            Ok(()) => writeln!(list, "    ({machine:?}, include_bytes!({module:?})),").unwrap(),
            Err(reason) if machine == own => panic!(
                "the audit module cannot be compiled: {reason}\n\
                 (becalm needs a C compiler and linker: Debian's package gcc; CC names another)"
            ),
            Err(_) => {}
        }
    }
    list.push_str("];\n");
    std::fs::write(out.join("modules.rs"), list).expect("the output folder can be written");
}

/// The machine becalm is built for; the same names but for these.
fn own_machine() -> String {
    match variable("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86" => "i686".to_owned(),
        "powerpc64" => "ppc64le".to_owned(),
        other => other.to_owned(),
    }
}

fn own_compiler(cross: &str) -> String {
    let native = variable("HOST").split('-').next() == variable("TARGET").split('-').next();
    let usual = if native { "cc" } else { cross };
    env::var("CC").unwrap_or_else(|_| usual.to_owned())
}

fn compile(sources: &Path, compiler: &str, module: &Path) -> Result<(), String> {
    // CC may hold arguments.
    let mut words = compiler.split_whitespace();
    let made = Command::new(words.next().unwrap_or("cc"))
        .args(words)
        .current_dir(sources)
        .args(["@module.flags", "-o"])
        .arg(module)
        .output()
        .map_err(|error| format!("{compiler}: {error}"))?;
    if made.status.success() {
        Ok(())
    } else {
        Err(format!("{compiler}: {}", String::from_utf8_lossy(&made.stderr)))
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
