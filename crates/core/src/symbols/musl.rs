//! musl's symbol lookup (`ldso/dynlink.c`: `find_sym2`, `do_relocs`).

use std::sync::Arc;

use object::elf;
use rustc_hash::FxHashMap;

use super::binding::{Binding, Bindings, Definer, RelocationKind, SymbolClass, SymbolType};
use super::hash::Hashes;
use super::object::{ObjectSymbols, Symbol};
use super::relocations::Relocation;
use super::{BindError, MAX_STEPS, bind_each};
use crate::loader::load::{Load, Role};

/// Binds every object of a start. musl checks no needed versions, and ignores `DT_SYMBOLIC` and
/// lazy binding. It relocates the list of objects from the second on, then the program.
pub(super) fn bind(
    load: &Load,
    objects: Vec<Option<Arc<ObjectSymbols>>>,
) -> Result<Bindings, BindError> {
    let mut relocation_order: Vec<usize> = load.scope.iter().copied().skip(1).collect();
    // The program is last, because its COPY relocations read the relocated data of libraries.
    relocation_order.extend(load.scope.first());
    let loader = load.objects.iter().position(|object| object.role == Role::Loader);
    let mut names = Names { objects: &objects, scope: &load.scope, loader, steps: 0 };
    bind_each(load, &objects, relocation_order, Vec::new(), |index, symbols| {
        Some((names.relocate(index, symbols)?, false))
    })
}

/// The data that the lookups of one start share.
struct Names<'a> {
    objects: &'a [Option<Arc<ObjectSymbols>>],
    scope: &'a [usize],
    loader: Option<usize>,
    steps: u64,
}

/// A definition: object, index and symbol (`struct symdef`).
type Found = (usize, u32, Symbol);

impl Names<'_> {
    /// `do_relocs`.
    fn relocate(&mut self, index: usize, symbols: &ObjectSymbols) -> Option<Vec<Binding>> {
        let mut known: FxHashMap<(u32, SymbolClass), Option<Found>> = FxHashMap::default();
        let relocations = &symbols.relocations.symbolic;
        let mut bindings = Vec::with_capacity(relocations.len());
        for relocation in relocations {
            let class = match relocation.kind {
                // `need_def`: not a PLT entry of a program.
                RelocationKind::JumpSlot => SymbolClass::Plt,
                RelocationKind::Copy => SymbolClass::Copy,
                _ => SymbolClass::Any,
            };
            let found = *known
                .entry((relocation.symbol, class))
                .or_insert_with(|| self.resolve(index, symbols, relocation.symbol, class));
            bindings.push(binding(symbols, relocation, found));
        }
        (self.steps <= MAX_STEPS).then_some(bindings)
    }

    /// A relocation without a symbol, or with a local one, binds to its own object.
    fn resolve(
        &mut self,
        object: usize,
        symbols: &ObjectSymbols,
        index: u32,
        class: SymbolClass,
    ) -> Option<Found> {
        let symbol = symbols.symbol(index)?;
        if index == 0 || symbol.binding == elf::STB_LOCAL.0 {
            return Some((object, index, symbol));
        }
        let name = symbols.string(symbol.name.into());
        let scope = match class {
            // `head->syms_next`: the program's own symbol is the place to copy to.
            SymbolClass::Copy => self.scope.get(1..).unwrap_or_default(),
            SymbolClass::Any | SymbolClass::Plt => self.scope,
        };
        self.find_sym(scope, name, class).or_else(|| {
            // get_lfs64 (1.2.4): a name with the suffix 64 is another name of the plain function.
            self.find_sym(&[self.loader?], name.strip_suffix(b"64")?, SymbolClass::Plt)
        })
    }

    /// `find_sym2`.
    fn find_sym(&mut self, scope: &[usize], name: &[u8], class: SymbolClass) -> Option<Found> {
        let hashes = Hashes::of(name);
        for &object in scope {
            let Some(symbols) = &self.objects[object] else { continue };
            // The first symbol of this name counts, even if it is not usable.
            let first = symbols.hash.find_map(hashes, |index| {
                self.steps += 1;
                // `versym[i] >= 0`: the entry is a signed number. musl reads nothing else of a
                // version.
                let hidden = symbols.versions.entry(index).is_some_and(|entry| entry >= 0x8000);
                let symbol = symbols.symbol(index).filter(|_| !hidden)?;
                symbols.string_is(symbol.name, name).then_some((index, symbol))
            });
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return None;
            }
            if let Some((index, symbol)) = first.filter(|(_, symbol)| serves(symbol, class)) {
                return Some((object, index, symbol));
            }
        }
        None
    }
}

/// The conditions of `find_sym2`, `OK_TYPES` and `OK_BINDS`. IFUNC symbols are not found.
fn serves(symbol: &Symbol, class: SymbolClass) -> bool {
    let symbol_type = symbol.symbol_type();
    let is_tls = symbol_type == SymbolType::Tls;
    if symbol.is_undefined() && (class == SymbolClass::Plt || is_tls) {
        return false;
    }
    // The first TLS symbol of an object has offset 0.
    if symbol.value == 0 && !is_tls {
        return false;
    }
    let is_allowed = !matches!(symbol_type, SymbolType::Ifunc | SymbolType::Other);
    let binding = elf::SymbolBind(symbol.binding);
    is_allowed && matches!(binding, elf::STB_GLOBAL | elf::STB_WEAK | elf::STB_GNU_UNIQUE)
}

fn binding(symbols: &ObjectSymbols, relocation: &Relocation, found: Option<Found>) -> Binding {
    use RelocationKind::{Copy, GlobDat, JumpSlot};
    // In REL tables, GOT, PLT and COPY relocations have no addend.
    // The word of a PLT relocation has the address of a stub instead.
    let adds = relocation.has_addend || !matches!(relocation.kind, GlobDat | JumpSlot | Copy);
    // musl treats unique symbols like any other: the first definition in the list counts.
    if let Some((definer, definition, symbol)) = found {
        let (value, symbol_type) = (symbol.value, symbol.symbol_type());
        let bound = relocation.unbound(Definer::Object(definer as u32), adds);
        return Binding { definition, value, symbol_type, ..bound };
    }
    // A weak definition that `find_sym` cannot find is an error, unlike a weak reference.
    let is_weak = |it: Symbol| it.is_undefined() && it.binding == elf::STB_WEAK.0;
    let is_weak = symbols.symbol(relocation.symbol).is_some_and(is_weak);
    relocation.unbound(if is_weak { Definer::Undefined } else { Definer::Missing }, adds)
}
