//! Limits of the process that affect writing.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::write::{WriteOptions, Writer};
use becalm_testing::skip;

#[test]
fn the_usual_limit_of_open_files_does_not_make_batches_small() {
    let before = getrlimit(Resource::Nofile);
    let usual = 1024;
    if before.maximum.is_some_and(|maximum| maximum < 4 * usual) {
        return skip("the hard limit of open files is low");
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(usual), ..before }).unwrap();
    let size = Writer::new(WriteOptions::default()).batch_size();
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(size > usual as usize / 2, "{size}");
}
