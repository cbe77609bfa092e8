//! stub
use becalm_core::loader::Libc;
#[derive(Debug, Default)]
pub(crate) struct FactCache {}
/// stub
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FactChoice {
    /// libc
    pub libc: Option<Libc>,
    /// cpu
    pub cpu: Option<String>,
}
/// stub
pub fn loader_facts() {}
