//! The audit module under the real loader: each case starts a program with and without an index,
//! and compares the two starts.

mod bindings;
mod changes;
mod damage;
mod in_place;
mod library_path;
mod lookup;
mod module;
mod module_tree;
mod namespaces;
mod notes;
mod odd;
mod own_changes;
mod paths;
mod programs;
mod rpath;
mod scenarios;
mod semantics;
mod static_tls;
mod support;
