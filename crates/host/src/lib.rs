//! becalm-host: the real file system and the real loader.

pub mod truth;
