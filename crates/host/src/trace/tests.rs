//! Programs made here, each with one habit a tracer has to live with; and equality with
//! `strace` and with the model.

mod counting;
mod fixture;
mod parent;
mod sequence;
mod supervisor;
