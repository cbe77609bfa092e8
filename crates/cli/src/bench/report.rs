//! What the command reports.

use becalm_host::bench::{Measured, Options, Variant};

/// A finished measurement and all that is told of it.
#[derive(Debug)]
pub(crate) struct Report {
    /// The commands that were measured, without the control.
    pub variants: Vec<Variant>,
    /// What they took, the control last.
    pub measured: Measured,
    /// How it was measured.
    pub options: Options,
    /// Where it was measured.
    pub machine: Machine,
}

/// Where a measurement was made, as far as it bears on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// System, release and machine of the kernel.
    pub kernel: String,
    /// Processors that may be used.
    pub cpus: usize,
    /// Processes that waited for one, on average over the last minute, when it began.
    pub load: Option<f64>,
    /// Seconds since 1970 when it began.
    pub began: u64,
}
