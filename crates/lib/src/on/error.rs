//! The reason why programs are not switched on or off.

pub use anyhow::Error as OnError;
