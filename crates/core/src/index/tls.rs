//! Static TLS under an audit module.
//!
//! With an audit module glibc sizes the static TLS area before it has mapped the program's
//! libraries (2.36 `elf/rtld.c` `dl_main`, `init_tls`): program and loader have their place,
//! every library's initial-exec TLS must fit the surplus, as if it came by `dlopen`
//! (`elf/dl-reloc.c` `_dl_try_allocate_static_tls`). The surplus is 1,664 bytes by default,
//! more where the tunable `glibc.rtld.optional_static_tls`, 512 by default, is raised
//! (`elf/dl-tls.c` `_dl_tls_static_surplus_init`; 2.33 and later, and Debian's 2.31).

use crate::closure::Closure;
use crate::elf::{DF_STATIC_TLS, ObjectView, Tls};
use crate::loader::load::Role;

/// Surplus without tunables: `TLS_STATIC_SURPLUS` of old, kept as a floor ever since.
pub const DEFAULT_SURPLUS: u64 = 1664;
/// Growth of the surplus for an audit module (`LIBC_IE_TLS` and `OTHER_IE_TLS`).
const OF_ONE_MODULE: u64 = 288;
/// Default of `glibc.rtld.optional_static_tls`.
pub const DEFAULT_OPTIONAL: u64 = 512;
/// Alignment of the static TLS area where the program asks for no more: that of
/// `struct pthread`, 64 on x86 and 16 or 32 elsewhere, at least as the releases before 2.35
/// have it (`TCB_ALIGNMENT` of `nptl/descr.h` and `pthreaddef.h`).
fn area_align(machine: u16) -> u64 {
    const I386: u16 = 3;
    const X86_64: u16 = 62;
    if matches!(machine, I386 | X86_64) { 64 } else { 16 }
}

/// The part of the surplus that the start of a program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticTls {
    /// Bytes of the libraries marked `DF_STATIC_TLS`, at their worst alignment: without them
    /// the start is sure to fail.
    pub required: u64,
    /// Bytes of all libraries' TLS. A program or library may use another's by the
    /// initial-exec model without either being marked, and libraries that would do without
    /// (TLS descriptors) may take their part before.
    pub all: u64,
    /// A marked library asks for a stricter alignment than the area has: no tunable helps,
    /// and the start under an audit module fails.
    pub impossible: bool,
}

impl StaticTls {
    /// Returns the need that an index keeps: [`Self::tunable`], 0 for none, and
    /// [`Self::impossible`].
    #[must_use]
    pub fn kept(tunable: u32, impossible: bool) -> Self {
        let all = u64::from(tunable).saturating_sub(DEFAULT_OPTIONAL);
        Self { required: 0, all, impossible }
    }

    /// True where the start is sure to fail without the tunable, or whatever it is.
    #[must_use]
    pub fn fails_by_default(&self) -> bool {
        self.impossible || self.required > DEFAULT_SURPLUS + OF_ONE_MODULE
    }

    /// The value for `glibc.rtld.optional_static_tls` with which the program starts; `None`
    /// where the default does for certain.
    #[must_use]
    pub fn tunable(&self) -> Option<u64> {
        // The optional part may be used up before, so it does not count as room.
        let room = DEFAULT_SURPLUS - DEFAULT_OPTIONAL;
        (self.all > room).then(|| DEFAULT_OPTIONAL + self.all.next_multiple_of(64))
    }
}

/// The need of one start.
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

/// The need of libraries under a program whose own TLS has that alignment (0: it has none).
pub fn of_libraries<'a>(
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
