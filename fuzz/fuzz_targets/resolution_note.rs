//! Parses any bytes as the descriptor of a resolution note, without a panic. An error must end it.
//! The parsed records, when written again, must give the parsed bytes.

#![no_main]

use becalm_core::elf::resolution_note::{Answer, COMPLETE, records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut written = if data.starts_with(COMPLETE) { COMPLETE.to_vec() } else { Vec::new() };
    let mut failed = false;
    for record in records(data) {
        assert!(!failed, "records after an error");
        let Ok(record) = record else {
            failed = true;
            continue;
        };
        written.extend_from_slice(record.needed);
        written.push(0);
        for (index, answer) in record.answers.iter().enumerate() {
            if index > 0 {
                written.push(b':');
            }
            let (sign, text) = match answer {
                Answer::Exact(path) => (b'=', path),
                Answer::Hint(dir) => (b'?', dir),
            };
            written.push(sign);
            written.extend_from_slice(text);
        }
        written.push(0);
    }
    assert!(data.starts_with(&written));
    assert!(failed || data[written.len()] == 0);
});
