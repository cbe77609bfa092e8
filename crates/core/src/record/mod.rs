//! What real loaders and tracers said, as the probes the models predict.
//!
//! [`audit_log`] reads what the audit module writes down, [`ld_debug`] the record glibc
//! writes under `LD_DEBUG=libs,files`, [`strace`] the system calls `strace` saw, and
//! [`compare`] holds a prediction against them, attempt by attempt, and names the first
//! difference.
//!
//! The parsers take any bytes: what they do not understand they pass over.

pub mod audit_log;
pub mod compare;
pub mod ld_debug;
pub mod strace;
