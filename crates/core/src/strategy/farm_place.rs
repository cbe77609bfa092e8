//! Paths of farms and their lists.

use bstr::{BStr, BString, ByteSlice};

/// The directory of all farms, below a package's root.
pub const FARMS: &str = "lib/becalm-farm";

/// The directory in [`FARMS`] with the lists of changed objects ([`list_of`]).
const LISTS: &str = ".changed";

/// Returns the directory that lists the objects whose run path names `farm`, one link for each,
/// without the program itself. [`super::farm::graph`] plans it, so that reverting the program finds its libraries.
/// Returns `None` if `farm` is not the path of a farm.
#[must_use]
pub fn list_of(farm: &BStr) -> Option<BString> {
    let at = farm.rfind(FARMS)? + FARMS.len();
    let below = farm[at..].strip_prefix(b"/")?;
    Some([&farm[..at], LISTS.as_bytes(), below].join(&b'/').into())
}
