//! Compiles C programs for the tests.

use std::path::{Path, PathBuf};
use std::process::Command as Host;

use crate::trace::{self, Command, Options, TraceError, Traced};

/// A compiled program in a folder of its own.
pub(super) struct Fixture {
    /// The folder.
    pub(super) dir: tempfile::TempDir,
    /// The program.
    pub(super) program: PathBuf,
}

/// Compiles a program with additional compiler arguments.
pub(super) fn compile(source: &str, arguments: &[&str]) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "program", source, arguments);
    Fixture { dir, program }
}

/// Compiles `source` to the file `name` in `dir`.
pub(super) fn build(dir: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let file = dir.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let program = dir.join(name);
    let mut compiler = Host::new("cc");
    compiler.args(["-O1", "-pthread", "-w"]).arg(&file).arg("-o").arg(&program).args(arguments);
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Traces a program without arguments in a clean environment.
pub(super) fn trace(program: &Path, options: Options) -> Traced {
    trace_in(program, &[], options)
}

/// Traces a program with additional environment variables.
pub(super) fn trace_in(program: &Path, env: &[(&str, &str)], options: Options) -> Traced {
    let env = [("PATH", "/usr/bin:/bin")].iter().chain(env);
    let env = env.map(|(name, value)| (name.into(), value.into())).collect();
    let command = Command { env: Some(env), ..Command::new(program, []) };
    run(&command, options).expect("a traced run")
}

/// Returns the sets of options with which a program must behave as it does untraced.
pub(super) fn option_sets() -> [Options; 4] {
    [
        Options::default(),
        Options { follow: true, ..Options::default() },
        Options { all_syscalls: true, ..Options::default() },
        Options { all_syscalls: true, follow: true, ..Options::default() },
    ]
}

/// Traces a program, without a look at its entry points.
pub(super) fn run(command: &Command, options: Options) -> Result<Traced, TraceError> {
    trace::run(command, options, &mut |_, _| ())
}
