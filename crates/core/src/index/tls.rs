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
/// Default of `glibc.rtld.optional_static_tls`.
pub const DEFAULT_OPTIONAL: u64 = 512;
/// Alignment of the static TLS area where the program asks for no more: `TCB_ALIGNMENT`,
/// 64 on x86, 16 to 64 elsewhere; the least is taken.
const AREA_ALIGN: u64 = 64;

/// What the start of a program needs of the surplus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticTls {
    /// Bytes that must fit: TLS of the libraries marked `DF_STATIC_TLS`, at its worst
    /// alignment.
    pub required: u64,
    /// Bytes of all libraries' TLS: what may be taken from the surplus before, by libraries
    /// that would do without (TLS descriptors).
    pub all: u64,
    /// A library asks for a stricter alignment than the area has: no tunable helps, and the
    /// start under an audit module fails.
    pub impossible: bool,
}

impl StaticTls {
    /// The value for `glibc.rtld.optional_static_tls` with which the program starts; `None`
    /// where the default does.
    #[must_use]
    pub fn tunable(&self) -> Option<u64> {
        // The optional part may be used up before, so it does not count as room.
        let room = DEFAULT_SURPLUS - DEFAULT_OPTIONAL;
        (self.required > room).then(|| DEFAULT_OPTIONAL + self.all.next_multiple_of(64))
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
            need.impossible |= align > AREA_ALIGN.max(program_align);
        }
    }
    need
}
