//! Converts the predicted bindings of one object into the words to write.

use bstr::BString;
use object::elf;
use thiserror::Error;

use super::ImageFacts;
use super::block::{Definer, Relative, Residual, SlotBinding, WORD, Written};
use crate::elf::Ident;
use crate::facts::{GLIBC_RANGE, GlibcVersion};
use crate::loader::load::{Load, Role};
use crate::symbols::machine::{KnownMachine, TypeOf};
use crate::symbols::{self, At, Bindings, ObjectSymbols, RelocationKind, Word};

/// The reason why a program is not bound.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotBound {
    /// The module of the machine does not write bindings.
    #[error("bindings are not applied on its machine")]
    Machine,
    /// The module was not tried with the loader's release.
    #[error("bindings are not applied with its C library")]
    Release,
    /// The start ends before the program is reached.
    #[error("its start ends before any relocation")]
    NoStart,
    /// A library is missing, or a version.
    #[error("in an empty environment a library or a version that it needs is missing")]
    Missing,
    /// No object defines a symbol that has to exist at the start.
    #[error("nothing defines {0}")]
    Undefined(BString),
    /// A file has no build ID, and not all that its bindings rest on is in tables ([`super::Tables`]).
    #[error("{0} has no build ID, and its addends are in its data")]
    NoBuildId(BString),
    /// A file changed a moment ago, or could not be read.
    #[error("{0} changed just now, or cannot be read")]
    Unsettled(BString),
    /// No object has anything to write.
    #[error("it has too few relocations")]
    Few,
}

/// Returns the words to write into the object at an index, or `None` if the object is left to the
/// loader.
///
/// An object is left to the loader as a whole if a relocation has no place in the format, or if its
/// dynamic section has no relocation table or cannot be written. The same applies if a resolver
/// chooses a function and the resolver's object is relocated later.
#[must_use]
pub fn written(
    load: &Load,
    bindings: &Bindings,
    index: usize,
    image: &ImageFacts,
) -> Option<Written> {
    let symbols = bindings.objects[index].symbols.as_deref()?;
    let machine = symbols.machine.filter(|&machine| applies(machine))?;
    let object = &load.objects[index];
    let can_be_led = object.role != Role::Loader
        && image.is_dynamic_writable
        // The loader makes read-only segments writable.
        && !symbols.tags.has(elf::DT_TEXTREL, elf::DF_TEXTREL)
        // The entries that the module replaces for the loader.
        && symbols.tags.get(elf::DT_RELA).is_some()
        && symbols.tags.get(elf::DT_RELASZ).is_some();
    if !can_be_led {
        return None;
    }
    let mut writer = Writer { load, bindings, index, machine, written: Written::default() };
    for relative in &symbols.relocations.relative {
        writer.relative(*relative)?;
    }
    for binding in &bindings.objects[index].bindings {
        writer.binding(binding)?;
    }
    if !writer.written.lazies.is_empty() && has_other_lazies(machine, symbols) {
        return None;
    }
    writer.finish()
}

/// Returns true for a machine whose module applies bindings. The module itself does not ask for the machine.
#[must_use]
pub fn is_applied(ident: &Ident) -> bool {
    KnownMachine::of(ident).is_some_and(applies)
}

/// Returns false for machines with `DT_REL`. Its entries have no field for the addends that the
/// module gives the loader.
fn applies(machine: KnownMachine) -> bool {
    !machine.reads_rel()
}

/// Returns true if the module cannot set up the slot of an undefined function as
/// `elf_machine_lazy_rel` of glibc does. On ppc64 `elf_machine_runtime_setup` writes the slots of
/// all functions, by `DT_PLTRELSZ`. If functions have a calling convention of their own
/// (`DT_AARCH64_VARIANT_PCS`, `DT_RISCV_VARIANT_CC`), the loader binds some at the start.
fn has_other_lazies(machine: KnownMachine, symbols: &ObjectSymbols) -> bool {
    let has = |tag| symbols.tags.get(tag).is_some();
    match machine {
        KnownMachine::Ppc64le => true,
        KnownMachine::Aarch64 => has(elf::DT_AARCH64_VARIANT_PCS),
        KnownMachine::Riscv64 => has(elf::DT_RISCV_VARIANT_CC),
        _ => false,
    }
}

/// The glibc releases in whose loader the module applies bindings (`cargo xtask binding-trial`).
pub const RELEASES: (GlibcVersion, GlibcVersion) = GLIBC_RANGE;

/// The sonames of the C library's objects that have resolvers. These decide by what the loader knows
/// about the processor, so they may be called at any time.
const C_LIBRARY: [&str; 5] =
    ["libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0", "librt.so.1"];

struct Writer<'a> {
    load: &'a Load,
    bindings: &'a Bindings,
    index: usize,
    machine: KnownMachine,
    written: Written,
}

impl Writer<'_> {
    fn relative(&mut self, relative: symbols::Relative) -> Option<()> {
        // The format has 32-bit offsets. A larger object is left to the loader.
        let offset = u32::try_from(relative.offset).ok()?;
        match u32::try_from(relative.addend) {
            Ok(value) if offset % WORD == 0 => {
                self.written.relatives.push(Relative { offset, value });
                Some(())
            }
            _ => self.residual(
                offset,
                self.number(TypeOf::Relative)?,
                0,
                relative.addend.cast_signed(),
            ),
        }
    }

    fn binding(&mut self, binding: &symbols::Binding) -> Option<()> {
        let offset = u32::try_from(binding.offset).ok()?;
        let object = &self.bindings.objects[self.index];
        let is_word = matches!(
            binding.kind,
            RelocationKind::GlobDat | RelocationKind::JumpSlot | RelocationKind::Absolute(8)
        );
        // The loader reports an undefined function at its first call, which may never come.
        if object.is_lazy(binding) && binding.definer.object().is_none() {
            self.written.lazies.push(offset);
            return Some(());
        }
        // The loader registers a unique symbol (`do_lookup_unique` of glibc `elf/dl-lookup.c`), so that
        // plugins find the same symbol.
        if !is_word || offset % WORD != 0 || binding.unique {
            return self.leave(binding, offset);
        }
        let of = |object| Some(Definer::Object(u32::try_from(object).ok()?));
        let (definer, value) = match binding.word() {
            Word::Address(At { object, address }) => (of(object)?, address),
            Word::Constant(value) => (Definer::Absolute, value),
            Word::Resolver { resolver: At { object, address }, addend: 0 } => {
                if !self.is_relocated_before(object) {
                    return None;
                }
                // At the start another resolver would miss what constructors do, or may not be called.
                if self.bindings.objects[self.index].is_lazy(binding) && !self.is_c_library(object)
                {
                    self.written.lazies.push(offset);
                }
                let (definer, value) = (of(object)?, i32::try_from(address.cast_signed()).ok()?);
                self.written.indirects.push(SlotBinding { offset, definer, value });
                return Some(());
            }
            Word::Resolver { .. } => return self.leave(binding, offset),
        };
        let Ok(value) = i32::try_from(value.cast_signed()) else {
            return self.leave(binding, offset);
        };
        self.written.slots.push(SlotBinding { offset, definer, value });
        Some(())
    }

    /// Returns true if the loader relocates `definer` before this object, or if it is this object.
    fn is_relocated_before(&self, definer: usize) -> bool {
        let order = &self.bindings.relocation_order;
        let place = |object| order.iter().position(|&at| at == object);
        definer == self.index
            || matches!(
            (place(definer), place(self.index)), (Some(definer), Some(own)) if definer < own)
    }

    fn is_c_library(&self, object: usize) -> bool {
        let soname = self.load.objects[object].view.soname();
        soname.is_some_and(|soname| C_LIBRARY.iter().any(|known| soname == known))
    }

    fn leave(&mut self, binding: &symbols::Binding, offset: u32) -> Option<()> {
        let kind = self.number(TypeOf::Symbolic(binding.kind))?;
        self.residual(offset, kind, binding.symbol, binding.addend)
    }

    fn residual(&mut self, offset: u32, kind: u32, symbol: u32, addend: i64) -> Option<()> {
        let addend = i32::try_from(addend).ok()?;
        self.written.residuals.push(Residual { offset, symbol, kind, addend });
        Some(())
    }

    /// Returns the machine's number of a type of relocation.
    fn number(&self, wanted: TypeOf) -> Option<u32> {
        // Type 0 is `R_*_NONE` on every machine.
        (1..2048).find(|&raw| self.machine.type_of(raw) == wanted)
    }

    /// Sorts everything. Returns `None` if a slot is written twice, or if there is nothing to bind.
    fn finish(mut self) -> Option<Written> {
        let written = &mut self.written;
        written.relatives.sort_unstable();
        written.slots.sort_unstable();
        written.indirects.sort_unstable();
        written.lazies.sort_unstable();
        let mut offsets: Vec<u32> = written.relatives.iter().map(|r| r.offset).collect();
        offsets.extend(written.slots.iter().map(|slot| slot.offset));
        offsets.extend(written.indirects.iter().map(|indirect| indirect.offset));
        offsets.extend(written.residuals.iter().map(|residual| residual.offset));
        // A lazy word may have a resolver too.
        let has_resolver = |offset: &&u32| {
            written.indirects.binary_search_by_key(*offset, |indirect| indirect.offset).is_ok()
        };
        offsets.extend(written.lazies.iter().filter(|offset| !has_resolver(offset)));
        offsets.sort_unstable();
        // The sorted lists lose the order of two relocations of one word.
        let is_each_once = offsets.windows(2).all(|pair| pair[0] != pair[1]);
        let has_any = !written.slots.is_empty() || !written.indirects.is_empty();
        (is_each_once && has_any).then_some(self.written)
    }
}
