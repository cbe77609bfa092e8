//! Starts of programs that are switched on (`becalm on`), and of programs that are not, with the folder of links
//! first in `PATH`: beside the same starts without it, and in a session with the same index. Measured as in [`super::calm`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;

use super::Common;
use super::calm::{calm, measure, starts, variant};
use crate::child;

/// Programs of /usr/bin that are switched on, with an argument that makes them end by themselves ([`starts`]).
const ON: &str = "\
    inkscape --version; gimp --version; octave-cli --version; ffmpeg -version; clang --version; \
    qemu-system-x86_64 --version; convert-im6.q16 --version; node --version; emacs-nox --version; \
    gdb --version";
/// Programs that are not.
const OTHERS: &str = "\
    git --version; bash -c :; true; ls /; make --version; python3 -c pass; dash -c :; \
    sed --version; grep --version; perl -e 1";
const PATH: &str = "/usr/bin:/bin";

/// Measures and prints one table a program.
///
/// # Errors
/// Returns an error if becalm or a program cannot be run, or the raw data cannot be written.
pub(super) fn run(args: &Common) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let is_there = |name: &str| Path::new("/usr/bin").join(name).exists();
    let names: Vec<&str> = starts(ON).map(|one| one.0).filter(|name| is_there(name)).collect();
    ensure!(!names.is_empty(), "none of the programs is installed");
    let state = switch_on(&args.becalm, scratch.path(), &names)?;
    let mut all = Vec::new();
    for (name, arguments) in
        starts(ON).chain(starts(OTHERS)).filter(|(name, _)| args.is_wanted(name))
    {
        if !is_there(name) {
            println!("{name}: not installed");
            continue;
        }
        // Programs that exit so soon take little time for many rounds. `env` searches for them at each start.
        let is_on = names.contains(&name);
        let (before, times): (&[_], _) = if is_on { (&[], 1) } else { (&["/usr/bin/env"], 10) };
        let way = |what: &str, variables: &[(&str, String)]| {
            variant(what, before, (Path::new(name), &arguments), variables)
        };
        let plain = ("PATH", PATH.to_owned());
        let on = ("PATH", format!("{}:{PATH}", state.join("bin").display()));
        let session = [vec![plain.clone()], calm(&state.join("index.so"))].concat();
        let variants = [way("plain", &[plain]), way("on", &[on]), way("in a session", &session)];
        all.extend(measure(name, &variants, times * args.rounds)?);
    }
    args.write(json!({ "times": all }))
}

/// Switches programs on with a home directory of their own. Returns the folder of what was written.
fn switch_on(becalm: &Path, scratch: &Path, names: &[&str]) -> Result<PathBuf> {
    let home = scratch.join("home");
    fs::create_dir(&home)?;
    let mut on = Command::new(becalm);
    on.arg("on").args(names).env("PATH", PATH).env("HOME", &home);
    on.env("BECALM_CACHE", scratch.join("cache"));
    for variable in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"] {
        on.env_remove(variable);
    }
    child::succeed(&mut on)?;
    Ok(home.join(".local/state/becalm/on"))
}
