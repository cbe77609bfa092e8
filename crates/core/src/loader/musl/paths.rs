//! The search paths of musl: how they are written, split and expanded.

use std::rc::Rc;

use bstr::{BStr, BString, ByteSlice};

use crate::elf::{Class, Endian, Ident, ObjectView};
use crate::probe::{LogFull, SearchSource};

/// The path compiled into musl (`load_library`, where there is no path file).
pub(super) const SYSTEM_PATH: &str = "/lib:/usr/local/lib:/usr/lib";

/// Size of `load_library`'s buffer in bytes: a candidate path that does not fit with
/// its NUL is passed over without an open.
pub(super) const BUFFER: usize = 2 * NAME_MAX + 2;
/// `NAME_MAX`: a longer needed string without a slash is not searched for.
pub(super) const NAME_MAX: usize = 255;

/// Bytes that the run paths of all objects may take after expansion, many times those
/// of a real start: `$ORIGIN` makes one grow as long as the object's own path allows.
pub(super) const MAX_RUN_PATH_BYTES: usize = 256 << 20;

/// The directories of one path, in order.
pub(super) type PathDirs = Rc<[BString]>;

/// A run path after expansion and the tag it came from; `None` where there is none
/// or musl drops it.
pub(super) type RunPath = Option<(SearchSource, PathDirs)>;

/// Directories as one path, the slash at the end of each left off; `None` of none.
pub(super) fn join(dirs: &[BString]) -> Option<BString> {
    let bare = dirs.iter().map(|dir| dir.strip_suffix(b"/").unwrap_or(dir));
    (!dirs.is_empty()).then(|| bstr::join(":", bare).into())
}

/// The elements of a path (`path_open`): between colons and newlines, those left out
/// that are empty or leave no room for a name in the buffer.
pub(super) fn elements(path: &BStr) -> PathDirs {
    let elements = path.split(|byte| matches!(byte, b':' | b'\n'));
    elements
        .filter(|dir| !dir.is_empty() && has_mount_namespace(dir, 1))
        .map(BString::from)
        .collect()
}

/// Whether a directory, a slash and a name of `len` bytes fit into the buffer.
pub(super) fn has_mount_namespace(dir: &[u8], len: usize) -> bool {
    dir.len() + 1 + len < BUFFER
}

/// The names in `LD_PRELOAD` (`load_preload`): between colons and `isspace` bytes.
pub(super) fn preloads(list: &BString) -> impl Iterator<Item = &[u8]> {
    let separates = |byte: &u8| matches!(byte, b':' | b' ' | b'\t'..=b'\r');
    list.split(separates).filter(|name| !name.is_empty())
}

/// `decode_dyn` and `fixup_rpath`: `DT_RUNPATH`, else `DT_RPATH`; with `$ORIGIN` and
/// `${ORIGIN}` replaced, or dropped whole where another `$` is in it or `origin` is
/// `None`. Unlike glibc's, the token may run on into letters. What the path takes is
/// taken from `left`.
///
/// # Errors
/// [`LogFull`] where `left` is used up.
pub(super) fn fixup_rpath(
    view: &ObjectView,
    origin: Option<BString>,
    left: &mut usize,
) -> Result<RunPath, LogFull> {
    let Some(dynamic) = &view.dynamic else { return Ok(None) };
    let (source, path) = match (&dynamic.runpath, &dynamic.rpath) {
        (Some(path), _) => (SearchSource::Runpath, path),
        (None, Some(path)) => (SearchSource::Rpath, path),
        (None, None) => return Ok(None),
    };
    let origin = origin.as_ref().map(|origin| origin.as_bstr());
    let Some(expanded) = expand(path.as_bstr(), origin, left)? else { return Ok(None) };
    Ok(Some((source, elements(expanded.as_bstr()))))
}

fn expand(
    path: &BStr,
    origin: Option<&BStr>,
    left: &mut usize,
) -> Result<Option<BString>, LogFull> {
    let mut parts = path.split(|byte| *byte == b'$');
    let mut expanded = BString::default();
    let mut push = |part: &[u8]| {
        *left = left.checked_sub(part.len()).ok_or(LogFull)?;
        expanded.extend_from_slice(part);
        Ok(())
    };
    push(parts.next().unwrap_or_default())?;
    for part in parts {
        let rest = part.strip_prefix(b"ORIGIN").or_else(|| part.strip_prefix(b"{ORIGIN}"));
        let (Some(rest), Some(origin)) = (rest, origin) else { return Ok(None) };
        push(origin)?;
        push(rest)?;
    }
    Ok(Some(expanded))
}

/// The directory of a path by its letters, without its slash (so the root directory
/// is empty); `.` where the path has no slash.
pub(super) fn directory(path: &BString) -> BString {
    match path.rfind_byte(b'/') {
        Some(slash) => path[..slash].into(),
        None => ".".into(),
    }
}

/// What follows the last slash.
pub(super) fn file_name(path: &BString) -> BString {
    let start = path.rfind_byte(b'/').map_or(0, |slash| slash + 1);
    path[start..].into()
}

/// The path file of a loader: `/opt/lib/ld-musl-x86_64.so.1` has
/// `/opt/etc/ld-musl-x86_64.path`. The prefix is taken by letters, links and doubled
/// slashes as they are; a relative interpreter has none.
pub(super) fn path_file(interpreter: &BString, ident: &Ident) -> BString {
    let prefix: &[u8] = if interpreter.starts_with(b"/") {
        let bin = directory(interpreter);
        let end = bin.rfind_byte(b'/').unwrap_or(0);
        &interpreter[..end]
    } else {
        b""
    };
    let mut path = BString::from(prefix);
    path.extend_from_slice(b"/etc/ld-musl-");
    path.extend_from_slice(&arch(interpreter, ident));
    path.extend_from_slice(b".path");
    path
}

/// `LDSO_ARCH`, compiled into the loader: from the name the loader is installed
/// under, or from its ELF header where it goes by another one.
fn arch(interpreter: &BString, ident: &Ident) -> BString {
    let name = file_name(interpreter);
    let named = name.strip_prefix(b"ld-musl-").and_then(|name| name.strip_suffix(b".so.1"));
    named.map_or_else(|| arch_of(ident).into(), BString::from)
}

/// `LDSO_ARCH` of `arch/*/reloc.h` for the usual ABI of a machine (ELF `e_machine`).
fn arch_of(ident: &Ident) -> &'static str {
    let (wide, little) = (ident.class == Class::Elf64, ident.endian == Endian::Little);
    match (ident.machine, wide, little) {
        (3, ..) => "i386",
        (4, ..) => "m68k",
        (8, false, true) => "mipsel",
        (8, false, false) => "mips",
        (8, true, true) => "mips64el",
        (8, true, false) => "mips64",
        (20, ..) => "powerpc",
        (21, _, true) => "powerpc64le",
        (21, _, false) => "powerpc64",
        (22, ..) => "s390x",
        (40, _, true) => "armhf",
        (40, _, false) => "armebhf",
        (62, true, _) => "x86_64",
        (62, false, _) => "x32",
        (92, ..) => "or1k",
        (183, _, true) => "aarch64",
        (183, _, false) => "aarch64_be",
        (243, true, _) => "riscv64",
        (243, false, _) => "riscv32",
        (258, ..) => "loongarch64",
        _ => "unknown",
    }
}

/// The bytes up to a NUL, as C reads the path file.
pub(super) fn first_string(bytes: &[u8]) -> BString {
    bytes[..bytes.find_byte(0).unwrap_or(bytes.len())].into()
}
