//! becalm.

fn main() {}
