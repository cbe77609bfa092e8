//! The freestanding C programs that becalm embeds, compiled by the build script: the audit module of an
//! index (`module/`), the starter of `becalm on`, and the beginning of the command (`starter/`).
//!
//! The beginning of the command is an object file, which the build script of the command links
//! (`DEP_BECALM_QUICK`).

include!(concat!(env!("OUT_DIR"), "/modules.rs"));
