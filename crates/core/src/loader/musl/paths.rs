//! Parsing and expansion of musl's search paths.

use std::rc::Rc;

use bstr::{BStr, BString, ByteSlice};

use crate::elf::{Ident, ObjectView};
use crate::loader::load::Stop;
use crate::path;
use crate::probe::SearchSource;

/// The path compiled into musl, which `load_library` uses if there is no path file.
pub(super) const SYSTEM_PATH: &str = "/lib:/usr/local/lib:/usr/lib";

/// The size of `buf` in `load_library`. A candidate path that does not fit with its NUL is
/// skipped without an open.
pub(super) const BUFFER: usize = 2 * NAME_MAX + 2;
/// `NAME_MAX`: a longer needed string without a slash is not searched for.
pub(super) const NAME_MAX: usize = 255;

/// The limit on the bytes of all expanded run paths, many times those of a real start. A short
/// run path can expand to megabytes, because each `$ORIGIN` adds a path of up to 4 KiB.
pub(super) const MAX_RUN_PATH_BYTES: usize = 256 << 20;

/// The directories of one path, in order.
pub(super) type PathDirs = Rc<[BString]>;

/// An expanded run path and the tag it comes from. `None` if the object has no run path or musl
/// drops it.
pub(super) type RunPath = Option<(SearchSource, PathDirs)>;

/// Joins directories to one path, without the slash at the end of each. Returns `None` for an
/// empty list.
pub(super) fn join(dirs: &[BString]) -> Option<BString> {
    let bare = dirs.iter().map(|dir| dir.strip_suffix(b"/").unwrap_or(dir));
    (!dirs.is_empty()).then(|| bstr::join(":", bare).into())
}

/// Splits a path at colons and newlines (`path_open`). Empty elements are left out, and so are
/// elements that exceed the buffer with any name.
pub(super) fn elements(path: &BStr) -> PathDirs {
    // The path file has one directory a line. The same function reads the variable and the run
    // path, so a newline separates there too.
    let elements = path.split(|byte| matches!(byte, b':' | b'\n'));
    elements.filter(|dir| !dir.is_empty() && fits_buffer(dir, 1)).map(BString::from).collect()
}

/// Returns true if a directory, a slash and a name of `len` bytes fit into the buffer.
pub(super) fn fits_buffer(dir: &[u8], len: usize) -> bool {
    dir.len() + 1 + len < BUFFER
}

/// Splits `LD_PRELOAD` into names at colons and `isspace` bytes (`load_preload`).
pub(super) fn preloads(list: &BString) -> impl Iterator<Item = &[u8]> {
    let separates = |byte: &u8| matches!(byte, b':' | b' ' | b'\t'..=b'\r');
    list.split(separates).filter(|name| !name.is_empty())
}

/// `decode_dyn` and `fixup_rpath`: expands the `DT_RUNPATH` of an object, or else its `DT_RPATH`.
///
/// `$ORIGIN` and `${ORIGIN}` are replaced. Unlike in glibc, a letter may follow the token. The
/// whole run path is dropped if it has another `$`, or if it has the token and `origin` is `None`.
/// The length of the result is subtracted from `budget`.
///
/// # Errors
/// Returns [`Stop::TooManyProbes`] if `budget` is too small.
pub(super) fn fixup_rpath(
    view: &ObjectView,
    origin: Option<BString>,
    budget: &mut usize,
) -> Result<RunPath, Stop> {
    let Some(dynamic) = &view.dynamic else { return Ok(None) };
    let (source, path) = match (&dynamic.runpath, &dynamic.rpath) {
        (Some(path), _) => (SearchSource::Runpath, path),
        (None, Some(path)) => (SearchSource::Rpath, path),
        (None, None) => return Ok(None),
    };
    let origin = origin.as_ref().map(|origin| origin.as_bstr());
    let Some(expanded) = expand(path.as_bstr(), origin, budget)? else { return Ok(None) };
    Ok(Some((source, elements(expanded.as_bstr()))))
}

/// Replaces the tokens of a path. Returns `None` if musl drops the path.
pub(super) fn expand(
    path: &BStr,
    origin: Option<&BStr>,
    budget: &mut usize,
) -> Result<Option<BString>, Stop> {
    // The part before the first `$` has no token. Each other part must begin with one.
    let mut parts = path.split(|byte| *byte == b'$');
    let mut expanded = BString::default();
    let mut push = |part: &[u8]| {
        *budget = budget.checked_sub(part.len()).ok_or(Stop::TooManyProbes)?;
        expanded.extend_from_slice(part);
        Ok(())
    };
    push(parts.next().unwrap_or_default())?;
    for part in parts {
        let rest = part.strip_prefix(b"ORIGIN").or_else(|| part.strip_prefix(b"{ORIGIN}"));
        // musl leaves `p->rpath` null here, so that the elements without a token are lost too.
        let (Some(rest), Some(origin)) = (rest, origin) else { return Ok(None) };
        push(origin)?;
        push(rest)?;
    }
    Ok(Some(expanded))
}

/// Returns the directory of a path without resolving links and without the slash, so that the
/// root directory is empty. Returns `.` if the path has no slash.
pub(super) fn directory(path: &BString) -> BString {
    // Only a program that the loader starts from its command line can have a path without a slash.
    if path.contains(&b'/') { path::parent(path).to_owned() } else { ".".into() }
}

/// Returns the file in which musl's loader finds its search path, present or not: `/opt/etc/ld-musl-x86_64.path` for
/// `/opt/lib/ld-musl-x86_64.so.1`. The prefix is cut from the string: links are not resolved and
/// double slashes stay. A relative interpreter has an empty prefix.
#[must_use]
pub fn path_file(interpreter: &BString, ident: &Ident) -> BString {
    let prefix: &[u8] =
        if interpreter.starts_with(b"/") { path::parent(path::parent(interpreter)) } else { b"" };
    [prefix, b"/etc/ld-musl-", &arch(interpreter, ident), b".path"].concat().into()
}

/// Returns `LDSO_ARCH`, which is compiled into the loader. It is read from the loader's file
/// name, or derived from the ELF header if the loader has another name.
fn arch(interpreter: &BString, ident: &Ident) -> BString {
    let name = path::name(interpreter);
    let named = name.strip_prefix(b"ld-musl-").and_then(|name| name.strip_suffix(b".so.1"));
    named.map_or_else(|| arch_of(ident).into(), BString::from)
}

/// Returns `LDSO_ARCH` (`arch/*/reloc.h`) for the usual ABI of a machine.
fn arch_of(ident: &Ident) -> &'static str {
    match ident.machine_name() {
        "ppc" => "powerpc",
        "ppc64" => "powerpc64",
        "ppc64le" => "powerpc64le",
        "arm" => "armhf",
        "armeb" => "armebhf",
        "mipsn32" => "mips",
        "mipsn32el" => "mipsel",
        name => name,
    }
}
