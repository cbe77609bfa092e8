//! A run that could not be traced, reported from the loader's own output (`LD_DEBUG`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use becalm_host::trace::{Command, Image, Untraced};
use bstr::BString;

use crate::beside::Scope;
use crate::index::variables::TUNABLES;
use crate::trace::join;
use crate::trace::options::Options;
use crate::trace::predict::predict;
use crate::trace::report::{Report, Seen, words_of_command};

/// The note that lists the missing data.
const LOST: &str = "told by LD_DEBUG=libs: opens alone; no stats, no times, no system calls, \
                    nothing after the entry point; the program sees LD_DEBUG in its environment";

/// Returns the report of such a run.
#[must_use]
pub fn report(options: &Options, command: &Command, ran: Untraced, why: &str) -> Report {
    let mut notes = vec![format!("{why}; {LOST}")];
    if ran.record.is_none() {
        notes.push("the loader wrote no record: a static or set-id program, or musl".to_owned());
    }
    let exit = Some(ran.exit);
    let environment = command.env.clone().unwrap_or_else(|| std::env::vars_os().collect());
    Report {
        command: words_of_command(command),
        images: vec![seen(options, ran, environment)],
        exit,
        notes,
        opens_alone: true,
        ..Report::default()
    }
}

fn seen(options: &Options, ran: Untraced, environment: Vec<(OsString, OsString)>) -> Seen {
    let path: BString = ran.path.as_os_str().as_bytes().into();
    let environment = environment
        .iter()
        .map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()))
        .filter(|(name, _): &(BString, BString)| name.starts_with(b"LD_") || name == TUNABLES)
        .collect();
    let image = Image {
        path: path.clone(),
        exec_path: path,
        pid: ran.pid,
        reached_entry: true,
        environment,
        ..Image::default()
    };
    let answer = predict(&image, options);
    let closure = answer.1.as_ref().ok().map(|(_, closure)| closure);
    let missing = closure.map_or_else(Vec::new, |closure| closure.unresolved());
    let missing: Vec<BString> = missing.into_iter().map(Into::into).collect();
    let attempts = ran.record.iter().flat_map(|record| record.probes(&missing));
    let attempts = attempts.map(|probe| probe.attempt()).collect();
    let scope = Scope { reached_entry: missing.is_empty(), opens_alone: true };
    join::seen(image, attempts, answer, scope)
}
