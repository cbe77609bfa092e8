//! The rules of the carriers, each on an in-memory file system.

mod absolute;
mod farm;
mod ldcache;
mod note;
mod patchelf;
mod plan;
mod property;
mod verify;
