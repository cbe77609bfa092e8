//! The facts of the loaders that one run has met.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bstr::BString;

use becalm_core::loader::{Libc, LoaderFacts};

use crate::fingerprint::Fingerprint;

/// The user's choices about the loader, which override its facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FactChoice {
    /// The C library whose rules apply (`--libc`).
    pub libc: Option<Libc>,
    /// The processor, as [`becalm_core::search::hwcaps::for_cpu`] accepts it (`--cpu`). If this or `libc` is set, no
    /// loader is run.
    pub cpu: Option<String>,
    /// `GLIBC_TUNABLES` of the start. A loader that is run applies them to its facts; those of any
    /// other loader are without them.
    pub tunables: BString,
}

/// Cached facts of loaders, by the interpreter's state and the user's choices.
pub(crate) type FactCache = Mutex<HashMap<(Fingerprint, FactChoice), Arc<LoaderFacts>>>;
