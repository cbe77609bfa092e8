//! The value that each relocation type of each machine stores: glibc's `elf_machine_rela`,
//! `elf_machine_rel` and `elf_machine_type_class` of `sysdeps/*/dl-machine.h`, and musl's
//! `arch/*/reloc.h`.

use object::elf::{self, Machine, RelocationType};

use super::symbol_type::{RelocationKind as Kind, SymbolClass};
use crate::elf::{Class, Endian, Ident};

/// The meaning of a relocation type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeOf {
    /// The loader stores nothing.
    Nothing,
    /// Load address plus addend.
    Relative,
    /// Any other value.
    Symbolic(Kind),
}

/// The machines whose relocation types are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownMachine {
    /// x86_64 with 64-bit addresses.
    X86_64,
    /// i386.
    I386,
    /// aarch64 with 64-bit addresses.
    Aarch64,
    /// 32-bit Arm.
    Arm,
    /// s390x.
    S390x,
    /// 64-bit PowerPC of the second ABI.
    Ppc64le,
    /// riscv64.
    Riscv64,
}

/// `PPC64_OPT_MULTI_TOC` of `DT_PPC64_OPT`: no call within the object skips the TOC setup.
pub(crate) const PPC64_OPT_MULTI_TOC: u64 = 2;

impl KnownMachine {
    /// Returns the machine of an object, or `None` if its relocation types are unknown.
    #[must_use]
    pub fn of(ident: &Ident) -> Option<Self> {
        Some(match (Machine(ident.machine), ident.class, ident.endian) {
            (elf::EM_X86_64, Class::Elf64, _) => Self::X86_64,
            (elf::EM_386, Class::Elf32, _) => Self::I386,
            (elf::EM_AARCH64, Class::Elf64, _) => Self::Aarch64,
            (elf::EM_ARM, Class::Elf32, _) => Self::Arm,
            (elf::EM_S390, Class::Elf64, _) => Self::S390x,
            (elf::EM_PPC64, Class::Elf64, Endian::Little) => Self::Ppc64le,
            (elf::EM_RISCV, Class::Elf64, _) => Self::Riscv64,
            _ => return None,
        })
    }

    /// Returns true if the loader of the machine reads `DT_REL` (`ELF_MACHINE_NO_REL`).
    pub(crate) fn reads_rel(self) -> bool {
        matches!(self, Self::I386 | Self::Arm)
    }

    /// Returns the bytes of an entry of `DT_HASH`. glibc's `Elf_Symndx` has 8 on s390x.
    pub(crate) fn hash_entry(self) -> u64 {
        if self == Self::S390x { 8 } else { 4 }
    }

    /// Returns the meaning of a relocation type.
    #[must_use]
    pub fn type_of(self, raw: u32) -> TypeOf {
        let types = match self {
            Self::X86_64 => X86_64,
            Self::I386 => I386,
            Self::Aarch64 => AARCH64,
            Self::Arm => ARM,
            Self::S390x => S390X,
            Self::Ppc64le => PPC64LE,
            Self::Riscv64 => RISCV64,
        };
        // Type 0 is `R_*_NONE` on every machine.
        if raw == 0 {
            return TypeOf::Nothing;
        }
        let known = types.iter().find(|(known, _)| known.0 == raw);
        known.map_or(TypeOf::Symbolic(Kind::Other(raw)), |(_, meaning)| *meaning)
    }

    /// `elf_machine_type_class`, which is the same on all of these machines.
    #[must_use]
    pub fn class_of(self, kind: Kind) -> SymbolClass {
        match kind {
            Kind::JumpSlot => SymbolClass::Plt,
            kind if kind.is_tls() => SymbolClass::Plt,
            Kind::Copy => SymbolClass::Copy,
            _ => SymbolClass::Any,
        }
    }

    /// Returns true if the relocation makes the definer's TLS static: always, or if it fits (glibc
    /// `CHECK_STATIC_TLS` and `TRY_STATIC_TLS`).
    pub(super) fn uses_static_tls(self, kind: Kind) -> bool {
        use Kind::{TlsDescriptor, TlsModule, TlsOffset, TlsOffsetNegated};
        match kind {
            TlsOffset | TlsOffsetNegated | TlsDescriptor => true,
            // With `PPC64_OPT_TLS`, `__tls_get_addr_opt` returns the offset of static TLS.
            TlsModule => self == Self::Ppc64le,
            _ => false,
        }
    }

    /// Returns true if the loader adds the addend of a relocation. `has_addend` is true for `RELA`.
    #[must_use]
    pub fn adds(self, kind: Kind, has_addend: bool) -> bool {
        use Kind::{Copy, GlobDat, JumpSlot, TlsBlockOffset, TlsModule};
        match (self, kind) {
            (_, TlsModule | Copy) => false,
            (Self::X86_64, GlobDat | JumpSlot) => false,
            (Self::I386 | Self::Arm, GlobDat | JumpSlot) => has_addend,
            (Self::I386, TlsBlockOffset) => has_addend,
            _ => true,
        }
    }

    /// Returns true if an undefined weak reference omits the addend (riscv64).
    pub(crate) fn drops_addend_of_undefined(self) -> bool {
        self == Self::Riscv64
    }
}

/// The relocation types of a machine, the most frequent one first.
type Types = &'static [(RelocationType, TypeOf)];

const RELATIVE: TypeOf = TypeOf::Relative;

const fn symbolic(kind: Kind) -> TypeOf {
    TypeOf::Symbolic(kind)
}

const X86_64: Types = &[
    (elf::R_X86_64_RELATIVE, RELATIVE),
    (elf::R_X86_64_RELATIVE64, RELATIVE),
    (elf::R_X86_64_64, symbolic(Kind::Absolute(8))),
    (elf::R_X86_64_32, symbolic(Kind::Absolute(4))),
    (elf::R_X86_64_PC32, symbolic(Kind::PcRelative(4))),
    (elf::R_X86_64_PC64, symbolic(Kind::PcRelative(8))),
    (elf::R_X86_64_SIZE32, symbolic(Kind::Size(4))),
    (elf::R_X86_64_SIZE64, symbolic(Kind::Size(8))),
    (elf::R_X86_64_GLOB_DAT, symbolic(Kind::GlobDat)),
    (elf::R_X86_64_JUMP_SLOT, symbolic(Kind::JumpSlot)),
    (elf::R_X86_64_COPY, symbolic(Kind::Copy)),
    (elf::R_X86_64_IRELATIVE, symbolic(Kind::Irelative)),
    (elf::R_X86_64_DTPMOD64, symbolic(Kind::TlsModule)),
    (elf::R_X86_64_DTPOFF64, symbolic(Kind::TlsBlockOffset)),
    (elf::R_X86_64_TPOFF64, symbolic(Kind::TlsOffset)),
    (elf::R_X86_64_TLSDESC, symbolic(Kind::TlsDescriptor)),
];

const I386: Types = &[
    (elf::R_386_RELATIVE, RELATIVE),
    (elf::R_386_32, symbolic(Kind::Absolute(4))),
    (elf::R_386_PC32, symbolic(Kind::PcRelative(4))),
    (elf::R_386_SIZE32, symbolic(Kind::Size(4))),
    (elf::R_386_GLOB_DAT, symbolic(Kind::GlobDat)),
    (elf::R_386_JMP_SLOT, symbolic(Kind::JumpSlot)),
    (elf::R_386_COPY, symbolic(Kind::Copy)),
    (elf::R_386_IRELATIVE, symbolic(Kind::Irelative)),
    (elf::R_386_TLS_DTPMOD32, symbolic(Kind::TlsModule)),
    (elf::R_386_TLS_DTPOFF32, symbolic(Kind::TlsBlockOffset)),
    (elf::R_386_TLS_TPOFF, symbolic(Kind::TlsOffset)),
    (elf::R_386_TLS_TPOFF32, symbolic(Kind::TlsOffsetNegated)),
    (elf::R_386_TLS_DESC, symbolic(Kind::TlsDescriptor)),
];

const AARCH64: Types = &[
    (elf::R_AARCH64_RELATIVE, RELATIVE),
    (elf::R_AARCH64_ABS64, symbolic(Kind::Absolute(8))),
    // glibc's elf_machine_rela stores a whole word for ABS32 as well.
    (elf::R_AARCH64_ABS32, symbolic(Kind::Absolute(8))),
    (elf::R_AARCH64_GLOB_DAT, symbolic(Kind::GlobDat)),
    (elf::R_AARCH64_JUMP_SLOT, symbolic(Kind::JumpSlot)),
    (elf::R_AARCH64_COPY, symbolic(Kind::Copy)),
    (elf::R_AARCH64_IRELATIVE, symbolic(Kind::Irelative)),
    (elf::R_AARCH64_TLS_DTPMOD, symbolic(Kind::TlsModule)),
    (elf::R_AARCH64_TLS_DTPREL, symbolic(Kind::TlsBlockOffset)),
    (elf::R_AARCH64_TLS_TPREL, symbolic(Kind::TlsOffset)),
    (elf::R_AARCH64_TLSDESC, symbolic(Kind::TlsDescriptor)),
];

const ARM: Types = &[
    (elf::R_ARM_RELATIVE, RELATIVE),
    (elf::R_ARM_ABS32, symbolic(Kind::Absolute(4))),
    (elf::R_ARM_GLOB_DAT, symbolic(Kind::GlobDat)),
    (elf::R_ARM_JUMP_SLOT, symbolic(Kind::JumpSlot)),
    (elf::R_ARM_COPY, symbolic(Kind::Copy)),
    (elf::R_ARM_IRELATIVE, symbolic(Kind::Irelative)),
    (elf::R_ARM_TLS_DTPMOD32, symbolic(Kind::TlsModule)),
    (elf::R_ARM_TLS_DTPOFF32, symbolic(Kind::TlsBlockOffset)),
    (elf::R_ARM_TLS_TPOFF32, symbolic(Kind::TlsOffset)),
    (elf::R_ARM_TLS_DESC, symbolic(Kind::TlsDescriptor)),
];

const S390X: Types = &[
    (elf::R_390_RELATIVE, RELATIVE),
    (elf::R_390_64, symbolic(Kind::Absolute(8))),
    (elf::R_390_32, symbolic(Kind::Absolute(4))),
    (elf::R_390_16, symbolic(Kind::Absolute(2))),
    (elf::R_390_8, symbolic(Kind::Absolute(1))),
    (elf::R_390_PC64, symbolic(Kind::PcRelative(8))),
    (elf::R_390_PC32, symbolic(Kind::PcRelative(4))),
    (elf::R_390_PC16, symbolic(Kind::PcRelative(2))),
    (elf::R_390_GLOB_DAT, symbolic(Kind::GlobDat)),
    (elf::R_390_JMP_SLOT, symbolic(Kind::JumpSlot)),
    (elf::R_390_COPY, symbolic(Kind::Copy)),
    (elf::R_390_IRELATIVE, symbolic(Kind::Irelative)),
    (elf::R_390_TLS_DTPMOD, symbolic(Kind::TlsModule)),
    (elf::R_390_TLS_DTPOFF, symbolic(Kind::TlsBlockOffset)),
    (elf::R_390_TLS_TPOFF, symbolic(Kind::TlsOffset)),
];

const PPC64LE: Types = &[
    (elf::R_PPC64_RELATIVE, RELATIVE),
    (elf::R_PPC64_ADDR64, symbolic(Kind::Absolute(8))),
    (elf::R_PPC64_UADDR64, symbolic(Kind::Absolute(8))),
    (elf::R_PPC64_ADDR32, symbolic(Kind::Absolute(4))),
    (elf::R_PPC64_UADDR32, symbolic(Kind::Absolute(4))),
    (elf::R_PPC64_ADDR16, symbolic(Kind::Absolute(2))),
    (elf::R_PPC64_UADDR16, symbolic(Kind::Absolute(2))),
    (elf::R_PPC64_REL64, symbolic(Kind::PcRelative(8))),
    (elf::R_PPC64_REL32, symbolic(Kind::PcRelative(4))),
    (elf::R_PPC64_GLOB_DAT, symbolic(Kind::GlobDat)),
    (elf::R_PPC64_JMP_SLOT, symbolic(Kind::JumpSlot)),
    (elf::R_PPC64_COPY, symbolic(Kind::Copy)),
    (elf::R_PPC64_IRELATIVE, symbolic(Kind::Irelative)),
    (elf::R_PPC64_JMP_IREL, symbolic(Kind::Irelative)),
    (elf::R_PPC64_DTPMOD64, symbolic(Kind::TlsModule)),
    (elf::R_PPC64_DTPREL64, symbolic(Kind::TlsBlockOffset)),
    (elf::R_PPC64_TPREL64, symbolic(Kind::TlsOffset)),
];

const RISCV64: Types = &[
    (elf::R_RISCV_RELATIVE, RELATIVE),
    (elf::R_RISCV_64, symbolic(Kind::Absolute(8))),
    (elf::R_RISCV_JUMP_SLOT, symbolic(Kind::JumpSlot)),
    (elf::R_RISCV_COPY, symbolic(Kind::Copy)),
    (elf::R_RISCV_IRELATIVE, symbolic(Kind::Irelative)),
    (elf::R_RISCV_TLS_DTPMOD64, symbolic(Kind::TlsModule)),
    (elf::R_RISCV_TLS_DTPREL64, symbolic(Kind::TlsBlockOffset)),
    (elf::R_RISCV_TLS_TPREL64, symbolic(Kind::TlsOffset)),
    (elf::R_RISCV_TLSDESC, symbolic(Kind::TlsDescriptor)),
];
