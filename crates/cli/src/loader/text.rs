//! Text output of `becalm loader check`.

use std::io::{self, Write};

use becalm_lib::json::{Report, lossy};
use bstr::BString;
use serde::Serialize;

/// Strategies that a loader reads, as a trial of it showed.
#[derive(Debug, Serialize)]
pub(crate) struct Reads {
    /// The loader.
    #[serde(serialize_with = "lossy")]
    pub loader: BString,
    /// Resolution notes.
    pub notes: bool,
    /// Loader caches of packages; absent where no store was named to try one in.
    pub caches: Option<bool>,
}

impl Report for Reads {
    const SCHEMA: &'static str = "becalm/loader/1";
}

/// Two lines.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn text(out: &mut impl Write, reads: &Reads) -> io::Result<()> {
    writeln!(out, "notes   {}", if reads.notes { "read" } else { "not read" })?;
    let caches = match reads.caches {
        Some(true) => "read",
        Some(false) => "not read in --store",
        None => "not tried: --store DIR names one of the loader's store prefixes",
    };
    writeln!(out, "caches  {caches}")
}
