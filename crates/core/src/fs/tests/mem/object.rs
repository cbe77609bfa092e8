//! A builder of objects for tests, with the entries that a loader reads.

use crate::elf::{
    Class, DF_1_PIE, Dependency, DependencyKind, Dynamic, ET_DYN, Endian, Ident, ObjectView,
};
use bstr::BString;

/// The default machine of an object.
const EM_X86_64: u16 = object::elf::EM_X86_64.0;

/// Builds an [`ObjectView`] for a test, entry by entry.
#[derive(Clone, Debug)]
pub struct ObjectBuilder {
    view: ObjectView,
}

impl ObjectBuilder {
    /// Makes a position-independent x86-64 program with glibc's interpreter.
    #[must_use]
    pub fn program() -> Self {
        Self::bare().flags_1(DF_1_PIE).interpreter("/lib64/ld-linux-x86-64.so.2")
    }

    /// Makes an x86-64 library with this `DT_SONAME`, or without one if it is empty.
    #[must_use]
    pub fn library(soname: impl AsRef<[u8]>) -> Self {
        let soname = soname.as_ref();
        let mut builder = Self::bare();
        if !soname.is_empty() {
            builder.dynamic().soname = Some(soname.into());
        }
        builder
    }

    fn bare() -> Self {
        let ident = Ident {
            class: Class::Elf64,
            endian: Endian::Little,
            os_abi: 0,
            abi_version: 0,
            e_type: ET_DYN,
            machine: EM_X86_64,
            flags: 0,
        };
        let (has_load, dynamic, exec_stack) = (true, Some(Dynamic::default()), Some(false));
        Self { view: ObjectView { has_load, dynamic, exec_stack, ..ObjectView::new(ident) } }
    }

    fn dynamic(&mut self) -> &mut Dynamic {
        self.view.dynamic.get_or_insert_default()
    }

    fn dependency(mut self, kind: DependencyKind, name: &[u8]) -> Self {
        self.dynamic().dependencies.push(Dependency { kind, name: name.into() });
        self
    }

    /// Makes the stack executable.
    #[must_use]
    pub fn exec_stack(mut self) -> Self {
        self.view.exec_stack = Some(true);
        self
    }

    /// Adds a `DT_NEEDED`.
    #[must_use]
    pub fn needed(self, name: impl AsRef<[u8]>) -> Self {
        self.dependency(DependencyKind::Needed, name.as_ref())
    }

    /// Adds a `DT_FILTER`.
    #[must_use]
    pub fn filter(self, name: impl AsRef<[u8]>) -> Self {
        self.dependency(DependencyKind::Filter, name.as_ref())
    }

    /// Adds a `DT_AUXILIARY`.
    #[must_use]
    pub fn auxiliary(self, name: impl AsRef<[u8]>) -> Self {
        self.dependency(DependencyKind::Auxiliary, name.as_ref())
    }

    /// Sets `DT_RPATH`.
    #[must_use]
    pub fn rpath(mut self, path: impl AsRef<[u8]>) -> Self {
        self.dynamic().rpath = Some(path.as_ref().into());
        self
    }

    /// Sets `DT_RUNPATH`.
    #[must_use]
    pub fn runpath(mut self, path: impl AsRef<[u8]>) -> Self {
        self.dynamic().runpath = Some(path.as_ref().into());
        self
    }

    /// Sets `DT_AUDIT`.
    #[must_use]
    pub fn audit(mut self, list: impl AsRef<[u8]>) -> Self {
        self.dynamic().audit = Some(list.as_ref().into());
        self
    }

    /// Sets `DT_DEPAUDIT`.
    #[must_use]
    pub fn depaudit(mut self, list: impl AsRef<[u8]>) -> Self {
        self.dynamic().depaudit = Some(list.as_ref().into());
        self
    }

    /// Sets `DT_FLAGS_1`.
    #[must_use]
    pub fn flags_1(mut self, flags: u64) -> Self {
        self.dynamic().flags_1 = flags;
        self
    }

    /// Sets `PT_INTERP`.
    #[must_use]
    pub fn interpreter(mut self, path: impl AsRef<[u8]>) -> Self {
        self.view.interpreter = Some(BString::from(path.as_ref()));
        self
    }

    /// Sets a `PT_INTERP` that the kernel rejects for this reason.
    #[must_use]
    pub fn bad_interpreter(mut self, reason: &'static str) -> Self {
        (self.view.interpreter, self.view.interpreter_fault) = (None, Some(reason));
        self
    }

    /// Sets `DT_DEBUG`, which link editors write into programs only.
    #[must_use]
    pub fn dt_debug(mut self) -> Self {
        self.dynamic().has_debug = true;
        self
    }

    /// Removes `PT_DYNAMIC` and `PT_INTERP`, as in a static program.
    #[must_use]
    pub fn without_dynamic(mut self) -> Self {
        self.view.dynamic = None;
        self.view.interpreter = None;
        self
    }

    /// Sets `EI_CLASS`.
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.view.ident.class = class;
        self
    }

    /// Sets `EI_DATA`.
    #[must_use]
    pub fn endian(mut self, endian: Endian) -> Self {
        self.view.ident.endian = endian;
        self
    }

    /// Sets `EI_OSABI` and `EI_ABIVERSION`.
    #[must_use]
    pub fn os_abi(mut self, abi: u8, version: u8) -> Self {
        self.view.ident.os_abi = abi;
        self.view.ident.abi_version = version;
        self
    }

    /// Sets `e_type`.
    #[must_use]
    pub fn e_type(mut self, e_type: u16) -> Self {
        self.view.ident.e_type = e_type;
        self
    }

    /// Sets `e_machine`.
    #[must_use]
    pub fn machine(mut self, machine: u16) -> Self {
        self.view.ident.machine = machine;
        self
    }

    /// Sets `e_flags`.
    #[must_use]
    pub fn e_flags(mut self, flags: u32) -> Self {
        self.view.ident.flags = flags;
        self
    }

    /// Returns the object.
    #[must_use]
    pub fn build(self) -> ObjectView {
        self.view
    }
}

impl From<ObjectBuilder> for ObjectView {
    fn from(builder: ObjectBuilder) -> Self {
        builder.build()
    }
}

/// Writes an ELF header with `ident` (gABI, "ELF Header"), padded with zeros to the length of a small
/// object. The program header table is empty, but its entry size is right.
pub(super) fn header_bytes(ident: &Ident) -> Vec<u8> {
    let Ident { class, endian, os_abi, abi_version, e_type, machine, flags } = *ident;
    let (address, header_size, entry_size) =
        if class == Class::Elf64 { (8, 64, 56) } else { (4, 52, 32) };
    let mut out = b"\x7fELF".to_vec();
    out.extend([class as u8, endian as u8, 1, os_abi, abi_version]);
    out.resize(16, 0);
    for (value, size) in [
        (u64::from(e_type), 2),
        (machine.into(), 2),
        (1, 4),                 // e_version
        (0, address),           // e_entry
        (header_size, address), // e_phoff
        (0, address),           // e_shoff
        (flags.into(), 4),
        (header_size, 2), // e_ehsize
        (entry_size, 2),  // e_phentsize
    ] {
        match endian {
            Endian::Little => out.extend(&value.to_le_bytes()[..size]),
            Endian::Big => out.extend(&value.to_be_bytes()[8 - size..]),
        }
    }
    out.resize(4096, 0);
    out
}
