//! The two variables that make a process and its children use an index: adds becalm's parts to the
//! user's values, and removes them again.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use becalm_core::facts::Environment;
use becalm_core::index::tls;
use bstr::ByteSlice;
use serde::Serialize;

use crate::index::{file, places, platforms};
use crate::json::{lossy_os, lossy_os_option};
use crate::path;

/// The name of the list of audit modules.
pub const AUDIT: &str = "LD_AUDIT";
/// The name of the list of the audit module's switches.
pub const SWITCHES: &str = "BECALM";
/// The switch with which the module answers nothing.
pub const OFF: &str = "off";
/// The switch that leaves symbol bindings to the loader.
pub const NO_BIND: &str = "nobind";
/// The switch that answers file lookups from the index.
pub const PATHS: &str = "paths";
/// The switch, with the path of becalm, with which the module reads ahead of cold starts.
pub const AHEAD: &str = "ahead:";
/// The switch with which nothing is read ahead or recorded.
pub const NO_AHEAD: &str = "noahead";
/// The beginning of the switch that says what was added to the environment.
const ONLY: &str = "only:";
/// The name of the list of tunables.
pub const TUNABLES: &str = "GLIBC_TUNABLES";
/// The tunable for the share of the static TLS surplus that libraries may take.
pub const STATIC_TLS: &str = "glibc.rtld.optional_static_tls";

/// The contents of the variables of a session with an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// The element of `LD_AUDIT`.
    #[serde(serialize_with = "lossy_os")]
    pub module: OsString,
    /// The bytes of static TLS that libraries get.
    pub static_tls: u64,
    /// The switches of the module in `BECALM`, with commas: `nobind` or `paths`, and `ahead:` with the
    /// path of becalm; null if there is none.
    pub switch: Option<String>,
}

/// A variable and its new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// The name.
    pub name: &'static str,
    /// The value; null if the variable is unset.
    #[serde(serialize_with = "lossy_os_option")]
    pub value: Option<OsString>,
}

impl Settings {
    /// Returns the variables with these settings, added to the values that `now` returns.
    #[must_use]
    pub fn added(&self, now: impl Fn(&str) -> Option<OsString>) -> Vec<Variable> {
        let set = |name, value| Variable { name, value: Some(value) };
        let mut variables = vec![
            set(AUDIT, with_module(now(AUDIT).as_deref(), &self.module)),
            set(TUNABLES, with_static_tls(now(TUNABLES).as_deref(), self.static_tls)),
        ];
        if let Some(switch) = &self.switch {
            variables.push(set(SWITCHES, with_switch(now(SWITCHES).as_deref(), switch)));
        }
        variables
    }
}

/// Returns the text of a path that can be in a switch: no character of it separates switches, or would
/// be interpreted by a shell or tool, and the module has room for it.
pub(crate) fn text_of_switch(path: &Path) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte);
    path.to_str().filter(|path| path.bytes().all(is_plain) && path.len() < 1000)
}

/// Returns the variables with the switch by which the module takes the additions back out of the
/// environment before `main` (`audit/module/process.c`). `now` returns the values before; every addition
/// is the end of a value.
pub(crate) fn and_only(
    variables: Vec<Variable>,
    now: impl Fn(&str) -> Option<OsString>,
) -> Vec<Variable> {
    let mut letters = String::new();
    let mut words = Vec::new();
    let mut only = Vec::new();
    for variable in variables {
        let (name, value) = (variable.name, variable.value.unwrap_or_default());
        let old = now(name);
        if name == SWITCHES {
            let old = switches(old.as_deref()).into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
            let new = switches(Some(&value)).into_iter().map(<[u8]>::to_vec);
            words = new.filter(|word| !old.contains(word)).collect();
            continue;
        }
        let is_added = old.as_ref().is_none_or(|old| elements(Some(old)) != elements(Some(&value)));
        let Some(&last) = elements(Some(&value)).last().filter(|_| is_added) else { continue };
        let letter = if name == AUDIT { 'a' } else { 't' };
        letters.push(if old.is_some() { letter } else { letter.to_ascii_uppercase() });
        only.push(Variable { name, value: Some(appended(old, b':', last)) });
    }
    let old = now(SWITCHES);
    letters.push(if old.is_some() { 'b' } else { 'B' });
    words.insert(0, format!("{ONLY}{letters}").into_bytes());
    let value = Some(appended(old, b',', &words.join(&b',')));
    only.push(Variable { name: SWITCHES, value });
    only
}

/// Returns a list with one more element, the list itself as it was.
fn appended(list: Option<OsString>, separator: u8, element: &[u8]) -> OsString {
    let mut list = list.unwrap_or_default().into_vec();
    if !list.is_empty() {
        list.push(separator);
    }
    list.extend(element);
    OsString::from_vec(list)
}

/// Returns `LD_AUDIT` without the elements that name one of these indexes, directly or by
/// [`platforms::audit_path`].
pub fn without_indexes(list: Option<&OsStr>, indexes: &[PathBuf]) -> Variable {
    let is_of = |element: &[u8]| indexes.contains(&platforms::index_of(OsStr::from_bytes(element)));
    without(AUDIT, elements(list), b':', is_of)
}

/// Returns the tunables without what [`Settings::added`] adds for so many bytes of static TLS.
pub fn without_need(bytes: u64, now: Option<&OsStr>) -> Variable {
    let added = static_tls_element(bytes);
    without(TUNABLES, elements(now), b':', |element| element == added.as_bytes())
}

/// Returns the switches without those of [`Settings::added`].
pub fn without_switches(now: &OsStr) -> Variable {
    without(SWITCHES, switches(Some(now)), b',', |it| {
        [NO_BIND, PATHS].iter().any(|own| it == own.as_bytes()) || it.starts_with_str(AHEAD)
    })
}

/// Returns a variable without some parts of its value; unset if nothing is left.
fn without(
    name: &'static str,
    mut parts: Vec<&[u8]>,
    separator: u8,
    is_removed: impl Fn(&[u8]) -> bool,
) -> Variable {
    parts.retain(|part| !is_removed(part));
    let value = (!parts.is_empty()).then(|| OsString::from_vec(parts.join(&separator)));
    Variable { name, value }
}

/// Returns the list with a module at its end, so that the user's own modules are called with the
/// loader's original lookups; unchanged if the module is already in it.
fn with_module(list: Option<&OsStr>, module: &OsStr) -> OsString {
    let mut elements = elements(list);
    if !elements.contains(&module.as_bytes()) {
        elements.push(module.as_bytes());
    }
    joined(&elements)
}

/// Returns the indexes that the list names, in order: also those that are damaged, and those that
/// are missing if the element or the path is one that only becalm uses, or if it is `named`.
pub fn indexes(list: Option<&OsStr>, named: Option<&Path>) -> Vec<PathBuf> {
    let index = |element: &[u8]| {
        let element = OsStr::from_bytes(element);
        let path = platforms::index_of(element);
        let is_own = path.as_os_str() != element
            || named == Some(path.as_path())
            || file::is_index(&path)
            || places::of_sessions().any(|own| own == path);
        is_own.then_some(path)
    };
    elements(list).into_iter().filter_map(index).collect()
}

/// Returns true if an element names a file that does not exist: its only effect is an error of every
/// loader. False for a name that the loader searches for, a relative path, and a path with tokens.
pub(crate) fn is_gone(element: &OsStr) -> bool {
    let path = platforms::index_of(element);
    let is_plain = path.is_absolute() && !path.as_os_str().as_bytes().contains(&b'$');
    let is_missing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    is_plain && path.metadata().is_err_and(|error| is_missing(&error))
}

/// Returns the files of the elements that are gone ([`is_gone`]), in order.
pub(crate) fn gone(list: Option<&OsStr>) -> Vec<PathBuf> {
    let elements = elements(list).into_iter().map(OsStr::from_bytes);
    elements.filter(|element| is_gone(element)).map(platforms::index_of).collect()
}

/// Returns the tunables with at least `bytes` of static TLS; unchanged if they have that much. A
/// smaller value of the user stays before the added one: the loader uses the last, and without that
/// one it uses the user's again.
fn with_static_tls(list: Option<&OsStr>, bytes: u64) -> OsString {
    let added = static_tls_element(bytes);
    let mut elements = elements(list);
    if static_tls(list).is_none_or(|known| known < bytes) {
        elements.push(added.as_bytes());
    }
    joined(&elements)
}

/// Returns the variables with less static TLS for the program than a session has, so that its threads keep
/// their stacks. The module takes this element back out of the environment (`audit/module/process.c`):
/// programs that it starts have that of a session.
pub(crate) fn and_static_tls(mut variables: Vec<Variable>, bytes: u64) -> Vec<Variable> {
    let before = std::env::var_os(TUNABLES);
    let bytes = bytes.max(static_tls(before.as_deref()).unwrap_or(0));
    let is_added = |it: &&mut Variable| it.name == TUNABLES && it.value != before;
    if let Some(variable) = variables.iter_mut().find(is_added).filter(|_| bytes < tls::SESSION)
        && let Some(value) = &mut variable.value
    {
        value.push(format!(":{STATIC_TLS}={bytes:#x}"));
    }
    variables
}

fn static_tls_element(bytes: u64) -> String {
    format!("{STATIC_TLS}={bytes}")
}

/// Returns the bytes of static TLS that a list of tunables gives to libraries: the last value
/// counts (glibc `elf/dl-tunables.c` `parse_tunables`). `None` if there is none, or if that is no
/// number.
pub(crate) fn static_tls(list: Option<&OsStr>) -> Option<u64> {
    let elements = elements(list);
    let values = elements.iter().filter_map(|it| it.strip_prefix(STATIC_TLS.as_bytes()));
    number(values.filter_map(|value| value.strip_prefix(b"=")).next_back()?)
}

/// Parses a number as glibc's `_dl_strtoul` does: hexadecimal after `0x`, octal after `0`, else
/// decimal; one that is too large is the largest. `None` for other text, such as `8k`: glibc
/// ignores it, or reads a part of it.
fn number(text: &[u8]) -> Option<u64> {
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
        digits => (digits, 10),
    };
    let is_number = !digits.is_empty() && digits.iter().all(|&it| char::from(it).is_digit(radix));
    let digits = digits.to_str().ok().filter(|_| is_number)?;
    Some(u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}

/// Returns the module's switches with others, which may be several with commas.
pub(crate) fn with_switch(list: Option<&OsStr>, added: impl AsRef<OsStr>) -> OsString {
    let mut all = switches(list);
    for switch in switches(Some(added.as_ref())) {
        if !all.contains(&switch) {
            all.push(switch);
        }
    }
    OsString::from_vec(all.join(&b','))
}

/// True if a list of switches has one.
#[must_use]
pub fn has_switch(list: Option<&OsStr>, switch: &str) -> bool {
    switches(list).contains(&switch.as_bytes())
}

pub(crate) fn switches(list: Option<&OsStr>) -> Vec<&[u8]> {
    let list = list.map(OsStr::as_bytes).unwrap_or_default();
    list.split_str(",").filter(|switch| !switch.is_empty()).collect()
}

pub(crate) fn elements(list: Option<&OsStr>) -> Vec<&[u8]> {
    let list = list.map(OsStr::as_bytes).unwrap_or_default();
    list.split_str(":").filter(|element| !element.is_empty()).collect()
}

fn joined(elements: &[&[u8]]) -> OsString {
    OsString::from_vec(elements.join(&b':'))
}

/// Returns the libraries to preload and the directories to search of this process's environment.
pub(crate) fn environment_of_process() -> Environment {
    let variable = |name: &str| {
        // An empty variable counts as unset for the loaders.
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.as_ref().map(path::bytes)
    };
    Environment {
        library_path: variable("LD_LIBRARY_PATH"),
        preload: variable("LD_PRELOAD"),
        ..Environment::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn the_users_own_audit_modules_stay_and_are_asked_first() {
        assert_eq!(with_module(Some(os("/theirs.so")), os("/ours.so")), "/theirs.so:/ours.so");
        assert_eq!(with_module(None, os("/ours.so")), "/ours.so");
        assert_eq!(with_module(Some(os("/ours.so:/x")), os("/ours.so")), "/ours.so:/x");
    }

    #[test]
    fn undoing_gives_back_what_was_there() {
        let list = with_module(Some(os("/theirs.so")), os("/ours.so"));
        let undone = |list| without_indexes(Some(list), &["/ours.so".into()]).value;
        assert_eq!(undone(&list), Some("/theirs.so".into()));
        assert_eq!(undone(os("/ours.so.d/$PLATFORM")), None);
    }

    #[test]
    fn the_additions_are_the_ends_of_the_values_and_named_by_letters() {
        let settings =
            Settings { module: "/i.so".into(), static_tls: 512, switch: Some(NO_BIND.to_owned()) };
        let only = |old: &[(&str, &str)]| {
            let now = |name: &str| {
                old.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            };
            let mut all = and_only(settings.added(now), now);
            all.sort_by_key(|variable| variable.name);
            all.into_iter().map(|it| (it.name, it.value.unwrap())).collect::<Vec<_>>()
        };
        let tls = format!("{STATIC_TLS}=512");
        let (audit, tunables) = ((AUDIT, "/i.so".into()), (TUNABLES, OsString::from(&tls)));
        assert_eq!(only(&[]), [(SWITCHES, "only:ATB,nobind".into()), tunables, audit]);
        let old = [(AUDIT, "x::y"), (TUNABLES, "glibc.malloc.check=1:"), (SWITCHES, ",nobind")];
        let tunables = (TUNABLES, format!("glibc.malloc.check=1::{tls}").into());
        let audit = (AUDIT, "x::y:/i.so".into());
        assert_eq!(only(&old), [(SWITCHES, ",nobind,only:atb".into()), tunables, audit]);
        let old = [(AUDIT, "/i.so"), (TUNABLES, &*tls), (SWITCHES, "")];
        assert_eq!(only(&old), [(SWITCHES, "only:b,nobind".into())]);
    }

    #[test]
    fn a_larger_value_of_the_user_stays() {
        let theirs = "glibc.malloc.check=1:glibc.rtld.optional_static_tls=9000";
        assert_eq!(with_static_tls(Some(os(theirs)), 2048), theirs);
        assert_eq!(
            with_static_tls(Some(os("glibc.malloc.check=1")), 2048),
            "glibc.malloc.check=1:glibc.rtld.optional_static_tls=2048"
        );
        assert_eq!(
            with_static_tls(Some(os("glibc.rtld.optional_static_tls=0x2000")), 4096),
            "glibc.rtld.optional_static_tls=0x2000"
        );
    }

    #[test]
    fn a_smaller_value_of_the_user_is_raised_and_comes_back() {
        for theirs in ["10", "0x100", "0777", "9000k", "9000:glibc.rtld.optional_static_tls=10"] {
            let theirs = format!("glibc.rtld.optional_static_tls={theirs}");
            let raised = with_static_tls(Some(os(&theirs)), 2048);
            assert_eq!(raised, *format!("{theirs}:glibc.rtld.optional_static_tls=2048"));
            assert_eq!(with_static_tls(Some(&raised), 2048), raised, "once is enough");
            assert_eq!(without_need(2048, Some(&raised)).value, Some(theirs.into()));
        }
    }

    #[test]
    fn numbers_are_read_as_the_loader_reads_them() {
        let cases = [("512", 512), ("0x200", 512), ("0X2f", 47), ("01000", 512), ("0", 0)];
        for (text, value) in cases {
            assert_eq!(number(text.as_bytes()), Some(value), "{text}");
        }
        assert_eq!(number(b"99999999999999999999"), Some(u64::MAX));
        for text in ["", "0x", "08", "8k", "-1", " 1"] {
            assert_eq!(number(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn only_an_absolute_path_without_tokens_is_known_to_be_gone() {
        assert!(is_gone(os("/nonexistent/x.so")) && is_gone(os("/nonexistent/x.so.d/$PLATFORM")));
        assert!(is_gone(os("/dev/null/x.so")));
        for element in ["/dev/null", "x.so", "dir/x.so", "/nonexistent/$LIB/x.so"] {
            assert!(!is_gone(os(element)), "{element}");
        }
    }
}
