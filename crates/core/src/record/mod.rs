//! Parses the records of real loaders and tracers into probes.
//!
//! [`audit_log`] parses the log of the audit module, [`ld_debug`] the output of glibc under
//! `LD_DEBUG=libs,files`, [`statistics`] and [`phases`] what it says of its work. [`compare`] has the
//! parts of records that can be compared with a prediction.
//!
//! The parsers accept any bytes and skip lines that they do not understand.

pub mod audit_log;
pub mod compare;
pub mod ld_debug;
pub mod phases;
pub mod statistics;
