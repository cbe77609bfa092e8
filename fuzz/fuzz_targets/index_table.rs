//! Any bytes as a table, and as a module with a table: no panic, and a table that reads is
//! written again as it was.

#![no_main]

use becalm_core::index::{Table, encode, split};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((module, table)) = split(bytes) {
        assert!(module.len() + table.len() <= bytes.len());
    }
    let Ok(table) = Table::read(bytes) else { return };
    let Ok(index) = table.index() else { return };
    let again = encode(&index, table.target()).expect("what was read fits the format");
    assert_eq!(Table::read(&again).and_then(|table| table.index()), Ok(index));
});
