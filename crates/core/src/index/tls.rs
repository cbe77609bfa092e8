//! Static TLS under an audit module.
//!
//! With an audit module, glibc sizes the static TLS area before it has mapped the program's
//! libraries (2.36 `elf/rtld.c` `dl_main`, `init_tls`). The program and the loader have their place
//! in it. The initial-exec TLS of every library must fit into the surplus, as after `dlopen`
//! (`elf/dl-reloc.c` `_dl_try_allocate_static_tls`). The surplus is 1,664 bytes by default. A value
//! of the tunable `glibc.rtld.optional_static_tls` above its default of 512 adds to it
//! (`elf/dl-tls.c` `_dl_tls_static_surplus_init`; 2.33 and later, and Debian's 2.31).

use crate::closure::Closure;
use crate::elf::{DF_STATIC_TLS, ObjectView, Tls};
use crate::loader::load::Role;

/// Surplus without tunables: the former `TLS_STATIC_SURPLUS`, which is still the minimum.
pub(crate) const DEFAULT_SURPLUS: u64 = 1664;
/// Growth of the surplus for an audit module (`LIBC_IE_TLS` and `OTHER_IE_TLS`).
const OF_ONE_MODULE: u64 = 288;
/// Default of `glibc.rtld.optional_static_tls`.
pub const DEFAULT_OPTIONAL: u64 = 512;
/// Returns the alignment of the static TLS area if the program needs no more: that of `struct
/// pthread`, which is 64 on x86 and 16 or 32 elsewhere. The values are those of the releases before
/// 2.35, which are the smallest (`TCB_ALIGNMENT` of `nptl/descr.h` and `pthreaddef.h`).
fn area_align(machine: u16) -> u64 {
    const I386: u16 = 3;
    const X86_64: u16 = 62;
    if matches!(machine, I386 | X86_64) { 64 } else { 16 }
}

/// The part of the surplus that the start of a program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticTls {
    /// Bytes of the libraries marked `DF_STATIC_TLS`, at their worst alignment. The start fails for
    /// certain if the surplus is smaller.
    pub required: u64,
    /// Bytes of all libraries' TLS. A program or library may use another's TLS by the initial-exec
    /// model although neither is marked. Libraries that do not need static TLS (TLS descriptors)
    /// may take some of the surplus first.
    pub all: u64,
    /// True if a marked library needs a stricter alignment than that of the area. No tunable helps
    /// then, and the start under an audit module fails.
    pub impossible: bool,
}

impl StaticTls {
    /// Returns the need that an index stores: [`Self::tunable`], with 0 for none, and
    /// [`Self::impossible`].
    #[must_use]
    pub fn kept(tunable: u32, impossible: bool) -> Self {
        let all = u64::from(tunable).saturating_sub(DEFAULT_OPTIONAL);
        Self { required: 0, all, impossible }
    }

    /// Returns true if the start fails for certain with the default of the tunable.
    #[must_use]
    pub fn fails_by_default(&self) -> bool {
        self.impossible || self.required > DEFAULT_SURPLUS + OF_ONE_MODULE
    }

    /// Returns the value of `glibc.rtld.optional_static_tls` with which the program starts. Returns
    /// `None` if the default is certainly enough.
    #[must_use]
    pub fn tunable(&self) -> Option<u64> {
        // Others may use up the optional part, so it does not count.
        let room = DEFAULT_SURPLUS - DEFAULT_OPTIONAL;
        (self.all > room).then(|| DEFAULT_OPTIONAL + self.all.next_multiple_of(64))
    }
}

/// Returns the need of one start.
#[must_use]
pub fn of_closure(closure: &Closure) -> StaticTls {
    let mut objects = closure.load.objects.iter().filter(|object| object.namespace == 0);
    let program = objects.find(|object| object.role == Role::Program);
    let program_align = program.and_then(|object| object.view.tls).map_or(0, |tls| tls.align);
    let libraries = closure.load.objects.iter().filter(|object| {
        object.namespace == 0 && matches!(object.role, Role::Library | Role::Preload)
    });
    of_libraries(program_align, libraries.map(|object| object.view.as_ref()))
}

/// Returns the need of libraries under a program. `program_align` is the alignment of the program's
/// own TLS, or 0 without one.
pub(crate) fn of_libraries<'a>(
    program_align: u64,
    libraries: impl Iterator<Item = &'a ObjectView>,
) -> StaticTls {
    let mut need = StaticTls { required: 0, all: 0, impossible: false };
    for view in libraries {
        let Some(Tls { size, align }) = view.tls else { continue };
        if size == 0 {
            continue;
        }
        let taken = size.saturating_add(align.max(1) - 1);
        need.all = need.all.saturating_add(taken);
        let flags = view.dynamic.as_ref().map_or(0, |dynamic| dynamic.flags);
        if flags & DF_STATIC_TLS != 0 {
            need.required = need.required.saturating_add(taken);
            need.impossible |= align > area_align(view.ident.machine).max(program_align);
        }
    }
    need
}
