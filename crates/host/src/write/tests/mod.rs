//! Tests of the writer.

mod basics;
