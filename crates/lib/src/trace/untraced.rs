//! A run that could not be traced, reported from the loader's own output (`LD_DEBUG`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use becalm_core::fs::Errno;
use becalm_core::observe::{Kind, Lookup};
use becalm_core::probe::{Call, Outcome, Probe};
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
    let mut image = Image {
        path: path.clone(),
        exec_path: path,
        pid: ran.pid,
        reached_entry: true,
        environment,
        ..Image::default()
    };
    let record = ran.record.unwrap_or(becalm_core::record::ld_debug::ProcessRecord {
        pid: ran.pid,
        searches: Vec::new(),
    });
    let (path, said) = predict(&image, options);
    match said {
        Ok((program, closure)) => {
            let missing: Vec<BString> = closure.unresolved().into_iter().map(Into::into).collect();
            image.lookups = record.probes(&missing).iter().map(lookup).collect();
            let scope = Scope { reached_entry: missing.is_empty(), opens_alone: true };
            join::predicted(image, path, program, &closure, scope)
        }
        Err(why) => {
            image.lookups = record.probes(&[]).iter().map(lookup).collect();
            join::unpredicted(image, path, why)
        }
    }
}

/// Returns a recorded probe as the call it was.
#[must_use]
pub fn lookup(probe: &Probe) -> Lookup {
    Lookup {
        kind: match probe.call {
            Call::Open => Kind::Open,
            Call::Stat => Kind::Stat,
        },
        path: probe.path.clone(),
        at_cwd: true,
        errno: match probe.outcome {
            Outcome::Miss => Some(Errno::NOENT),
            Outcome::NotADirectory => Some(Errno::NOTDIR),
            Outcome::Denied => Some(Errno::ACCES),
            Outcome::Loop => Some(Errno::LOOP),
            Outcome::NameTooLong => Some(Errno::NAMETOOLONG),
            Outcome::Failed => Some(Errno::IO),
            _ => None,
        },
        ns: 0,
        by_loader: true,
    }
}
