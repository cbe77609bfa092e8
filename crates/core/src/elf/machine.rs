//! The usual names of machines.

use object::elf::{self, Machine};

use super::{Class, Endian, Ident};

impl Ident {
    /// Returns the name of the machine, class and byte order as in `uname -m` and GNU triples:
    /// `x86_64`, `x32`, `ppc64le`, `mipsel`, `s390x`.
    #[must_use]
    pub fn machine_name(&self) -> &'static str {
        use Class::{Elf32, Elf64};
        use Endian::{Big, Little};
        // The n32 ABI has 64-bit registers in `ELFCLASS32`.
        let is_n32 = self.flags & elf::EF_MIPS_ABI2.0 != 0;
        match (Machine(self.machine), self.class, self.endian) {
            (elf::EM_X86_64, Elf32, _) => "x32",
            (elf::EM_ARM, _, Big) => "armeb",
            (elf::EM_AARCH64, Elf32, Little) => "aarch64_ilp32",
            (elf::EM_AARCH64, Elf32, Big) => "aarch64_be_ilp32",
            (elf::EM_AARCH64, Elf64, Big) => "aarch64_be",
            (elf::EM_S390, Elf32, _) => "s390",
            (elf::EM_PPC, _, Little) => "ppcle",
            (elf::EM_PPC64, _, Little) => "ppc64le",
            (elf::EM_RISCV, Elf32, _) => "riscv32",
            (elf::EM_LOONGARCH, Elf32, _) => "loongarch32",
            (elf::EM_MIPS, Elf64, Big) => "mips64",
            (elf::EM_MIPS, Elf64, Little) => "mips64el",
            (elf::EM_MIPS, Elf32, Big) if is_n32 => "mipsn32",
            (elf::EM_MIPS, Elf32, Little) if is_n32 => "mipsn32el",
            (elf::EM_MIPS, Elf32, Little) => "mipsel",
            (elf::EM_SH, _, Big) => "sh4eb",
            (elf::EM_MICROBLAZE, _, Little) => "microblazeel",
            (elf::EM_XTENSA, _, Big) => "xtensaeb",
            _ => machine_name(self.machine),
        }
    }
}

/// Returns the name of an `e_machine` value in its most common class and byte order, or `unknown`.
/// [`Ident::machine_name`] considers class and byte order.
#[must_use]
pub fn machine_name(machine: u16) -> &'static str {
    match Machine(machine) {
        elf::EM_386 => "i386",
        elf::EM_X86_64 => "x86_64",
        elf::EM_ARM => "arm",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_S390 => "s390x",
        elf::EM_PPC => "ppc",
        elf::EM_PPC64 => "ppc64",
        elf::EM_RISCV => "riscv64",
        elf::EM_LOONGARCH => "loongarch64",
        elf::EM_MIPS => "mips",
        elf::EM_SPARC | elf::EM_SPARC32PLUS => "sparc",
        elf::EM_SPARCV9 => "sparc64",
        elf::EM_68K => "m68k",
        elf::EM_ALPHA => "alpha",
        elf::EM_PARISC => "hppa",
        elf::EM_IA_64 => "ia64",
        elf::EM_SH => "sh4",
        elf::EM_ARC_COMPACT | elf::EM_ARC_COMPACT2 => "arc",
        elf::EM_CSKY => "csky",
        elf::EM_MICROBLAZE => "microblaze",
        elf::EM_ALTERA_NIOS2 => "nios2",
        elf::EM_OPENRISC => "or1k",
        elf::EM_XTENSA => "xtensa",
        elf::EM_HEXAGON => "hexagon",
        elf::EM_AVR => "avr",
        elf::EM_BPF => "bpf",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_depends_on_class_and_byte_order() {
        use Class::{Elf32, Elf64};
        use Endian::{Big, Little};
        for (machine, class, endian, flags, name) in [
            (62, Elf64, Little, 0, "x86_64"),
            (62, Elf32, Little, 0, "x32"),
            (3, Elf32, Little, 0, "i386"),
            (183, Elf64, Little, 0, "aarch64"),
            (40, Elf32, Little, 0x500_0400, "arm"),
            (22, Elf64, Big, 0, "s390x"),
            (22, Elf32, Big, 0, "s390"),
            (21, Elf64, Big, 1, "ppc64"),
            (21, Elf64, Little, 2, "ppc64le"),
            (243, Elf64, Little, 5, "riscv64"),
            (258, Elf64, Little, 3, "loongarch64"),
            (8, Elf32, Little, 0, "mipsel"),
            (8, Elf32, Big, 0x20, "mipsn32"),
            (8, Elf64, Little, 0, "mips64el"),
            (0x9026, Elf64, Little, 0, "alpha"),
            (0xfffe, Elf64, Little, 0, "unknown"),
        ] {
            let ident =
                Ident { class, endian, os_abi: 0, abi_version: 0, e_type: 3, machine, flags };
            assert_eq!(ident.machine_name(), name);
        }
    }
}
