//! What `becalm loader check` tells.

use std::io::{self, Write};

use becalm_lib::json::{as_json, lossy};
use bstr::BString;
use serde::Serialize;

/// What a loader reads, as a trial of it showed.
#[derive(Debug)]
pub(crate) struct Reads {
    /// The loader.
    pub loader: BString,
    /// Resolution notes.
    pub notes: bool,
    /// Loader caches of packages; absent where no store was named to try one in.
    pub caches: Option<bool>,
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

#[derive(Serialize)]
struct LoaderJson<'a> {
    schema: &'static str,
    #[serde(serialize_with = "lossy")]
    loader: &'a BString,
    notes: bool,
    caches: Option<bool>,
}

/// `becalm/loader/1`.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn json(out: &mut impl Write, reads: &Reads) -> io::Result<()> {
    let json = LoaderJson {
        schema: "becalm/loader/1",
        loader: &reads.loader,
        notes: reads.notes,
        caches: reads.caches,
    };
    out.write_all(&as_json(&json))?;
    out.write_all(b"\n")
}
