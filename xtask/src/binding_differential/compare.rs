//! Compares a start's memory with the predicted bindings, slot by slot.

use std::collections::BTreeMap;

use anyhow::Result;
use becalm_core::elf::Ident;
use becalm_core::loader::load::{Load, Role};
use becalm_core::symbols::machine::KnownMachine;
use becalm_core::symbols::slot::Slot;
use becalm_core::symbols::{At, Binding, Bindings, ObjectSymbols, RelocationKind};

use super::recorder::Recording;
use crate::tally::Counts;

/// Names of the vDSO, which the loader puts into the list of link maps.
const VDSO: [&[u8]; 2] = [b"linux-vdso", b"linux-gate"];
/// Slots closer than this are read with one request.
const GAP: u64 = 2048;

/// The differences, one line each, and the number of slots and lookups that were compared.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) compared: Counts,
    pub(super) differences: Vec<String>,
}

/// Compares the list of objects, then every slot.
pub(super) fn compare(
    load: &Load,
    bindings: &Bindings,
    ident: Ident,
    recording: &mut Recording,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let predicted: Vec<usize> =
        (0..load.objects.len()).filter(|&index| load.objects[index].namespace == 0).collect();
    let is_vdso = |name: &[u8]| VDSO.iter().any(|vdso| name.starts_with(vdso));
    let recorded: Vec<_> =
        recording.objects.iter().filter(|object| !is_vdso(&object.name)).cloned().collect();
    let name = |index: usize| match load.objects[index].role {
        Role::Program => b"".as_slice(),
        _ => load.objects[index].path.as_slice(),
    };
    let recorded_names: Vec<&[u8]> = recorded.iter().map(|object| object.name.as_slice()).collect();
    let predicted_names: Vec<&[u8]> = predicted.iter().map(|&index| name(index)).collect();
    if recorded_names != predicted_names {
        let list = |names: &[&[u8]]| String::from_utf8_lossy(&names.join(&b' ')).into_owned();
        outcome.differences.push(format!(
            "loads other objects: {} predicted, {} recorded",
            list(&predicted_names),
            list(&recorded_names)
        ));
        return Ok(outcome);
    }
    let mut bases = vec![0; load.objects.len()];
    for (&index, object) in predicted.iter().zip(&recorded) {
        bases[index] = object.base;
        let symbols = bindings.objects[index].symbols.as_ref();
        let at = symbols.map_or(0, |symbols| symbols.dynamic_address);
        if truncated(ident, object.base.wrapping_add(at)) != object.dynamic {
            outcome
                .differences
                .push(format!("{}: its PT_DYNAMIC is elsewhere", load.objects[index].path));
        }
    }
    let mut slots = Slots { load, bindings, ident, bases, seen: Seen::default(), outcome };
    for index in predicted {
        slots.object(index, recording)?;
    }
    Ok(slots.outcome)
}

fn truncated(ident: Ident, value: u64) -> u64 {
    if ident.address_size() == 4 { value & 0xffff_ffff } else { value }
}

/// Values that depend on the process. They must agree between slots.
#[derive(Default)]
struct Seen {
    resolvers: BTreeMap<(usize, u64), u64>,
    modules: BTreeMap<usize, u64>,
    distances: BTreeMap<usize, u64>,
}

struct Slots<'a> {
    load: &'a Load,
    bindings: &'a Bindings,
    ident: Ident,
    /// Load address by index of the object.
    bases: Vec<u64>,
    seen: Seen,
    outcome: Outcome,
}

impl Slots<'_> {
    fn object(&mut self, index: usize, recording: &mut Recording) -> Result<()> {
        let bindings = self.bindings;
        let object = &bindings.objects[index];
        let Some(symbols) = object.symbols.clone() else { return Ok(()) };
        let word = self.ident.address_size() as u64;
        let relatives = symbols.relocations.relr.iter().chain(&symbols.relocations.relative);
        let mut places: Vec<u64> = relatives.clone().map(|relative| relative.offset).collect();
        places.extend(object.bindings.iter().map(|binding| binding.offset));
        let memory = Memory::read(self.bases[index], places, word, recording)?;
        for relative in relatives {
            self.outcome.compared.add("relative", 1);
            let wanted = truncated(self.ident, self.bases[index].wrapping_add(relative.addend));
            let found = memory.number(self.ident, relative.offset, self.ident.address_size());
            if found == Some(0) && is_malloc_hook(&symbols, relative.offset) {
                self.outcome.compared.add("passed", 1);
            } else if found != Some(wanted) {
                self.differ(index, relative.offset, "relative", wanted, found);
            }
        }
        for binding in &object.bindings {
            self.binding(index, &symbols, binding, &memory, recording)?;
        }
        Ok(())
    }

    fn binding(
        &mut self,
        index: usize,
        symbols: &ObjectSymbols,
        binding: &Binding,
        memory: &Memory,
        recording: &mut Recording,
    ) -> Result<()> {
        let Some(slot) = self.bindings.slot(index, binding) else { return Ok(()) };
        let size = match binding.kind {
            RelocationKind::Absolute(size)
            | RelocationKind::PcRelative(size)
            | RelocationKind::Size(size) => usize::from(size),
            _ => self.ident.address_size(),
        };
        let bits = |value: u64| if size >= 8 { value } else { value & ((1 << (size * 8)) - 1) };
        let found = memory.number(self.ident, binding.offset, size);
        let address = |at: At| self.bases[at.object].wrapping_add(at.address);
        let (kind, wanted) = match slot {
            Slot::Address(at) => ("symbolic", Some(address(at))),
            Slot::Distance(at) => {
                let place = self.bases[index].wrapping_add(binding.offset);
                ("symbolic", Some(address(at).wrapping_sub(place)))
            }
            Slot::Constant(_)
                if binding.kind == RelocationKind::TlsBlockOffset && relaxed(symbols) =>
            {
                ("passed", None)
            }
            Slot::Constant(value) => ("symbolic", Some(value)),
            Slot::Resolver { resolver, addend } => {
                let known = self.seen.resolvers.entry((resolver.object, resolver.address));
                let wanted =
                    |found: u64| known.or_insert(found.wrapping_sub(addend)).wrapping_add(addend);
                ("resolved", found.map(wanted))
            }
            Slot::TlsModule { .. } if relaxed(symbols) => ("passed", None),
            Slot::TlsModule { object } => {
                let known = self.seen.modules.entry(object);
                ("tls", found.map(|found| *known.or_insert(found)))
            }
            Slot::TlsOffset { variable, negated } => {
                let known = self.seen.distances.entry(variable.object);
                let negate = |it: u64| if negated { it.wrapping_neg() } else { it };
                let wanted = |found: u64| {
                    let distance = bits(negate(found).wrapping_sub(variable.address));
                    negate(known.or_insert(distance).wrapping_add(variable.address))
                };
                ("tls", found.map(wanted))
            }
            Slot::Copied { from, size } => {
                self.outcome.compared.add("copies", 1);
                return self.copied(index, binding, address(from), size, recording);
            }
            Slot::TlsDescriptor(_) | Slot::Unchanged => ("passed", None),
        };
        self.outcome.compared.add(kind, 1);
        if let Some(wanted) = wanted.map(bits).filter(|wanted| found != Some(*wanted)) {
            let name = String::from_utf8_lossy(symbols.symbol_name(binding.symbol)).into_owned();
            let what = format!("{} {name} by {:?}", binding.kind.name(), binding.definer);
            self.differ(index, binding.offset, &what, wanted, found);
        }
        Ok(())
    }

    /// Compares the bytes of a copy with those of its source.
    fn copied(
        &mut self,
        index: usize,
        binding: &Binding,
        from: u64,
        size: u64,
        recording: &mut Recording,
    ) -> Result<()> {
        let to = self.bases[index].wrapping_add(binding.offset);
        let (original, copy) = (recording.memory(from, size)?, recording.memory(to, size)?);
        if original != copy {
            let name = self.bindings.objects[index].symbols.as_ref();
            let name = name.map_or(b"".as_slice(), |symbols| symbols.symbol_name(binding.symbol));
            let name = String::from_utf8_lossy(name).into_owned();
            let line =
                format!("copy of {name} by {:?}: {original:x?}, not {copy:x?}", binding.definer);
            self.outcome.differences.push(line);
        }
        Ok(())
    }

    fn differ(&mut self, index: usize, offset: u64, what: &str, wanted: u64, found: Option<u64>) {
        let path = &self.load.objects[index].path;
        let near = |value: u64| {
            let below = self.bases.iter().enumerate().filter(|(_, base)| **base <= value);
            let nearest = below.max_by_key(|(_, base)| **base);
            nearest.map_or(format!("{value:#x}"), |(object, base)| {
                format!("{}+{:#x}", self.load.objects[object].path, value - base)
            })
        };
        let found = found.map_or("nothing".to_owned(), near);
        let line = format!("{path}+{offset:#x} {what}: predicted {}, has {found}", near(wanted));
        self.outcome.differences.push(line);
    }
}

/// `__malloc_hook` of glibc before 2.34: the loader's first call of the program's malloc clears it.
fn is_malloc_hook(symbols: &ObjectSymbols, offset: u64) -> bool {
    (0..symbols.symbol_count()).any(|index| {
        symbols.symbol(index).is_some_and(|symbol| symbol.value == offset)
            && symbols.symbol_name(index) == b"__malloc_hook"
    })
}

/// True for an object whose TLS relocations the loader may turn into static ones
/// (ppc64, `PPC64_OPT_TLS`).
fn relaxed(symbols: &ObjectSymbols) -> bool {
    const PPC64_OPT_TLS: u64 = 1;
    symbols.machine == Some(KnownMachine::Ppc64le) && symbols.ppc64_options() & PPC64_OPT_TLS != 0
}

/// The parts of an object's memory that have slots.
struct Memory {
    /// Address in the object and bytes, in order of address.
    parts: Vec<(u64, Vec<u8>)>,
}

impl Memory {
    fn read(base: u64, mut places: Vec<u64>, word: u64, recording: &mut Recording) -> Result<Self> {
        places.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for place in places {
            match ranges.last_mut() {
                Some((_, end)) if place <= end.saturating_add(GAP) => *end = place + word,
                _ => ranges.push((place, place + word)),
            }
        }
        let mut parts = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            parts.push((start, recording.memory(base.wrapping_add(start), end - start)?));
        }
        Ok(Self { parts })
    }

    fn number(&self, ident: Ident, offset: u64, size: usize) -> Option<u64> {
        let part = self.parts.partition_point(|(start, _)| *start <= offset).checked_sub(1)?;
        let (start, bytes) = self.parts.get(part)?;
        let at = usize::try_from(offset - start).ok()?;
        match size {
            8 => ident.endian.u64(bytes, at),
            4 => ident.endian.u32(bytes, at).map(u64::from),
            2 => ident.endian.u16(bytes, at).map(u64::from),
            _ => bytes.get(at).copied().map(u64::from),
        }
    }
}
