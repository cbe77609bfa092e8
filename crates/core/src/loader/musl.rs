//! To be written.
use super::{
    Environment, LoaderFacts,
    load::{Load, Start},
};
use crate::fs::FileSystem;
/// To be written.
pub fn load(_: &dyn FileSystem, _: &Start, _: &LoaderFacts, _: &Environment) -> Load {
    Load::default()
}
