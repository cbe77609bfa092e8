//! The arguments of `becalm check` for symbols.

use becalm_core::symbols::BindOptions;
use becalm_lib::symbols::{SymbolOptions, bind_options_of_environment};
use clap::Args;

/// Flags about symbols.
#[derive(Debug, Args)]
pub(crate) struct SymbolArgs {
    /// Show undefined and interposed symbols, missing versions, and the definers of symbols
    ///
    /// Every relocation of the program and its libraries is bound as the loader would bind it,
    /// without running anything, for every architecture whose relocations becalm knows: x86_64,
    /// i386, aarch64, arm, s390x, ppc64le, riscv64. The exit code is 1 if a strong symbol or a
    /// version is missing for a program. With --json, the report becomes part of the object.
    #[arg(long, conflicts_with_all = ["tree", "probes", "against"], help_heading = "Symbols")]
    pub symbols: bool,

    /// Show each binding as well: relocation, symbol, version, definer, value (implies --symbols)
    #[arg(long, conflicts_with_all = ["tree", "probes", "against"], help_heading = "Symbols")]
    pub bindings: bool,

    /// Exit with 1 also if a library that is checked by itself lacks a symbol
    ///
    /// An object that loads the library may define the symbol, so without this flag it is only
    /// listed.
    #[arg(long, help_heading = "Symbols")]
    pub strict: bool,
}

impl SymbolArgs {
    /// True if symbols are requested.
    pub(crate) fn is_asked(&self) -> bool {
        self.symbols || self.bindings
    }

    /// Returns the options of the lookup, if symbols are requested. The environment counts if the
    /// programs would start in it (`is_here`).
    pub(crate) fn options(&self, is_here: bool) -> Option<SymbolOptions> {
        let bind = if is_here { bind_options_of_environment() } else { BindOptions::default() };
        self.is_asked().then_some(SymbolOptions { with_bindings: self.bindings, bind })
    }
}
