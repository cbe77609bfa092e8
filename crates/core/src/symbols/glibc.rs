//! glibc's symbol lookup (`elf/dl-lookup.c`) and its use in relocation (`elf/dl-reloc.c`,
//! `sysdeps/*/dl-machine.h`), 2.31 to 2.43.

use std::sync::Arc;

use object::elf;
use rustc_hash::FxHashMap;

use super::binding::{Binding, Bindings, Definer, RelocationKind, SymbolClass, SymbolType};
use super::hash::Hashes;
use super::machine::{KnownMachine, PPC64_OPT_MULTI_TOC};
use super::object::{ObjectSymbols, Symbol};
use super::relocations::Relocation;
use super::version_table::Version;
use super::{BindError, BindOptions, MAX_STEPS, bind_each, order, versions};
use crate::facts::GlibcVersion;
use crate::loader::load::{Load, Role};

/// Binds every object of a start, in the order of relocation.
pub(super) fn bind(
    load: &Load,
    version: GlibcVersion,
    objects: Vec<Option<Arc<ObjectSymbols>>>,
    options: BindOptions,
) -> Result<Bindings, BindError> {
    let relocation_order = order::of(load, version);
    // `dl_main` checks the versions of all objects before it relocates the first one.
    let missing_versions = versions::check(load, &objects);
    let mut scopes = Scopes {
        objects: &objects,
        global: &load.scope,
        unique: FxHashMap::default(),
        steps: 0,
        extern_protected_data: version < GlibcVersion { major: 2, minor: 36 },
        options,
    };
    bind_each(load, &objects, relocation_order, missing_versions, |index, symbols| {
        let bindings = scopes.relocate(index, symbols)?;
        // The loader itself is never bound lazily: dl_main relocates it with a mode of 0.
        let is_loader = load.objects[index].role == Role::Loader;
        let lazy = !options.bind_now && !symbols.tags.bind_now() && !is_loader;
        Some((bindings, lazy))
    })
}

/// The data that the lookups of one start share.
struct Scopes<'a> {
    objects: &'a [Option<Arc<ObjectSymbols>>],
    /// `l_searchlist` of the program, `l_scope[0]` of every object.
    global: &'a [usize],
    /// `_ns_unique_sym_table`: name to definition.
    unique: FxHashMap<&'a [u8], Found>,
    steps: u64,
    /// True before 2.36, where a protected datum may be bound to the program's copy.
    extern_protected_data: bool,
    options: BindOptions,
}

/// A definition: object, index and symbol.
#[derive(Clone, Copy)]
struct Found {
    object: usize,
    index: u32,
    symbol: Symbol,
}

/// A reference to a symbol.
#[derive(Clone, Copy)]
struct Reference<'a> {
    /// The object that refers to it (`undef_map`), and its symbol (`ref`).
    from: Found,
    symbols: &'a ObjectSymbols,
    name: &'a [u8],
    hashes: Hashes,
    /// Its version with the name (`struct r_found_version`).
    version: Option<(Version, &'a [u8])>,
    class: SymbolClass,
    /// True if a datum that the program copies is not found in the program.
    skips_copies: bool,
}

impl<'a> Scopes<'a> {
    /// `_dl_relocate_object`: makes the bindings of one object. `None` if the lookups take too many
    /// steps.
    fn relocate(&mut self, index: usize, symbols: &'a ObjectSymbols) -> Option<Vec<Binding>> {
        let Some(machine) = symbols.machine else { return Some(Vec::new()) };
        let mut known: FxHashMap<(u32, SymbolClass), Option<Found>> = FxHashMap::default();
        let only_static_tls = self.options.only_static_tls;
        let is_bound = |it: &&Relocation| !only_static_tls || machine.uses_static_tls(it.kind);
        let relocations = symbols.relocations.symbolic.iter().filter(is_bound);
        let mut bindings = Vec::with_capacity(relocations.clone().count());
        for relocation in relocations {
            let class = machine.class_of(relocation.kind);
            let is_data = relocation.kind == RelocationKind::GlobDat;
            // The lookup of a protected symbol depends on the kind of the relocation, not on its
            // class alone.
            let cached = known.get(&(relocation.symbol, class)).filter(|_| !is_data).copied();
            let found =
                cached.unwrap_or_else(|| self.resolve_map(index, symbols, relocation, class));
            known.insert((relocation.symbol, class), found);
            bindings.push(binding(index, symbols, machine, relocation, found));
        }
        (self.steps <= MAX_STEPS).then_some(bindings)
    }

    /// `resolve_map` of `elf/dl-reloc.c`: binds a local or hidden symbol to itself.
    fn resolve_map(
        &mut self,
        object: usize,
        symbols: &'a ObjectSymbols,
        relocation: &Relocation,
        class: SymbolClass,
    ) -> Option<Found> {
        let index = relocation.symbol;
        let symbol = symbols.symbol(index)?;
        let from = Found { object, index, symbol };
        if symbol.binding == elf::STB_LOCAL.0 || symbol.binds_locally() {
            return Some(from);
        }
        let name = symbols.string(symbol.name.into());
        // `resolve_map` passes no version for `VER_NDX_LOCAL` and `VER_NDX_GLOBAL`, which have no
        // entry.
        let version = symbols.versions.entry(index).map(|entry| symbols.versions.get(entry));
        let version = version.filter(|version| version.hash != 0);
        let version = version.map(|version| (version, symbols.string(version.name)));
        let hashes = Hashes::of(name);
        let reference =
            Reference { from, symbols, name, hashes, version, class, skips_copies: false };
        self.lookup_symbol(reference, relocation.kind == RelocationKind::GlobDat)
    }

    /// `_dl_lookup_symbol_x`.
    fn lookup_symbol(&mut self, reference: Reference<'a>, is_glob_dat: bool) -> Option<Found> {
        let from = reference.from;
        let found = self.search_scopes(&reference)?;
        // gABI: a reference to a protected symbol of its own object must bind to this object.
        if from.symbol.visibility() != elf::STV_PROTECTED.0 {
            return Some(found);
        }
        // A protected reference: the definition of another object does not count. For data, glibc
        // repeats the lookup as for a PLT entry. The address of a function is then the program's
        // PLT entry, unless another object would define it.
        if reference.class == SymbolClass::Plt {
            return Some(if found.object == from.object { found } else { from });
        }
        let is_object = elf::SymbolType(from.symbol.raw_type) == elf::STT_OBJECT;
        let skips_copies = self.extern_protected_data
            && reference.symbols.machine.is_some_and(has_extern_protected_data)
            && is_object
            && is_glob_dat;
        let class = if skips_copies { SymbolClass::Any } else { SymbolClass::Plt };
        let protected = self.search_scopes(&Reference { class, skips_copies, ..reference });
        let is_of_other = protected.is_some_and(|protected| protected.object != from.object);
        Some(if is_of_other { from } else { found })
    }

    /// The loop over `l_scope`: the object itself if it is symbolic, then the global scope.
    fn search_scopes(&mut self, reference: &Reference<'a>) -> Option<Found> {
        let (own, global) = ([reference.from.object], self.global);
        // A loader that no object needs keeps its own bindings.
        if !global.contains(&reference.from.object) {
            return self.do_lookup(reference, &own);
        }
        // Only _dl_map_object_from_fd sets l_symbolic_searchlist. The loader has none, and neither
        // has a program that the kernel mapped. The program comes first anyway.
        let is_symbolic = reference.symbols.symbolic;
        let found = if is_symbolic { self.do_lookup(reference, &own) } else { None };
        found.or_else(|| self.do_lookup(reference, global))
    }

    /// `do_lookup_x`.
    fn do_lookup(&mut self, reference: &Reference<'a>, scope: &[usize]) -> Option<Found> {
        let objects = self.objects;
        let mut weak = None;
        for &object in scope {
            // A COPY relocation must not find the program's own symbol.
            let is_program = object == 0;
            if reference.class == SymbolClass::Copy && is_program {
                continue;
            }
            let Some(symbols) = &objects[object] else { continue };
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return None;
            }
            let Some((index, symbol)) = self.match_in(reference, symbols) else { continue };
            // Hidden and internal symbols are local.
            if symbol.binds_locally() {
                continue;
            }
            if reference.skips_copies && is_program && symbols.copies(index) {
                continue;
            }
            let found = Found { object, index, symbol };
            match elf::SymbolBind(symbol.binding) {
                // A weak definition ends the search like a global one. Only `LD_DYNAMIC_WEAK` looks
                // for a global one behind it.
                elf::STB_WEAK if self.options.dynamic_weak => weak = weak.or(Some(found)),
                elf::STB_WEAK | elf::STB_GLOBAL => return Some(found),
                elf::STB_GNU_UNIQUE => return Some(self.lookup_unique(reference, found)),
                _ => {}
            }
        }
        weak
    }

    /// `do_lookup_unique`: the first definition found for a name is used for every later lookup.
    fn lookup_unique(&mut self, reference: &Reference<'a>, found: Found) -> Found {
        let is_copy = reference.class == SymbolClass::Copy;
        match self.unique.get(reference.name) {
            // The relocation copies from this definition into the one that all references use.
            Some(_) if is_copy => found,
            Some(known) => *known,
            None => {
                // All objects then use the program's copy.
                let entry = if is_copy { reference.from } else { found };
                self.unique.insert(reference.name, entry);
                found
            }
        }
    }

    /// Tries the candidates of one object's hash table with `check_match`. For a reference without
    /// a version, a single versioned definition is the last choice.
    fn match_in(
        &mut self,
        reference: &Reference<'_>,
        symbols: &ObjectSymbols,
    ) -> Option<(u32, Symbol)> {
        let mut versioned = Versioned::default();
        let found = symbols.hash.find_map(reference.hashes, |index| {
            self.steps += 1;
            check_match(reference, symbols, index, &mut versioned)
        });
        found.or(versioned.first.filter(|_| versioned.count == 1))
    }
}

/// The machines whose `elf_machine_type_class` had `ELF_RTYPE_CLASS_EXTERN_PROTECTED_DATA`.
fn has_extern_protected_data(machine: KnownMachine) -> bool {
    use KnownMachine::{Aarch64, Arm, I386, X86_64};
    matches!(machine, X86_64 | I386 | Aarch64 | Arm)
}

/// The default versions seen while a reference without a version is looked up.
#[derive(Default)]
struct Versioned {
    count: u32,
    first: Option<(u32, Symbol)>,
}

/// `check_match`.
fn check_match(
    reference: &Reference<'_>,
    symbols: &ObjectSymbols,
    index: u32,
    versioned: &mut Versioned,
) -> Option<(u32, Symbol)> {
    let symbol = symbols.symbol(index)?;
    let symbol_type = symbol.symbol_type();
    // A symbol without a value is not a definition, unless it is absolute or thread-local.
    if symbol.value == 0 && !symbol.is_absolute() && symbol_type != SymbolType::Tls {
        return None;
    }
    // An undefined symbol with a value is the program's PLT entry for a function of another object.
    // It is the function's address, but never the target of a call.
    if reference.class == SymbolClass::Plt && symbol.is_undefined() {
        return None;
    }
    // The symbol is neither code nor data.
    // `ALLOWED_STT`: `STT_SECTION` and `STT_FILE` name no code or data.
    if symbol_type == SymbolType::Other {
        return None;
    }
    if !symbols.string_is(symbol.name, reference.name) {
        return None;
    }
    let Some(entry) = symbols.versions.entry(index).filter(|_| symbols.versions.symbols.is_some())
    else {
        // The object has no versions, so any definition counts.
        return Some((index, symbol));
    };
    // The upper bit of a `DT_VERSYM` entry marks a version that is not the default one (`foo@VER`).
    let hidden = entry & 0x8000 != 0;
    if let Some((wanted, name)) = reference.version {
        let version = symbols.versions.get(entry);
        let same = version.hash == wanted.hash && symbols.string(version.name) == name;
        // The base version counts as well, if neither side is hidden.
        let base = !wanted.hidden && version.hash == 0 && !hidden;
        return (same || base).then_some((index, symbol));
    }
    // An old program without versions gets the base version (1) or the oldest one (2).
    if entry & 0x7fff >= 3 {
        if !hidden {
            versioned.count += 1;
            versioned.first.get_or_insert((index, symbol));
        }
        return None;
    }
    Some((index, symbol))
}

/// `elf_machine_rela`: makes the binding of a relocation from the definition.
fn binding(
    object: usize,
    symbols: &ObjectSymbols,
    machine: KnownMachine,
    relocation: &Relocation,
    found: Option<Found>,
) -> Binding {
    let Relocation { kind, symbol, has_addend, .. } = *relocation;
    let adds = machine.adds(kind, has_addend);
    let mut bound = relocation.unbound(Definer::Object(object as u32), adds);
    // The resolver is at load address plus addend: there is no symbol to look up.
    if kind == RelocationKind::Irelative {
        return bound;
    }
    let Some(found) = found else {
        let reference = symbols.symbol(symbol);
        // `_dl_lookup_symbol_x`: the binding of the reference decides. A weak one becomes zero, any
        // other one is an error.
        let is_weak = reference.is_some_and(|symbol| symbol.binding == elf::STB_WEAK.0);
        bound.definer = if is_weak { Definer::Undefined } else { Definer::Missing };
        bound.symbol_type = reference.map_or(SymbolType::NoType, |symbol| symbol.symbol_type());
        if machine.drops_addend_of_undefined() {
            bound.addend = 0;
        }
        return bound;
    };
    let definition = found.symbol;
    // The value of an `SHN_ABS` symbol is not an address of the object, so the load address is not
    // added.
    let definer = if definition.is_absolute() { Definer::Absolute } else { Definer::Object };
    bound.definer = definer(found.object as u32);
    bound.definition = found.index;
    bound.value = definition.value;
    bound.unique = definition.binding == elf::STB_GNU_UNIQUE.0;
    bound.symbol_type = match definition.symbol_type() {
        // The program's PLT entry of an IFUNC counts as a plain function.
        SymbolType::Ifunc if definition.is_undefined() => SymbolType::Function,
        other => other,
    };
    if machine == KnownMachine::Ppc64le && found.object == object {
        bound.value = bound.value.wrapping_add(local_entry_offset(symbols, &bound, &definition));
    }
    // glibc's elf_machine_rel of arm uses either the symbol's value or the argument.
    if machine == KnownMachine::Arm && kind == RelocationKind::TlsDescriptor && symbol != 0 {
        bound.addend = 0;
    }
    bound
}

/// `ppc64_local_entry_offset`: a call within one object skips the setup of the TOC pointer.
fn local_entry_offset(symbols: &ObjectSymbols, bound: &Binding, definition: &Symbol) -> u64 {
    let has_one_toc = symbols.ppc64_options() & PPC64_OPT_MULTI_TOC == 0;
    let is_call = bound.kind == RelocationKind::JumpSlot && bound.symbol_type != SymbolType::Ifunc;
    if !is_call || !has_one_toc {
        return 0;
    }
    // `PPC64_LOCAL_ENTRY_OFFSET`: the upper three bits of `st_other` encode the distance between
    // the global and the local entry point.
    ((1 << (definition.other >> 5)) >> 2) << 2
}
