//! Every probe, one a line: call, outcome, search source, requester, path.

use std::fmt::Write;

use becalm_core::closure::Closure;
use becalm_core::probe::{Call, Outcome, Probe, SearchSource};
use becalm_lib::escape::shown;
use bstr::{BStr, ByteSlice};

use crate::terminal::style::Look;

/// Returns the probes of a start in the loader's order; nothing for a file without a loader.
#[must_use]
pub(crate) fn lines(look: Look, closure: Option<&Closure>) -> Vec<u8> {
    let mut text = String::new();
    let Some(closure) = closure else { return Vec::new() };
    let load = &closure.load;
    for probe in load.probes.iter() {
        let asking = &load.objects[load.resolutions[probe.resolution].needed_by];
        let how = (probe.call, probe.outcome, probe.source);
        push_line(&mut text, look, how, asking.path.as_ref(), probe.path);
    }
    text.into_bytes()
}

/// Returns observed probes in their order, in the same form.
#[must_use]
pub(crate) fn observed(look: Look, probes: &[Probe]) -> String {
    let mut text = String::new();
    for probe in probes {
        let how = (probe.call, probe.outcome, probe.source);
        push_line(&mut text, look, how, probe.needed_by.as_ref(), probe.path.as_ref());
    }
    text
}

fn push_line(
    text: &mut String,
    look: Look,
    (call, outcome, source): (Call, Outcome, SearchSource),
    asking: &BStr,
    path: &BStr,
) {
    let word = format!("{:<15}", name_of_outcome(outcome));
    let word = match outcome {
        Outcome::Hit => look.good(&word),
        outcome if outcome.is_failed_call() => look.costly(&word),
        _ => look.bad(&word),
    };
    let asking = match basename(asking) {
        name if name.is_empty() => "?".to_owned(),
        name => shown(name),
    };
    let source = look.origin(&format!("{:<12}", name_of_source(source)));
    let _ = writeln!(text, "{} {word} {source} {asking} {}", name_of_call(call), shown(path));
}

/// Returns the last component of a path.
#[must_use]
pub(crate) fn basename(path: &BStr) -> &BStr {
    path.rfind_byte(b'/').map_or(path, |slash| path[slash + 1..].as_bstr())
}

/// Returns the name of a call in the JSON.
#[must_use]
pub(crate) fn name_of_call(call: Call) -> &'static str {
    match call {
        Call::Open => "open",
        Call::Stat => "stat",
    }
}

/// Returns the name of a search source in the JSON.
fn name_of_source(source: SearchSource) -> &'static str {
    match source {
        SearchSource::Direct => "direct",
        SearchSource::Rpath => "rpath",
        SearchSource::LibraryPath => "library-path",
        SearchSource::Note => "note",
        SearchSource::PackageCache => "package-cache",
        SearchSource::Runpath => "runpath",
        SearchSource::LoaderCache => "loader-cache",
        SearchSource::System => "system",
    }
}

/// Returns the name of an outcome in the JSON.
#[must_use]
pub(crate) fn name_of_outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Hit => "hit",
        Outcome::Miss => "miss",
        Outcome::NotADirectory => "not-a-directory",
        Outcome::Denied => "denied",
        Outcome::Loop => "loop",
        Outcome::NameTooLong => "name-too-long",
        Outcome::Failed => "failed",
        Outcome::WrongClass => "wrong-class",
        Outcome::WrongMachine => "wrong-machine",
        Outcome::NotElf => "not-elf",
        Outcome::Refused => "refused",
        Outcome::NoDirectory => "no-directory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_word(value: impl serde::Serialize) -> String {
        serde_json::to_value(value).expect("a word").as_str().expect("a word").to_owned()
    }

    #[test]
    fn the_words_are_those_of_the_json() {
        use Outcome::*;
        for outcome in [
            Hit,
            Miss,
            NotADirectory,
            Denied,
            Loop,
            NameTooLong,
            Failed,
            WrongClass,
            WrongMachine,
            NotElf,
            Refused,
            NoDirectory,
        ] {
            assert_eq!(name_of_outcome(outcome), json_word(outcome));
        }
        use SearchSource::*;
        for source in [Direct, Rpath, LibraryPath, Note, PackageCache, Runpath, LoaderCache, System]
        {
            assert_eq!(name_of_source(source), json_word(source));
        }
        for call in [Call::Open, Call::Stat] {
            assert_eq!(name_of_call(call), json_word(call));
        }
    }
}
