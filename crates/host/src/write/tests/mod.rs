//! Tests of the writer.

mod crash;
pub(super) mod faults;
mod kept;
mod killed;
mod limits;
mod making;
mod power;
mod refused;
mod support;
