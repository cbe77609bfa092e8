//! The symbols of a start, as `becalm check --symbols` reports them.

use std::env;

use becalm_core::closure::Closure;
use becalm_core::symbols::{BindError, BindOptions, SymbolReport, bind};

use crate::assume::Assumptions;

/// Options of the symbol report of each program.
#[derive(Clone, Copy, Debug, Default)]
pub struct SymbolOptions {
    /// True if each binding is listed.
    pub with_bindings: bool,
    /// Settings that change the bindings beyond the files.
    pub bind: BindOptions,
}

/// Returns the options of `LD_BIND_NOW` and `LD_DYNAMIC_WEAK` of the environment.
#[must_use]
pub fn bind_options_of_environment() -> BindOptions {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    BindOptions {
        bind_now: is_set("LD_BIND_NOW"),
        dynamic_weak: is_set("LD_DYNAMIC_WEAK"),
        ..BindOptions::default()
    }
}

/// Returns the report of one start; `None` for a static program, whose symbols no loader looks up.
///
/// # Errors
/// Returns [`BindError`] if the tables of an object cannot be read, or if its machine's relocations
/// are not known.
pub fn report(
    options: &SymbolOptions,
    assumed: &Assumptions,
    closure: &Closure,
) -> Result<Option<SymbolReport>, BindError> {
    let Some(facts) = &closure.facts else { return Ok(None) };
    let load = &closure.load;
    let bindings = bind(load, facts.libc, &assumed.fs.symbols(), options.bind)?;
    Ok(Some(SymbolReport::of(load, &bindings, options.with_bindings)))
}
