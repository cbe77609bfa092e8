//! Tests that the disk shows the image, and serves many reads at once.

use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex};

use super::*;

/// Number of reads that must be in flight at once.
const AT_ONCE: usize = 16;
const BLOCK: usize = 4096;

#[test]
fn reads_return_the_image_and_are_served_at_once() {
    let root = nix::unistd::geteuid().is_root();
    if let Some(reason) = slowfs::why_not().or_else(|| (!root).then(|| "not root".to_owned())) {
        assert!(becalm_testing::skipped(&reason));
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let (image, point) = (scratch.path().join("image"), scratch.path().join("point"));
    let bytes: Vec<u8> = (0..AT_ONCE * BLOCK).map(|at| (at / BLOCK) as u8).collect();
    fs::write(&image, &bytes).expect("written");
    fs::create_dir(&point).expect("made");
    // No read is answered before all of them have arrived.
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    let waiting = Arc::clone(&arrived);
    let wait = Box::new(move || {
        let mut count = waiting.0.lock().expect("not poisoned");
        *count += 1;
        waiting.1.notify_all();
        let limit = Duration::from_secs(60);
        drop(waiting.1.wait_timeout_while(count, limit, |count| *count < AT_ONCE));
    });
    let session = start(&image, &point, wait).expect("mounted");
    let disk = File::options().read(true).open(point.join("image")).expect("opened");
    thread::scope(|scope| {
        for (at, wanted) in bytes.chunks(BLOCK).enumerate() {
            let disk = &disk;
            scope.spawn(move || {
                let mut block = vec![0; BLOCK];
                disk.read_exact_at(&mut block, (at * BLOCK) as u64).expect("read");
                assert_eq!(block, wanted);
            });
        }
    });
    assert_eq!(*arrived.0.lock().expect("not poisoned"), AT_ONCE);
    drop(disk);
    drop(session);
}
