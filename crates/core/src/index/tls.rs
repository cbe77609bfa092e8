//! Static TLS under an audit module.
//!
//! With an audit module, glibc sizes the static TLS area before it has mapped the program's
//! libraries (2.36 `elf/rtld.c` `dl_main`, `init_tls`). The program and the loader have their place
//! in it. A library takes its whole TLS from the surplus when a relocation makes it static, as after
//! `dlopen` (`elf/dl-reloc.c` `_dl_try_allocate_static_tls`): an offset from the thread pointer
//! (initial-exec), or, from a part of the surplus and only if it fits, a TLS descriptor
//! (`elf/dl-static-tls.h`). TLS that is only reached through `__tls_get_addr` takes nothing. The
//! relocation may be in another object, and `DF_STATIC_TLS` is not read.
//!
//! The surplus is 1,664 bytes by default, and 288 more for an audit module. A value of the tunable
//! `glibc.rtld.optional_static_tls` above its default of 512 adds to it (`elf/dl-tls.c`
//! `_dl_tls_static_surplus_init`; 2.33 and later, and Debian's 2.31).

use crate::closure::Closure;
use crate::elf::{DF_STATIC_TLS, ObjectView, Tls};
use crate::loader::load::{LoadedObject, Role};
use crate::symbols::{self, BindOptions, Definer, RelocationKind, SymbolFiles};

/// Surplus without tunables: the former `TLS_STATIC_SURPLUS`, which is still the minimum.
const DEFAULT_SURPLUS: u64 = 1664;
/// Default of `glibc.rtld.optional_static_tls`.
pub const DEFAULT_OPTIONAL: u64 = 512;
/// The part of the surplus that descriptors leave to others. The share of an audit module is left to
/// libraries that the program opens.
const ROOM: u64 = DEFAULT_SURPLUS - DEFAULT_OPTIONAL;
/// The tunable's least value for a program with an index of its own: with it, libraries that it opens have as
/// much as without an audit module, and its threads keep their stacks.
pub const PROGRAM: u64 = DEFAULT_OPTIONAL + ROOM;
/// The tunable's value in every session, whatever its programs need. libjemalloc needs 3,200. glibc takes the
/// surplus from each thread's stack (2.36 `nptl/allocatestack.c`): of the smallest (`PTHREAD_STACK_MIN`, 16 KiB),
/// 8 KiB are left, in which `dlopen` and `printf` of a number run.
pub const SESSION: u64 = 4096;

/// Returns the alignment of the static TLS area if the program needs no more: that of `struct
/// pthread`, which is 64 on x86 and 16 or 32 elsewhere. The values are those of the releases before
/// 2.35, which are the smallest (`TCB_ALIGNMENT` of `nptl/descr.h` and `pthreaddef.h`).
fn area_align(machine: u16) -> u64 {
    const I386: u16 = 3;
    const X86_64: u16 = 62;
    if matches!(machine, I386 | X86_64) { 64 } else { 16 }
}

/// The needs of a program's start under an audit module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The value of `glibc.rtld.optional_static_tls` with which the program starts, and with which
    /// libraries that it opens later have as much as without an audit module. 0 if the default is
    /// certainly enough to start.
    pub static_tls: u32,
    /// True if a library needs a stricter alignment than that of the area. No tunable helps then,
    /// and the start under an audit module fails.
    pub no_start: bool,
}

impl Start {
    /// Returns the needs of libraries whose TLS has so many bytes at their worst alignment.
    fn of(bytes: u64, no_start: bool) -> Self {
        let tunable =
            |bytes: u32| bytes.checked_next_multiple_of(64)?.checked_add(DEFAULT_OPTIONAL as u32);
        let enough = || u32::try_from(bytes).ok().and_then(tunable).unwrap_or(u32::MAX);
        Self { static_tls: if bytes > ROOM { enough() } else { 0 }, no_start }
    }

    /// Returns true if the start needs more than the default.
    #[must_use]
    pub fn is_any(self) -> bool {
        self != Self::default()
    }

    /// Returns the needs of both of two starts of a program.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let static_tls = self.static_tls.max(other.static_tls);
        Self { static_tls, no_start: self.no_start || other.no_start }
    }
}

/// The way in which the TLS of a library is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// Nothing makes it static.
    Dynamic,
    /// TLS descriptors make it static if it fits.
    Optional,
    /// The start fails unless it is static.
    Required,
}

/// Returns the needs of one start, and the bytes of the libraries whose TLS is static, at their worst
/// alignment: at most that of all libraries, if the default is enough. Relocations are read only if it
/// depends on them.
#[must_use]
pub fn of_closure(closure: &Closure, files: &dyn SymbolFiles) -> (Start, u64) {
    let objects = &closure.load.objects;
    let program = objects.iter().find(|it| it.namespace == 0 && it.role == Role::Program);
    let program = program.map(|it| it.view.as_ref());
    let is_library = |object: &LoadedObject| {
        object.namespace == 0 && matches!(object.role, Role::Library | Role::Preload)
    };
    let libraries = || objects.iter().enumerate().filter(|(_, object)| is_library(object));
    let all = libraries().map(|(_, it)| (it.view.as_ref(), Use::Required));
    let most = of_libraries(program, all);
    if !most.0.is_any() {
        return most;
    }
    let uses = uses(closure, files);
    // The flags of an unknown machine, or of a start that fails anyway.
    let uses = uses.unwrap_or_else(|| objects.iter().map(|it| by_flag(&it.view)).collect());
    of_libraries(program, libraries().map(|(at, it)| (it.view.as_ref(), uses[at])))
}

/// Returns the use of each object's TLS by the relocations of a start, or `None` if they cannot be
/// read.
fn uses(closure: &Closure, files: &dyn SymbolFiles) -> Option<Vec<Use>> {
    let libc = closure.facts.as_ref()?.libc;
    let options = BindOptions { only_static_tls: true, ..BindOptions::default() };
    let bindings = symbols::bind(&closure.load, libc, files, options).ok()?;
    let mut uses = vec![Use::Dynamic; closure.load.objects.len()];
    for binding in bindings.objects.iter().flat_map(|object| &object.bindings) {
        let Definer::Object(definer) = binding.definer else { continue };
        let made = match binding.kind {
            RelocationKind::TlsDescriptor | RelocationKind::TlsModule => Use::Optional,
            _ => Use::Required,
        };
        let known = uses.get_mut(definer as usize)?;
        *known = made.max(*known);
    }
    Some(uses)
}

/// Returns the use that a link editor marks. Another object may use the TLS of an unmarked one.
fn by_flag(view: &ObjectView) -> Use {
    let flags = view.dynamic.as_ref().map_or(0, |dynamic| dynamic.flags);
    if flags & DF_STATIC_TLS == 0 { Use::Optional } else { Use::Required }
}

/// Returns the need of libraries under a program.
fn of_libraries<'a>(
    program: Option<&ObjectView>,
    libraries: impl Iterator<Item = (&'a ObjectView, Use)>,
) -> (Start, u64) {
    let program_align = program.and_then(|view| view.tls).map_or(0, |tls| tls.align);
    let (mut bytes, mut no_start) = (0_u64, false);
    let mut optional = Vec::new();
    for (view, used) in libraries {
        let Some(Tls { size, align }) = view.tls.filter(|tls| tls.size > 0) else { continue };
        let taken = size.saturating_add(align.max(1) - 1);
        match used {
            Use::Dynamic => {}
            Use::Optional => optional.push(taken),
            Use::Required => {
                bytes = bytes.saturating_add(taken);
                no_start |= align > area_align(view.ident.machine).max(program_align);
            }
        }
    }
    if bytes > ROOM {
        // Descriptors may come first. They take nothing that is larger than their share.
        optional.sort_unstable();
        for taken in optional {
            if taken <= SESSION.max(DEFAULT_OPTIONAL.saturating_add(bytes)) {
                bytes = bytes.saturating_add(taken);
            }
        }
    }
    (Start::of(bytes, no_start), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::builder::Builder;

    fn need(program_align: u64, libraries: &[(u64, u64, Use)]) -> Start {
        let view = |size, align| {
            let image = Builder::elf64().needed("libc.so.6").tls(size, align).build();
            crate::elf::parse(image.bytes.as_slice()).expect("an object")
        };
        let program = view(8, program_align);
        let libraries: Vec<(ObjectView, Use)> =
            libraries.iter().map(|&(size, align, used)| (view(size, align), used)).collect();
        let libraries = libraries.iter().map(|(view, used)| (view, *used));
        of_libraries(Some(&program), libraries).0
    }

    #[test]
    fn descriptors_count_only_beside_tls_that_must_be_static_and_only_if_they_fit() {
        use Use::{Dynamic, Optional, Required};
        assert_eq!(need(0, &[(61_440, 8, Dynamic), (3000, 8, Optional)]).static_tls, 0);
        assert_eq!(need(0, &[(1145, 8, Required), (3000, 8, Optional)]).static_tls, 0);
        let beside = need(0, &[(61_440, 8, Optional), (2000, 8, Required), (600, 8, Optional)]);
        assert_eq!(beside.static_tls, 512 + (2007_u32 + 607).next_multiple_of(64));
        let beyond = need(0, &[(u64::MAX, 8, Required), (600, 8, Optional)]);
        assert_eq!(beyond.static_tls, u32::MAX);
    }

    #[test]
    fn a_strict_alignment_ends_only_starts_that_need_it_beyond_that_of_the_program() {
        assert!(need(0, &[(8, 128, Use::Required)]).no_start);
        assert!(!need(128, &[(8, 128, Use::Required)]).no_start);
        assert!(!need(0, &[(8, 128, Use::Optional), (8, 128, Use::Dynamic)]).no_start);
    }
}
