//! Traces small programs that these tests compile, and compares the tracer with `strace` and with
//! the model.

mod counting;
mod fixture;
mod parent;
mod rights;
mod sequence;
mod supervisor;
mod waits;
