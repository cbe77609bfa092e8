//! To be written.
use crate::{
    elf::{Endian, Ident},
    loader::LoaderFacts,
};
use bstr::BStr;
/// To be written.
pub struct LoaderCache;
/// To be written.
pub struct CacheQuery<'a> {
    /// x
    pub ident: &'a Ident,
    /// x
    pub facts: &'a LoaderFacts,
}
impl LoaderCache {
    /// x
    pub fn parse(_: Vec<u8>, _: Endian) -> Option<Self> {
        None
    }
    /// x
    pub fn lookup(&self, _: &BStr, _: &CacheQuery<'_>) -> Option<&BStr> {
        None
    }
}
