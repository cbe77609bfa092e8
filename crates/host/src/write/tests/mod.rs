//! Tests of the writer.

mod crash;
mod kept;
mod killed;
mod limits;
mod making;
mod power;
mod refused;
mod support;
