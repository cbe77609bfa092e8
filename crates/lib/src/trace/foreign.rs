//! Programs of another architecture: if the kernel runs them at all, it runs an emulator, whose own
//! calls show nothing about the loader inside.

use std::env;

use becalm_host::trace::Command;

use crate::trace::refused::machine;

/// Returns the reason why the command should not be traced; `None` if it can be traced.
#[must_use]
pub fn why_untraced(command: &Command) -> Option<String> {
    let machine = machine(&command.file().ok()?)?;
    // A 64-bit kernel usually runs 32-bit programs of the same family without an emulator.
    let runs_here = match env::consts::ARCH {
        "x86_64" => matches!(machine, "x86_64" | "i386" | "i686" | "x86"),
        "aarch64" => matches!(machine, "aarch64" | "arm"),
        native => machine == native,
    };
    (!runs_here).then(|| format!("a program for {machine}, which runs under an emulator"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_for_another_machine_is_left_to_its_emulator() {
        let own = env::current_exe().expect("our own program");
        assert_eq!(why_untraced(&Command::new(&own, [])), None);
        let mut image = std::fs::read(&own).expect("read");
        // EM_PPC64 in the byte order of the file: no machine with a tracer runs it.
        image[18..20].copy_from_slice(&21_u16.to_le_bytes());
        let dir = tempfile::tempdir().expect("a scratch directory");
        let alien = dir.path().join("alien");
        std::fs::write(&alien, image).expect("written");
        let why = why_untraced(&Command::new(&alien, []));
        assert!(why.as_ref().is_some_and(|why| why.contains("under an emulator")), "{why:?}");
    }
}
