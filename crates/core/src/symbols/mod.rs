//! Predicts from the files to which definition each relocation of a start binds.
//!
//! [`bind`] takes a [`Load`] and the symbol tables of its objects ([`SymbolFiles`]) and returns
//! [`Bindings`]: for each object its relocations, each with the definition that the loader's
//! lookup finds and the value that the loader stores.
//!
//! - [`object`] reads the tables of one file: symbols, hashes, versions, relocations.
//! - [`glibc`] and [`musl`] make the lookups. [`machine`] has the meaning of relocation types.
//! - [`versions`] checks needed versions. [`order`] finds the order of relocation.
//! - [`report`] summarises the bindings for output, [`RelocationWork`] counts what they cost.
//!
//! # Not predicted
//!
//! - Values that depend on the processor: a relocation by an IFUNC has the resolver, not its
//!   result ([`Word::Resolver`]).
//! - Load addresses, TLS module numbers and TLS offsets: a value is relative to its object.
//! - Differences between musl releases for a name that ends in `64`. The rule of 1.2.4 is used for
//!   all of them, and only if no object defines the name.
//! - Definitions of the vDSO, for a program that names it in a `DT_NEEDED`.

mod binding;
pub mod glibc;
mod hash;
pub mod machine;
pub mod musl;
pub mod object;
pub mod order;
mod relocations;
pub mod report;
#[cfg(any(test, feature = "mem"))]
#[path = "tests/slot.rs"]
pub mod slot;
mod symbol_type;
#[cfg(test)]
mod tests;
mod version_table;
pub mod versions;
mod work;

use std::sync::Arc;

use bstr::BString;
use thiserror::Error;

use crate::elf::ElfError;
use crate::facts::Libc;
use crate::loader::load::{Load, LoadedObject};

pub use binding::{
    At, Binding, Bindings, Definer, ObjectBindings, Relative, RelocationKind, SymbolClass,
    SymbolType, Word,
};
pub use object::{ObjectSymbols, Symbol};
pub use report::SymbolReport;
pub use versions::MissingVersionReport;
pub use work::RelocationWork;

/// A source of the symbol tables of loaded objects. An implementation may cache the tables.
/// [`bind`] reads each object of the base namespace once.
pub trait SymbolFiles {
    /// Reads the tables of an object ([`ObjectSymbols::read`]).
    ///
    /// # Errors
    /// Returns [`ElfError`] if the file cannot be read or its tables contradict each other.
    fn symbols(&self, object: &LoadedObject) -> Result<Arc<ObjectSymbols>, ElfError>;
}

/// Settings that change the bindings of a start beyond its files.
#[derive(Clone, Copy, Debug, Default)]
pub struct BindOptions {
    /// `LD_BIND_NOW`: every object is bound at once.
    pub bind_now: bool,
    /// `LD_DYNAMIC_WEAK`: a weak definition is used only if no strong one follows (glibc).
    pub dynamic_weak: bool,
    /// Binds only the relocations that can make an object's TLS static (glibc).
    pub only_static_tls: bool,
}

/// The reason why a start has no bindings: the tables of an object cannot be read, the relocation types of
/// its machine are unknown, or its lookups take more steps than in any real program, so that the tables
/// are hostile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {reason}")]
pub struct BindError {
    /// The object.
    pub path: BString,
    /// The reason.
    pub reason: String,
}

/// Predicts every binding of a start.
///
/// Objects keep their indices of [`Load::objects`]. Audit modules have a namespace and a scope of
/// their own, and get an empty [`ObjectBindings`]. A missing library is not in the scope, as in
/// `ldd -r`. A reference to one of its symbols is therefore undefined.
///
/// # Errors
/// Returns [`BindError`] if the tables of an object cannot be read, if its machine is unknown, or
/// if the lookups take too many steps.
pub fn bind(
    load: &Load,
    libc: Libc,
    files: &dyn SymbolFiles,
    options: BindOptions,
) -> Result<Bindings, BindError> {
    let objects = load.objects.iter().map(|object| read(object, files));
    let objects = objects.collect::<Result<_, _>>()?;
    match libc {
        Libc::Glibc(version) => glibc::bind(load, version, objects, options),
        Libc::Musl => musl::bind(load, objects),
    }
}

/// The limit on symbols compared and objects searched for one start. The largest real programs take
/// some tens of millions.
const MAX_STEPS: u64 = 1 << 31;

/// Makes the bindings of each object in the order of relocation. `relocate` returns the bindings of
/// one, and true if it is bound lazily, or `None` if its lookups take too many steps.
fn bind_each<'a>(
    load: &Load,
    objects: &'a [Option<Arc<ObjectSymbols>>],
    relocation_order: Vec<usize>,
    missing_versions: Vec<MissingVersionReport>,
    mut relocate: impl FnMut(usize, &'a ObjectSymbols) -> Option<(Vec<Binding>, bool)>,
) -> Result<Bindings, BindError> {
    let mut bound = vec![ObjectBindings::default(); load.objects.len()];
    for &index in &relocation_order {
        let Some(symbols) = &objects[index] else { continue };
        let reason = || "its symbol lookups take too many steps".to_owned();
        let too_many = || BindError { path: load.objects[index].path.clone(), reason: reason() };
        let (bindings, lazy) = relocate(index, symbols).ok_or_else(too_many)?;
        bound[index] = ObjectBindings { symbols: Some(Arc::clone(symbols)), bindings, lazy };
    }
    Ok(Bindings { objects: bound, scope: load.scope.clone(), relocation_order, missing_versions })
}

/// Reads the tables of the objects. An object of an audit module has `None`.
fn read(
    object: &LoadedObject,
    files: &dyn SymbolFiles,
) -> Result<Option<Arc<ObjectSymbols>>, BindError> {
    if object.namespace != 0 {
        return Ok(None);
    }
    let failed = |reason| BindError { path: object.path.clone(), reason };
    let symbols = files.symbols(object).map_err(|error| failed(error.to_string()))?;
    if symbols.machine.is_none() {
        let machine = symbols.ident.machine_name();
        return Err(failed(format!("relocations of {machine} are not known")));
    }
    Ok(Some(symbols))
}
