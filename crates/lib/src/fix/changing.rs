//! Changes of files by other processes while they are planned.

use becalm_core::index::Fingerprint;
use becalm_core::index::build::Fingerprints;
use becalm_core::strategy::Severity;
use becalm_host::index_store::OsFingerprints;
use bstr::BString;
use rayon::prelude::*;

use crate::fix::plan::Planned;
use crate::fix::planner::Planner;
use crate::path::path_bytes;
use crate::targets::Target;

/// Returns the fingerprint of each file, by which changes are detected; none for a file that cannot
/// be examined.
pub(super) fn fingerprints(files: &[Target]) -> Vec<Option<Fingerprint>> {
    let system = OsFingerprints::default();
    let of = |target: &Target| system.fingerprint(path_bytes(&target.host).as_ref()).ok();
    files.par_iter().map(of).collect()
}

/// Returns true if a file was changed since its fingerprint was taken, or if the plan was refused and one of
/// its places was changed a moment ago: it may have seen the half of what another becalm does.
pub(super) fn is_changing(
    planner: &Planner<'_>,
    planned: &Planned,
    (files, before): (&[Target], &[Option<Fingerprint>]),
    places: &[BString],
) -> bool {
    let system = OsFingerprints::default();
    let is_recent = |place: &BString| {
        let here = planner.host_path(place.as_ref()).map(|here| path_bytes(&here));
        here.is_ok_and(|here| system.is_settled(here.as_ref()) == Ok(false))
    };
    let mut findings = planned.plan.findings.iter();
    planned.replaced
        || fingerprints(files) != before
        || findings.any(|finding| finding.what.severity() == Severity::Refused)
            && places.par_iter().any(is_recent)
}
