//! Parses the records of real loaders and tracers into probes.
//!
//! [`audit_log`] parses the log of the audit module, [`ld_debug`] the output of glibc under
//! `LD_DEBUG=libs,files`, [`statistics`] and [`phases`] what it says of its work, and [`strace`] the system calls
//! in the output of `strace`. [`compare`]
//! compares a prediction with a record, probe by probe, and returns the first difference.
//!
//! The parsers accept any bytes and skip lines that they do not understand.

pub mod audit_log;
pub mod compare;
pub mod ld_debug;
pub mod phases;
pub mod statistics;
pub mod strace;
