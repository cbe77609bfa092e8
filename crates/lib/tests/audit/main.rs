//! The audit module under the real loader: each case starts a program plainly and calmed,
//! and holds the two against each other.

mod bindings;
mod changes;
mod damage;
mod in_place;
mod library_path;
mod lookup;
mod module;
mod namespaces;
mod notes;
mod odd;
mod paths;
mod programs;
mod rpath;
mod scenarios;
mod semantics;
mod static_tls;
mod support;
