//! Counts the work of relocation in one start: what its time depends on.

use rustc_hash::FxHashSet;
use serde::Serialize;

use super::binding::{Binding, Bindings, Definer, ObjectBindings, RelocationKind};
use super::object::ObjectSymbols;
use super::relocations::Relocations;

/// The bytes of a page, by their number of bits.
const PAGE_BITS: u32 = 12;

/// The numbers of one start's relocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelocationWork {
    /// Symbols that the loader looks up, as `LD_DEBUG=statistics` counts them.
    pub lookups: u64,
    /// Hash tables of objects that these lookups search.
    pub searched: u64,
    /// Relocations with a symbol that are bound at the start.
    pub symbolic: u64,
    /// Relocations that are bound at the first call. Their slots get the load address.
    pub lazy: u64,
    /// Relocations without a symbol.
    pub relative: u64,
    /// Pages of 4 KiB with a relocated slot.
    pub pages: u64,
}

impl RelocationWork {
    /// Counts the bindings of a start.
    #[must_use]
    pub fn of(bindings: &Bindings) -> Self {
        let mut places = vec![None; bindings.objects.len()];
        for (place, &object) in bindings.scope.iter().enumerate() {
            places[object] = Some(place as u64);
        }
        let mut work = Self::default();
        for (at, object) in bindings.objects.iter().enumerate() {
            if let Some(symbols) = object.symbols.as_deref() {
                work.add(at, object, symbols, &places);
            }
        }
        work
    }

    fn add(
        &mut self,
        at: usize,
        object: &ObjectBindings,
        symbols: &ObjectSymbols,
        places: &[Option<u64>],
    ) {
        let Relocations { relr, relative, .. } = &symbols.relocations;
        let slots = relative.iter().chain(relr).map(|slot| slot.offset);
        let slots = slots.chain(object.bindings.iter().map(|binding| binding.offset));
        let pages: FxHashSet<u64> = slots.map(|slot| slot >> PAGE_BITS).collect();
        self.pages += pages.len() as u64;
        self.relative += (relative.len() + relr.len()) as u64;
        let machine = symbols.machine;
        // `RESOLVE_MAP` keeps the result of the last lookup (`l_lookup_cache`).
        let mut last = None;
        for binding in &object.bindings {
            match binding.symbol {
                0 => self.relative += 1,
                _ if object.is_lazy(binding) => self.lazy += 1,
                _ => self.symbolic += 1,
            }
            if object.is_lazy(binding) {
                continue;
            }
            let key = (binding.symbol, machine.map(|it| it.class_of(binding.kind)));
            // A local or hidden reference binds to its own object without a lookup.
            let is_looked_up = symbols.symbol(binding.symbol).is_some_and(|it| it.is_exported());
            if !is_looked_up || last == Some(key) {
                continue;
            }
            last = Some(key);
            self.lookups += 1;
            self.searched += searched(at, symbols, binding, places);
        }
    }
}

/// Returns the number of hash tables up to the one with the definition.
fn searched(at: usize, symbols: &ObjectSymbols, binding: &Binding, places: &[Option<u64>]) -> u64 {
    let all = places.iter().flatten().max().map_or(1, |last| last + 1);
    match binding.definer {
        Definer::Undefined | Definer::Missing => all,
        Definer::Object(object) | Definer::Absolute(object) => {
            let is_own = object as usize == at && symbols.symbolic;
            let place = places.get(object as usize).copied().flatten().filter(|_| !is_own);
            place.map_or(1, |place| place + 1) - u64::from(binding.kind == RelocationKind::Copy)
        }
    }
}
