//! To be written.
use crate::loader::LoaderFacts;
use bstr::BString;
/// To be written.
pub fn subdirectories(_: &LoaderFacts) -> Vec<BString> {
    vec!["".into()]
}
