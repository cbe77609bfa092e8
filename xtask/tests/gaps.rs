//! Pins those differences of `docs/model-gaps.md` that appear on one machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use becalm_core::record::compare;
use becalm_host::oracle::{self, Launch, Start};
use xtask::predict::Request;

/// Returns the first difference between model and loader for `/bin/true` with these variables.
fn difference(env: &[(&str, &str)]) -> Option<compare::Difference> {
    let object = PathBuf::from("/bin/true");
    let env: Vec<(String, String)> =
        env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let request = Request { object: object.clone(), env: env.clone(), ..Request::default() };
    let predicted = request.answer().expect("a prediction").probes;
    let start = Start {
        object,
        launch: Launch::Trace,
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        root: None,
        emulator: None,
        user: None,
        dir: None,
        limit: Duration::from_secs(20),
    };
    let observed = oracle::ld_debug(&start).expect("a record").probes;
    compare::with_ld_debug(&predicted, &observed)
}

#[test]
fn tunables_that_mask_hwcaps_are_not_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("a plain name");
    let library_path = ("LD_LIBRARY_PATH", path);
    assert!(difference(&[library_path]).is_none(), "the control: the same without the tunable");
    if !has_legacy_hwcaps(dir.path()) {
        // glibc 2.37 and later have no legacy hwcaps to mask.
        return;
    }
    let masked = difference(&[library_path, ("GLIBC_TUNABLES", "glibc.cpu.hwcap_mask=0")]);
    assert!(masked.is_some(), "the gap is closed: take it out of docs/model-gaps.md");
}

fn has_legacy_hwcaps(dir: &Path) -> bool {
    let env = vec![("LD_LIBRARY_PATH".to_owned(), dir.display().to_string())];
    let request = Request { object: "/bin/true".into(), env, ..Request::default() };
    let probes = request.answer().expect("a prediction").probes;
    probes.iter().any(|probe| probe.path.windows(5).any(|part| part == b"/tls/"))
}
