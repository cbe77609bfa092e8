//! Tests of the lookup rules.
