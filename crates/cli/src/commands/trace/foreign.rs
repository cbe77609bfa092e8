//! Programs of another architecture: where the kernel runs them at all, it runs an
//! emulator, whose own calls say nothing of the loader inside.

use std::env;
use std::path::{Path, PathBuf};

use becalm_host::trace::Command;

use super::refused::machine;

/// Why the command had better not be traced; `None` where it can be.
#[must_use]
pub(super) fn why_untraced(command: &Command) -> Option<String> {
    let machine = machine(&found(command)?)?;
    let runs_here = match env::consts::ARCH {
        "x86_64" => matches!(machine, "x86_64" | "i386" | "i686" | "x86"),
        "aarch64" => matches!(machine, "aarch64" | "arm"),
        native => machine == native,
    };
    (!runs_here).then(|| format!("a program for {machine}, which runs under an emulator"))
}

fn found(command: &Command) -> Option<PathBuf> {
    let name = Path::new(&command.program);
    if name.components().count() > 1 || name.is_absolute() {
        return Some(name.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}
