//! The strategies whose answers are in an index, which the commands make and compare as a whole
//! (`docs/index-format.md`).

use super::row::{Row, Unit};

/// An index of whole stores.
pub const STORES: Row =
    Row { unit: Unit::Stores, format: None, file: None, verify: |_| Vec::new(), unnamed: |_| None };

/// An index of one program's start.
pub const PROGRAM: Row = Row { unit: Unit::Program, ..STORES };
