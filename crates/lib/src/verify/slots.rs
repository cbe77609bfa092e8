//! The relocated slots of a program's real start: with the bindings of an index, and as the loader
//! binds them itself.
//!
//! Each start ends before the program's first constructor runs (`BECALM=stop`).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::facts::Environment;
use becalm_core::index::tls::SESSION;
use becalm_core::record::audit_log::{self, Bindings};
use becalm_host::child::status_within;
use bstr::{BString, ByteSlice};

use crate::index::variables::{AUDIT, STATIC_TLS, SWITCHES, TUNABLES};
use crate::path::path_of;
use crate::words::words;

/// The longest that a start may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Differences of one program that are kept.
const MOST: usize = 20;

/// The slots of two starts of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Slots that were compared.
    pub compared: usize,
    /// The first few differences: the slot as the loader wrote it, with its object, and as the
    /// module did.
    pub differences: Vec<(BString, BString)>,
    /// The reason why the module did not apply the bindings, if it did not.
    pub not_applied: Option<String>,
}

/// Starts a program three times and compares. `environment` is that which the index was made for, and `static_tls` what
/// the program needs beyond glibc's default.
///
/// # Errors
/// Returns an error if a start fails, or if it has no slots: its loader does not load the index.
pub fn compare(
    program: &Path,
    index: &Path,
    environment: &Environment,
    static_tls: u32,
) -> Result<Slots> {
    let folder = tempfile::Builder::new().prefix("becalm-slots-").tempdir().map_err(in_words)?;
    let (dump, log) = (folder.path().join("dump"), folder.path().join("log"));
    // Returns the lines that the module dumps.
    let slots = |switches: &str| -> Result<Vec<u8>> {
        // The dump of an earlier start must not count for this one.
        let _ = fs::remove_file(&dump);
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Without lazy binding each slot has its final value before the program starts.
        command.env(AUDIT, index).env("LD_BIND_NOW", "1");
        command.env(SWITCHES, format!("{switches},stop,dump:{}", dump.display()));
        let static_tls = u64::from(static_tls).max(SESSION);
        command.env(TUNABLES, format!("{STATIC_TLS}={static_tls}"));
        let Environment { library_path, preload, .. } = environment;
        for (name, value) in [("LD_LIBRARY_PATH", library_path), ("LD_PRELOAD", preload)] {
            if let Some(value) = value {
                command.env(name, path_of(value.as_bstr()));
            }
        }
        let mut child = command.spawn().map_err(in_words)?;
        if status_within(&mut child, LIMIT).map_err(in_words)?.is_none() {
            bail!("did not start within {} s", LIMIT.as_secs());
        }
        fs::read(&dump).ok().context("its loader did not load the index")
    };
    let (plain, again) = (slots("nobind")?, slots("nobind")?);
    let bound = slots(&format!("log:{}", log.display()))?;
    let said = fs::read(&log).unwrap_or_default();
    let not_applied = not_applied(&said);
    Ok(Slots { not_applied, ..compared(&plain, &again, &bound) })
}

fn in_words(error: std::io::Error) -> anyhow::Error {
    anyhow!(words(&error))
}

/// Compares two starts, without the slots in which the first differs from `again`.
fn compared(plain: &[u8], again: &[u8], bound: &[u8]) -> Slots {
    let mut result = Slots::default();
    let mut object = BString::default();
    let lines = |dump| -> Vec<&[u8]> { <[u8]>::lines(dump).collect() };
    let (plain, again, bound) = (lines(plain), lines(again), lines(bound));
    if plain.len() != bound.len() {
        let lines = |of: &[&[u8]]| BString::from(format!("{} lines", of.len()));
        result.differences.push((lines(&plain), lines(&bound)));
        return result;
    }
    let is_comparable = again.len() == plain.len();
    for (at, (plain, bound)) in plain.iter().zip(&bound).enumerate() {
        if plain.starts_with(b"object ") {
            object = plain.as_bstr().to_owned();
        }
        // Such as an address of the stack.
        if is_comparable && again[at] != *plain {
            continue;
        }
        result.compared += usize::from(plain.starts_with(b"slot "));
        if plain != bound && result.differences.len() < MOST {
            let plain = format!("{object}: {}", plain.as_bstr());
            result.differences.push((plain.into(), bound.as_bstr().to_owned()));
        }
    }
    result
}

/// Why the module did not apply the bindings, by its log; `None` if it did.
fn not_applied(log: &[u8]) -> Option<String> {
    match audit_log::bindings(log) {
        Some(Bindings::Applied { .. }) => None,
        Some(Bindings::Declined(why)) => Some(format!("declined {why}")),
        None => Some("the module says nothing of bindings".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_vary_by_themselves_are_not_compared() {
        let plain = b"object 0 /p\nslot 10 6 1+20\nslot 18 6 =7ffe10\n";
        let again = b"object 0 /p\nslot 10 6 1+20\nslot 18 6 =7ffe20\n";
        let bound = b"object 0 /p\nslot 10 6 1+24\nslot 18 6 =7ffe30\n";
        let result = compared(plain, again, bound);
        assert_eq!(result.compared, 1);
        let difference = ("object 0 /p: slot 10 6 1+20".into(), "slot 10 6 1+24".into());
        assert_eq!(result.differences, [difference]);
        assert!(compared(plain, again, again).differences.is_empty());
    }

    #[test]
    fn the_log_says_why_bindings_were_not_applied() {
        assert_eq!(not_applied(b"7\tobject\t1\t0\t/p\n7\tbindings\t0\tapplied\t3\t4\n"), None);
        let declined = not_applied(b"7\tbindings\t0\tdeclined\tother-file\t/lib/x.so\n");
        assert_eq!(declined.as_deref(), Some("declined other-file /lib/x.so"));
        assert!(not_applied(b"").is_some());
    }
}
