//! Summary of the bindings of one start, for output.

use std::collections::BTreeMap;

use bstr::ByteSlice;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::binding::{Binding, Bindings, Definer, RelocationKind, SymbolType};
use super::object::ObjectSymbols;
use super::versions::MissingVersionReport;
use crate::loader::load::Load;

/// Undefined and interposed symbols, missing versions, the definers of symbols, and counts of
/// relocations. Bytes of names and paths that are not UTF-8 become U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SymbolReport {
    /// Strong references that nothing defines, each once for an object.
    pub undefined: Vec<UndefinedSymbol>,
    /// Versions that an object needs and the library it names does not define.
    pub missing_versions: Vec<MissingVersionReport>,
    /// Symbols that are referred to and that more than one object defines.
    pub interposed: Vec<InterposedSymbol>,
    /// For each pair of objects, the number of symbols of the first that the second defines, in
    /// load order.
    pub definers: Vec<DefinerCount>,
    /// The number of relocations of each kind.
    pub relocations: RelocationCounts,
    /// Every binding in load order. Missing unless the caller wants the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindings: Option<Vec<BindingReport>>,
}

/// A strong reference that nothing defines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndefinedSymbol {
    /// The object that refers to it.
    pub object: String,
    /// The symbol.
    pub symbol: String,
    /// Its version, if the reference has one.
    pub version: Option<String>,
    /// True if only calls refer to it and the object is bound lazily: the program starts, and ends
    /// at the first call.
    pub lazy: bool,
}

/// A symbol that several objects define.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterposedSymbol {
    /// The symbol.
    pub symbol: String,
    /// The version of the definition that is used, if it has one.
    pub version: Option<String>,
    /// The object whose definition is used.
    pub definer: String,
    /// The objects whose definitions are not used, in scope order.
    pub others: Vec<String>,
    /// The number of relocations that use it.
    pub references: usize,
    /// True if the program's definition is a copy of a library's datum.
    pub copy: bool,
}

/// The number of symbols of one object that another defines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefinerCount {
    /// The object that refers to the symbols.
    pub object: String,
    /// The object that defines them.
    pub definer: String,
    /// The number of different symbols.
    pub symbols: usize,
}

/// Relocations by kind, added up over all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelocationCounts {
    /// Relative ones of `DT_REL` and `DT_RELA`.
    pub relative: usize,
    /// Relative ones of `DT_RELR`.
    pub relr: usize,
    /// `GLOB_DAT`.
    pub glob_dat: usize,
    /// `JUMP_SLOT`.
    pub jump_slot: usize,
    /// Of the `JUMP_SLOT` ones, those bound at the first call.
    pub lazy: usize,
    /// Addresses with an addend.
    pub absolute: usize,
    /// `COPY`.
    pub copy: usize,
    /// `IRELATIVE`.
    pub irelative: usize,
    /// Thread-local storage.
    pub tls: usize,
    /// Anything else.
    pub other: usize,
    /// Of all these, those whose definition is an IFUNC.
    pub ifunc: usize,
    /// Of all these, those whose definition is `STB_GNU_UNIQUE`.
    pub unique: usize,
    /// Of all these, weak references that nothing defines.
    pub undefined_weak: usize,
}

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BindingReport {
    /// The object that has the relocation.
    pub object: String,
    /// Address of the slot in it, before the load address is added.
    pub offset: u64,
    /// The kind of value that the relocation stores: `glob_dat`, `jump_slot`, `absolute`,
    /// `pc_relative`, `size`, `copy`, `irelative`, `tls_module`, `tls_block_offset`, `tls_offset`,
    /// `tls_offset_negated`, `tls_descriptor`, `other`.
    pub kind: &'static str,
    /// The symbol; null for a relocation without one.
    pub symbol: Option<String>,
    /// The version of the reference.
    pub version: Option<String>,
    /// The object that defines it, or null.
    pub definer: Option<String>,
    /// `st_value` of the definition; 0 if there is none.
    pub value: u64,
    /// The addend.
    pub addend: i64,
    /// Type of the definition: `none`, `object`, `function`, `tls`, `ifunc`, `other`.
    #[serde(rename = "type")]
    pub symbol_type: &'static str,
    /// True if it is bound at the first call.
    pub lazy: bool,
}

impl SymbolReport {
    /// Summarises the bindings of a start, and lists every binding if `with_bindings` is true.
    #[must_use]
    pub fn of(load: &Load, bindings: &Bindings, with_bindings: bool) -> Self {
        let reader = Reader { load, bindings };
        Self {
            undefined: reader.undefined(),
            missing_versions: bindings.missing_versions.clone(),
            interposed: reader.interposed(),
            definers: reader.definers(),
            relocations: reader.relocations(),
            bindings: with_bindings.then(|| reader.bindings()),
        }
    }

    /// Returns true if a strong symbol or version is missing. The start then fails, or a later
    /// call.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        !self.undefined.is_empty() || self.missing_versions.iter().any(|missing| !missing.weak)
    }
}

struct Reader<'a> {
    load: &'a Load,
    bindings: &'a Bindings,
}

fn text(bytes: &[u8]) -> String {
    bytes.to_str_lossy().into_owned()
}

impl<'a> Reader<'a> {
    fn path(&self, object: usize) -> String {
        text(&self.load.objects[object].path)
    }

    /// Every object that has tables, and each of its bindings.
    fn all(&self) -> impl Iterator<Item = (usize, &'a ObjectSymbols, &'a Binding)> {
        let objects = self.bindings.objects.iter().enumerate();
        objects.flat_map(|(index, object)| {
            let symbols = object.symbols.as_deref();
            let bindings = object.bindings.iter();
            bindings.filter_map(move |binding| Some((index, symbols?, binding)))
        })
    }

    fn undefined(&self) -> Vec<UndefinedSymbol> {
        let mut places: FxHashMap<(usize, u32), usize> = FxHashMap::default();
        let mut undefined: Vec<UndefinedSymbol> = Vec::new();
        for (index, binding) in self.bindings.undefined() {
            let object = &self.bindings.objects[index];
            let Some(symbols) = &object.symbols else { continue };
            let lazy = object.is_lazy(binding);
            let place = places.entry((index, binding.symbol)).or_insert_with(|| {
                undefined.push(UndefinedSymbol {
                    object: self.path(index),
                    symbol: text(symbols.symbol_name(binding.symbol)),
                    version: symbols.symbol_version(binding.symbol).map(text),
                    lazy: true,
                });
                undefined.len() - 1
            });
            undefined[*place].lazy &= lazy;
        }
        undefined
    }

    fn definers(&self) -> Vec<DefinerCount> {
        let mut symbols: BTreeMap<(usize, usize), FxHashSet<u32>> = BTreeMap::new();
        for (index, _, binding) in self.all() {
            let other = binding.definer.object().filter(|&definer| definer != index);
            if let Some(definer) = other.filter(|_| binding.symbol != 0) {
                symbols.entry((index, definer)).or_default().insert(binding.symbol);
            }
        }
        let count = |((object, definer), symbols): ((usize, usize), FxHashSet<u32>)| DefinerCount {
            object: self.path(object),
            definer: self.path(definer),
            symbols: symbols.len(),
        };
        symbols.into_iter().map(count).collect()
    }

    /// Definitions that references use, each with the others of its name and version.
    fn interposed(&self) -> Vec<InterposedSymbol> {
        let exported = self.exported();
        let mut used: BTreeMap<(usize, u32), (usize, bool)> = BTreeMap::new();
        for (index, symbols, binding) in self.all() {
            // A copy is used in place of its source.
            if binding.kind == RelocationKind::Copy {
                used.entry((index, binding.symbol)).or_default().1 = true;
                continue;
            }
            let Some(definer) = binding.definer.object() else { continue };
            let is_looked_up = symbols.symbol(binding.symbol).is_some_and(|s| s.is_exported());
            if binding.symbol != 0 && is_looked_up {
                used.entry((definer, binding.definition)).or_default().0 += 1;
            }
        }
        let mut interposed = Vec::new();
        for ((definer, definition), (references, copy)) in used {
            let Some(symbols) = self.bindings.objects[definer].symbols.as_deref() else { continue };
            let name = symbols.symbol_name(definition);
            let version = symbols.symbol_version(definition);
            let Some(candidates) = exported.get(name) else { continue };
            let serves = |(object, index): &&(usize, u32)| {
                let other = self.bindings.objects[*object].symbols.as_deref();
                let other = other.and_then(|other| other.symbol_version(*index));
                *object != definer && (version.is_none() || other.is_none() || other == version)
            };
            let others: Vec<String> =
                candidates.iter().filter(serves).map(|(object, _)| self.path(*object)).collect();
            if references > 0 && !others.is_empty() {
                interposed.push(InterposedSymbol {
                    symbol: text(name),
                    version: version.map(text),
                    definer: self.path(definer),
                    others,
                    references,
                    copy,
                });
            }
        }
        interposed
    }

    /// The definitions of each name that other objects can see, in scope order.
    fn exported(&self) -> FxHashMap<&'a [u8], Vec<(usize, u32)>> {
        let mut exported: FxHashMap<&[u8], Vec<(usize, u32)>> = FxHashMap::default();
        for &object in &self.bindings.scope {
            let Some(symbols) = self.bindings.objects[object].symbols.as_deref() else { continue };
            for index in 1..symbols.symbol_count() {
                let Some(symbol) = symbols.symbol(index) else { continue };
                if symbol.is_exported() && !symbol.is_undefined() {
                    exported.entry(symbols.symbol_name(index)).or_default().push((object, index));
                }
            }
        }
        exported
    }

    fn relocations(&self) -> RelocationCounts {
        let mut counts = RelocationCounts::default();
        for object in &self.bindings.objects {
            let Some(symbols) = &object.symbols else { continue };
            counts.relative += symbols.relocations.relative.len();
            counts.relr += symbols.relocations.relr.len();
            for binding in &object.bindings {
                *counts.of_kind(binding.kind) += 1;
                counts.lazy += usize::from(object.is_lazy(binding));
                counts.ifunc += usize::from(binding.symbol_type == SymbolType::Ifunc);
                counts.unique += usize::from(binding.unique);
                counts.undefined_weak += usize::from(binding.definer == Definer::Undefined);
            }
        }
        counts
    }

    fn bindings(&self) -> Vec<BindingReport> {
        self.all()
            .map(|(index, symbols, binding)| BindingReport {
                object: self.path(index),
                offset: binding.offset,
                kind: binding.kind.name(),
                symbol: (binding.symbol != 0).then(|| text(symbols.symbol_name(binding.symbol))),
                version: symbols.symbol_version(binding.symbol).map(text),
                definer: binding.definer.object().map(|definer| self.path(definer)),
                value: binding.value,
                addend: binding.addend,
                symbol_type: binding.symbol_type.name(),
                lazy: self.bindings.objects[index].is_lazy(binding),
            })
            .collect()
    }
}

impl RelocationCounts {
    fn of_kind(&mut self, kind: RelocationKind) -> &mut usize {
        match kind {
            RelocationKind::GlobDat => &mut self.glob_dat,
            RelocationKind::JumpSlot => &mut self.jump_slot,
            RelocationKind::Absolute(_) => &mut self.absolute,
            RelocationKind::Copy => &mut self.copy,
            RelocationKind::Irelative => &mut self.irelative,
            kind if kind.is_tls() => &mut self.tls,
            _ => &mut self.other,
        }
    }
}
